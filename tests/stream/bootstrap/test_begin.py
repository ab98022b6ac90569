"""A pipeline that begins with the rows of a table, and goes on with the log."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from queue import SimpleQueue
from typing import Any

import pytest
from tests.stream.world import Seen, World

from frazil.cli.status import document as status_document
from frazil.cli.status import lines as status_lines
from frazil.client import Client
from frazil.core.errors import InvalidConfig, NotFound, SourceChanged
from frazil.core.stamp import Stamp, stamp_key
from frazil.stream.bootstrap.table import HistoryTable
from frazil.stream.config.model import PipelineConfig, SparkConfig
from frazil.stream.events import Event, RoundCommitted
from frazil.stream.plan import pipeline_plan
from frazil.stream.status import pipeline_status

pytestmark = pytest.mark.slow

_DAY = datetime(2026, 3, 1, tzinfo=UTC)
_SMALL = {"records_per_round": 7, "records_per_task": 3}


def records(first: int, end: int) -> list[dict[str, Any]]:
    return [
        {"id": n, "word": f"w{n}", "at": (_DAY + timedelta(seconds=n)).isoformat(), "ref": None}
        for n in range(first, end)
    ]


def ids(world: World, table: str) -> list[int]:
    return [row["id"] for row in world.rows(table)]


def metadata(world: World, table: str) -> Any:
    with Client(world.server.uri, warehouse=world.warehouse) as client:
        return client.tables.load("paths", table).metadata


def tags(world: World, table: str) -> set[str]:
    return {name for name in metadata(world, table)["refs"] if name.startswith("frazil-history.")}


def document(world: World, name: str, topic: str, raw: str, **settings: Any) -> dict[str, Any]:
    """A pipeline file for commands: a topic with its history, into a table of the pipeline's name."""
    pipeline = {
        "source": {"topics": [topic], "history": f"paths.{raw}"},
        "table": f"paths.{name}",
        "freshness": "200ms",
    }
    return {
        "catalog": {"uri": world.server.uri, "warehouse": world.warehouse},
        "kafka": {"bootstrap.servers": world.kafka.bootstrap_servers},
        "spark": {"master": "local[2]"},
        "pipelines": {name: pipeline | settings},
    }


def stamps(world: World, table: str, pipeline: str) -> list[Stamp]:
    key = stamp_key(pipeline)
    found = sorted(metadata(world, table)["snapshots"], key=lambda row: row["sequence-number"])
    return [Stamp.decode(row["summary"][key]) for row in found if key in row["summary"]]


@dataclass
class Stopping(Seen):
    """Ends what it watches with the first commit."""

    stops: SimpleQueue[Callable[[], None]] = field(default_factory=SimpleQueue)

    def notify(self, event: Event) -> None:
        super().notify(event)
        if isinstance(event, RoundCommitted):
            self.stops.get(timeout=300)()


def test_by_stamp(world: World) -> None:
    """Its rows come in bounded rounds, from files of several commits; then what the log has behind them."""
    topic = world.topic(records(0, 20))
    raw = world.pipeline(topic, f"raw-{topic}")
    world.run(raw)
    world.produce(topic, records(20, 40))
    world.run(raw)
    world.produce(topic, records(40, 50))
    name = f"copy-{topic}"
    copy = world.pipeline(topic, name, name=name, history=f"paths.raw-{topic}", limits=_SMALL)
    world.run(copy)
    assert ids(world, name) == list(range(50))
    assert world.rows(name)[:40] == world.rows(f"raw-{topic}")
    taken = [stamp.positions[f"paths.raw-{topic}/history"].next[0] for stamp in stamps(world, name, name)]
    assert taken[:7] == [0, 7, 14, 21, 28, 35, 40]
    assert not tags(world, f"raw-{topic}")
    world.produce(topic, records(50, 55))
    world.run(copy)
    assert ids(world, name) == list(range(55))


def test_the_log_is_not_read_again(world: World) -> None:
    """What the table lacks although the log has it stays out: the stamp counts, not the log's beginning."""
    topic = world.topic(records(0, 10))
    raw = f"raw-{topic}"
    world.run(world.pipeline(topic, raw))
    world.spark_sql(f"DELETE FROM {{}}.`{raw}` WHERE id IN (3, 4)")
    world.produce(topic, records(10, 12))
    world.run(world.pipeline(topic, f"copy-{topic}", name=f"copy-{topic}", history=f"paths.{raw}"))
    assert ids(world, f"copy-{topic}") == [0, 1, 2, *range(5, 12)]


def test_through_spark_and_with_metadata(world: World) -> None:
    """A transform sees the same columns, whether rows are of the table or of the log."""
    topic = world.topic(records(0, 12))
    raw, name = f"raw-{topic}", f"copy-{topic}"
    world.run(world.pipeline(topic, raw, metadata={"offset": "_offset", "topic": "_topic"}))
    world.produce(topic, records(12, 18))
    sql = "SELECT id, upper(word) AS word, _offset, _topic FROM source WHERE id % 2 = 0"
    copy = world.pipeline(
        topic,
        name,
        name=name,
        history=f"paths.{raw}",
        metadata={"offset": "_offset", "topic": "_topic"},
        transform=sql,
        limits=_SMALL,
    )
    world.run(copy)
    expected = [{"id": n, "word": f"W{n}", "_offset": n // 2, "_topic": topic} for n in range(0, 12, 2)]
    found = world.rows(name)
    assert found[:6] == expected
    # Produced anew, they alternate between the partitions again.
    assert [row["id"] for row in found] == list(range(0, 18, 2))
    assert {row["_topic"] for row in found} == {topic}


def test_by_time(world: World) -> None:
    topic = world.topic(records(0, 5))
    raw, name = f"raw-{topic}", f"copy-{topic}"
    world.run(world.pipeline(topic, raw))
    time.sleep(0.05)
    moment = datetime.now(UTC)
    time.sleep(0.05)
    world.produce(topic, records(5, 9))
    world.run(world.pipeline(topic, raw))
    history = {"table": f"paths.{raw}", "until": moment.isoformat()}
    world.run(world.pipeline(topic, name, name=name, history=history))
    assert ids(world, name) == list(range(9))
    begun = stamps(world, name, name)[0].positions
    assert begun[f"paths.{raw}/history"].id.split("/")[2] == "5"
    assert sum(begun[topic].next) == 5
    early = {"table": f"paths.{raw}", "until": "2020-01-01"}
    with pytest.raises(InvalidConfig, match="at or before 2020-01-01T00:00:00"):
        world.run(world.pipeline(topic, f"{name}-2", name=f"{name}-2", history=early))


def test_by_offsets(world: World) -> None:
    """Another tool filled the table, also with columns that the pipeline does not have, and fewer."""
    topic = world.topic(records(0, 10))
    name, filled = f"copy-{topic}", f"filled-{topic}"
    world.spark_sql(f"CREATE TABLE {{}}.`{filled}` (more int, word string, id int) USING iceberg")
    world.spark_sql(f"INSERT INTO {{}}.`{filled}` VALUES (1, 'a', 100), (2, 'b', 101)")
    snapshot = metadata(world, filled)["current-snapshot-id"]
    world.spark_sql(f"INSERT INTO {{}}.`{filled}` VALUES (3, 'c', 102)")
    offsets = {"table": f"paths.{filled}", "offsets": {topic: [2, 3]}}
    world.run(world.pipeline(topic, name, name=name, history=offsets))
    # Of partition 0 (even) from the third on, of partition 1 (odd) from the fourth.
    assert ids(world, name) == [4, 6, 7, 8, 9, 100, 101, 102]
    world.run(world.pipeline(topic, f"{name}-2", name=f"{name}-2", history={**offsets, "snapshot": snapshot}))
    assert ids(world, f"{name}-2") == [4, 6, 7, 8, 9, 100, 101]
    with pytest.raises(NotFound, match="no snapshot 17"):
        world.run(world.pipeline(topic, f"{name}-3", name=f"{name}-3", history={**offsets, "snapshot": 17}))
    short = {**offsets, "offsets": {topic: [2]}}
    with pytest.raises(InvalidConfig, match=f"{topic} has 2, and {topic} is not so"):
        world.run(world.pipeline(topic, f"{name}-4", name=f"{name}-4", history=short))
    beyond = {**offsets, "offsets": {topic: [2, 30]}}
    with pytest.raises(InvalidConfig, match=r"ends at offset 30 .* and the log ends at 5"):
        world.run(world.pipeline(topic, f"{name}-5", name=f"{name}-5", history=beyond))


def test_an_empty_history(world: World) -> None:
    """The pipeline was claimed and nothing came: its stamp is at the beginning of the log."""
    topic = world.topic()
    raw, name = f"raw-{topic}", f"copy-{topic}"
    world.run(world.pipeline(topic, raw))
    world.produce(topic, records(0, 4))
    world.run(world.pipeline(topic, name, name=name, history=f"paths.{raw}"))
    assert ids(world, name) == [0, 1, 2, 3]
    assert not tags(world, raw)


def test_bad_rows_are_dead_letters(world: World) -> None:
    """The contract counts for rows of a history as for all others."""
    topic = world.topic(records(0, 3))
    filled, name = f"filled-{topic}", f"copy-{topic}"
    world.spark_sql(f"CREATE TABLE {{}}.`{filled}` (id bigint, word string) USING iceberg")
    world.spark_sql(f"INSERT INTO {{}}.`{filled}` VALUES (100, 'a'), (NULL, 'b'), (102, 'c')")
    history = {"table": f"paths.{filled}", "offsets": {topic: [0, 0]}}
    world.run(world.pipeline(topic, name, name=name, history=history))
    assert ids(world, name) == [0, 1, 2, 100, 102]
    (letter,) = world.rows(f"{name}_dead_letters", ("offset",))
    assert letter["topic"] == f"paths.{filled}/history"
    assert letter["field"] == "id"


def test_columns_by_contract(world: World) -> None:
    topic = world.topic(records(0, 3))
    raw, name = f"raw-{topic}", f"copy-{topic}"
    world.run(world.pipeline(topic, raw))
    narrow = {"id": "long required"}
    world.run(world.pipeline(topic, f"{name}-2", name=f"{name}-2", history=f"paths.{raw}", schema=narrow))
    assert list(world.rows(f"{name}-2")[0]) == ["id"]
    contract = {"columns": "evolve"}
    world.run(
        world.pipeline(topic, name, name=name, history=f"paths.{raw}", schema=narrow, contract=contract)
    )
    assert [row["word"] for row in world.rows(name)] == ["w0", "w1", "w2"]


def test_a_pinned_snapshot_is_not_expired(world: World) -> None:
    """While rows are needed, the tag is there, and the rows that were compacted away can be read."""
    topic = world.topic(records(0, 30))
    raw, name = f"raw-{topic}", f"copy-{topic}"
    world.run(world.pipeline(topic, raw))
    pinned = metadata(world, raw)["current-snapshot-id"]
    copy = world.pipeline(
        topic, name, name=name, history=f"paths.{raw}", limits={"records_per_round": 1, "records_per_task": 1}
    )
    # Stopped by its own first commit, so that rows are left however fast it is.
    stopping = Stopping()
    with replace(world, seen=stopping).running(copy) as running:
        stopping.stops.put(running.runner.stop)
        running.until(lambda: bool(running.stopped()))
    assert 0 < len(ids(world, name)) < 30
    assert metadata(world, raw)["refs"][f"frazil-history.{name}"]["snapshot-id"] == pinned
    with pytest.raises(InvalidConfig, match=r"name the table again under `source\.history`"):
        world.run(world.pipeline(topic, name, name=name))
    _told_in_the_middle(world, copy)
    world.spark_sql(f"DELETE FROM {{}}.`{raw}` WHERE id >= 0")
    world.spark_sql(f"CALL world.system.expire_snapshots('paths.`{raw}`', now(), 1)")
    left = [row["snapshot-id"] for row in metadata(world, raw)["snapshots"]]
    assert pinned in left
    world.run(copy)
    assert ids(world, name) == list(range(30))
    assert not tags(world, raw)


def _told_in_the_middle(world: World, copy: PipelineConfig) -> None:
    """By commands, of which none runs the pipeline."""
    (config,) = world.gathered(copy).pipelines
    left = 30 - len(ids(world, config.name))
    with Client(world.server.uri, warehouse=world.warehouse) as client:
        status = pipeline_status(config, client)
        plan = pipeline_plan(config, client, SparkConfig("local[2]"))
    assert not status.problems
    assert status.history is not None
    assert (status.history.left, status.lag) == (left, 0)
    shown = "\n".join(status_lines(status, time.time()))
    assert re.search(rf"history +{left} of 30 rows of paths\.\S+ are still to be taken", shown), shown
    assert status_document(status)["history"]["left"] == left
    assert not plan.problems
    assert (plan.rounds, plan.offsets) == (left, 0)
    assert f"{left} rows of the history in" in plan.notes[-1]


def test_what_is_no_history(world: World) -> None:
    topic, other = world.topic(records(0, 3)), world.topic(records(0, 3))
    raw, name = f"raw-{topic}", f"copy-{topic}"
    plain, mixed = f"plain-{topic}", f"mixed-{topic}"
    world.run(world.pipeline(topic, raw))
    world.spark_sql(f"CREATE TABLE {{}}.`{plain}` (id bigint) USING iceberg")

    def begin(topic: str, table: str, **more: Any) -> None:
        own = f"{name}-{len(world.seen.events)}"
        world.run(world.pipeline(topic, own, name=own, history=f"paths.{table}", **more))

    with pytest.raises(InvalidConfig, match=r"no table paths\.nowhere"):
        begin(topic, "nowhere")
    with pytest.raises(NotFound, match="has no snapshot"):
        begin(topic, plain)
    world.spark_sql(f"INSERT INTO {{}}.`{plain}` VALUES (1)")
    with pytest.raises(InvalidConfig, match="it has none of any pipeline"):
        begin(topic, plain)
    with pytest.raises(InvalidConfig, match=f"p-{topic} wrote it from {topic}"):
        begin(other, raw)
    with pytest.raises(InvalidConfig, match="'word' is int here, string there"):
        begin(topic, raw, schema={"id": "long", "word": "int"})
    with pytest.raises(InvalidConfig, match="no column 'price', which the pipeline requires"):
        begin(topic, raw, schema={"id": "long", "price": "double required"})
    with pytest.raises(InvalidConfig, match="no column in common"):
        begin(topic, raw, schema={"price": "double"})
    world.run(world.pipeline(topic, mixed, name=f"one-{topic}"))
    world.run(world.pipeline(other, mixed, name=f"two-{topic}"))
    with pytest.raises(InvalidConfig, match=f"not of these topics alone: .* the pipeline two-{topic}"):
        begin(topic, mixed)


def test_a_log_that_was_trimmed(world: World) -> None:
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient

    topic = world.topic(records(0, 10))
    raw, name = f"raw-{topic}", f"copy-{topic}"
    world.run(world.pipeline(topic, raw))
    world.produce(topic, records(10, 20))
    admin = AdminClient({"bootstrap.servers": world.kafka.bootstrap_servers})
    for future in admin.delete_records([TopicPartition(topic, 1, 7)]).values():
        future.result()
    with pytest.raises(SourceChanged, match=f"offset 5 of {topic}-1, and the log was trimmed up to 7"):
        world.run(world.pipeline(topic, name, name=name, history=f"paths.{raw}"))
    assert not tags(world, raw)


@pytest.mark.parametrize("needed", [False, True])
def test_a_log_that_is_trimmed_until_the_tag_is_there(
    world: World, monkeypatch: pytest.MonkeyPatch, needed: bool
) -> None:
    """Nothing is claimed then. A tag that was there, which the pipeline needs where it is, stays there."""
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient

    topic = world.topic(records(0, 10))
    raw, name = f"raw-{topic}", f"copy-{topic}"
    world.run(world.pipeline(topic, raw))
    world.produce(topic, records(10, 20))
    admin = AdminClient({"bootstrap.servers": world.kafka.bootstrap_servers})
    tag = HistoryTable._tag

    def late(self: HistoryTable, snapshot: int | None) -> None:
        for future in admin.delete_records([TopicPartition(topic, 1, 7)]).values():
            future.result()
        tag(self, snapshot)

    first = min(metadata(world, raw)["snapshots"], key=lambda row: row["sequence-number"])["snapshot-id"]
    if needed:
        world.spark_sql(f"ALTER TABLE {{}}.`{raw}` CREATE TAG `frazil-history.{name}` AS OF VERSION {first}")
    monkeypatch.setattr(HistoryTable, "_tag", late)
    with pytest.raises(SourceChanged, match=f"offset 5 of {topic}-1, and the log was trimmed up to 7"):
        world.run(world.pipeline(topic, name, name=name, history=f"paths.{raw}"))
    refs = metadata(world, raw)["refs"]
    assert {refs[tag]["snapshot-id"] for tag in tags(world, raw)} == ({first} if needed else set())
    assert refs["main"]["snapshot-id"] != first
    assert not world.exists(name) or not stamps(world, name, name)
