"""What is appended to an Iceberg table, as a source of its own."""
