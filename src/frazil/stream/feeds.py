"""The feed of a configured source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.stream.config.model import (
    FileSource,
    KafkaSource,
    PipelineConfig,
    SensorSource,
    TableSource,
)
from frazil.stream.postgres.source import PostgresSource
from frazil.stream.sinks.iceberg import OwnTable
from frazil.stream.source import Feed

if TYPE_CHECKING:
    from frazil.lake.catalog import Lake


def ledger_of(config: PipelineConfig) -> OwnTable | None:
    """The table in which a source keeps what was taken, for those that need one."""
    if not isinstance(config.source, FileSource):
        return None
    from frazil.stream.files.ledger import LEDGER_SCHEMA

    namespace, name = config.home
    return OwnTable(namespace, f"{name}_files", LEDGER_SCHEMA)


def feed_of(config: PipelineConfig, lake: Lake) -> Feed:
    """Imported where it is used: most pipelines need one of them."""
    match config.source:
        case KafkaSource():
            from frazil.stream.kafka.feed import KafkaFeed

            log = KafkaFeed(config.source, config.metadata)
            if config.source.history is None:
                return log
            from frazil.stream.bootstrap.feed import HistoryFeed
            from frazil.stream.bootstrap.table import HistoryTable

            return HistoryFeed(log, HistoryTable(lake, config.source.history, config))
        case PostgresSource():
            raise AssertionError("changes have a loop of their own")
        case SensorSource():
            from frazil.stream.sensors.feed import SensorFeed

            return SensorFeed(config.source)
        case TableSource():
            from frazil.stream.tables.change_feed import ChangeFeed
            from frazil.stream.tables.feed import TableFeed

            return (ChangeFeed if config.source.changes else TableFeed)(config.source, lake)
        case FileSource():
            from frazil.stream.files.feed import FileFeed
            from frazil.stream.files.ledger import read_ledger

            ledger = ledger_of(config)
            assert ledger is not None, "files have a ledger"
            where = (ledger.namespace, ledger.name)
            # Parts of a file have no line numbers of the whole.
            split = config.metadata.offset is None
            return FileFeed(
                config.source, config.format, where, lambda: read_ledger(lake, *where), split=split
            )
