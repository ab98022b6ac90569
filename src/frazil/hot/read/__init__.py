"""Both tiers of a hot table as one: a snapshot of Iceberg, and the tail of the log that is not in it."""
