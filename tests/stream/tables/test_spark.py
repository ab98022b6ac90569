"""What Spark does to a source: compaction, delete files, other formats, nested columns that change."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from tests.stream.tables.follower import Follower

from frazil.client import Client
from frazil.core.errors import SourceChanged, Unsupported
from frazil.lake.catalog import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_numbers = itertools.count(1)
Sql = Callable[[str], Any]
Follow = Callable[[], Follower]


@pytest.fixture
def name() -> str:
    return f"spark{next(_numbers)}"


@pytest.fixture
def sql(spark: SparkSession, client: Client, name: str) -> Sql:
    """`{t}` stands for the table."""
    return lambda text: spark.sql(text.replace("{t}", f"frazil.tables.{name}")).collect()


@pytest.fixture(scope="module")
def lake(spark: SparkSession, client: Client) -> Iterator[Lake]:
    opened = Lake(spark, client)
    yield opened
    opened.close()


@pytest.fixture
def follow(client: Client, lake: Lake, name: str) -> Follow:
    return lambda: Follower(client, name, lake=lake)


@pytest.fixture
def follower(follow: Follow) -> Follower:
    return follow()


def compact(sql: Sql, name: str) -> None:
    options = "map('rewrite-all', 'true', 'delete-file-threshold', '1')"
    sql(f"CALL frazil.system.rewrite_data_files(table => 'tables.{name}', options => {options})")


def test_compaction_is_not_read_again(sql: Sql, name: str, follow: Follow) -> None:
    follower = follow()
    sql("CREATE TABLE {t} (id BIGINT, day DATE) USING iceberg PARTITIONED BY (day)")
    sql("INSERT INTO {t} VALUES (1, DATE '2026-01-01'), (2, DATE '2026-01-02')")
    assert sorted(follower.ids()) == [1, 2]
    sql("INSERT INTO {t} VALUES (3, DATE '2026-01-01')")
    compact(sql, name)
    sql("INSERT INTO {t} VALUES (4, DATE '2026-01-02'), (5, DATE '2026-01-01')")
    compact(sql, name)
    assert sorted(follower.ids()) == [3, 4, 5]
    late = follow()
    assert sorted(late.ids()) == [1, 2, 3, 4, 5]
    for _ in range(2):
        compact(sql, name)
        assert follower.ids() == []
    # What was compacted before it expires with all that was read; what did not look meanwhile cannot tell.
    when = "older_than => now(), retain_last => 1"
    sql(f"CALL frazil.system.expire_snapshots(table => 'tables.{name}', {when})")
    sql("INSERT INTO {t} VALUES (6, DATE '2026-01-02')")
    assert follower.ids() == [6]
    with pytest.raises(SourceChanged, match="expired before they were read"):
        late.plan()


@pytest.mark.parametrize("version", [2, 3])
def test_delete_files(sql: Sql, name: str, follow: Follow, version: int) -> None:
    follower = follow()
    sql(
        "CREATE TABLE {t} (id BIGINT) USING iceberg TBLPROPERTIES "
        f"('write.delete.mode' = 'merge-on-read', 'format-version' = '{version}')"
    )
    sql("INSERT INTO {t} SELECT id FROM range(10)")
    assert sorted(follower.ids()) == list(range(10))
    sql("DELETE FROM {t} WHERE id = 3")
    with pytest.raises(SourceChanged, match=r"takes rows away \(added-delete-files: \d+\)"):
        follower.plan()
    with pytest.raises(Unsupported, match=r"are deleted by delete files.*rewrite_data_files"):
        follow().claim()
    compact(sql, name)
    late = follow()
    assert sorted(late.ids()) == [0, 1, 2, 4, 5, 6, 7, 8, 9]


@pytest.mark.parametrize("kind", ["parquet", "orc", "avro"])
def test_nested_columns_by_id(sql: Sql, follower: Follower, kind: str) -> None:
    sql(
        "CREATE TABLE {t} (id BIGINT, at TIMESTAMP, price DECIMAL(9, 2), raw BINARY, "
        "place STRUCT<city: STRING, zip: INT>, tags ARRAY<STRUCT<k: STRING, v: INT>>, "
        "more MAP<STRING, STRUCT<x: INT, y: DATE>>, counts MAP<INT, BIGINT>) USING iceberg "
        f"TBLPROPERTIES ('write.format.default' = '{kind}')"
    )
    sql(
        "INSERT INTO {t} VALUES (1, TIMESTAMP '2026-01-01 01:02:03.000004Z', 12.34, X'00FF', "
        "named_struct('city', 'Bern', 'zip', 3000), array(named_struct('k', 'a', 'v', 1), null), "
        "map('m', named_struct('x', 5, 'y', DATE '2026-02-03')), map(7, 8L)), "
        "(2, null, null, null, null, null, null, null)"
    )
    for change in (
        "RENAME COLUMN place.zip TO code",
        "RENAME COLUMN tags.element.k TO key",
        "RENAME COLUMN more.value.x TO z",
        "DROP COLUMN place.city",
        "ALTER COLUMN place.code TYPE BIGINT",
        "ADD COLUMN place.street STRING",
        "RENAME COLUMN raw TO bytes",
    ):
        sql(f"ALTER TABLE {{t}} {change}")
    sql(
        "INSERT INTO {t} VALUES (3, null, null, X'', named_struct('code', 5L, 'street', 's'), array(), "
        "map(), map())"
    )
    found = {row["id"]: row for row in follower.round()}
    one = found[1]
    assert one["at"].isoformat() == "2026-01-01T01:02:03.000004+00:00"
    assert str(one["price"]) == "12.34"
    assert one["bytes"] == b"\x00\xff"
    assert one["place"] == {"code": 3000, "street": None}
    assert one["tags"] == [{"key": "a", "v": 1}, None]
    assert [(key, value["z"], str(value["y"])) for key, value in one["more"]] == [("m", 5, "2026-02-03")]
    assert one["counts"] == [(7, 8)]
    assert {value for key, value in found[2].items() if key != "id"} == {None}
    assert found[3]["place"] == {"code": 5, "street": "s"}
    assert (found[3]["tags"], found[3]["more"], found[3]["counts"]) == ([], [], [])
