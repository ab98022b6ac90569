"""The catalog server against Iceberg's own reference server: load, create, commit, one hot table."""
