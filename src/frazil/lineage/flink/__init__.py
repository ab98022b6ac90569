"""Lineage of Flink jobs, read from what a cluster answers."""
