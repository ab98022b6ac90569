"""A union read has every row once, as it is now."""

from __future__ import annotations

import gc
import itertools
import re
import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.hot.read.world import HotWorld, row

import frazil
from frazil.hot.read.spark import pins_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


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


def test_a_tail_lets_go_of_its_memory(hot: HotWorld) -> None:
    table = hot.table()
    table.put(*map(row, range(10)))
    context: Any = hot.spark.sparkContext._jsc
    jvm: Any = hot.spark.sparkContext._jvm
    before = context.getPersistentRDDs().size()
    frame = table.spark()
    assert frame.count() == 10
    assert context.getPersistentRDDs().size() == before + 1
    del frame
    deadline = time.monotonic() + 60
    while context.getPersistentRDDs().size() > before:
        assert time.monotonic() < deadline
        gc.collect()
        jvm.System.gc()
        time.sleep(0.2)


def test_views_for_sql(hot: HotWorld) -> None:
    table = hot.table().put(*map(row, range(10)))
    table.flush()
    pins = frazil.register(hot.spark, table.name, catalog=hot.client)
    assert sum(pins[table.name].ends) == 10
    assert hot.spark.sql(f"SELECT max(id) FROM `{table.name}`").collect()[0][0] == 9
    assert pins_of(table.spark(pins=pins[table.name])) == pins[table.name]


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
