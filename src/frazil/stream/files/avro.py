"""Avro's object container files as Arrow batches."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO, cast

import fastavro
import pyarrow as pa

from frazil.core.errors import BadRecord, FrazilError
from frazil.lake.avro_rows import PRIMITIVES
from frazil.stream.files.found import Seekable, broken

#: Those that fastavro turns into Python's own; others stay what they are stored as.
_LOGICAL: dict[tuple[str, str], pa.DataType] = {
    ("int", "date"): pa.date32(),
    ("int", "time-millis"): pa.time32("ms"),
    ("long", "time-micros"): pa.time64("us"),
    ("long", "timestamp-millis"): pa.timestamp("ms", "UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", "UTC"),
    ("long", "local-timestamp-millis"): pa.timestamp("ms"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
    ("string", "uuid"): pa.uuid(),
}


def avro_batches(path: str, source: Seekable, records: int) -> Iterator[pa.RecordBatch]:
    """Rows in batches of at most so many, by the schema that the file has."""
    try:
        yield from _batches(path, source, records)
    except FrazilError:
        raise
    except Exception as error:  # noqa: BLE001 - see below
        # fastavro has no error of its own for a damaged file: it raises whatever it stumbles over.
        raise broken(path, f"cannot be read as avro: {type(error).__name__}: {error}") from None


def _batches(path: str, source: Seekable, records: int) -> Iterator[pa.RecordBatch]:
    blocks = fastavro.block_reader(cast("BinaryIO", io.BufferedReader(source, 4 * 1024 * 1024)))
    schema = arrow_schema(path, blocks.writer_schema)
    rows: list[Any] = []
    for block in blocks:
        for row in block:
            rows.append(row)
            if len(rows) == records:
                yield pa.RecordBatch.from_pylist(rows, schema)
                rows = []
    if rows:
        yield pa.RecordBatch.from_pylist(rows, schema)


def arrow_schema(path: str, schema: Any) -> pa.Schema:
    """The columns of a record schema. BadRecord: it has something that is no column."""
    if not (isinstance(schema, Mapping) and schema.get("type") == "record"):
        raise broken(path, "holds no Avro records, so there are no columns to read")
    kind = _Types(path).of(schema, "", ())
    return pa.schema(list(kind))


class _Types:
    def __init__(self, path: str) -> None:
        self._path = path
        self._named: dict[str, Any] = {}

    def of(self, schema: Any, where: str, inside: tuple[str, ...]) -> pa.DataType:
        if isinstance(schema, list):
            return self._union(schema, where, inside)
        if isinstance(schema, str):
            if schema in PRIMITIVES:
                return PRIMITIVES[schema]
            if schema in inside or schema not in self._named:
                raise self._impossible(where, f"the type {schema} is not known there, or holds itself")
            return self.of(self._named[schema], where, inside)
        kind = schema["type"]
        if kind in ("record", "enum", "fixed"):
            self._named[schema["name"]] = schema
        return self._complex(kind, schema, where, inside)

    def _complex(self, kind: Any, schema: Any, where: str, inside: tuple[str, ...]) -> pa.DataType:
        if kind == "record":
            within = (*inside, schema["name"])
            return pa.struct(
                [
                    pa.field(field["name"], self.of(field["type"], f"{where}.{field['name']}", within))
                    for field in schema["fields"]
                ]
            )
        if kind == "array":
            return pa.list_(self.of(schema["items"], f"{where}.element", inside))
        if kind == "map":
            return pa.map_(pa.string(), self.of(schema["values"], f"{where}.value", inside))
        if kind == "enum":
            return pa.string()
        logical = schema.get("logicalType")
        if logical == "decimal" and kind in ("bytes", "fixed"):
            return pa.decimal128(schema["precision"], schema.get("scale", 0))
        if kind == "fixed":
            return pa.binary(schema["size"])
        return _LOGICAL.get((kind, logical)) or self.of(kind, where, inside)

    def _union(self, schema: list[Any], where: str, inside: tuple[str, ...]) -> pa.DataType:
        others = [each for each in schema if each != "null"]
        if len(others) > 1:
            raise self._impossible(where, "a union of several types is no column")
        return self.of(others[0] if others else "null", where, inside)

    def _impossible(self, where: str, reason: str) -> BadRecord:
        field = where.removeprefix(".") or "the record"
        return broken(self._path, f"cannot be read into columns: {field}: {reason}")
