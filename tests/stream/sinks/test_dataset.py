"""Datasets end to end: one valid file for each round, every record once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from tests.stream.sinks.shelf import Shelf, fresh
from tests.stream.world import SCHEMA, World, record, records

import frazil
from frazil.client import Client
from frazil.core.errors import BadRecord, RoundFailed, Superseded
from frazil.core.stamp import Position
from frazil.devstack.kafka import Kafka
from frazil.lake import use_s3a
from frazil.lake.delivery import Patience
from frazil.stream.config import PipelineConfig
from frazil.stream.config.model import SparkConfig
from frazil.stream.events import Claimed, RoundCommitted
from frazil.stream.jobs import JobResult
from frazil.stream.plan import pipeline_plan
from frazil.stream.rounds import RoundPlan
from frazil.stream.sinks.dataset import DatasetOutlet, DatasetSink, DatasetWriting
from frazil.stream.sinks.sink import Turn
from frazil.stream.status import pipeline_status

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow
BOTH = pytest.mark.parametrize("datasets", ["local", "s3"], indirect=True)
FORMATS = ("json", "jsonl", "csv", "parquet")


@pytest.fixture
def at(kafka: Kafka, spark: SparkSession, datasets: Shelf) -> World:
    return World(kafka, spark, datasets.server, datasets.warehouse)


def into(dataset: str, topic: str, format_: str = "json", **settings: Any) -> PipelineConfig:
    settings = {"schema": SCHEMA, "topics": topic, "freshness": "1s"} | settings
    name = settings.pop("name", f"d-{topic}")
    return frazil.Pipeline(name, dataset={"table": dataset, "format": format_}, **settings)


def ids(rows: list[list[dict[str, Any]]]) -> list[int]:
    return sorted(int(row["id"]) for file in rows for row in file)


@BOTH
def test_every_format_for_every_reader(at: World, datasets: Shelf) -> None:
    """Two runs of a few rounds each, all formats side by side."""
    topic = at.topic(records(30))
    names = {format_: f"things.{fresh(format_)}" for format_ in FORMATS}
    pipelines = [
        into(name, topic, format_, name=f"d-{format_}-{topic}", limits={"records_per_round": 20})
        for format_, name in names.items()
    ]
    at.run(*pipelines)
    at.produce(topic, [record(number) for number in range(30, 50)])
    at.run(*pipelines)
    for format_, name in names.items():
        files = datasets.rows(name)
        assert [len(rows) for rows in files] == [20, 10, 20], format_
        assert ids(files) == list(range(50)), format_
        if format_ != "csv":
            assert {type(row["id"]) for rows in files for row in rows} == {int}
        assert spark_ids(at, datasets, name, format_) == list(range(50)), format_
    claimed = [event for event in at.seen.events if isinstance(event, Claimed)]
    assert [(event.epoch, event.created_table) for event in claimed] == [(1, True)] * 4 + [(2, False)] * 4


def spark_ids(at: World, datasets: Shelf, dataset: str, format_: str) -> list[int]:
    """Spark reads the folder."""
    where = datasets.location(dataset)
    if datasets.store is not None:
        with Client(datasets.server.uri, warehouse=datasets.warehouse) as client:
            use_s3a(at.spark, client.generic_tables.credentials(*dataset.split("."), read_only=True))
        where = where.replace("s3://", "s3a://")
    reader = at.spark.read.option("header", "true").option("multiLine", str(format_ == "json"))
    frame = reader.load(where, format="json" if format_ == "jsonl" else format_)
    return sorted(int(row.id) for row in frame.select("id").collect())


@BOTH
@pytest.mark.parametrize("format_", ["json", pytest.param("parquet", marks=pytest.mark.exhaustive)])
def test_through_a_transform(at: World, datasets: Shelf, format_: str) -> None:
    topic, name = at.topic(records(40)), f"things.{fresh('sql')}"
    sql = "SELECT id, upper(word) AS word, ref FROM source WHERE id < 30"
    pipeline = into(name, topic, format_, transform=sql, limits={"records_per_round": 20})
    at.run(pipeline)
    at.produce(topic, [record(number) for number in range(40, 45)])
    at.run(pipeline)
    files = datasets.rows(name)
    assert len(files) == 3
    assert files[2] == [], "a round without rows has its file too: that is where its stamp is"
    assert ids(files) == list(range(30))
    row = next(row for rows in files for row in rows if row["id"] == 9)
    assert row == {"id": 9, "word": "W2", "ref": record(9)["ref"]}


@pytest.mark.parametrize("datasets", ["local"], indirect=True)
def test_a_bad_record_stops_it(at: World, datasets: Shelf) -> None:
    topic, name = at.topic([record(0), record(1), b"{", record(2)], partitions=1), f"things.{fresh('bad')}"
    for _ in range(2):
        with pytest.raises(BadRecord):
            at.run(into(name, topic))
        assert ids(datasets.rows(name)) == [0, 1]


@BOTH
def test_commands_know_it(at: World, datasets: Shelf) -> None:
    topic, name = at.topic(records(10)), f"things.{fresh('known')}"
    pipeline = into(name, topic, kafka={"bootstrap.servers": at.kafka.bootstrap_servers})
    with Client(datasets.server.uri, warehouse=datasets.warehouse) as client:
        before = pipeline_status(pipeline, client)
        assert (before.exists, before.stamp, before.lag, before.problems) == (False, None, None, ())
        planned = pipeline_plan(pipeline, client, SparkConfig())
        assert (planned.table.exists, planned.problems, planned.offsets) == (False, (), 10)
        at.run(pipeline)
        after = pipeline_status(pipeline, client)
        assert after.stamp is not None
        assert after.committed_at is not None
        assert (after.table, after.exists, after.stamp.written, after.lag) == (name, True, 10, 0)
        planned = pipeline_plan(pipeline, client, SparkConfig())
        assert (planned.table.exists, planned.table.location) == (True, datasets.location(name))
        assert (planned.offsets, planned.problems) == (0, ())
        assert planned.begins == "after its last commit (epoch 1, round 1)"


class Hand:
    """A sink that is moved by hand, as the loop would move it; rows are numbers from the position on."""

    def __init__(self, config: PipelineConfig, spark: SparkSession, client: Client) -> None:
        self.sink = DatasetSink(config, spark, client, config.schema)
        self.sink.claim(lambda: ("numbers", {"t": Position(id="i", next=(0,))}), Patience())

    def plan(self, count: int) -> RoundPlan:
        start = self.sink.stamp.positions["t"].next[0]
        return RoundPlan((), {"t": Position(id="i", next=(start + count,))}, count, {"t": (0,)})

    def job(self, turn: Turn, plan: RoundPlan) -> JobResult:
        """What the task does."""
        writing = turn.writing
        assert isinstance(writing, DatasetWriting)
        outlet = writing.open(0, 0, turn.keys.value)
        assert isinstance(outlet, DatasetOutlet)
        end = plan.positions["t"].next[0]
        outlet.write(numbers(range(end - plan.offsets, end)))
        return JobResult((), outlet.close())

    def round(self, count: int) -> None:
        plan = self.plan(count)
        turn = self.sink.begin(plan)
        try:
            self.sink.commit(turn, plan, self.job(turn, plan), {})
        except RoundFailed:
            self.sink.discard(turn)
            raise


#: The dataset, and what makes another run.
Hands = tuple[str, Callable[[], Hand]]


def numbers(values: range) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"id": list(values)}, schema=pa.schema([pa.field("id", pa.int64())]))


@pytest.fixture
def hands(spark: SparkSession, datasets: Shelf) -> Iterator[Hands]:
    """Makes sinks of one pipeline, each a run of its own."""
    name = fresh("hand")
    config = frazil.Pipeline(name, dataset=f"things.{name}", topics="t", schema={"id": "long"})
    with Client(datasets.server.uri, warehouse=datasets.warehouse) as client:
        yield f"things.{name}", lambda: Hand(config, spark, client)


@BOTH
def test_rivals(hands: Hands, datasets: Shelf) -> None:
    """The newest run wins, whoever is faster; nothing is there twice."""
    name, new = hands
    old = new()
    old.round(3)
    rival = new()
    old.round(3)
    with pytest.raises(RoundFailed, match=r"wrote .* first"):
        rival.round(2)
    # It goes on behind the other one's file.
    rival.round(2)
    with pytest.raises(RoundFailed, match=r"wrote .* first"):
        old.round(1)
    with pytest.raises(Superseded, match="took over"):
        old.round(1)
    rival.round(2)
    assert ids(datasets.rows(name)) == list(range(10))


@pytest.mark.parametrize("datasets", ["local"], indirect=True)
def test_two_that_begin_at_once(hands: Hands, datasets: Shelf) -> None:
    name, new = hands
    one, two = new(), new()
    one.round(3)
    with pytest.raises(RoundFailed):
        two.round(3)
    two.round(3)
    with pytest.raises(RoundFailed):
        one.round(3)
    with pytest.raises(Superseded):
        one.round(3)
    assert ids(datasets.rows(name)) == list(range(6))


@BOTH
def test_a_task_that_runs_twice(hands: Hands, datasets: Shelf) -> None:
    name, new = hands
    hand = new()
    plan = hand.plan(4)
    turn = hand.sink.begin(plan)
    hand.job(turn, plan)
    landed = hand.sink.commit(turn, plan, hand.job(turn, plan), {})
    assert (landed.written, landed.stamp.written) == (4, 4)
    hand.round(2)
    assert ids(datasets.rows(name)) == list(range(6))


@pytest.mark.parametrize("datasets", ["local"], indirect=True)
def test_a_round_that_failed_after_its_put(hands: Hands, datasets: Shelf) -> None:
    """The driver does not know that its task wrote the file; its plan is made again behind it."""
    name, new = hands
    hand = new()
    plan = hand.plan(4)
    turn = hand.sink.begin(plan)
    hand.job(turn, plan)
    hand.sink.discard(turn)
    with pytest.raises(RoundFailed, match="planning again"):
        # As after a bad record: the same plan, shortened.
        hand.sink.begin(plan)
    hand.round(3)
    assert hand.sink.stamp.epoch == 1
    assert (hand.sink.stamp.written, hand.sink.stamp.read) == (7, 7)
    assert ids(datasets.rows(name)) == list(range(7))


@pytest.mark.parametrize("datasets", ["s3"], indirect=True)
def test_no_key_is_shown(at: World, datasets: Shelf) -> None:
    topic, name = at.topic(records(5)), f"things.{fresh('secret')}"
    at.run(into(name, topic))
    (committed,) = [event for event in at.seen.events if isinstance(event, RoundCommitted)]
    assert (committed.files, committed.snapshot_id, committed.written) == (1, None, 5)
    with Client(datasets.server.uri, warehouse=datasets.warehouse) as client:
        sink = DatasetSink(into(name, topic), at.spark, client, into(name, topic).schema)
        turn = sink.begin(RoundPlan((), {}, 0, {}))
        shown = repr(turn.writing) + repr(turn.keys) + repr(turn.keys.value)
        config = turn.keys.value[name].config
        for secret in ("s3.access-key-id", "s3.secret-access-key", "s3.session-token"):
            assert config[secret] not in shown
