from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from frazil.core.errors import InvalidInput, StorageError
from frazil.core.partitioning import PartitionSpec
from frazil.core.schema import FIELD_ID, Field, Schema
from frazil.lake.files import FileOptions, WriteTarget
from frazil.lake.storage import FileStorage
from frazil.lake.writer import TableWriter

ORDERS = Schema(
    (Field("id", "long", required=True), Field("status", "string"), Field("at", "timestamptz"))
).with_fresh_ids()


def opened(folder: Path, schema: Schema = ORDERS, options: FileOptions | None = None) -> TableWriter:
    location = f"file://{folder}/data"
    target = WriteTarget(location, schema, PartitionSpec(), options or FileOptions())
    return TableWriter(target, FileStorage.of(location, None), f"{location}/p/000001/00000001-t-00000")


def orders(*ids: int) -> pa.RecordBatch:
    rows = [{"id": i, "status": f"s{i % 3}", "at": i * 1_000_000} for i in ids]
    return pa.RecordBatch.from_pylist(rows, schema=ORDERS.to_arrow())


def read(path: str) -> pa.Table:
    return pq.read_table(path.removeprefix("file://"), partitioning=None)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def test_small_batches_make_one_row_group(tmp_path: Path) -> None:
    writer = opened(tmp_path)
    for start in range(0, 100, 10):
        writer.write(orders(*range(start, start + 10)))
    (file,) = writer.close()
    assert file.path == f"file://{tmp_path}/data/p/000001/00000001-t-00000-000.parquet"
    assert (file.records, file.spec_id, file.partition, file.split_offsets) == (100, 0, {}, (4,))
    assert file.size == Path(file.path.removeprefix("file://")).stat().st_size
    assert file.metrics.value_counts == {1: 100, 2: 100, 3: 100}
    assert file.metrics.lower_bounds[1] == bytes(8)
    assert file.metrics.upper_bounds[2] == b"s2"
    found = read(file.path)
    assert found.column("id").to_pylist() == list(range(100))
    assert [field.metadata[FIELD_ID] for field in found.schema] == [b"1", b"2", b"3"]


def test_nothing_makes_no_file(tmp_path: Path) -> None:
    writer = opened(tmp_path)
    writer.write(orders())
    assert writer.close() == []
    assert names(tmp_path) == []


def test_abort_removes_open_and_finished_files(tmp_path: Path) -> None:
    writer = opened(tmp_path, options=FileOptions(size=1000))
    for start in range(0, 3000, 500):
        writer.write(orders(*range(start, start + 500)))
    writer.write(orders(1))
    assert len(names(tmp_path)) > 1
    writer.abort()
    writer.abort()
    assert names(tmp_path) == []


def test_files_roll_near_their_size(tmp_path: Path) -> None:
    writer = opened(tmp_path, options=FileOptions(size=4000))
    for start in range(0, 20_000, 50):
        writer.write(orders(*range(start, start + 50)))
    files = writer.close()
    assert len(files) > 2
    assert all(2000 < file.size < 8000 for file in files[:-1])
    assert [n for file in files for n in read(file.path).column("id").to_pylist()] == list(range(20_000))


def test_columns_go_by_name_and_types_are_cast(tmp_path: Path) -> None:
    writer = opened(tmp_path)
    rows = {
        "at": pa.array([5], pa.timestamp("ms", tz="Europe/Paris")),
        "more": ["x"],
        "id": pa.array([7], pa.int32()),
    }
    writer.write(pa.record_batch(rows))
    (file,) = writer.close()
    (row,) = read(file.path).to_pylist()
    assert (row["id"], row["status"], row["at"].microsecond) == (7, None, 5000)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"status": ["x"]}, "'id' is missing; the rows have: status"),
        ({"id": [1, None]}, "'id' is required, but 1 of 2 rows"),
        ({"id": ["x"]}, "'id' is string and cannot become int64"),
        ({"id": [1.5]}, "'id' is double"),
    ],
)
def test_rows_that_do_not_fit(tmp_path: Path, rows: dict[str, list[object]], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        opened(tmp_path).write(pa.record_batch(rows))


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        ("struct", {"a": None}, "'c.a' is required"),
        ("list", [1, None], "'c.element' is required"),
        ("map", [("k", None)], "'c.value' is required"),
    ],
)
def test_required_inside(tmp_path: Path, kind: str, value: object, message: str) -> None:
    kinds = {
        "struct": {"type": "struct", "fields": [{"id": 2, "name": "a", "required": True, "type": "int"}]},
        "list": {"type": "list", "element-id": 2, "element": "int", "element-required": True},
        "map": {
            "type": "map",
            "key-id": 2,
            "key": "string",
            "value-id": 3,
            "value": "int",
            "value-required": True,
        },
    }
    schema = Schema.from_json({"fields": [{"id": 1, "name": "c", "required": False, "type": kinds[kind]}]})
    writer = opened(tmp_path, schema)
    plain = pa.schema([("c", _nullable(schema.to_arrow().field(0).type))])
    writer.write(pa.RecordBatch.from_pylist([{"c": None}], schema=plain))
    with pytest.raises(InvalidInput, match=message):
        writer.write(pa.RecordBatch.from_pylist([{"c": value}], schema=plain))
    (file,) = writer.close()
    assert read(file.path).to_pylist() == [{"c": None}]


def _nullable(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(kind.field(0).name, kind.field(0).type)])
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, kind.item_type)
    return pa.list_(kind.value_type)


def test_a_place_that_cannot_be_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file where a folder should be")
    writer = opened(tmp_path)
    writer.write(orders(1))
    with pytest.raises(StorageError, match="write file:"):
        writer.close()


def test_a_close_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = opened(tmp_path, options=FileOptions(size=1000))
    for start in range(0, 3000, 500):
        writer.write(orders(*range(start, start + 500)))
    writer.write(orders(1))

    def refuse(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", refuse)
    with pytest.raises(StorageError, match="No space left on device"):
        writer.close()
    assert names(tmp_path) == []


def test_a_large_batch_is_cut_into_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("frazil.lake.writer.GROUP_BYTES", 1000)
    monkeypatch.setattr("frazil.lake.row_file.GROUP_BYTES", 1000)
    writer = opened(tmp_path)
    writer.write(orders(*range(1000)))
    (file,) = writer.close()
    assert len(file.split_offsets) > 10
    assert read(file.path).column("id").to_pylist() == list(range(1000))


def test_a_batch_that_fits_is_taken_as_it_is(tmp_path: Path) -> None:
    writer = opened(tmp_path)
    batch = orders(1, 2)
    writer.write(batch)
    (file,) = writer._files.values()
    assert file._held[0] is batch
    writer.abort()


def test_a_dictionary_only_where_values_come_again(tmp_path: Path) -> None:
    writer = opened(tmp_path)
    writer.write(orders(*range(1000)))
    (file,) = writer.close()
    group = pq.read_metadata(file.path.removeprefix("file://")).row_group(0)
    assert [group.column(number).has_dictionary_page for number in range(3)] == [False, True, False]
    assert {group.column(number).compression for number in range(3)} == {"ZSTD"}
