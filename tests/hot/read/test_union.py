"""A union read has every row once, as it is now."""

from __future__ import annotations

import gc
import itertools
import re
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.hot.read.world import HotWorld, row, schema_of
from tests.hot.support import remove

import frazil
from frazil.core.errors import FrazilError, Unsupported
from frazil.devstack.frazil_server import FrazilServer
from frazil.hot.read import spark
from frazil.hot.read.spark import pins_of
from frazil.hot.table import FRESHNESS
from frazil.lake.scratch import Scratch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@pytest.fixture(params=["one scan", "join"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How Spark reads: tasks elsewhere do not see the disk of the driver."""
    if request.param == "join":
        monkeypatch.setattr("frazil.hot.read.spark.fits", lambda _: False)
    return str(request.param)


one_scan = pytest.mark.parametrize("way", ["one scan"], indirect=True)
joined = pytest.mark.parametrize("way", ["join"], indirect=True)


def test_a_table_that_was_never_tiered(hot: HotWorld) -> None:
    table = hot.table()
    pins = table.check()
    assert pins.snapshot is None
    assert pins.ends == (0, 0)
    table.put(*map(row, range(20))).put(row(3, "new")).delete(4)
    pins = table.check()
    assert (pins.starts, sum(pins.ends)) == ((0, 0), 22)


@pytest.mark.parametrize("version", [2, 3])
def test_the_tail_replaces_and_removes(hot: HotWorld, version: int) -> None:
    table = hot.table(version=version)
    table.put(*map(row, range(50))).tier()
    pins = table.check()
    assert pins.tail == 0, "tiered to the end"
    table.put(row(1, "new"), row(2, "old"), row(2, "new"))
    table.delete(3, 4).put(row(4, "again"))
    # Beyond the snapshot's last key, and gone before they ever were in Iceberg.
    table.put(row(1000, "later"), row(1001)).delete(1001, 2000)
    table.check()
    # The snapshot now has rows that are deleted by position or by vector.
    table.tier()
    table.delete(0).put(row(1, "newest"))
    table.check()


def test_only_what_is_asked_for_is_read_and_filters_are_right(hot: HotWorld) -> None:
    table = hot.table(partitioning=["day(at)", "bucket(4, id)"])
    table.put(*(row(number, "old") for number in range(60))).tier()
    table.put(row(5, "new"), row(100, "old")).delete(7)
    frame = table.spark()
    # Row 5 leaves the filter: neither its new nor its old row is there.
    found = {one.id for one in frame.where("word = 'old'").select("id").collect()}
    assert found == {*range(60), 100} - {5, 7}
    assert {one.id for one in frame.where("word = 'new'").collect()} == {5}
    assert frame.count() == 60
    assert [one.word for one in frame.where("id = 5").collect()] == ["new"]
    assert frame.where("id = 7").collect() == []
    limited = frame.where("word = 'old'").limit(58).collect()
    assert len({one.id for one in limited}) == 58
    assert frame.where("word = 'new'").limit(5).count() == 1
    assert table.arrow(where={"id": 5}, columns=["word"]).to_pylist() == [{"word": "new"}]
    assert table.arrow(where={"id": 7}).to_pylist() == []
    assert table.arrow(where={"id": 8}, columns=["id"]).to_pylist() == [{"id": 8}]


@one_scan
def test_iceberg_reads_what_is_asked_for_and_nothing_else(hot: HotWorld) -> None:
    table = hot.table(partitioning=["bucket(4, id)", "word"])
    table.put(*(row(number, f"w{number % 3}") for number in range(60))).tier()
    table.put(row(5, "w9"))
    frame = table.spark()
    plan = _plan(frame.select("amount"))
    scan = plan.split("BatchScan")[1].split("\n")[0]
    assert re.findall(r"(\w+)#", scan.split("]")[0]) == ["amount"], "not even the key"
    assert "Join" not in plan
    assert "Union" not in plan
    assert "word = 'w1'" in _plan(frame.where("word = 'w1'")).split("BatchScan")[1].split("\n")[0]
    assert hot.kafka.bootstrap_servers not in _plan(frame, "extended")


@one_scan
def test_rows_that_are_gone_already(hot: HotWorld) -> None:
    """By deletes of every kind that the snapshot has: files of positions of two ranges, vectors."""
    for version in (2, 3):
        table = hot.table(version=version, key=("id",))
        table.put(*map(row, range(40))).tier()
        table.delete(*range(0, 40, 4)).put(row(1, "x")).tier()
        where = f"frazil.{table.name}"
        hot.spark.sql(f"ALTER TABLE {where} SET TBLPROPERTIES ('write.delete.granularity' = 'partition')")
        hot.spark.sql(f"DELETE FROM {where} WHERE id % 4 = 3 AND id < 30")
        table.rows = [one for one in table.rows if one["id"] % 4 != 3 or one["id"] >= 30]
        table.put(row(2, "y"), row(3, "back"), row(8, "back")).delete(1, 6, 11, 1000)
        table.check()
        table.delete(*range(40))
        table.check()


@one_scan
def test_keys_are_remembered(hot: HotWorld) -> None:
    """Also those of a file that has a key twice."""
    table = hot.table()
    table.put(*(row(number * 7 % 100) for number in range(100))).tier()
    hot.spark.sql(f"INSERT INTO frazil.{table.name} SELECT * FROM frazil.{table.name}")
    for number in (3, 50, 50, 99, -1, 1000):
        table.put(row(number, "new"))
        found = [one.id for one in table.spark().where("word = 'new'").collect()]
        assert found.count(number) == 1
        assert table.spark().where(f"id = {number}").count() == 1


@one_scan
def test_pins_from_before_the_table_was_divided_anew(hot: HotWorld) -> None:
    table = hot.table().put(*map(row, range(10))).tier().put(row(3, "new"))
    pins, before = table.pin(), table.expected()
    where = f"frazil.{table.name}"
    hot.spark.sql(f"ALTER TABLE {where} ADD COLUMN region string")
    hot.spark.sql(f"ALTER TABLE {where} ADD PARTITION FIELD region")
    hot.spark.sql(f"ALTER TABLE {where} WRITE ORDERED BY region")
    table.check(pins, before)


@one_scan
def test_files_that_only_spark_can_read_the_keys_of(hot: HotWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise Unsupported("an odd file")

    monkeypatch.setattr("frazil.lake.overlay._removed", refused)
    hot.table().put(*map(row, range(10))).tier().put(row(3, "new")).check()


@one_scan
def test_two_moments_in_one_query(hot: HotWorld) -> None:
    table = hot.table()
    table.put(*map(row, range(10))).tier()
    before = table.put(row(3, "new")).spark()
    after = table.put(row(3, "newer"), row(10)).spark()
    both = before.select("id", "word").union(after.select("id", "word")).collect()
    assert sorted(one.word for one in both if one.id == 3) == ["new", "newer"]
    joined = after.join(before, "id", "left_anti").collect()
    assert [one.id for one in joined] == [10]


@one_scan
def test_files_of_a_read_go_with_its_frames(hot: HotWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    table = hot.table()
    table.put(*map(row, range(10)))
    jvm: Any = hot.spark.sparkContext._jvm
    frame = table.spark().where("id < 5")
    (place,) = {Path(one[0].removeprefix("file:")).parent for one in frame.select("_file").collect()}
    gc.collect()
    jvm.System.gc()
    monkeypatch.setattr("frazil.lake.scratch.LEFT_SECONDS", 0.0)
    table.spark()
    assert frame.count() == 5, "what was made from it needs them"
    # When Java's collector comes is its own affair.
    scratch = Scratch.of(hot.spark, hot.client)
    scratch._used[place] = jvm.java.lang.ref.WeakReference(None)
    monkeypatch.setattr("frazil.lake.scratch.LEFT_SECONDS", 3600.0)
    scratch.sweep()
    assert place.exists(), "not at once"
    monkeypatch.setattr("frazil.lake.scratch.LEFT_SECONDS", 0.0)
    scratch.sweep()
    assert not place.exists()


@joined
def test_what_reaches_iceberg(hot: HotWorld) -> None:
    table = hot.table(partitioning=["bucket(4, id)", "word"])
    table.put(*(row(number, f"w{number % 3}") for number in range(60))).tier()
    table.put(row(5, "w9"))
    frame = table.spark()
    plan = _plan(frame.select("amount"))
    scan = plan.split("BatchScan")[1].split("\n")[0]
    assert re.findall(r"(\w+)#", scan.split("]")[0]) == ["id", "amount"]
    assert re.search("BroadcastHashJoin.*LeftAnti", plan)
    plan = _plan(frame.where("word = 'w1'"))
    assert "word = 'w1'" in plan.split("BatchScan")[1].split("\n")[0], "partitions are pruned"
    assert "w1" not in _keys(plan), "a change that leaves the filter takes its old row away"
    plan = _plan(frame.where("id = 5"))
    assert "id = 5" in plan.split("BatchScan")[1].split("\n")[0]
    assert "= 5)" in _keys(plan), "the key reaches the tail"
    assert hot.kafka.bootstrap_servers not in _plan(frame, "extended")


def test_composite_keys_and_texts(hot: HotWorld) -> None:
    columns = {"region": "string required", "n": "int required", "ref": "uuid", "code": "fixed[2]"}
    table = hot.table(columns, key=("region", "n"), partitions=3, version=3)
    ref = "6f1e0a4c-93a8-4f6e-8a3c-000000000001"

    def made(region: str, n: int, code: str | None = "aGk=") -> dict[str, object]:
        return {"region": region, "n": n, "ref": ref, "code": code}

    names = ["", "ü 'quoted' \"text\"", "a.b", "A", "a"]
    rows = [made(name, n) for name in names for n in range(3)]
    table.put(*rows).tier()
    table.delete(("a", 1), ("", 0)).put(made("A", 1, None), made("a.b", 2), made("z", -1))
    pins = table.pin()
    found = table.arrow(pins=pins)
    keys = sorted((one["region"], one["n"]) for one in found.to_pylist())
    assert keys == sorted((one["region"], one["n"]) for one in table.rows)
    spark = sorted((one.region, one.n) for one in table.spark(pins=pins).collect())
    assert spark == keys
    assert {one.ref for one in table.spark(pins=pins).collect()} == {ref}
    assert {str(one) for one in found.column("ref").to_pylist()} == {ref}
    assert found.column("code").null_count == 1


def test_a_table_of_a_log(hot: HotWorld) -> None:
    table = hot.table(key=(), partitions=3)
    table.put(*map(row, range(10)))
    table.check()
    table.tier()
    table.put(*map(row, range(5, 15)))
    table.check()
    assert table.spark().count() == 20


def test_the_same_pins_give_the_same_answer(hot: HotWorld) -> None:
    table = hot.table()
    table.put(*map(row, range(30))).tier()
    table.put(row(3, "new")).delete(4)
    before = table.expected()
    pins = table.check()
    frame = table.spark(pins=pins)
    table.put(row(3, "newer"), row(4), row(500)).delete(*range(10, 20)).tier()
    table.put(row(5, "tail")).tier()
    table.check(pins, before)
    assert frame.count() == len(before), "also a frame that was made before"
    table.check()


def test_columns_that_come_later(hot: HotWorld) -> None:
    table = hot.table({"id": "long required", "n": "int"})
    table.put({"id": 1, "n": 1}, {"id": 2, "n": 2}).tier()
    before = table.pin()
    loaded = hot.lake.load(*_parts(table.name))
    loaded.java.updateSchema().addColumn("more", hot.lake.iceberg.types.Types.StringType.get()).renameColumn(
        "n", "number"
    ).commit()
    table.put({"id": 2, "number": 20, "more": "x"})
    wanted: list[dict[str, Any]] = [
        {"id": 1, "number": 1, "more": None},
        {"id": 2, "number": 20, "more": "x"},
    ]
    pins = table.check(expected=wanted)
    assert table.arrow(pins=before).column_names == ["id", "n"]
    assert table.spark(pins=before).columns == ["id", "n"]
    table.tier()
    table.check(pins, wanted)
    table.check(expected=wanted)


@joined
def test_a_tail_lets_go_of_its_memory(hot: HotWorld) -> None:
    table = hot.table()
    table.put(*map(row, range(10)))
    context: Any = hot.spark.sparkContext._jsc
    before = set(context.getPersistentRDDs().keySet())
    frame = table.spark()
    assert frame.count() == 10
    # What others left behind may go at any moment.
    assert len(set(context.getPersistentRDDs().keySet()) - before) == 1
    # Spark lets go of it when nobody has a frame of it: when Java's collector comes is its own affair.
    kept = [weakref.ref(frame), weakref.ref(frame._jdf)]
    del frame
    gc.collect()
    assert [one() for one in kept] == [None, None]


def test_a_column_that_no_file_has_yet(hot: HotWorld) -> None:
    table = hot.table(key=()).put(*map(row, range(10))).tier()
    hot.spark.sql(f"ALTER TABLE frazil.{table.name} ADD COLUMN later string")
    assert table.arrow(columns=["later"]).to_pylist() == [{"later": None}] * 10
    assert table.put(row(11)).arrow(columns=["later"]).num_rows == 11
    assert table.spark().select("later").count() == 11


def test_a_column_with_a_default_that_no_file_has_yet(hot: HotWorld) -> None:
    """Before a snapshot has it as well as afterwards."""
    table = hot.table({"id": "long required"}, version=3).put({"id": 1}).tier()
    types, literal = hot.lake.iceberg.types.Types, hot.lake.iceberg.expressions.Literal
    hot.lake.load(*_parts(table.name)).java.updateSchema().addColumn(
        "n", types.IntegerType.get(), literal.of(5)
    ).addColumn("day", types.DateType.get(), literal.of("2026-01-31").to(types.DateType.get())).addColumn(
        "raw", types.BinaryType.get(), literal.of(bytearray(b"hi"))
    ).commit()
    for _ in range(2):
        assert {
            (one.id, one.n, str(one.day), bytes(one.raw)) for one in table.spark().where("id = 1").collect()
        } == {(1, 5, "2026-01-31", b"hi")}
        with pytest.raises(Unsupported, match="default of the table alone"):
            table.arrow()
        table.put({"id": 2, "n": 7})
        assert {(one.id, one.n) for one in table.spark().collect()} == {(1, 5), (2, 7)}


def test_views_for_sql(hot: HotWorld) -> None:
    table = hot.table().put(*map(row, range(10)))
    table.flush()
    pins = frazil.register(hot.spark, table.name, catalog=hot.client)
    assert sum(pins[table.name].ends) == 10
    assert hot.spark.sql(f"SELECT max(id) FROM `{table.name}`").collect()[0][0] == 9
    assert pins_of(table.spark(pins=pins[table.name])) == pins[table.name]


@one_scan
def test_views_of_all_hot_tables(
    hot: HotWorld, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Those that cannot be read are named, and keep nobody from the others."""
    with FrazilServer() as server:
        world = HotWorld(hot.kafka, hot.spark, server)
        gone, wrong = world.table(), world.table(properties={FRESHNESS: "soon"})
        table = world.table().put(*map(row, range(10)))
        table.flush()
        world.lake.create(("hotread",), "cold", schema_of({"id": "long"}), (), {}, 2, ())
        remove(hot.kafka, gone.topic)
        listed = spark.hot_tables
        monkeypatch.setattr(spark, "hot_tables", lambda client: [*listed(client), "hotread.dropped"])
        made = frazil.register(hot.spark, catalog=world.client)
        assert set(made) == {table.name}
        assert hot.spark.sql(f"SELECT count(*) FROM `{table.name}`").collect()[0][0] == 10
        said = [record.getMessage() for record in caplog.records if record.name == "frazil.hot"]
        reasons = dict(one.split(" is left out: ") for one in said)
        assert reasons.keys() == {gone.name, wrong.name}
        assert "is gone" in reasons[gone.name]
        assert reasons[wrong.name].startswith("the properties of the hot table")
        # An empty answer would be no answer.
        world.client.tables.drop(*_parts(table.name))
        with pytest.raises(FrazilError, match=r"is gone|the properties of the hot table"):
            frazil.register(hot.spark, catalog=world.client)
        world.close()


def _plan(frame: DataFrame, mode: str = "simple") -> str:
    queries = frame._jdf.queryExecution()
    return str(queries.toString() if mode == "extended" else queries.executedPlan().toString())


def _keys(plan: str) -> str:
    """The part of a plan that gives the keys of the tail: what is below the broadcast."""
    below = plan.split("BroadcastExchange")[1].splitlines()[1:]
    return "\n".join(itertools.takewhile(lambda line: line.lstrip().startswith(":"), below))


def _parts(name: str) -> tuple[tuple[str, ...], str]:
    namespace, _, table = name.partition(".")
    return (namespace,), table
