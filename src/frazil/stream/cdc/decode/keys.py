"""Keys of messages in JSON: which columns they are, and their values where a row does not come along."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from frazil.core.errors import InvalidConfig
from frazil.core.schema import Field
from frazil.stream.cdc.decode.groups import schema_groups
from frazil.stream.cdc.decode.holes import Placeholder
from frazil.stream.cdc.decode.loose import loose
from frazil.stream.cdc.decode.rows import Columns, JsonRows, Rows, joined
from frazil.stream.cdc.decode.trouble import Longs
from frazil.stream.cdc.decode.wire import Wire
from frazil.stream.cdc.decode.wire_schema import connect_wire
from frazil.stream.config.model import DebeziumFormat
from frazil.stream.source import RawBatch

#: So many keys are asked for their names: one that is broken must not decide for all.
_SAMPLE = 20


class JsonKeys:
    """Reads the keys of some messages."""

    def __init__(self, settings: DebeziumFormat) -> None:
        self._settings = settings
        self._placeholder = Placeholder(settings.placeholder)
        self._readers: dict[tuple[bytes, tuple[Field, ...]], JsonRows] = {}

    def names(self, raw: RawBatch) -> tuple[str, ...]:
        """Fields of the keys of a batch, of most of the first ones; none: its messages have no keys."""
        if raw.keys is None:
            return ()
        found = Counter(map(_names, raw.keys.drop_null()[:_SAMPLE].to_pylist()))
        del found[()]
        return found.most_common(1)[0][0] if found else ()

    def read(self, keys: pa.BinaryArray, places: Longs, fields: tuple[Field, ...]) -> Rows | None:
        """Columns of those that have a key, at their places; None: there are none."""
        parts = []
        for group in schema_groups(keys):
            if group.broken:
                continue
            reader = self._readers.get((group.head, fields))
            if reader is None:
                try:
                    reader = self._reader(group.schema(), fields)
                except InvalidConfig:
                    continue
                self._readers[group.head, fields] = reader
            rows, _ = reader.read(group.payload)
            parts.append(_moved(rows, places[group.places]))
        return joined(parts) if parts else None

    def _reader(self, schema: Any, fields: tuple[Field, ...]) -> JsonRows:
        columns = Columns(fields, self._placeholder)
        if schema is not None:
            own = dict(connect_wire(schema).inner)
            return JsonRows(columns, lambda _: own, {}, strict=False)

        def wires(row: Mapping[str, Any]) -> Mapping[str, Wire]:
            return {field.name: loose(field, row.get(field.name), self._settings) for field in fields}

        return JsonRows(columns, wires, {}, strict=False)


def _names(key: bytes) -> tuple[str, ...]:
    try:
        document = json.loads(key)
    except (ValueError, RecursionError):
        return ()
    if isinstance(document, dict) and set(document) == {"schema", "payload"}:
        document = document["payload"]
    return tuple(document) if isinstance(document, dict) else ()


def _moved(rows: Rows, places: Longs) -> Rows:
    """Places among these instead of those; keys that cannot be read are as if they were not there."""
    return Rows(places[rows.places], rows.columns, rows.holes)
