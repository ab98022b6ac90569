"""Data files by themselves: columns by id, parts of files, files that are not what they should be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from frazil.core.errors import StorageError, Unsupported
from frazil.core.schema import Field, Schema, parse_type
from frazil.lake.places import KeyedPlace, nearest
from frazil.lake.projection import projected
from frazil.stream.source import Slice
from frazil.stream.tables.reader import TableReader


def numbered(*fields: tuple[str, str]) -> Schema:
    return Schema(tuple(Field(name, parse_type(kind)) for name, kind in fields)).with_fresh_ids()


WRITTEN = numbered(
    ("id", "long"),
    ("place", "struct<city: string, zip: int>"),
    ("tags", "list<struct<k: string, v: int>>"),
    ("more", "map<string, struct<x: int, y: long>>"),
    ("gone", "string"),
)
ROWS = [
    {
        "id": 1,
        "place": {"city": "Bern", "zip": 3000},
        "tags": [{"k": "a", "v": 1}, None],
        "more": [("m", {"x": 1, "y": 2})],
        "gone": "x",
    },
    {"id": 2, "place": None, "tags": None, "more": None, "gone": None},
    {"id": 3, "place": {"city": None, "zip": None}, "tags": [], "more": [], "gone": None},
    {"id": 4, "place": {"city": "Thun", "zip": 3600}, "tags": [{"k": None, "v": 2}], "more": [("n", None)]},
]


def renamed(kind: str) -> Schema:
    """As `WRITTEN`, some names being others now."""
    texts = {field.name: field for field in WRITTEN}
    document = Schema(tuple(texts[name] for name in ("id", "place", "tags", "more"))).to_json()

    def change(found: Any) -> Any:
        if isinstance(found, list):
            return [change(each) for each in found]
        if not isinstance(found, dict):
            return found
        names = {"zip": "code", "k": "key", "x": "z"} if kind == "deep" else {"place": "where"}
        changed = {key: change(value) for key, value in found.items()}
        return changed | {"name": names[found["name"]]} if found.get("name") in names else changed

    return Schema.from_json(change(document))


@pytest.mark.parametrize("start", [0, 1, 2, 3])
def test_nested_names_of_now(start: int) -> None:
    batch = pa.RecordBatch.from_pylist(ROWS, WRITTEN.to_arrow()).slice(start)
    found = projected(batch, renamed("deep"))
    found.validate(full=True)
    expected: list[dict[str, Any]] = [
        {
            "id": 1,
            "place": {"city": "Bern", "code": 3000},
            "tags": [{"key": "a", "v": 1}, None],
            "more": [("m", {"z": 1, "y": 2})],
        },
        {"id": 2, "place": None, "tags": None, "more": None},
        {"id": 3, "place": {"city": None, "code": None}, "tags": [], "more": []},
        {
            "id": 4,
            "place": {"city": "Thun", "code": 3600},
            "tags": [{"key": None, "v": 2}],
            "more": [("n", None)],
        },
    ]
    assert found.to_pylist() == expected[start:]


def test_what_has_its_name_is_not_copied() -> None:
    batch = pa.RecordBatch.from_pylist(ROWS, WRITTEN.to_arrow())
    found = projected(batch, renamed("top"))
    assert found.schema.names == ["id", "where", "tags", "more"]
    assert found["tags"].buffers()[1].address == batch["tags"].buffers()[1].address


def test_files_without_ids_go_by_name() -> None:
    batch = pa.RecordBatch.from_pylist([{"id": 1, "other": 2}])
    assert projected(batch, WRITTEN).to_pylist() == [{"id": 1}]


def written(path: Path, schema: Schema, **options: Any) -> TableReader:
    table = pa.table({"id": pa.array(range(1000), pa.int64())}).cast(
        pa.schema([schema.to_arrow().field("id")])
    )
    pq.write_table(table, path / "f.parquet", **options)
    return TableReader((KeyedPlace(str(path), None),), schema, {0: frozenset({2})})


@pytest.mark.parametrize(
    ("start", "end"), [(0, 1000), (0, 1), (999, 1000), (99, 101), (150, 420), (300, 400)]
)
def test_parts_of_files(tmp_path: Path, start: int, end: int) -> None:
    reader = written(tmp_path, numbered(("id", "long")), row_group_size=100)
    batches = list(reader.read([Slice(f"{tmp_path}/f.parquet", 0, start, end, "parquet/0/5")]))
    for batch in batches:
        assert batch.rows is not None
        assert batch.rows["id"].to_pylist() == batch.offsets.to_pylist()
    assert [offset for batch in batches for offset in batch.offsets.to_pylist()] == list(range(start, end))


def test_columns_that_are_in_the_partition_alone(tmp_path: Path) -> None:
    reader = written(tmp_path, numbered(("id", "long"), ("day", "date")))
    with pytest.raises(Unsupported, match=r"f\.parquet does not hold the column day"):
        list(reader.read([Slice(f"{tmp_path}/f.parquet", 0, 0, 10, "parquet/0/5")]))
    assert list(reader.read([Slice(f"{tmp_path}/f.parquet", 0, 0, 10, "parquet/1/5")]))


@pytest.mark.parametrize("kind", ["parquet", "orc", "avro"])
def test_files_that_are_damaged_or_gone(tmp_path: Path, kind: str) -> None:
    (tmp_path / "bad").write_bytes(b"Obj\x01PAR1 nothing of that")
    reader = TableReader((KeyedPlace(str(tmp_path), None),), WRITTEN, {})
    for name in ("bad", "gone"):
        with pytest.raises(StorageError, match=f"{tmp_path}/{name}"):
            list(reader.read([Slice(f"{tmp_path}/{name}", 0, 0, 10, f"{kind}/0/5")]))


def test_the_place_of_a_file() -> None:
    own, data = KeyedPlace("s3://b/t1", None), KeyedPlace("s3://b/t1/far", None)
    assert nearest((own, data), "s3://b/t1/x") is own
    assert nearest((own, data), "s3://b/t1/far/x") is data
    assert nearest((own, data), "s3://b/t10/x") is own
