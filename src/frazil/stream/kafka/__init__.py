"""Kafka: what the driver asks of it, and how tasks read their slices."""
