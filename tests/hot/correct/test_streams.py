"""Corrections beside writers: pipelines and tiering go on, stamps stay; ranges of a log are made again."""

from __future__ import annotations

import json
import os
from contextlib import closing
from typing import Any

import pytest
from tests.hot.read.world import HotWorld, row
from tests.stream.world import World, record, records

import frazil
from frazil.client import Client
from frazil.core.errors import Conflict, InvalidConfig, InvalidInput, Unsupported
from frazil.hot.correct import publish
from frazil.hot.correct.api import Corrected
from frazil.lake.authority import MetadataHistory, find_stamp
from frazil.lake.catalog import Lake
from frazil.lake.session import use_catalog
from frazil.stream.config import PipelineConfig
from frazil.stream.config.python import gather
from frazil.stream.dlq import Choice, replay
from frazil.stream.verify import Verdict, verify

SQL = "SELECT id, 'fixed' AS word, at, ref FROM {name} WHERE {where}"


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


def letters(world: World, table: str) -> list[int]:
    return [one["offset"] for one in world.rows(f"{table}_dead_letters", by=("offset",))]


# Of the second, Spark would leave the source out, and with it what is bad.
@pytest.mark.parametrize("transform", [None, "SELECT * FROM source WHERE false"], ids=["rows", "none"])
def test_a_row_that_is_bad_now_is_not_lost_by_offsets(
    world: World, client: Client, transform: str | None
) -> None:
    table = f"strict_{'rows' if transform is None else 'none'}"
    topic = world.topic([{"id": 1, "n": 7}, {"id": 2, "n": 5_000_000_000}, {"id": 3, "n": "x"}], partitions=1)
    before = world.pipeline(topic, table, schema={"id": "long", "n": "long"})
    world.run(before)
    after = world.pipeline(topic, table, schema={"id": "long", "n": "int"}, transform=transform)
    with pytest.raises(
        Conflict, match=rf"1 record .* bad .*: {topic}/0:1 \(n: found 5000000000, .*frazil rebuild"
    ) as caught:
        by_offsets(world, client, after, f"{topic}=0:0-3", at_once=True)
    assert f"{topic}/0:2" not in caught.value.message, "it waits as a letter"
    assert [one["n"] for one in world.rows(table)] == [7, 5_000_000_000]
    assert letters(world, table) == [2]
    # What is bad as before is a letter as before.
    done = by_offsets(world, client, before, f"{topic}=0:0-3", at_once=True)
    assert done.difference is not None
    assert done.difference.total.unchanged == 2
    assert letters(world, table) == [2]


def test_a_letter_that_is_good_now_does_not_come_twice_by_offsets(world: World, client: Client) -> None:
    topic = world.topic([{"id": 1, "n": 7}, {"id": 2, "n": 5_000_000_000}, {"id": 3, "n": "x"}], partitions=1)
    world.run(world.pipeline(topic, "wider", schema={"id": "long", "n": "int"}))
    world.spark_sql("ALTER TABLE {}.wider ALTER COLUMN n TYPE bigint")
    after = world.pipeline(topic, "wider", schema={"id": "long", "n": "long"})
    with pytest.raises(Conflict, match=rf"1 dead letter .* good .*: {topic}/0:1\. .*frazil dlq replay"):
        by_offsets(world, client, after, f"{topic}=0:0-3", at_once=True)
    assert [one["n"] for one in world.rows("wider")] == [7]
    # As the error says: without its letter, the record comes with the correction.
    world.spark_sql("DELETE FROM {}.wider_dead_letters WHERE offset = 1")
    by_offsets(world, client, after, f"{topic}=0:0-3", at_once=True)
    assert [one["n"] for one in world.rows("wider")] == [7, 5_000_000_000]


def test_letters_that_are_put_back_before_it_is_published(world: World, client: Client) -> None:
    topic = world.topic([record(0), {"id": "x", "word": "back"}], partitions=1)
    pipeline = world.pipeline(topic, "repaired")
    world.run(pipeline)
    made = by_offsets(world, client, pipeline, f"{topic}=0:0-2")
    with closing(Lake(world.spark, client)) as lake:
        replay(pipeline, world.spark, lake, Choice(), lambda value: value.replace(b'"x"', b"1"))
    with pytest.raises(Conflict, match="put dead letters of the pipeline back"):
        publish(world.spark, "paths.repaired", made.correction.id, catalog=client)
    assert words(world, "repaired") == {0: "w0", 1: "back"}


def test_a_transform_over_several_records_is_refused_by_offsets(world: World, client: Client) -> None:
    topic = world.topic(records(4))
    world.run(world.pipeline(topic, "grouped", transform="SELECT DISTINCT word FROM source"))
    world.produce(topic, records(4))
    world.run(world.pipeline(topic, "grouped", transform="SELECT DISTINCT word FROM source"))
    assert len(world.rows("grouped", by=("word",))) == 8
    for transform in (
        "SELECT DISTINCT word FROM source",
        "SELECT max(word) AS word FROM source GROUP BY id",
        "SELECT word FROM source LIMIT 5",
        "SELECT first(word) OVER (ORDER BY id) AS word FROM source",
    ):
        pipeline = world.pipeline(topic, "grouped", transform=transform)
        with pytest.raises(Unsupported, match=r"several records of a round.*--where"):
            by_offsets(world, client, pipeline, f"{topic}=0:0-4,1:0-4")
    wrong = world.pipeline(topic, "grouped", transform="SELECT none AS word FROM source")
    with pytest.raises(InvalidConfig, match="does not fit the source"):
        by_offsets(world, client, wrong, f"{topic}=0:0-4,1:0-4")
    # A table of the catalog is the same for each record.
    joined = "SELECT t.word FROM source s JOIN (SELECT DISTINCT word FROM lake.paths.grouped) t USING (word)"
    pipeline = world.pipeline(topic, "grouped", transform=joined)
    done = by_offsets(world, client, pipeline, f"{topic}=0:0-4,1:0-4")
    assert done.difference is not None
    assert done.difference.total.unchanged == 8


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


def test_letters_of_a_hot_table_are_neither_lost_nor_rows_as_well(hot: HotWorld) -> None:
    bad = f"hotread.bad{os.getpid()}"
    clicks = hot.table(
        {"id": "long required", "n": "int"}, (), partitions=1, properties={"frazil.hot.dead-letters": bad}
    )
    clicks.put({"id": 1, "n": 7}, {"id": 2, "n": 5_000_000_000}, {"id": 3, "n": "x"}).tier()
    use_catalog(hot.spark, "hots", hot.client)

    def again(name: str = clicks.name) -> Corrected:
        offsets = f"{name}=0:0-3"
        return frazil.correct(hot.spark, name, offsets=offsets, publish=True, catalog=hot.client)

    again()
    hot.spark.sql(f"ALTER TABLE hots.{clicks.name} ALTER COLUMN n TYPE bigint")
    with pytest.raises(Conflict, match=rf"1 dead letter .* good .*: {clicks.topic}/0:1\. .*{bad}"):
        again()
    hot.spark.sql(f"DELETE FROM hots.{bad} WHERE offset = 1")
    again()
    clicks.check(expected=[{"id": 1, "n": 7}, {"id": 2, "n": 5_000_000_000}])
    hot.spark.sql(f"ALTER TABLE hots.{clicks.name} DROP COLUMN n")
    hot.spark.sql(f"ALTER TABLE hots.{clicks.name} ADD COLUMN n int")
    with pytest.raises(
        Conflict, match=rf"1 record .* bad .*: {clicks.topic}/0:1 \(n: found 5000000000, .*--where"
    ):
        again()
