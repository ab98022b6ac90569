"""Change data into Iceberg, beside Spark's MERGE and Flink's upsert sink."""
