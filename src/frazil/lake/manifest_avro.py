"""Manifest lists and manifests as the Avro files that they are, without the columns that nobody asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from io import BytesIO
from typing import Any

import fastavro

from frazil.core.errors import StorageError
from frazil.lake.storage import Inputs

_SYNC = 16


def read_manifest(storage: Inputs, path: str) -> bytes:
    with storage.open_input(path) as file, storage.reading(path):
        data: bytes = file.read()
        return data


def manifest_records(
    path: str, data: bytes, wanted: Set[str], of_file: Set[str] = frozenset(), *, later: Set[str]
) -> Iterator[Mapping[str, Any]]:
    """The records of a file, with the wanted fields and those of `data_file`; values without logical types.

    `later`: fields that not every version of the format has.
    """
    # fastavro reports damage with whatever its decoder tripped over, so the net is wide on purpose.
    try:
        plain = _without_logical_types(data)
        written = fastavro.reader(BytesIO(plain)).writer_schema
        schema = _pruned(written, wanted, of_file, later)
        yield from fastavro.reader(BytesIO(plain), reader_schema=schema)  # type: ignore[misc]
    except Exception as error:  # noqa: BLE001
        raise StorageError(f"read {path}: no manifest of Iceberg: {type(error).__name__}: {error}") from None


def _without_logical_types(data: bytes) -> bytes:
    """Partition values as the numbers and bytes that they are: Python's dates do not reach as far.

    The file's mark for the end of blocks, which are its last bytes, ends the header as well.
    """
    header, mark, blocks = data.partition(data[-_SYNC:])
    return header.replace(b'"logicalType"', b'"logicalTypX"') + mark + blocks


def _pruned(schema: Any, wanted: Set[str], of_file: Set[str], later: Set[str]) -> Any:
    """The writer's own schema without the rest: statistics of columns are most of a manifest."""
    kept = []
    for each in schema["fields"]:
        if each["name"] in wanted:
            kept.append(each)
        elif each["name"] == "data_file" and of_file:
            kept.append({**each, "type": _pruned(each["type"], of_file, frozenset(), later)})
    missing = wanted - later - {each["name"] for each in kept}
    if missing:
        raise ValueError(f"there is no {', '.join(sorted(missing))}")
    return {"type": "record", "name": schema["name"], "fields": kept}
