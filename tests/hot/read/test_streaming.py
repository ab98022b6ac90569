"""A hot table as a streaming DataFrame: the same changes as without Spark, also across restarts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.hot.read.world import HotRows, HotWorld, ordered, plain, row

import frazil
from frazil.core.errors import Unsupported
from frazil.devstack.seaweed import ObjectStore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_TYPE = "_change_type"


class Copy:
    """What a query's sink has: batches by number, so that one that is run again must be the same."""

    def __init__(self, table: HotRows, state: Path, **options: Any) -> None:
        self._table = table
        self._state = state
        self._options = options
        self.batches: dict[int, list[dict[str, Any]]] = {}
        self.fail: Callable[[int], bool] = lambda _: False

    def catch_up(self) -> None:
        """A query from its checkpoint up to what is there; a whole new one each time."""
        world, table = self._table.world, self._table
        table.flush()
        catalog = {"uri": world.server.uri, "warehouse": world.warehouse}
        stream = frazil.read_stream(world.spark, table.name, catalog=catalog, **self._options)
        writer = stream.writeStream.option("checkpointLocation", str(self._state)).foreachBatch(self._take)
        query = writer.start()
        try:
            query.processAllAvailable()
        finally:
            query.stop()

    def _take(self, frame: DataFrame, number: int) -> None:
        rows = [one.asDict() for one in frame.collect()]
        known = self.batches.get(number, rows)
        assert ordered(plain(known)) == ordered(plain(rows)), "a batch that is run again is the same"
        self.batches[number] = rows
        if self.fail(number):
            raise RuntimeError("killed")

    @property
    def kinds(self) -> Counter[str]:
        return Counter(one[_TYPE] for rows in self.batches.values() for one in rows)

    def check(self) -> None:
        """Each change fits what is there, and in the end the rows are those of the table."""
        rows: list[dict[str, Any]] = []
        for _, changes in sorted(self.batches.items()):
            before = None
            for one in changes:
                kind = one[_TYPE]
                (found,) = plain([{name: value for name, value in one.items() if name != _TYPE}])
                assert (kind == "UPDATE_AFTER") == (before is not None)
                before = found if kind == "UPDATE_BEFORE" else None
                if kind in ("DELETE", "UPDATE_BEFORE"):
                    rows.remove(found)
                else:
                    rows.append(found)
        assert ordered(rows) == self._table.expected()


def test_history_then_changes_from_a_checkpoint(hot: HotWorld, tmp_path: Path) -> None:
    table = hot.table()
    table.put(*map(row, range(20))).tier()
    table.put(row(1, "new"), row(30)).delete(2, 99)
    copy = Copy(table, tmp_path, records_per_batch=7)
    copy.catch_up()
    copy.check()
    assert copy.kinds == {"INSERT": 21, "UPDATE_BEFORE": 1, "UPDATE_AFTER": 1, "DELETE": 1}
    assert len(copy.batches) == 4
    # Another query, and rows that it knows were tiered meanwhile, with others that it does not.
    table.put(row(1, "newer")).delete(3).tier()
    table.put(row(3, "again"), row(5, "last")).delete(1)
    copy.catch_up()
    copy.check()
    assert copy.kinds == {"INSERT": 22, "UPDATE_BEFORE": 3, "UPDATE_AFTER": 3, "DELETE": 3}


def test_a_batch_is_the_same_when_it_is_run_again(hot: HotWorld, tmp_path: Path) -> None:
    """The first one of the history, and one of the log after whose plan the table was tiered."""
    table = hot.table()
    table.put(*map(row, range(6))).tier()
    copy = Copy(table, tmp_path)
    copy.fail = lambda number: True
    with pytest.raises(Exception, match="killed"):
        copy.catch_up()
    table.put(row(6)).tier()
    copy.fail = lambda number: number == 1
    with pytest.raises(Exception, match="killed"):
        copy.catch_up()
    table.put(row(1, "new"), row(6, "new")).delete(4)
    copy.fail = lambda number: number == 2
    with pytest.raises(Exception, match="killed"):
        copy.catch_up()
    table.put(row(2, "later")).delete(1).tier()
    copy.fail = lambda number: False
    copy.catch_up()
    copy.check()


def test_a_log_is_only_added_to(hot: HotWorld, tmp_path: Path) -> None:
    """A table that was never tiered, and goes on when it is."""
    table = hot.table(key=(), partitions=3)
    table.put(*map(row, range(5)))
    copy = Copy(table, tmp_path, records_per_batch=3)
    copy.catch_up()
    table.tier()
    table.put(*map(row, range(5)))
    copy.catch_up()
    copy.check()
    assert copy.kinds == {"INSERT": 10}


def test_a_key_that_was_never_tiered(hot: HotWorld, tmp_path: Path) -> None:
    table = hot.table()
    table.put(row(1), row(2))
    copy = Copy(table, tmp_path)
    copy.catch_up()
    table.put(row(1, "new")).delete(2)
    copy.catch_up()
    copy.check()
    assert copy.kinds == {"INSERT": 2, "UPDATE_BEFORE": 1, "UPDATE_AFTER": 1, "DELETE": 1}


def test_keys_and_columns_of_bytes(hot: HotWorld, tmp_path: Path) -> None:
    """Spark has no type for UUIDs: they are texts there."""
    ids = [f"6f1e0a4c-93a8-4f6e-8a3c-00000000000{number}" for number in range(5)]
    table = hot.table({"id": "uuid required", "code": "fixed[2]", "ref": "uuid"}, version=3)

    def made(number: int, ref: int | None) -> dict[str, Any]:
        return {"id": ids[number], "code": "aGk=", "ref": None if ref is None else ids[ref]}

    table.put(*(made(number, 0) for number in range(3))).tier()
    copy = Copy(table, tmp_path)
    copy.catch_up()
    table.put(made(0, 1), made(3, None)).delete(ids[1])
    copy.catch_up()
    table.put(made(0, None))
    copy.catch_up()
    for row_ in table.rows:
        row_["code"] = b"hi".hex()
    copy.check()
    assert copy.kinds == {"INSERT": 4, "UPDATE_BEFORE": 2, "UPDATE_AFTER": 2, "DELETE": 1}


@pytest.mark.parametrize("kind", ["struct<ref: uuid>", "time"])
def test_types_that_spark_has_not(hot: HotWorld, kind: str) -> None:
    table = hot.table({"id": "long required", "odd": kind}, version=3)
    with pytest.raises(Unsupported, match=r"'odd' has a type that Spark does not.*follow"):
        frazil.read_stream(hot.spark, table.name, catalog=hot.client)
    with pytest.raises(Unsupported, match=r"'odd' has a type that Spark does not.*frazil sql"):
        table.spark()


def test_only_hot_tables(hot: HotWorld) -> None:
    hot.spark.sql("CREATE NAMESPACE IF NOT EXISTS frazil.hotread")
    hot.spark.sql("CREATE TABLE IF NOT EXISTS frazil.hotread.cold (id BIGINT) USING iceberg")
    with pytest.raises(Unsupported, match="no hot table"):
        frazil.read_stream(hot.spark, "hotread.cold", catalog=hot.client)


def test_an_object_store(hot: HotWorld, object_store: ObjectStore, tmp_path: Path) -> None:
    """Tasks read history, and rows that changes replace, with the keys that the catalog gave them."""
    profile, credential = object_store.warehouse_storage("hotstreaming", "hot")
    warehouse = hot.client.warehouses.create("hotstreaming", profile, credential).name
    world = HotWorld(hot.kafka, hot.spark, hot.server, warehouse)
    table = world.table(version=3, partitioning=("bucket(2, id)",))
    table.put(*map(row, range(20))).tier()
    table.put(row(1, "new"), row(30)).delete(2, 99)
    copy = Copy(table, tmp_path, records_per_batch=7)
    copy.catch_up()
    copy.check()
    table.put(row(1, "newer"), row(31)).delete(3).tier()
    table.put(row(3, "again"), row(31, "last")).delete(1)
    copy.catch_up()
    copy.check()
    assert copy.kinds == {"INSERT": 23, "UPDATE_BEFORE": 3, "UPDATE_AFTER": 3, "DELETE": 3}
    world.close()
