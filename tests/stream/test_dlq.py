"""Dead letters are put back: all that are good now, each once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.stream.test_formats import ORDER, avro
from tests.stream.world import World, record

import frazil
from frazil.client import Client
from frazil.core.errors import Superseded
from frazil.core.stamp import check_pipeline_name, stamp_key, stamp_tag
from frazil.devstack.registry import SchemaRegistry
from frazil.lake.catalog import Lake
from frazil.stream import dlq
from frazil.stream.config import PipelineConfig
from frazil.stream.config.model import MetadataColumns
from frazil.stream.config.python import gather
from frazil.stream.dead_letters import letters
from frazil.stream.decode.decoded import Decoded, Fault, Undecodable
from frazil.stream.decoding import _with_metadata
from frazil.stream.dlq import Choice, Replayed, name_of_replay, replay, waiting
from frazil.stream.dlq_batches import raw_batches
from frazil.stream.jobs import JobResult, Jobs
from frazil.stream.source import RawBatch


@pytest.fixture
def lake(world: World) -> Iterator[Lake]:
    with Client(world.server.uri, warehouse=world.warehouse) as client:
        lake = Lake(world.spark, client)
        yield lake
        lake.close()


def offsets(world: World, lake: Lake, pipeline: PipelineConfig, choice: Choice | None = None) -> list[int]:
    found = waiting(world.spark, lake, pipeline, choice or Choice()).collect()
    return [row["offset"] for row in found]


def halved(value: bytes) -> bytes:
    """What somebody would write who knows what went wrong."""
    found = json.loads(value)
    return json.dumps(found | {"id": 99}).encode() if isinstance(found, dict) else value


@pytest.mark.parametrize("transform", [None, "SELECT * FROM source"], ids=["fused", "spark"])
def test_repaired_letters_come_back_once(world: World, lake: Lake, transform: str | None) -> None:
    table = f"replay_{'spark' if transform else 'fused'}"
    bad: list[Any] = [{"id": "x", "word": "back"}, b"[1]"]
    topic = world.topic([record(0), *bad, record(3)], partitions=1)
    pipeline = world.pipeline(topic, table, transform=transform)
    world.run(pipeline)
    assert offsets(world, lake, pipeline) == [1, 2]
    assert offsets(world, lake, pipeline, Choice(fault="type")) == [1]
    assert offsets(world, lake, pipeline, Choice(topic=topic, partition=0, offset=2)) == [2]
    unchanged = replay(pipeline, world.spark, lake, Choice())
    assert (unchanged.letters, [bad.offset for bad in unchanged.still_bad]) == (0, [1, 2])
    done = replay(pipeline, world.spark, lake, Choice(), halved)
    assert (done.letters, done.rows, [bad.offset for bad in done.still_bad]) == (1, 1, [2])
    again = replay(pipeline, world.spark, lake, Choice(), halved)
    assert (again.letters, again.rows) == (0, 0)
    assert offsets(world, lake, pipeline) == [2]
    assert [(row["id"], row["word"]) for row in world.rows(table)] == [(0, "w0"), (3, "w3"), (99, "back")]
    # The pipeline knows nothing of it, and goes on.
    world.produce(topic, [record(4)], partitions=1)
    world.run(pipeline)
    assert [row["id"] for row in world.rows(table)] == [0, 3, 4, 99]


def test_a_repair_that_fails_for_one_letter_puts_the_others_back(world: World, lake: Lake) -> None:
    topic = world.topic([b"{", {"id": "x", "word": "back"}, b"["], partitions=1)
    pipeline = world.pipeline(topic, "replay_partly")
    world.run(pipeline)
    done = replay(pipeline, world.spark, lake, Choice(), halved)
    assert (done.letters, done.rows, [bad.offset for bad in done.still_bad]) == (1, 1, [0, 2])
    assert done.still_bad[0].reason.startswith("the repair function failed: JSONDecodeError: ")
    assert offsets(world, lake, pipeline) == [0, 2]
    again = replay(pipeline, world.spark, lake, Choice(), halved)
    assert (again.letters, [bad.offset for bad in again.still_bad]) == (0, [0, 2]), "none is left to repair"


def test_a_corrected_schema_is_enough(world: World, lake: Lake) -> None:
    topic = world.topic([{"id": 1, "n": 7}, {"id": 2, "n": 5_000_000_000}], partitions=1)
    pipeline = world.pipeline(topic, "widened", schema={"id": "long", "n": "int"})
    world.run(pipeline)
    world.spark_sql("ALTER TABLE {}.widened ALTER COLUMN n TYPE bigint")
    corrected = world.pipeline(topic, "widened", schema={"id": "long", "n": "long"})
    assert replay(corrected, world.spark, lake, Choice()) == Replayed(rows=1, letters=1)
    assert [row["n"] for row in world.rows("widened")] == [7, 5_000_000_000]


def test_columns_of_a_registry(world: World, lake: Lake, registry: SchemaRegistry) -> None:
    topic = world.topic(partitions=1)
    schema = ORDER | {"fields": [one | {"type": ["null", one["type"]]} for one in ORDER["fields"]]}
    number = registry.register(f"{topic}-value", json.dumps(schema))
    good, back = (avro(number, schema, id=one, at=None, tags=["a"]) for one in (1, 2))
    world.produce(topic, [good, b"no avro"], partitions=1)
    pipeline = world.pipeline(topic, "registered", schema=None, format="avro", registry=registry.url)
    world.run(pipeline)
    servers = {"bootstrap.servers": world.kafka.bootstrap_servers}
    (pipeline,) = gather([pipeline], kafka=servers).pipelines
    assert replay(pipeline, world.spark, lake, Choice(), lambda _: back) == Replayed(rows=1, letters=1)
    assert [(row["id"], row["tags"]) for row in world.rows("registered")] == [(1, ["a"]), (2, ["a"])]


def test_the_catalog_is_called_as_in_the_pipelines_file(world: World, lake: Lake) -> None:
    topic = world.topic([record(0), {"id": "1"}], partitions=1)
    world.run(world.pipeline(world.topic([record(0), record(99)]), "called_words"))
    sql = "SELECT s.id, t.word FROM source s JOIN ice.paths.called_words t ON s.id = t.id"
    pipeline = world.pipeline(topic, "called", transform=sql)
    catalog = {"uri": world.server.uri, "warehouse": world.warehouse, "name": "ice"}
    servers = {"bootstrap.servers": world.kafka.bootstrap_servers}
    frazil.run([pipeline], catalog=catalog, kafka=servers, spark=world.spark, once=True, observer=world.seen)
    assert replay(pipeline, world.spark, lake, Choice(), halved, catalog_name="ice").rows == 1
    assert [(row["id"], row["word"]) for row in world.rows("called")] == [(0, "w0"), (99, "w1")]


def test_letters_of_routed_rows(world: World, lake: Lake) -> None:
    schema = {"id": "long", "kind": "string"}
    bad: list[dict[str, Any] | bytes] = [
        {"id": 1, "kind": None},
        {"id": 2, "kind": "a"},
        {"id": "3", "kind": "b"},
    ]
    topic = world.topic(bad, partitions=1)
    pipeline = world.pipeline(topic, "back_{kind}", schema=schema)
    world.run(pipeline)
    done = replay(pipeline, world.spark, lake, Choice(), lambda value: value.replace(b'"3"', b"3"))
    assert (done.letters, [bad.offset for bad in done.still_bad]) == (1, [0])
    assert [row["id"] for row in world.rows("back_b")] == [3]


def test_more_letters_than_fit_one_commit(world: World, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dlq, "_AT_ONCE", 3)
    bad = [{"id": str(number)} for number in range(7)]
    topic = world.topic([*bad, b"{"], partitions=1)
    pipeline = world.pipeline(topic, "many")
    world.run(pipeline)

    def unquoted(value: bytes) -> bytes:
        return value.replace(b'"id": "', b'"id": 1').replace(b'"}', b"}")

    done = replay(pipeline, world.spark, lake, Choice(), unquoted)
    assert (done.letters, len(done.still_bad)) == (7, 1)
    assert [row["id"] for row in world.rows("many")] == list(range(10, 17))


def test_large_letters_go_through_the_driver_by_and_by(
    world: World, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dlq, "_BYTES_AT_ONCE", 250)
    bad = [{"id": str(number), "word": "x" * 80} for number in range(5)]
    topic = world.topic([*bad, {"id": "9", "word": "x" * 400}], partitions=1)
    pipeline = world.pipeline(topic, "heavy")
    world.run(pipeline)
    told: list[str] = []

    def unquoted(value: bytes) -> bytes:
        return value if b'"3"' in value else value.replace(b'"id": "', b'"id": 1').replace(b'", "w', b', "w')

    done = replay(pipeline, world.spark, lake, Choice(), unquoted, told.append)
    assert (done.letters, [bad.offset for bad in done.still_bad]) == (5, [3])
    assert told == [f"{count} letters put back" for count in (2, 3, 4, 5)]
    assert [row["id"] for row in world.rows("heavy")] == [10, 11, 12, 14, 19]


def test_two_replays_at_once_put_nothing_back_twice(world: World, lake: Lake) -> None:
    topic = world.topic([{"id": "x"}], partitions=1)
    pipeline = world.pipeline(topic, "rivals")
    world.run(pipeline)
    nested: list[Replayed] = []

    def rival(value: bytes) -> bytes:
        """Runs after the first one has read the letters: the second comes and ends before it commits."""
        if not nested:
            nested.append(replay(pipeline, world.spark, lake, Choice(), halved))
        return halved(value)

    with pytest.raises(Superseded):
        replay(pipeline, world.spark, lake, Choice(), rival)
    assert nested[0].letters == 1
    assert [row["id"] for row in world.rows("rivals")] == [99]


def test_a_reset_brings_letters_of_their_own(world: World, lake: Lake) -> None:
    """The same position fails a second time: it is not hidden by the mark of the first."""
    topic = world.topic([{"id": "x"}], partitions=1)
    pipeline = world.pipeline(topic, "twice")
    world.run(pipeline)
    replay(pipeline, world.spark, lake, Choice(), halved)
    assert offsets(world, lake, pipeline) == []
    # Another pipeline of the same name on a new table, as after a reset to the beginning.
    other = world.pipeline(topic, "other", dead_letters="paths.twice_dead_letters")
    world.run(other)
    assert offsets(world, lake, pipeline) == [0]


def test_a_replay_changes_no_schema(world: World, lake: Lake) -> None:
    topic = world.topic([{"id": 1}, {"id": "x"}], partitions=1)
    pipeline = world.pipeline(topic, "unchanged", schema={"id": "long"}, contract="evolve")
    world.run(pipeline)
    done = replay(pipeline, world.spark, lake, Choice(), lambda _: b'{"id": 2, "other": 7}')
    assert done == Replayed(rows=1, letters=1)
    assert world.rows("unchanged") == [{"id": 1}, {"id": 2}]
    assert "other" not in world.rows("unchanged_dead_letters", ("offset", "stage"))[0]


def test_nothing_of_a_replay_keeps_the_history_of_the_table(world: World, lake: Lake) -> None:
    """Each commit of a pipeline with many tables goes to it, and a replay may be the last one ever."""
    topic = world.topic([{"id": 1, "kind": None}, {"id": "2", "kind": "a"}], partitions=1)
    pipeline = world.pipeline(topic, "left_{kind}", schema={"id": "long", "kind": "string"})
    world.run(pipeline)
    repaired = replay(pipeline, world.spark, lake, Choice(fault="type"), lambda _: b'{"id": 2, "kind": "a"}')
    assert repaired.rows == 1
    table = lake.load(("paths",), "left_dead_letters")
    assert [key for key in table.properties if key.startswith("frazil.stamp.")] == [stamp_key(pipeline.name)]
    assert table.ref(stamp_tag(pipeline.name)) is not None
    assert table.ref(stamp_tag(f"{pipeline.name}_replay")) is None
    # The next one goes on all the same.
    again = replay(pipeline, world.spark, lake, Choice(), lambda _: b'{"id": 1, "kind": "a"}')
    assert (again.rows, [row["id"] for row in world.rows("left_a")]) == (1, [1, 2])


def test_the_name_of_a_replay_is_no_other_pipelines() -> None:
    names = ["p", "p" * 56, "p" * 57, "p" * 62, "p" * 63, "p" * 62 + "q"]
    made = [name_of_replay(name) for name in names]
    assert [check_pipeline_name(name) for name in made] == made
    assert len({*names, *made}) == 2 * len(names)


def test_the_first_line_of_a_file_is_kept_with_its_records() -> None:
    raw = RawBatch(
        "/in/a.csv", 0, pa.array([b"1,x"]), pa.array([1]), pa.array([0]), header=b"word,id", slice_start=0
    )
    bad = [Undecodable(0, "wrong", None, Fault.TYPE)]
    found = pa.Table.from_batches([letters("p", raw, bad)])
    ((again, _),) = raw_batches(found, headed=True)
    assert (again.header, again.values.to_pylist()) == (b"word,id", [b"1,x"])
    # It is no header of the record, which `metadata` may ask for.
    assert again.headers is None
    ((of_kafka, _),) = raw_batches(found)
    assert of_kafka.header is None


def test_times_that_are_none_are_null() -> None:
    """A producer counts micro- or nanoseconds, and Kafka says -1 where there is none."""
    good = 1_700_000_000_000
    times = [good, good * 10**3, good * 10**6, -1, 253_402_300_800_000]
    raw = RawBatch("t", 0, pa.array([b"{"] * 5), pa.array(range(5)), pa.array(times))
    table = pa.Table.from_batches(
        [letters("p", raw, [Undecodable(n, "", None, Fault.BROKEN) for n in range(5)])]
    )
    assert table["timestamp"].to_pylist() == [datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC), *[None] * 4]
    ((again, _),) = raw_batches(table)
    assert again.timestamps.to_pylist() == [good, -1, -1, -1, -1]
    found = _with_metadata(
        raw, Decoded(pa.record_batch({"n": pa.array(range(5))})), MetadataColumns(timestamp="at")
    )
    assert found["at"].to_pylist() == table["timestamp"].to_pylist()


def test_of_letters_at_one_position_the_bad_one_is_given_up(world: World, lake: Lake, tmp_path: Path) -> None:
    """Both versions of a file have a bad record in its first line."""
    folder = tmp_path / "in"
    folder.mkdir()
    pipeline = frazil.Pipeline(
        "versions",
        source={"files": {"path": str(folder)}},
        schema={"id": "long", "kind": "string"},
        table="paths.{kind}",
    )
    for number, kind in enumerate(("one", None)):
        (folder / "a.json").write_text(json.dumps({"id": f"{number}", "kind": kind}) + "\n")
        world.run(pipeline)
    assert len(offsets(world, lake, pipeline)) == 2
    done = replay(pipeline, world.spark, lake, Choice(), halved)
    assert (done.rows, len(done.still_bad)) == (1, 1)
    assert [row["kind"] for row in world.rows("one")] == ["one"]


def test_letters_that_are_for_no_table_are_given_up_together(
    world: World, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One job finds the first of them; there may be thousands."""
    jobs: list[int] = []
    run = Jobs.run

    def counted(self: Jobs, *given: Any) -> JobResult:
        jobs.append(1)
        return run(self, *given)

    monkeypatch.setattr(Jobs, "run", counted)
    bad = [{"id": number, "kind": None if number % 2 else ""} for number in range(6)]
    topic = world.topic([*bad, {"id": 6, "kind": None}], partitions=1)
    pipeline = world.pipeline(topic, "{kind}", schema={"id": "long", "kind": "string"})
    world.run(pipeline)
    jobs.clear()
    repair = {b'{"id": 6, "kind": null}': b'{"id": 6, "kind": "together"}'}
    done = replay(pipeline, world.spark, lake, Choice(), lambda value: repair.get(value, value))
    assert (done.rows, sorted(each.offset for each in done.still_bad)) == (1, [0, 1, 2, 3, 4, 5])
    # The one that fails, the one that lacks a table, the one that lands.
    assert len(jobs) == 3


def test_large_letters_are_read_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """More than fits one array of Arrow's would be cut off."""
    monkeypatch.setattr("frazil.stream.dlq_batches._RUN_BYTES", 10)
    values = [b"a" * 4, None, b"b" * 6, b"c" * 20, b"d"]
    raw = RawBatch("t", 0, pa.array(values), pa.array(range(5)), pa.array([0] * 5))
    table = pa.Table.from_batches(
        [letters("p", raw, [Undecodable(n, "", None, Fault.TYPE) for n in range(5)])]
    )
    found = [(start, part.values.to_pylist(), part.slice_start) for part, start in raw_batches(table)]
    assert found == [(0, values[:3], 0), (3, values[3:4], 3), (4, values[4:], 4)]
