"""Data files that do not say by themselves what is in a table's columns."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from frazil.client import Client
from frazil.core.errors import InvalidInput, Unsupported
from frazil.core.schema import Field, Schema, StructType
from frazil.hot.read.arrow import read_arrow
from frazil.lake.catalog import Lake
from frazil.lake.changelog import read_changes
from frazil.lake.data_rows import Columns, open_rows
from frazil.lake.name_mapping import names_of
from frazil.lake.storage import FileStorage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_columns_that_were_renamed(client: Client, spark: SparkSession, tmp_path: Path) -> None:
    """They are what the table says that they are, as for Iceberg's own readers."""
    client.namespaces.create("names", exist_ok=True)
    folder = tmp_path / "files"
    folder.mkdir()
    rows = {"id": [1, 2], "a": ["x", None], "b": ["y", "z"], "day": [date(2026, 1, 1), None]}
    pq.write_table(pa.table(rows), folder / "f.parquet")
    spark.sql("CREATE TABLE frazil.names.t (id BIGINT, a STRING, b STRING, day DATE) USING iceberg")
    spark.sql(f"CALL frazil.system.add_files('names.t', '`parquet`.`{folder}`')")
    for change in (
        "RENAME COLUMN a TO c",
        "ALTER COLUMN b FIRST",
        "DROP COLUMN day",
        "ADD COLUMN a STRING",
    ):
        spark.sql(f"ALTER TABLE frazil.names.t {change}")
        wanted = [row.asDict() for row in spark.sql("SELECT * FROM frazil.names.t ORDER BY id").collect()]
        assert read_arrow("names.t", catalog=client).sort_by("id").to_pylist() == wanted, change
        found = [row for batch in read_changes(client, "names.t") for row in batch.to_pylist()]
        assert [{name: row[name] for name in wanted[0]} for row in found] == wanted, change
        assert read_arrow("names.t", catalog=client, where={"id": 2}, columns=["b"]).to_pylist() == [
            {"b": "z"}
        ]


def test_a_mapping_that_is_none() -> None:
    for text in ("?", "[5]", '[{"field-id": "x", "names": ["a"]}]', '[{"field-id": 1, "names": 5}]'):
        with pytest.raises(InvalidInput, match="no name mapping"):
            names_of({"properties": {"schema.name-mapping.default": text}})
    assert names_of({"properties": {}}) == {}
    # Iceberg takes these.
    text = '[{"field-id": 1}, {"field-id": null, "names": ["a"]}]'
    (only,) = names_of({"properties": {"schema.name-mapping.default": text}}).items()
    assert (only[0], only[1].id) == ("a", -1)


def test_what_a_mapping_does_not_name_is_none_of_the_tables(tmp_path: Path) -> None:
    """Also if it is called like a column of now, at any depth."""
    inside = pa.array([{"a": 1, "b": 2}])
    path = f"{tmp_path}/f.parquet"
    pq.write_table(pa.table({"id": [1], "word": ["x"], "s": inside}), path)
    fields = StructType((Field("a", "long", id=4), Field("b", "long", id=5)))
    schema = Schema((Field("id", "long", id=1), Field("word", "string", id=2), Field("s", fields, id=3)))
    named = [
        {"field-id": 1, "names": ["id"]},
        {"field-id": 3, "names": ["s"], "fields": [{"field-id": 4, "names": ["a"]}]},
    ]
    mapping = names_of({"properties": {"schema.name-mapping.default": json.dumps(named)}})
    with open_rows(FileStorage.of(str(tmp_path), None), path, "parquet", mapping) as rows:
        (group,) = rows.groups()
        found = group.read(Columns(schema)).to_pylist()
    assert found == [{"id": 1, "word": None, "s": {"a": 1, "b": None}}]


def test_defaults_inside_of_columns(lake: Lake, client: Client, spark: SparkSession) -> None:
    """The file has the column, and not the field in it: null would be another value than the table's."""
    client.namespaces.create("names", exist_ok=True)
    spark.sql(
        "CREATE TABLE frazil.names.d (id BIGINT, s STRUCT<a: INT>, l ARRAY<STRUCT<a: INT>>) USING iceberg "
        "TBLPROPERTIES ('format-version' = '3')"
    )
    spark.sql("INSERT INTO frazil.names.d SELECT 1, named_struct('a', 2), array(named_struct('a', 3))")
    types, literal = lake.iceberg.types.Types, lake.iceberg.expressions.Literal
    for parent in ("s", "l"):
        change = lake.load(("names",), "d").java.updateSchema()
        change.addColumn(parent, f"b{parent}", types.IntegerType.get(), None, literal.of(5)).commit()
        with pytest.raises(Unsupported, match=rf"does not hold the column {parent}\.b{parent}"):
            read_arrow("names.d", catalog=client, columns=[parent])
    assert read_arrow("names.d", catalog=client, columns=["id"]).to_pylist() == [{"id": 1}]
    spark.sql("INSERT OVERWRITE frazil.names.d SELECT * FROM frazil.names.d")
    assert read_arrow("names.d", catalog=client).to_pylist() == [
        {"id": 1, "s": {"a": 2, "bs": 5}, "l": [{"a": 3, "bl": 5}]}
    ]
