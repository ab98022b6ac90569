"""The catalog server: Iceberg REST, management API, storage."""
