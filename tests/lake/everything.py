"""A table with every type of Iceberg, and rows with the values that are easy to get wrong."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa

from frazil.core.partitioning import parse_partitioning
from frazil.core.schema import Field, Schema, parse_type
from frazil.lake.catalog import Lake
from frazil.lake.commit import content_json
from frazil.lake.files import DataFile, FileOptions
from frazil.lake.storage import FileStorage
from frazil.lake.table import LakeTable
from frazil.lake.writer import TableWriter

_numbers = itertools.count(1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC).replace(tzinfo=None)

#: One value for each of the rows, whose number is the index.
COLUMNS: dict[str, tuple[str, Sequence[Any]]] = {
    "b": ("boolean", [True, False, None, True]),
    "i": ("int", [-(2**31), 2**31 - 1, None, 0]),
    "l": ("long", [-(2**63), 2**63 - 1, None, -1]),
    "f": ("float", [-0.0, 3.5, None, float("nan")]),
    "d": ("double", [float("nan"), 0.0, None, -1e300]),
    "dec9": ("decimal(9, 2)", [Decimal("-1.28"), Decimal("9999999.99"), None, Decimal("1.29")]),
    "dec18": (
        "decimal(18, 4)",
        [Decimal("-1.2800"), Decimal("99999999999999.9999"), None, Decimal("0.0000")],
    ),
    "dec38": ("decimal(38, 6)", [Decimal("-1.280000"), Decimal(f"{10**31}.000001"), None, None]),
    "day": ("date", [date(1969, 12, 31), date(2024, 2, 29), None, date(1583, 1, 1)]),
    "ts": ("timestamp", [_EPOCH - timedelta(microseconds=1), _EPOCH + timedelta(days=19_782), None, _EPOCH]),
    "tz": ("timestamptz", [datetime(1969, 1, 1, tzinfo=UTC), datetime(2024, 2, 29, tzinfo=UTC), None, None]),
    "s": ("string", ["", "a" * 15 + "\U0010ffff" * 2, None, "é🦊" * 12]),
    "u": (
        "uuid",
        [uuid.UUID(int=1), uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7"), None, uuid.UUID(int=0)],
    ),
    "fx": ("fixed[20]", [b"\xff" * 20, b"\x00" * 20, None, b"\x80" * 20]),
    "bin": ("binary", [b"", b"\xff" * 17, None, b"\x00" * 17]),
    "none": ("string", [None, None, None, None]),
    "st": (
        "struct<x: double, y: struct<z: string>>",
        [
            {"x": 1.5, "y": {"z": "long enough to be truncated"}},
            {"x": None, "y": None},
            None,
            {"x": float("nan"), "y": {"z": None}},
        ],
    ),
    "li": ("list<double>", [[1.5, None], [], None, [2.5]]),
    "lu": ("list<uuid>", [[uuid.UUID(int=5).bytes], [], None, []]),
    "m": ("map<string, long>", [[("k", 1), ("j", None)], [], None, [("k", 2)]]),
    "ls": ("list<struct<q: int, w: list<string>>>", [[{"q": 1, "w": ["x", None]}], None, [], [None]]),
}
ROWS = 4
SCHEMA = Schema(
    (
        Field("n", "long", required=True),
        *(Field(name, parse_type(kind)) for name, (kind, _) in COLUMNS.items()),
    )
)


def rows(*numbers: int, schema: Schema = SCHEMA) -> pa.RecordBatch:
    """Those rows; `n` is the number."""
    arrow = schema.to_arrow()
    columns = []
    for field in arrow:
        values: list[Any] = (
            list(numbers) if field.name == "n" else [COLUMNS[field.name][1][n % ROWS] for n in numbers]
        )
        if field.name == "u":
            values = [None if value is None else value.bytes for value in values]
        columns.append(pa.array(values, field.type))
    return pa.RecordBatch.from_arrays(columns, schema=arrow)


def make(lake: Lake, schema: Schema = SCHEMA, partitioning: Sequence[str] = ()) -> LakeTable:
    return lake.create(("writer",), f"t{next(_numbers)}", schema, parse_partitioning(partitioning))


def write(
    table: LakeTable, *batches: pa.RecordBatch, options: FileOptions | None = None, number: int = 0
) -> list[DataFile]:
    target = table.write_target(options or FileOptions())
    storage = FileStorage.of(target.location, None)
    writer = TableWriter(target, storage, f"{target.location}/p/000001/00000001-t-{number:05d}")
    for batch in batches:
        writer.write(batch)
    return writer.close()


def append(table: LakeTable, files: Sequence[DataFile]) -> None:
    """By Iceberg's own parser of files."""
    change = table.java.newAppend()
    for file in files:
        tree = table.lake.json.readTree(msgspec.json.encode(content_json(file)).decode())
        change.appendFile(table.lake.iceberg.ContentFileParser.fromJson(tree, table.java.specs()))
    change.commit()
