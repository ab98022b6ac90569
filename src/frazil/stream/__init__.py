"""Pipelines: a log is read in rounds, and each round lands in Iceberg whole or not at all."""
