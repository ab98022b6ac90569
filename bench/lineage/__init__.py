"""Lineage of a real Flink cluster, beside DataHub's own source for Flink."""
