"""PostgreSQL as a source: its log is read by the Debezium engine inside this process, with no Kafka."""

from frazil.stream.postgres.source import PostgresSource, Snapshot

__all__ = ["PostgresSource", "Snapshot"]
