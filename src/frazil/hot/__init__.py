"""Hot tables: a Kafka topic and an Iceberg table that are one table to whoever reads."""
