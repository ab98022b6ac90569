"""Lineage as DataHub's metadata. It knows no engine: the model's jobs, runs and datasets are emitted."""
