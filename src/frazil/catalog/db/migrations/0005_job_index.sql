-- Which job wrote which table: a row for each pair, kept in the transaction of the commit. It outlives the
-- snapshots that it was made of.
CREATE TABLE job_table (
    -- Of `tabular` or, once that row is gone, of `dropped_table`.
    tabular_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    job_id TEXT NOT NULL,
    warehouse_id TEXT NOT NULL REFERENCES warehouse (warehouse_id) ON DELETE CASCADE,
    -- Timestamps of the job's first and last snapshot.
    first_at BIGINT NOT NULL,
    last_at BIGINT NOT NULL,
    last_snapshot_id BIGINT NOT NULL,
    commits BIGINT NOT NULL,
    PRIMARY KEY (tabular_id, kind, job_id)
);

CREATE INDEX job_table_by_job ON job_table (warehouse_id, kind, job_id, tabular_id);

-- Tables that jobs wrote and that were dropped without purge: registered again, they get their rows back.
CREATE TABLE dropped_table (
    tabular_id TEXT NOT NULL PRIMARY KEY,
    warehouse_id TEXT NOT NULL REFERENCES warehouse (warehouse_id) ON DELETE CASCADE,
    -- Of the metadata, in lower case: what a table that comes back is known by.
    table_uuid TEXT NOT NULL,
    path TEXT NOT NULL,
    name TEXT NOT NULL,
    dropped_at BIGINT NOT NULL
);

CREATE INDEX dropped_table_by_uuid ON dropped_table (warehouse_id, table_uuid);
