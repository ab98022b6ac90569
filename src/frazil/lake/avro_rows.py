"""Avro data files of a table as Arrow batches whose fields carry their ids."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, BinaryIO, TypeAlias, cast

import fastavro
import pyarrow as pa

from frazil.core.errors import StorageError
from frazil.core.schema import FIELD_ID

#: What Avro's own types are in Arrow.
PRIMITIVES: dict[str, pa.DataType] = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
_Convert: TypeAlias = Callable[[Any], Any]


def avro_batches(path: str, source: pa.NativeFile, records: int) -> Iterator[pa.RecordBatch]:
    """Rows in batches of so many."""
    # fastavro reports damage with whatever its decoder tripped over, so the net is wide on purpose.
    try:
        reader = fastavro.reader(cast("BinaryIO", source))
        kind, convert = _Types().of(json.loads(reader.metadata["avro.schema"]))
        rows: list[Any] = []
        for row in reader:
            rows.append(convert(row))
            if len(rows) == records:
                yield _batch(rows, kind)
                rows = []
        if rows:
            yield _batch(rows, kind)
    except OSError:
        raise
    except Exception as error:  # noqa: BLE001
        raise StorageError(f"read {path}: {type(error).__name__}: {error}") from None


def _batch(rows: list[Any], kind: pa.DataType) -> pa.RecordBatch:
    return pa.RecordBatch.from_struct_array(pa.array(rows, kind))


class _Types:
    """Arrow's type for one of Avro's, and what turns fastavro's values into those that Arrow takes."""

    def __init__(self) -> None:
        self._named: dict[str, Any] = {}

    def of(self, schema: Any) -> tuple[pa.DataType, _Convert]:
        if isinstance(schema, list):
            kind, convert = self.of(next((each for each in schema if each != "null"), "null"))
            return kind, lambda value: None if value is None else convert(value)
        if isinstance(schema, str):
            return (PRIMITIVES[schema], _same) if schema in PRIMITIVES else self.of(self._named[schema])
        if "name" in schema:
            self._named[schema["name"]] = schema
        match schema["type"]:
            case "record":
                return self._record(schema)
            case "array":
                return (
                    self._map_of_pairs(schema) if schema.get("logicalType") == "map" else self._list(schema)
                )
            case "map":
                return self._map(schema)
        return self._logical(schema)

    def _record(self, schema: Mapping[str, Any]) -> tuple[pa.DataType, _Convert]:
        parts = [(field, *self.of(field["type"])) for field in schema["fields"]]
        # Names that Avro does not allow are written in another way.
        names = {field["name"]: field.get("iceberg-field-name", field["name"]) for field, _, _ in parts}
        converts = {field["name"]: convert for field, _, convert in parts}
        fields = [pa.field(names[field["name"]], kind, metadata=_metadata(field)) for field, kind, _ in parts]
        return pa.struct(fields), lambda value: {
            names[name]: convert(value[name]) for name, convert in converts.items()
        }

    def _list(self, schema: Mapping[str, Any]) -> tuple[pa.DataType, _Convert]:
        kind, convert = self.of(schema["items"])
        return pa.list_(pa.field("element", kind)), lambda value: [convert(each) for each in value]

    def _map(self, schema: Mapping[str, Any]) -> tuple[pa.DataType, _Convert]:
        kind, convert = self.of(schema["values"])
        return pa.map_(pa.string(), kind), lambda value: [(key, convert(each)) for key, each in value.items()]

    def _map_of_pairs(self, schema: Mapping[str, Any]) -> tuple[pa.DataType, _Convert]:
        """Where keys are no strings."""
        (key, to_key), (kind, convert) = (self.of(field["type"]) for field in schema["items"]["fields"])
        return pa.map_(key, kind), lambda value: [
            (to_key(pair["key"]), convert(pair["value"])) for pair in value
        ]

    def _logical(self, schema: Mapping[str, Any]) -> tuple[pa.DataType, _Convert]:
        match schema.get("logicalType"):
            case "decimal":
                return pa.decimal128(schema["precision"], schema.get("scale", 0)), _same
            case "uuid":
                return pa.binary(16), lambda value: value if isinstance(value, bytes) else value.bytes
            case "date":
                return pa.date32(), _same
            case "time-micros":
                return pa.time64("us"), _same
            case "timestamp-micros":
                return pa.timestamp("us", "UTC" if schema.get("adjust-to-utc", True) else None), _same
        if schema["type"] == "fixed":
            return pa.binary(schema["size"]), _same
        return self.of(schema["type"])


def _same(value: Any) -> Any:
    return value


def _metadata(field: Mapping[str, Any]) -> dict[bytes, bytes] | None:
    return {FIELD_ID: str(field["field-id"]).encode()} if "field-id" in field else None
