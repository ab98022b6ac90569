-- Where a tabular was before `set-location`: its older files still lie there, so the place stays taken.
CREATE TABLE former_location (
    warehouse_id TEXT NOT NULL,
    location TEXT NOT NULL,
    tabular_id TEXT NOT NULL REFERENCES tabular (tabular_id) ON DELETE CASCADE,
    PRIMARY KEY (warehouse_id, location, tabular_id)
);

CREATE INDEX former_location_tabular ON former_location (tabular_id);

-- Locations are compared without regard to case: not every store tells `t1` from `T1`.
CREATE INDEX former_location_lower ON former_location (warehouse_id, lower(location));
CREATE INDEX tabular_location_lower ON tabular (warehouse_id, lower(location));
DROP INDEX purge_location;
CREATE INDEX purge_location_lower ON purge (warehouse_id, lower(location));
