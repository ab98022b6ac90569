from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from frazil.core.errors import Unsupported
from frazil.core.partitioning import PartitionField, PartitionSpec, bind, parse_partitioning
from frazil.core.schema import Field, Schema, StructType
from frazil.lake import writer as writer_module
from frazil.lake.files import DataFile, WriteTarget
from frazil.lake.partitions import Partitioner
from frazil.lake.storage import FileStorage
from frazil.lake.writer import TableWriter

SCHEMA = Schema(
    (
        Field("n", "long"),
        Field("at", "timestamptz"),
        Field("word", "string"),
        Field("s", StructType((Field("x", "int"),))),
    )
).with_fresh_ids()
DAY = 86_400_000_000


def spec(*texts: str) -> PartitionSpec:
    return bind(parse_partitioning(texts), SCHEMA)


def rows(numbers: list[int], days: list[int | None], words: list[str | None]) -> pa.RecordBatch:
    at = [None if day is None else day * DAY for day in days]
    columns = [
        pa.array(numbers),
        pa.array(at, pa.int64()).cast(pa.timestamp("us", "UTC")),
        pa.array(words, pa.string()),
    ]
    structs = pa.array([{"x": number % 2} for number in numbers], SCHEMA.to_arrow().field("s").type)
    return pa.RecordBatch.from_arrays([*columns, structs], schema=SCHEMA.to_arrow())


def written(folder: Path, spec: PartitionSpec, *batches: pa.RecordBatch) -> list[DataFile]:
    location = f"file://{folder}"
    writer = TableWriter(WriteTarget(location, SCHEMA, spec), FileStorage.of(location, None), f"{location}/t")
    for batch in batches:
        writer.write(batch)
    return writer.close()


def numbers(file: DataFile) -> list[int]:
    found: list[int] = pq.read_table(file.path.removeprefix("file://"), partitioning=None)["n"].to_pylist()
    return found


def test_one_file_for_each_partition_in_order(tmp_path: Path) -> None:
    files = written(
        tmp_path,
        spec("day(at)", "word"),
        rows([1, 2, 3, 4, 5], [0, 1, 0, None, 0], ["a", "a", "a", None, "b"]),
        rows([6, 7], [0, 1], ["a", "a"]),
    )
    found = {tuple(file.partition.values()): numbers(file) for file in files}
    assert found == {
        ("1970-01-01", "a"): [1, 3, 6],
        ("1970-01-02", "a"): [2, 7],
        (None, None): [4],
        ("1970-01-01", "b"): [5],
    }
    assert all(list(file.partition) == [1000, 1001] for file in files)
    assert len({file.path for file in files}) == len(files)


def test_one_partition_is_not_copied() -> None:
    batch = rows([1, 2], [5, 5], ["a", "b"])
    ((partition, part),) = Partitioner(spec("day(at)"), SCHEMA).split(batch)
    assert part is batch
    assert partition.values == {1000: "1970-01-06"}
    ((_, part),) = Partitioner(PartitionSpec(), SCHEMA).split(batch)
    assert part is batch


def test_a_struct_field_and_a_dropped_column(tmp_path: Path) -> None:
    inner = SCHEMA.field("s").type
    assert isinstance(inner, StructType)
    fields = (
        PartitionField("s.x", "identity", "x", inner.fields[0].id, 1000),
        PartitionField("", "void", "gone", 99, 1001),
    )
    files = written(tmp_path, PartitionSpec(fields, 3), rows([1, 2, 3], [0, 0, 0], ["a", "a", "a"]))
    assert [(file.partition, numbers(file)) for file in files] == [
        ({1000: 0, 1001: None}, [2]),
        ({1000: 1, 1001: None}, [1, 3]),
    ] or [(file.partition, numbers(file)) for file in files] == [
        ({1000: 1, 1001: None}, [1, 3]),
        ({1000: 0, 1001: None}, [2]),
    ]
    assert {file.spec_id for file in files} == {3}
    with pytest.raises(Unsupported, match="'gone' is made of a column that the table does not have"):
        Partitioner(PartitionSpec((PartitionField("", "identity", "gone", 99, 1000),)), SCHEMA)


def test_zeros_of_both_signs_stay_apart() -> None:
    schema = Schema((Field("d", "double", id=1),))
    by = PartitionSpec((PartitionField("d", "identity", "d", 1, 1000),))
    found = list(Partitioner(by, schema).split(pa.record_batch({"d": [0.0, -0.0, 0.0]})))
    assert sorted((str(partition.values[1000]), part.num_rows) for partition, part in found) == [
        ("-0.0", 1),
        ("0.0", 2),
    ]


def test_memory_and_open_files_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_module, "HELD_BYTES", 20_000)
    monkeypatch.setattr(writer_module, "OPEN_FILES", 3)
    location = f"file://{tmp_path}"
    target = WriteTarget(location, SCHEMA, spec("word"))
    writer = TableWriter(target, FileStorage.of(location, None), f"{location}/t")
    random = np.random.default_rng(7)
    wanted: dict[str, list[int]] = {}
    for start in range(0, 10_000, 100):
        ids = list(range(start, start + 100))
        words = [f"w{n}" for n in random.integers(0, 10, 100)]
        for number, word in zip(ids, words, strict=True):
            wanted.setdefault(word, []).append(number)
        writer.write(rows(ids, [0] * 100, list(words)))
        assert sum(file.held for file in writer._files.values()) == writer._held <= 20_000
        assert sum(file.is_open for file in writer._files.values()) <= 3
    files = writer.close()
    assert len(files) > 10
    found: dict[str, list[int]] = {}
    for file in files:
        found.setdefault(file.partition[1000], []).extend(numbers(file))
    assert {word: sorted(ids) for word, ids in found.items()} == wanted


def test_many_combinations_do_not_overflow() -> None:
    schema = Schema(tuple(Field(f"c{n}", "long", id=n + 1) for n in range(8)))
    by = PartitionSpec(tuple(PartitionField(f"c{n}", "identity", f"c{n}", n + 1, 1000 + n) for n in range(8)))
    values = list(range(300))
    batch = pa.record_batch({f"c{n}": values for n in range(8)})
    found = list(Partitioner(by, schema).split(batch))
    assert sorted(next(iter(partition.values.values())) for partition, _ in found) == values
    assert all(len(set(part.to_pylist()[0].values())) == 1 == part.num_rows for _, part in found)
