"""Which pipelines can be rebuilt, and from what."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from frazil.client.naming import identifier
from frazil.core.errors import Conflict, FrazilError, InvalidInput, Unsupported
from frazil.core.names import show
from frazil.core.stamp import Stamp
from frazil.lake.authority import History as TableStory
from frazil.stream.bootstrap.place import pending
from frazil.stream.config.model import (
    FileSource,
    History,
    KafkaSource,
    PipelineConfig,
    SensorSource,
    TableSource,
)
from frazil.stream.feeds import feed_of, ledger_of
from frazil.stream.frames import apply_transform
from frazil.stream.rebuild.past import Past, SensorPast, begun_at, begun_with, first_stamp
from frazil.stream.stateful.plans import is_by_record
from frazil.stream.stateful.source import probe_frame

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from frazil.lake.catalog import Lake


def require_possible(config: PipelineConfig) -> None:
    """Unsupported, with what to do instead."""
    source = config.source
    reason = ""
    if config.dataset is not None:
        reason = "it writes a dataset, whose files cannot be replaced at once. Write another dataset"
    elif config.changes is not None:
        reason = (
            "its rows are what changes have made of them. To read the changes again use `frazil reset`, and "
            "`frazil snapshot` for the rows as they are at the source"
        )
    elif config.stateful is not None:
        reason = (
            "its transform keeps state, and rows that wait for the watermark would come twice. Compute rows "
            "that are final again with `frazil correct`, or run it under another name with another table and "
            "checkpoint from the beginning, and use that table then"
        )
    elif config.table.routed:
        reason = "it writes many tables, which are not swapped together. Rebuild pipelines of one table"
    elif isinstance(source, SensorSource) and source.live:
        reason = "live readings are not made a second time"
    elif isinstance(source, TableSource) and source.changes:
        reason = "a history of changes is told once. Give it another name and table, with `start: earliest`"
    elif isinstance(source, TableSource) and config.metadata.fields():
        reason = "it keeps in which file of the source a row was, and files of a table are rewritten"
    if reason:
        raise Unsupported(f"pipeline '{config.name}' cannot be rebuilt: {reason}")


def require_by_record(spark: SparkSession, config: PipelineConfig) -> None:
    """Unsupported: what the transform gives depends on how records were cut into rounds."""
    if config.transform is None:
        return
    probe = probe_frame(spark, config.source_schema.to_spark_ddl())
    try:
        free = is_by_record(apply_transform(config.transform, probe))
    except (FrazilError, PySparkException):
        # What gives rows of a batch and not of a stream, such as a subquery over the source.
        free = False
    if not free:
        raise Unsupported(
            f"pipeline '{config.name}' cannot be rebuilt: its transform looks at several records of a round "
            "together (a GROUP BY, DISTINCT, LIMIT, window or join of the source with itself), so that its "
            "rows depend on how the stream was cut into rounds, and no batch gives the same. Transform each "
            "record for itself, and group when you read"
        )


def require_taken(stamp: Stamp) -> None:
    """Conflict: it would go on with rows of its history that the rebuilt table has already."""
    place = pending(stamp.positions)
    if place is not None:
        raise Conflict(
            f"pipeline {stamp.pipeline} has taken {place.taken:,} of {place.total:,} rows of its history in "
            f"{place.table}, and is rebuilt when it has all of them: let it run first"
        )


def wanted_history(
    config: PipelineConfig, end: Stamp, story: TableStory, table: str | None
) -> History | None:
    """What comes before the log: the table that the pipeline began with, else the named one.

    Where it began is told by its stamps. Its settings count where these expired, and for nothing else.
    """
    assert isinstance(config.source, KafkaSource), "only logs have a history"
    begun, found = begun_with(end, story), config.source.history
    named = None if table is None else identifier(table)
    if begun is None:
        if named is not None:
            return History(*named)
        return found if first_stamp(story, end.pipeline) is None else None
    if named is not None and show(*named) != begun.table:
        raise InvalidInput(
            f"pipeline '{config.name}' began with the rows of {begun.table}, and {table} may have more or "
            "less: leave --history out, and that table is taken again"
        )
    if found is not None and show(found.namespace, found.name) != begun.table:
        found = None
    # A stamp does not say which dots are part of a name; settings and --history do.
    own = None if found is None else (found.namespace, found.name)
    namespace, name = named or own or identifier(begun.table)
    if found is None or found.offsets is None or begun_at(begun, story, end.pipeline) is not None:
        return History(namespace, name)
    return History(namespace, name, offsets=found.offsets, snapshot=begun.snapshot)


def forget_history(
    config: PipelineConfig, lake: Lake, end: Stamp, story: TableStory, table: str | None
) -> None:
    """Take away the tag that a rebuild which died left on the table whose rows it took."""
    if not isinstance(config.source, KafkaSource):
        return
    from frazil.stream.rebuild.past_history import tagged

    begun, found = begun_with(end, story), config.source.history
    places = [] if table is None else [identifier(table)]
    places += [] if found is None else [(found.namespace, found.name)]
    if begun is not None and all(show(*place) != begun.table for place in places):
        places.append(identifier(begun.table))
    for place in dict.fromkeys(places):
        tagged(lake, History(*place), config).release()


def past_of(
    config: PipelineConfig, lake: Lake, end: Stamp, story: TableStory, history: str | None = None
) -> Past:
    """The source up to the stamp, of which `story` is that of the pipeline's table.

    `history`: a table with records that the log does not have any more.
    """
    match config.source:
        case KafkaSource():
            if (wanted := wanted_history(config, end, story, history)) is not None:
                from frazil.stream.rebuild.past_history import HistoryPast

                return HistoryPast(config, lake, end, wanted, begun_with(end, story))
            from frazil.stream.rebuild.past_kafka import KafkaPast

            return KafkaPast(config.source, config.metadata, end)
        case _ if history is not None:
            raise InvalidInput(
                f"pipeline '{config.name}' does not read a topic: --history is for records that a topic lost"
            )
        case SensorSource():
            return SensorPast(config.source, end)
        case TableSource():
            from frazil.stream.rebuild.past_tables import TablePast

            return TablePast(config.source, lake, end)
        case FileSource():
            from frazil.stream.files.feed import FileFeed
            from frazil.stream.rebuild.past_files import FilePast

            feed, ledger = feed_of(config, lake), ledger_of(config)
            assert isinstance(feed, FileFeed), "it is the feed of that source"
            assert ledger is not None, "files have a ledger"
            return FilePast(feed, (ledger.namespace, ledger.name), lake, end)
        case _:
            raise AssertionError("refused before")
