"""Tables that have a column of a type that frazil has not: refused by name, and fine once it is dropped."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

import frazil
from frazil.client import Client
from frazil.core.errors import Unsupported
from frazil.core.schema import Field, Schema, StructType
from frazil.hot.read.arrow import Union
from frazil.hot.read.pins import pinned
from frazil.lake.catalog import Lake
from frazil.lake.changelog import read_changes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_numbers = itertools.count(1)
NAMESPACE = ("foreign",)


def made(client: Client, kind: str) -> str:
    """A table that another engine could have made."""
    client.namespaces.create(NAMESPACE, exist_ok=True)
    name = f"t{next(_numbers)}"
    more = Field("more", StructType((Field("n", "int"), Field("at", kind))))
    client.tables.create(NAMESPACE, name, Schema((Field("id", "long"), more)), format_version=3)
    return name


@pytest.mark.parametrize(
    "kind",
    [
        "timestamp_ns",
        "timestamptz_ns",
        "variant",
        "geometry(srid:3857)",
        "geography(OGC:CRS84, spherical)",
        "unknown",
    ],
)
def test_such_a_table_is_refused_by_name(lake: Lake, client: Client, spark: SparkSession, kind: str) -> None:
    name = made(client, kind)
    found = pinned(client, f"foreign.{name}")
    for attempt in (
        lambda: lake.load(NAMESPACE, name),
        lambda: list(read_changes(client, f"foreign.{name}")),
        lambda: frazil.changes(spark, f"foreign.{name}"),
        lambda: Union(found, client),
    ):
        with pytest.raises(Unsupported) as raised:
            attempt()
        told = raised.value.message
        assert told.startswith(
            f"the column 'more.at' of the table foreign.{name} is of the type {kind}, which"
        )


def test_a_dropped_one_is_in_nobodys_way(lake: Lake, client: Client, spark: SparkSession) -> None:
    client.namespaces.create(NAMESPACE, exist_ok=True)
    name = f"foreign.t{next(_numbers)}"
    spark.sql(
        f"CREATE TABLE frazil.{name} (id BIGINT, doc VARIANT) USING iceberg TBLPROPERTIES "
        "('format-version' = '3', 'write.delete.mode' = 'merge-on-read')"
    )
    for number in (1, 2, 3):
        spark.sql(f"INSERT INTO frazil.{name} SELECT {number}, parse_json('{{\"n\": {number}}}')")
    spark.sql(f"DELETE FROM frazil.{name} WHERE id = 2")
    with pytest.raises(Unsupported, match=r"'doc' of the table .* variant.* string \(with JSON in it\)"):
        list(read_changes(client, name))
    spark.sql(f"ALTER TABLE frazil.{name} DROP COLUMN doc")
    rows = [row for batch in read_changes(client, name) for row in batch.to_pylist()]
    assert [(row["id"], row["_change_type"]) for row in rows] == [
        (1, "INSERT"),
        (2, "INSERT"),
        (3, "INSERT"),
        (2, "DELETE"),
    ]
    assert Union(pinned(client, name), client).table().sort_by("id").to_pydict() == {"id": [1, 3]}
    assert [field.name for field in lake.load(NAMESPACE, name.partition(".")[2]).schema] == ["id"]
