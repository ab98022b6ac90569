"""What others do to tables and topics, by PyIceberg and Kafka's own tools."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pyarrow as pa
from confluent_kafka import TopicPartition
from confluent_kafka.cimpl import NewPartitions, NewTopic
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.types import StringType
from tests.stream.crash.records import Feed, Row, admin
from tests.stream.crash.tables import Shelf
from tests.stream.crash.world import NAMESPACE, Line
from tests.stream.support import await_partitions, delete_topic

_BEGIN = datetime(2025, 1, 1, tzinfo=UTC)
_ids = itertools.count(10_000_000)
_SECONDS = 120.0
_TRIES = 50


def append_rows(line: Line, count: int) -> Counter[Row]:
    """Rows that are in no log; returns them."""
    schema = line.shelf.load(line.table).schema().as_arrow()
    keys = [(next(_ids), number) for number in range(count)]
    rows = [
        {"id": key, "part": -1, "seq": number, "at": _BEGIN, "note": "from outside"} for key, number in keys
    ]
    data = pa.Table.from_pylist(rows, schema=schema)
    _beside(lambda: line.shelf.load(line.table).append(data))
    micros = int(_BEGIN.timestamp()) * 1_000_000
    return Counter((key, -1, number, micros, "from outside") for key, number in keys)


def _beside(change: Callable[[], None]) -> None:
    """A commit while the pipeline may commit, too."""
    for _ in range(_TRIES):
        try:
            change()
            return
        except CommitFailedException:
            # The pipeline was faster.
            continue
    raise AssertionError("no commit got through")


def create_with_rows(shelf: Shelf, feed: Feed, name: str) -> tuple[Line, Counter[Row]]:
    """A table that is older than its pipeline."""
    from pyiceberg.schema import Schema
    from pyiceberg.types import IntegerType, LongType, NestedField, TimestamptzType

    schema = Schema(
        NestedField(1, "id", LongType(), required=True),
        NestedField(2, "part", IntegerType(), required=True),
        NestedField(3, "seq", LongType(), required=True),
        NestedField(4, "at", TimestamptzType(), required=False),
        NestedField(5, "note", StringType(), required=False),
    )
    shelf.catalog().create_table(f"{NAMESPACE}.{name}", schema)
    line = Line(name, shelf, feed, partitioning=())
    return line, append_rows(line, 3)


def add_column(line: Line, name: str) -> None:
    def add() -> None:
        with line.shelf.load(line.table).update_schema() as update:
            update.add_column(name, StringType())

    _beside(add)


def delete_part(line: Line, partition: int) -> None:
    """All rows of a partition of the log."""
    line.shelf.load(line.table).delete(f"part = {partition}")


def expire(line: Line) -> None:
    """All snapshots that no branch or tag holds."""
    line.shelf.load(line.table).maintenance.expire_snapshots().older_than(
        datetime.now(UTC) + timedelta(hours=1)
    ).commit()


def remove_tag(line: Line) -> None:
    line.shelf.load(line.table).manage_snapshots().remove_tag(f"frazil-{line.name}").commit()


def roll_back(line: Line, steps: int) -> None:
    """Main goes back by so many snapshots."""
    table = line.shelf.load(line.table)
    at = table.current_snapshot()
    for _ in range(steps):
        assert at is not None
        assert at.parent_snapshot_id is not None
        at = table.snapshot_by_id(at.parent_snapshot_id)
    assert at is not None
    table.manage_snapshots().rollback_to_snapshot(at.snapshot_id).commit()


def roll_back_to_the_first(line: Line) -> None:
    table = line.shelf.load(line.table)
    table.manage_snapshots().rollback_to_snapshot(table.metadata.snapshots[0].snapshot_id).commit()


def add_partitions(feed: Feed, total: int) -> None:
    client = admin(feed.bootstrap)
    (made,) = client.create_partitions([NewPartitions(feed.topic, total)]).values()
    made.result(_SECONDS)
    await_partitions(client, feed.topic, total)
    feed.partitions = total


def trim(feed: Feed, partition: int, before: int) -> None:
    """Records below an offset are removed."""
    client = admin(feed.bootstrap)
    (done,) = client.delete_records([TopicPartition(feed.topic, partition, before)]).values()
    done.result(_SECONDS)


def recreate(feed: Feed) -> None:
    """The topic is deleted and made again, as large as before."""
    client = admin(feed.bootstrap)
    delete_topic(client, feed.topic)
    new = NewTopic(feed.topic, num_partitions=feed.partitions, replication_factor=1)
    (made,) = client.create_topics([new], operation_timeout=_SECONDS).values()
    made.result(_SECONDS)
    await_partitions(client, feed.topic, feed.partitions)
