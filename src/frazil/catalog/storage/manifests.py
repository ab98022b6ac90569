"""Reading just the paths out of manifest lists and manifests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from io import BytesIO
from typing import Any

import fastavro

_DELETED = 2


class UnreadableAvro(Exception):
    """The bytes are not an Avro file of the expected shape; trying again will not help."""


def manifest_paths(data: bytes) -> Iterator[str]:
    """The manifests that a manifest list names."""
    for record in _records(data, {"manifest_path": None}):
        yield _text(record, "manifest_path")


def live_file_paths(data: bytes) -> Iterator[str]:
    """The data and delete files that a manifest holds live; one Puffin file may come several times."""
    for record in _records(data, {"status": None, "data_file": {"file_path": None}}):
        if record["status"] != _DELETED:
            yield _text(record["data_file"], "file_path")


def _records(data: bytes, wanted: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    # fastavro reports damage with whatever its decoder tripped over, so the net is wide on purpose.
    try:
        header = fastavro.reader(BytesIO(data))
        schema = _prune(header.writer_schema, wanted)
        for record in fastavro.reader(BytesIO(data), reader_schema=schema):
            if not isinstance(record, dict):
                raise UnreadableAvro("a record was expected")
            yield record
    except UnreadableAvro:
        raise
    except Exception as error:  # noqa: BLE001
        raise UnreadableAvro(f"{type(error).__name__}: {error}"[:200]) from None


def _prune(schema: Any, wanted: Mapping[str, Any]) -> Any:
    """The writer's own schema (names differ between writers) cut down to the wanted fields."""
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise UnreadableAvro("the schema is not a record")
    kept = []
    for field in schema["fields"]:
        if field["name"] in wanted:
            below = wanted[field["name"]]
            kept.append({**field, "type": _prune(field["type"], below)} if below else field)
    missing = set(wanted) - {field["name"] for field in kept}
    if missing:
        raise UnreadableAvro(f"the schema lacks {', '.join(sorted(missing))}")
    return {"type": "record", "name": schema["name"], "fields": kept}


def _text(record: Mapping[str, Any], name: str) -> str:
    value = record[name]
    if not isinstance(value, str):
        raise UnreadableAvro(f"{name} is not a string")
    return value
