"""Tiering: the records of hot tables go from Kafka to Iceberg, each table within its freshness."""
