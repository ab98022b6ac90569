"""Columns of rows that come without a schema.

As `stream.decode.infer` has them, and: an object of `scale` and `value` is a decimal, whose scale differs
from value to value; a column of which all texts are base64, one of them with padding, is refused: it is a
decimal, of which nobody said the scale, or bytes, and must not become text unasked.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from frazil.core.schema import Schema, SchemaChange
from frazil.stream.cdc.decode.holes import Placeholder
from frazil.stream.cdc.decode.loose import loose, told
from frazil.stream.cdc.decode.rows import Columns, JsonRows
from frazil.stream.cdc.decode.shape import changed
from frazil.stream.cdc.decode.wire import Wire
from frazil.stream.config.model import DebeziumFormat
from frazil.stream.decode.text import base64_bytes

#: So many are looked at first: most batches have no other columns in the rest.
_SAMPLE = 1000
_ROUNDS = 8
REFUSED = (
    "looks like base64, and a message without schemas does not tell whether it is a decimal, nor its scale: "
    "name the column's type in `schema` (decimal(p, s), binary or string), set `decimal.handling.mode` to "
    "string or double in the connector, or turn schemas on there"
)


def loose_reader(
    schema: Schema, settings: DebeziumFormat, extra: Mapping[str, Wire], *, strict: bool
) -> JsonRows:
    """For rows of which only the table knows the types."""

    def wires(row: Mapping[str, Any]) -> Mapping[str, Wire]:
        return {field.name: loose(field, row.get(field.name), settings) for field in schema}

    return JsonRows(Columns(schema.fields, Placeholder(settings.placeholder)), wires, extra, strict=strict)


def inferred(
    schema: Schema, images: pa.BinaryArray, settings: DebeziumFormat, extra: Mapping[str, Wire]
) -> tuple[Schema, frozenset[str]]:
    """The schema with all columns that rows have, and those that it cannot get."""
    refused: set[str] = set()
    for part in (images[:_SAMPLE], images):
        for _ in range(_ROUNDS):
            more = {**extra, **dict.fromkeys(refused, Wire("string"))}
            rows, _ = loose_reader(schema, settings, more, strict=True).read(part)
            if not rows.changes:
                break
            refused |= _unclear(rows.changes, part, settings)
            kept = _kept(rows.changes, refused, settings)
            schema = changed(schema, kept) if kept else schema
    return schema, frozenset(refused)


def _kept(
    changes: tuple[SchemaChange, ...], refused: set[str], settings: DebeziumFormat
) -> list[SchemaChange]:
    declared = {field.name: field.type for field in settings.columns or ()}
    found = []
    for change in changes:
        if change.path[0] in refused:
            continue
        if change.path[0] in declared:
            found.append(SchemaChange(change.path[:1], declared[change.path[0]]))
        else:
            found.append(replace(change, type=told(change.type)))
    return found


def _unclear(changes: tuple[SchemaChange, ...], images: pa.BinaryArray, settings: DebeziumFormat) -> set[str]:
    declared = {field.name for field in settings.columns or ()}
    names = {
        change.path[0] for change in changes if change.type == "string" and len(change.path) == 1
    } - declared
    if not names or settings.decimals == "string":
        return set()
    texts: dict[str, list[str]] = {name: [] for name in names}
    for image in images[:_SAMPLE].to_pylist():
        row = _object(image)
        for name in names:
            if isinstance(row.get(name), str):
                texts[name].append(row[name])
    return {name for name, found in texts.items() if _is_base64(found)}


def _object(image: bytes) -> dict[str, Any]:
    try:
        row = json.loads(image)
    except (ValueError, RecursionError):
        return {}
    return row if isinstance(row, dict) else {}


def _is_base64(texts: list[str]) -> bool:
    padded = any(text.endswith("=") for text in texts)
    return padded and all(text and base64_bytes(text) is not None for text in texts)
