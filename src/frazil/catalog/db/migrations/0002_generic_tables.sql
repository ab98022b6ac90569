-- Generic tables are rows of `tabular` with the kind `generic-table`: no metadata file, a format instead.
ALTER TABLE tabular ADD COLUMN format TEXT;

-- What a purge deletes: the files that a table's metadata reaches, or all below a generic table's location.
ALTER TABLE purge ADD COLUMN kind TEXT NOT NULL DEFAULT 'table';

-- While a purge waits, its location is taken.
ALTER TABLE purge ADD COLUMN location TEXT NOT NULL DEFAULT '';

-- Of older purges only the metadata file is known, and it lies below the location that they are of.
UPDATE purge SET location = metadata_location;

CREATE INDEX purge_location ON purge (warehouse_id, location);
