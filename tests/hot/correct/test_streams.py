"""Corrections beside writers: pipelines and tiering go on, stamps stay; ranges of a log are made again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from tests.hot.read.world import HotWorld, row
from tests.stream.world import World, empty, record, records

import frazil
from frazil.client import Client
from frazil.core.errors import Conflict, InvalidInput, Unsupported
from frazil.devstack.frazil_server import FrazilServer
from frazil.devstack.kafka import Kafka
from frazil.hot.correct import publish
from frazil.hot.correct.api import Corrected
from frazil.lake.authority import MetadataHistory, find_stamp
from frazil.stream.config import PipelineConfig
from frazil.stream.config.python import gather
from frazil.stream.verify import Verdict, verify

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SQL = "SELECT id, 'fixed' AS word, at, ref FROM {name} WHERE {where}"


@pytest.fixture
def world(kafka: Kafka, spark: SparkSession, frazil_sqlite: FrazilServer) -> World:
    empty(frazil_sqlite)
    return World(kafka, spark, frazil_sqlite)


@pytest.fixture
def client(frazil_sqlite: FrazilServer) -> Iterator[Client]:
    with Client(frazil_sqlite.uri, warehouse="default") as found:
        yield found


@pytest.fixture
def hot(kafka: Kafka, spark: SparkSession, frazil_sqlite: FrazilServer) -> Iterator[HotWorld]:
    found = HotWorld(kafka, spark, frazil_sqlite)
    yield found
    found.close()


def words(world: World, table: str) -> dict[int, str]:
    return {one["id"]: one["word"] for one in world.rows(table)}


def known(world: World, config: Any) -> PipelineConfig:
    """As a file would have it."""
    catalog = {"uri": world.server.uri, "warehouse": world.warehouse}
    servers = {"bootstrap.servers": world.kafka.bootstrap_servers}
    return gather([config], catalog=catalog, kafka=servers).pipelines[0]


def test_a_pipeline_runs_on_through_a_correction(world: World, client: Client) -> None:
    topic = world.topic(records(10))
    pipeline = world.pipeline(topic, "corrected")
    where = "id < 4"
    sql = SQL.format(name="paths.corrected", where=where)
    with world.running(pipeline) as run:
        run.until(lambda: world.exists("corrected") and len(world.rows("corrected")) == 10)
        made = frazil.correct(world.spark, "paths.corrected", where=where, sql=sql, catalog=client)
        world.produce(topic, [record(number) for number in range(10, 14)])
        run.until(lambda: len(world.rows("corrected")) == 14)
        done = publish(world.spark, "paths.corrected", made.correction.id, catalog=client)
        assert done.published == "overwrite"
        world.produce(topic, [record(number) for number in range(14, 20)])
        run.until(lambda: len(world.rows("corrected")) == 20)
        assert not run.errors
    wanted = {number: "fixed" if number < 4 else record(number)["word"] for number in range(20)}
    assert words(world, "corrected") == wanted
    # A run that begins anew finds its stamp below the correction.
    world.run(pipeline)
    assert words(world, "corrected") == wanted
    metadata = client.tables.load("paths", "corrected").metadata
    stamp = find_stamp(MetadataHistory(metadata), f"p-{topic}")
    assert stamp is not None
    assert sum(stamp.positions[topic].next) == 20
    published = [one for one in metadata["snapshots"] if "frazil.correction" in one["summary"]]
    assert not [key for one in published for key in one["summary"] if key.startswith("frazil.stamp.")]
    checked = verify(known(world, pipeline), world.spark, client)
    found = {check.name: check.verdict for check in checked.checks}
    assert found["log"] is found["commits"] is Verdict.OK
    assert found["rows"] is found["content"] is Verdict.UNKNOWN


def by_offsets(
    world: World, client: Client, pipeline: Any, offsets: str, *, at_once: bool = False
) -> Corrected:
    config = known(world, pipeline)
    name = ".".join((*config.table.namespace, config.table.name))
    return frazil.correct(
        world.spark, name, offsets=offsets, pipeline=config, publish=at_once, catalog=client
    )


def test_a_range_of_the_log_is_made_again_by_its_pipeline(world: World, client: Client) -> None:
    topic = world.topic(records(6))
    before = world.pipeline(topic, "again", transform="SELECT id, upper(word) AS word FROM source")
    world.run(before)
    world.produce(topic, [record(number) for number in range(6, 10)])
    world.run(before)
    world.produce(topic, [record(number) for number in range(10, 12)])
    world.run(before)
    after = world.pipeline(topic, "again", transform="SELECT id, 'new' AS word FROM source")
    for wrong, said in (
        (f"{topic}=0:0-4", f"nearest that does: {topic}=0:0-5,1:0-5"),
        (f"{topic}=0:3-5", f"nearest that does: {topic}=0:3-5,1:3-5"),
        (f"{topic}=7:3-5", "did not read"),
        ("other=0:1-2", "did not read"),
        ("nothing", "is no range of a log"),
    ):
        with pytest.raises(InvalidInput, match=said):
            by_offsets(world, client, after, wrong)
    made = by_offsets(world, client, after, f"{topic}=0:3-5,1:3-5")
    assert made.difference is not None
    assert (made.difference.total.before, made.difference.total.after) == (4, 4)
    world.produce(topic, [record(number) for number in range(12, 14)])
    world.run(before)
    done = publish(world.spark, "paths.again", made.correction.id, catalog=client)
    assert done.published == "overwrite"
    wanted = {n: "new" if 6 <= n < 10 else record(n)["word"].upper() for n in range(14)}
    assert words(world, "again") == wanted
    # Once more: the rows of the first correction are those of the range now.
    third = world.pipeline(topic, "again", transform="SELECT id, 'newer' AS word FROM source")
    by_offsets(world, client, third, f"{topic}=0:3-5,1:3-5", at_once=True)
    assert words(world, "again") == wanted | dict.fromkeys(range(6, 10), "newer")
    # Compacted together with others, they cannot be told any more.
    world.spark_sql(
        "CALL world.system.rewrite_data_files(table => '{}.again', options => map('rewrite-all', 'true'))"
    )
    with pytest.raises(Conflict, match="mixed rows of the range with others"):
        by_offsets(world, client, third, f"{topic}=0:3-5,1:3-5")


def test_rows_that_somebody_deleted_do_not_come_back_by_offsets(world: World, client: Client) -> None:
    topic = world.topic(records(6))
    pipeline = world.pipeline(topic, "deleted")
    world.run(pipeline)
    world.spark_sql("DELETE FROM {}.deleted WHERE id = 2")
    with pytest.raises(Conflict, match="deleted or replaced rows"):
        by_offsets(world, client, pipeline, f"{topic}=0:0-3,1:0-3")


def test_of_a_hot_table_the_tail_still_wins(hot: HotWorld) -> None:
    orders = hot.table(version=3)
    orders.put(*(row(number) for number in range(6))).tier()
    sql = f"SELECT id, 'fixed' AS word, amount, at FROM {orders.name} WHERE id < 4"
    # Only in the log: it is not computed from, and lands by itself.
    orders.put(row(1, "later"), row(9)).delete(2)
    made = frazil.correct(hot.spark, orders.name, where="id < 4", sql=sql, catalog=hot.client)
    orders.rows = [one | ({"word": "fixed"} if one["id"] in (0, 3) else {}) for one in orders.rows]
    publish(hot.spark, orders.name, made.correction.id, catalog=hot.client)
    orders.check()
    orders.tier().check()
    with pytest.raises(Unsupported, match="has a key"):
        frazil.correct(hot.spark, orders.name, offsets=f"{orders.name}=0:0-1", catalog=hot.client)


def test_a_range_of_a_hot_tables_log_is_restored(hot: HotWorld) -> None:
    clicks = hot.table(key=(), partitions=1)
    clicks.put(*(row(number) for number in range(5))).tier()
    clicks.put(*(row(number) for number in range(5, 8))).tier()
    wrong = f"SELECT id, 'wrong' AS word, amount, at FROM {clicks.name} WHERE id < 5"
    frazil.correct(hot.spark, clicks.name, where="id < 5", sql=wrong, publish=True, catalog=hot.client)
    with pytest.raises(Conflict, match="deleted or replaced rows"):
        frazil.correct(hot.spark, clicks.name, offsets=f"{clicks.name}=0:0-5", catalog=hot.client)
    offsets = f"{clicks.name}=0:5-8"
    made = frazil.correct(hot.spark, clicks.name, offsets=offsets, publish=True, catalog=hot.client)
    assert made.difference is not None
    assert made.difference.total.unchanged == 3
    clicks.rows = [one | ({"word": "wrong"} if one["id"] < 5 else {}) for one in clicks.rows]
    clicks.put(row(8)).check()
    record_of = json.loads(made.correction.record.encode())
    assert record_of["range"] == offsets
