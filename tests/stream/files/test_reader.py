from __future__ import annotations

import gzip
import io
import json
import uuid
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from backports import zstd
from tests.stream.files.support import put, whole

from frazil.core.errors import BadRecord
from frazil.stream.config.model import AvroFormat, CsvFormat, Format, JsonFormat, ParquetFormat, RawFormat
from frazil.stream.files import lines as lines_module
from frazil.stream.files import plan as plan_module
from frazil.stream.files import reader as reader_module
from frazil.stream.files.found import FoundFile
from frazil.stream.files.plan import slices_of, tasks_of
from frazil.stream.files.reader import FileReader
from frazil.stream.source import RawBatch, Slice

JSON = JsonFormat()
HEADED = CsvFormat(header=True)


def read(path: Path, form: Format = JSON, *slices: Slice) -> list[RawBatch]:
    return list(FileReader(str(path.parent), {}, form).read(slices or [whole(path)]))


def numbered(batches: list[RawBatch]) -> list[tuple[int, bytes]]:
    return [
        pair
        for batch in batches
        for pair in zip(batch.offsets.to_pylist(), batch.values.to_pylist(), strict=True)
    ]


def rows(batches: list[RawBatch]) -> list[dict[str, Any]]:
    found = []
    for batch in batches:
        assert batch.rows is not None
        assert batch.values.null_count == len(batch) == len(batch.rows)
        found += batch.rows.to_pylist()
    return found


def test_what_a_batch_says(tmp_path: Path) -> None:
    path = put(tmp_path, "a.json", '{"a":1}\n\n{"a":2}')
    (batch,) = read(path)
    assert (batch.topic, batch.partition, batch.slice_start) == (str(path), 0, 0)
    assert batch.values.to_pylist() == [b'{"a":1}', b'{"a":2}']
    assert batch.offsets.to_pylist() == [0, 2]
    assert batch.timestamps.to_pylist() == [path.stat().st_mtime_ns // 1_000_000] * 2
    assert batch.header is batch.rows is batch.keys is None


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("text", ['{"a":1}\n{"a":2}\n', '[{"a":1},\n{"a":2}]', ' \n [{"a":1}, {"a":2}]\n'])
@pytest.mark.parametrize("ending", ["", ".gz", ".zst"])
def test_json(tmp_path: Path, mark: bytes, text: str, ending: str) -> None:
    data = mark + text.encode()
    packed = {"": data, ".gz": gzip.compress(data), ".zst": zstd.compress(data)}[ending]
    path = put(tmp_path, f"a.json{ending}", packed)
    assert [value for _, value in numbered(read(path))] == [b'{"a":1}', b'{"a":2}']


def test_compressed_in_several_members(tmp_path: Path) -> None:
    path = put(tmp_path, "a.gz", gzip.compress(b"1\n2") + gzip.compress(b"3\n4\n"))
    assert [value for _, value in numbered(read(path))] == [b"1", b"23", b"4"]


@pytest.mark.parametrize(
    ("name", "data", "form", "reason"),
    [
        ("a.json.gz", gzip.compress(b"1\n" * 1000, mtime=0)[:-9], JSON, "cannot be read as gzip: Truncated"),
        ("a.json.gz", b"not compressed\n", JSON, "cannot be read as gzip"),
        ("a.json.gz", gzip.compress(b"1\n", mtime=0) + b"rubbish", JSON, "cannot be read as gzip"),
        ("a.json.zst", zstd.compress(b"1\n" * 1000)[:-2], JSON, "cannot be read as zstd: Truncated"),
        ("a.parquet", b"x" * 100, ParquetFormat(), "cannot be read as parquet"),
        ("a.avro", b"x" * 100, AvroFormat(), "cannot be read as avro"),
        ("a.avro", b"Obj\x01" + b"\xff" * 50, AvroFormat(), "cannot be read as avro"),
        ("a.json", b"[1, 2", JSON, "begins as a JSON array"),
        ("a.csv", b"a,b\r1,x\r2,y\r", HEADED, "has no records, and .* a line end outside of quotes"),
        ("a.csv", b'a,"b\n1,x\n2,y\n', HEADED, "has no records, and .* a quote that is not closed"),
    ],
)
def test_broken_files_are_named(tmp_path: Path, name: str, data: bytes, form: Format, reason: str) -> None:
    path = put(tmp_path, name, data)
    with pytest.raises(BadRecord, match=rf"the file {path} {reason}") as caught:
        read(path, form)
    # There is nothing before it that could land without the rest of the file.
    assert caught.value.position is None


def test_csv(tmp_path: Path) -> None:
    path = put(tmp_path, "a.csv", 'a,b\r\n1,"x\r\ny"\r\n\r\n2,z')
    assert numbered(read(path, CsvFormat())) == [(0, b"a,b"), (1, b'1,"x\r\ny"'), (3, b"2,z")]
    batches = read(path, CsvFormat(header=True))
    assert numbered(batches) == [(1, b'1,"x\r\ny"'), (3, b"2,z")]
    assert {batch.header for batch in batches} == {b"a,b"}


def test_csv_with_nothing_but_a_header(tmp_path: Path) -> None:
    assert read(put(tmp_path, "a.csv", "a,b\n"), HEADED) == []
    assert read(put(tmp_path, "b.csv", '\ufeff"a\n(EUR)",b\r\n\r\n'), HEADED) == []


def test_every_batch_of_a_large_csv_has_the_header(tmp_path: Path) -> None:
    path = put(tmp_path, "a.csv.gz", gzip.compress(b"a\n" + b"1234567\n" * 1_000_000, 1))
    batches = read(path, CsvFormat(header=True))
    assert len(batches) > 10
    assert {batch.header for batch in batches} == {b"a"}
    assert [number for number, _ in numbered(batches)] == list(range(1, 1_000_001))


def test_raw(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = put(tmp_path, "a.gz", b"\x00\n\xff")
    assert numbered(read(path, RawFormat())) == [(0, b"\x00\n\xff")]
    monkeypatch.setattr(lines_module, "LARGEST_RECORD", 2)
    with pytest.raises(BadRecord, match="has a record of more than"):
        read(path, RawFormat())


def test_parquet(tmp_path: Path) -> None:
    table = pa.table({"a": range(200_000), "b": [str(number) for number in range(200_000)]})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=50_000)
    batches = read(tmp_path / "a.parquet", ParquetFormat())
    assert max(map(len, batches)) <= reader_module.BATCH_RECORDS
    assert rows(batches) == table.to_pylist()
    assert [number for number, _ in numbered(batches)] == list(range(200_000))


def test_batches_of_wide_rows_are_bounded(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": ["x" * 10_000] * 5000}), tmp_path / "a.parquet")
    batches = read(tmp_path / "a.parquet", ParquetFormat())
    assert sum(map(len, batches)) == 5000
    assert max(batch.rows.nbytes for batch in batches) < 1.5 * reader_module.BATCH_BYTES  # type: ignore[union-attr]


AVRO = {
    "type": "record",
    "name": "order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "local", "type": {"type": "long", "logicalType": "local-timestamp-millis"}},
        {"name": "day", "type": ["null", {"type": "int", "logicalType": "date"}]},
        {"name": "clock", "type": {"type": "long", "logicalType": "time-micros"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "uid", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "kind", "type": {"type": "enum", "name": "kind", "symbols": ["a", "b"]}},
        {"name": "again", "type": ["null", "kind"]},
        {"name": "hash", "type": {"type": "fixed", "name": "two", "size": 2}},
        {"name": "tags", "type": {"type": "array", "items": ["null", "string"]}},
        {"name": "counts", "type": {"type": "map", "values": "int"}},
        {
            "name": "place",
            "type": {"type": "record", "name": "place", "fields": [{"name": "x", "type": "double"}]},
        },
        {"name": "there", "type": ["null", "place"]},
        {"name": "ratio", "type": "float"},
        {"name": "ok", "type": "boolean"},
        {"name": "data", "type": "bytes"},
    ],
}
ORDER = {
    "id": 1,
    "at": datetime(2026, 11, 16, 1, 2, 3, 4, UTC),
    "local": datetime(2026, 11, 16, 1, 2, 3),  # noqa: DTZ001 - without a zone
    "day": date(2026, 11, 16),
    "clock": time(1, 2, 3, 4),
    "price": Decimal("12.34"),
    "uid": uuid.UUID(int=7),
    "kind": "a",
    "again": "b",
    "hash": b"ab",
    "tags": ["x", None],
    "counts": {"a": 1},
    "place": {"x": 1.5},
    "there": {"x": 2.5},
    "ratio": 0.5,
    "ok": True,
    "data": b"\x00",
}


def avro(schema: Any, records: list[dict[str, Any]], codec: str = "null") -> bytes:
    out = io.BytesIO()
    fastavro.writer(out, fastavro.parse_schema(schema), records, codec, sync_interval=1000)
    return out.getvalue()


@pytest.mark.parametrize("codec", ["null", "deflate", "snappy", "zstandard"])
def test_avro(tmp_path: Path, codec: str) -> None:
    empty = ORDER | {"day": None, "again": None, "there": None, "tags": [], "counts": {}}
    path = put(tmp_path, "a.avro", avro(AVRO, [ORDER, empty], codec))
    first, second = rows(read(path, AvroFormat()))
    assert dict(first["counts"]) == {"a": 1}
    assert first | {"counts": {"a": 1}} == ORDER
    assert second | {"counts": {}} == empty


def test_avro_in_batches(tmp_path: Path) -> None:
    schema = {"type": "record", "name": "r", "fields": [{"name": "a", "type": "int"}]}
    path = put(tmp_path, "a.avro", avro(schema, [{"a": number} for number in range(150_000)]))
    batches = read(path, AvroFormat())
    assert [len(batch) for batch in batches] == [65_536, 65_536, 18_928]
    assert [row["a"] for row in rows(batches)] == list(range(150_000))


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (["int", "string"], "a: a union of several types"),
        (["null", "r"], "a: the type r is not known there, or holds itself"),
    ],
)
def test_avro_that_has_no_columns(tmp_path: Path, kind: Any, reason: str) -> None:
    schema = {"type": "record", "name": "r", "fields": [{"name": "a", "type": kind}]}
    path = put(tmp_path, "a.avro", avro(schema, [{"a": 1 if "int" in kind else None}]))
    with pytest.raises(BadRecord, match=reason):
        read(path, AvroFormat())


@pytest.mark.parametrize("size", [7, 64, 1000])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_file_in_parts_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, end: str
) -> None:
    """Lines belong to the part in which they begin, wherever the cut is."""
    monkeypatch.setattr(plan_module, "PART_BYTES", size)
    monkeypatch.setattr(reader_module, "_CHUNK", 50)
    monkeypatch.setattr(reader_module, "_LOOK", 16)
    lines = [json.dumps({"a": "x" * (number * 7 % 40)}) for number in range(60)]
    path = put(tmp_path, "a.json", "\ufeff" + end.join(lines))
    found = path.stat()
    parts = slices_of(FoundFile(str(path), whole(path).version, found.st_size, 0), split=True)
    assert len(parts) == -(-found.st_size // size)
    batches = [batch for part in parts for batch in read(path, JSON, part)]
    assert [value.decode() for _, value in numbered(batches)] == lines
    places = [(b.partition, b.slice_start, number) for b in batches for number in b.offsets.to_pylist()]
    assert len(set(places)) == len(lines)


def test_an_array_in_parts_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_module, "PART_BYTES", 10)
    path = put(tmp_path, "a.json", json.dumps(list(range(100)), indent=1))
    parts = slices_of(FoundFile(str(path), whole(path).version, path.stat().st_size, 0), split=True)
    batches = [batch for part in parts for batch in read(path, JSON, part)]
    assert [int(value) for _, value in numbered(batches)] == list(range(100))


def test_tasks_are_even() -> None:
    sizes = [100, 1, 1, 1, 50, 50, 3, 200]
    slices = [Slice(str(number), 0, 0, size * 2**20) for number, size in enumerate(sizes)]
    tasks = tasks_of(slices, 2)
    assert sorted(part for task in tasks for part in task) == sorted(slices)
    loads = [sum(map(len, task)) for task in tasks]
    assert max(loads) - min(loads) <= 4 * 2**20
    assert all(list(task) == sorted(task, key=lambda part: int(part.topic)) for task in tasks)
    assert len(tasks_of(slices[1:4], 8)) == 1


def test_a_reader_left_in_the_middle_lets_go_of_its_files(tmp_path: Path) -> None:
    paths = [put(tmp_path, f"{number}.json", "1\n") for number in range(50)]
    before = len(list(Path("/proc/self/fd").iterdir()))
    batches = FileReader(str(tmp_path), {}, JSON).read([whole(path) for path in paths])
    next(batches)
    batches.close()  # type: ignore[attr-defined]
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_secrets_do_not_show() -> None:
    assert "hush" not in repr(FileReader("s3://b/p", {"s3.secret-access-key": "hush"}, JSON))
