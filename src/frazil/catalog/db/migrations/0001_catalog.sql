-- Types: TEXT, BLOB and BIGINT are rewritten for the dialect (see migrate.py).
-- Constraints are named table__column after their last column: UniqueViolation reports that name.

CREATE TABLE server (
    singleton BIGINT NOT NULL PRIMARY KEY CHECK (singleton = 1),
    server_id TEXT NOT NULL,
    bootstrapped_at BIGINT,
    -- Fingerprint of the key that seals stored secrets: a replica with another key must not start.
    secret_key TEXT
);

CREATE TABLE project (
    project_id TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    created_at BIGINT NOT NULL
);

CREATE TABLE warehouse (
    warehouse_id TEXT NOT NULL PRIMARY KEY,
    project_id TEXT NOT NULL REFERENCES project (project_id),
    name TEXT NOT NULL,
    name_key TEXT NOT NULL,
    status TEXT NOT NULL,
    protected BIGINT NOT NULL DEFAULT 0,
    managed_by TEXT NOT NULL DEFAULT 'self-managed',
    storage_profile TEXT NOT NULL,
    -- Sealed; see frazil.catalog.secrets.
    storage_credential BLOB,
    delete_profile TEXT NOT NULL,
    allowed_format_versions TEXT NOT NULL,
    default_format_version BIGINT,
    -- Goes up with every change of the row, so that a server can tell that its cached copy is old.
    version BIGINT NOT NULL DEFAULT 1,
    created_at BIGINT NOT NULL,
    updated_at BIGINT,
    CONSTRAINT warehouse__name_key UNIQUE (project_id, name_key)
);

CREATE TABLE namespace (
    namespace_id TEXT NOT NULL PRIMARY KEY,
    warehouse_id TEXT NOT NULL REFERENCES warehouse (warehouse_id),
    parent_id TEXT REFERENCES namespace (namespace_id),
    -- Levels joined by the unit separator, as written and in the form that is compared.
    path TEXT NOT NULL,
    path_key TEXT NOT NULL,
    properties TEXT NOT NULL,
    version BIGINT NOT NULL DEFAULT 1,
    created_at BIGINT NOT NULL,
    updated_at BIGINT,
    CONSTRAINT namespace__path_key UNIQUE (warehouse_id, path_key)
);

CREATE INDEX namespace_children ON namespace (parent_id, path_key);

-- Tables and views: they share one name space.
CREATE TABLE tabular (
    tabular_id TEXT NOT NULL PRIMARY KEY,
    warehouse_id TEXT NOT NULL REFERENCES warehouse (warehouse_id),
    namespace_id TEXT NOT NULL REFERENCES namespace (namespace_id),
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    name_key TEXT NOT NULL,
    location TEXT NOT NULL,
    metadata_location TEXT NOT NULL,
    -- Packed; see frazil.catalog.store.packing.
    metadata BLOB NOT NULL,
    -- Goes up with every change of the document: what the swap of a commit compares. A metadata
    -- location would not do, because a registered file may be written again under the same name.
    revision BIGINT NOT NULL DEFAULT 1,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    CONSTRAINT tabular__name_key UNIQUE (namespace_id, name_key),
    CONSTRAINT tabular__location UNIQUE (warehouse_id, location)
);

CREATE TABLE idempotency (
    idempotency_key TEXT NOT NULL,
    warehouse_id TEXT NOT NULL,
    -- Digest of method, path and body: the same key on another request is refused.
    request TEXT NOT NULL,
    status BIGINT NOT NULL,
    -- A small answer to give again; empty where it is rebuilt from the present state.
    answer TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    CONSTRAINT idempotency__idempotency_key PRIMARY KEY (warehouse_id, idempotency_key)
);

CREATE INDEX idempotency_age ON idempotency (created_at);

CREATE TABLE purge (
    purge_id TEXT NOT NULL PRIMARY KEY,
    warehouse_id TEXT NOT NULL REFERENCES warehouse (warehouse_id),
    name TEXT NOT NULL,
    metadata_location TEXT NOT NULL,
    metadata BLOB NOT NULL,
    attempts BIGINT NOT NULL DEFAULT 0,
    -- Not to be taken up before this time: a running purge moves it ahead, a failed one waits.
    not_before BIGINT NOT NULL,
    last_error TEXT,
    created_at BIGINT NOT NULL
);

CREATE INDEX purge_due ON purge (not_before);
