"""Kafka into Iceberg: ours beside plain Spark and Flink."""
