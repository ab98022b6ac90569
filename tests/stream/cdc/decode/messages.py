"""Messages to decode: captured ones, and made ones in every encoding."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
from tests.stream.cdc.decode.connect import avro_schema, avro_value, envelope_schema, json_value

from frazil.core.schema import Field, Schema, parse_type, show_type
from frazil.stream.cdc.changes import Changes
from frazil.stream.cdc.decode.decoder import change_decoder
from frazil.stream.config.model import DebeziumFormat, Registry
from frazil.stream.source import RawBatch

_DATA = Path(__file__).parent / "data"
_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def captured(name: str) -> RawBatch:
    """Real messages. In the files a schema stands once: a message names it by number."""
    heads, *lines = map(json.loads, (_DATA / f"{name}.jsonl").read_text().splitlines())

    def text(part: Any) -> Any:
        return f"{heads[part[0]]}{part[1]}" if isinstance(part, list) else part

    return batch(
        [text(value) for _, _, value, _ in lines],
        [text(key) for _, key, _, _ in lines],
        [headers for *_, headers in lines],
    )


def batch(
    values: Sequence[str | bytes | None],
    keys: Sequence[str | bytes | None] | None = None,
    headers: Sequence[Any] | None = None,
) -> RawBatch:
    """Records from offset 100 on, in arrays that do not begin at their buffers' first byte."""

    def binary(texts: Sequence[str | bytes | None]) -> pa.BinaryArray:
        return pa.array([b"before", *(t.encode() if isinstance(t, str) else t for t in texts)], pa.binary())[
            1:
        ]

    offsets = pa.array(range(100, 100 + len(values)), pa.int64())
    pairs = None
    if headers is not None:
        pairs = pa.array([[(name, text.encode()) for name, text in one] for one in headers], _HEADERS)
    return RawBatch("topic", 3, binary(values), offsets, offsets, binary(keys) if keys else None, pairs)


def columns(**kinds: str) -> Schema:
    fields = (Field(name, parse_type(kind)) for name, kind in kinds.items())
    return Schema(tuple(fields)).with_fresh_ids()


def decode(
    raw: RawBatch, schema: Schema | None = None, settings: DebeziumFormat | None = None, **more: Any
) -> Changes:
    """With a new decoder, twice: what it remembers must not matter."""
    decoder = change_decoder(settings or DebeziumFormat(), schema, **more)
    first = decoder.decode(raw)
    for found in (first, decoder.decode(raw)):
        found.rows.validate(full=True)
        found.order.validate(full=True)
        assert len(found.rows) == len(found.order)
        assert found.rows.equals(first.rows) or "nan" in str(found.rows.to_pylist())
        assert found.order.equals(first.order)
    return first


def shape_of(raw: RawBatch, settings: DebeziumFormat | None = None, **more: Any) -> dict[str, str]:
    found = decode(raw, None, settings, **more).shape
    assert found is not None
    return {field.name: show_type(field.type) for field in found.columns}


def envelope(after: Any, op: str = "c", before: Any = None, **source: Any) -> dict[str, Any]:
    block = {"connector": "postgresql", "ts_ms": 1_700_000_000_000, "snapshot": "false", **source}
    return {"before": before, "after": after, "source": block, "op": op, "ts_ms": 1, "transaction": None}


def bare(document: Any) -> str:
    return json.dumps(document, separators=(",", ":"))


class Registered:
    """Registers schemas of Avro, and writes records by them."""

    def __init__(self, registry: Any, subject: str) -> None:
        self._registry = registry
        self._subject = subject
        self._known: dict[str, tuple[int, Any]] = {}

    def framed(self, schema: Any, value: Any) -> bytes:
        text = json.dumps(schema)
        if text not in self._known:
            number = self._registry.register(f"{self._subject}-{len(self._known)}", text)
            self._known[text] = number, fastavro.parse_schema(_bare_schema(schema))
        number, parsed = self._known[text]
        out = io.BytesIO()
        fastavro.schemaless_writer(out, parsed, value)
        return struct.pack(">BI", 0, number) + out.getvalue()


def _bare_schema(schema: Any) -> Any:
    """Without logical types: values are given as they are written."""
    if isinstance(schema, list):
        return [_bare_schema(one) for one in schema]
    if isinstance(schema, dict):
        return {key: _bare_schema(one) for key, one in schema.items() if key != "logicalType"}
    return schema


def with_schema(schema: Any, payload: Any) -> str:
    return f'{{"schema":{bare(schema)},"payload":{bare(payload)}}}'


def all_encodings(
    registry: Any, subject: str, row: dict[str, Any], rows: Sequence[Any], ops: Sequence[str] | None = None
) -> dict[str, tuple[RawBatch, DebeziumFormat]]:
    """The same rows, in an envelope: JSON with schemas, and Avro. A row of None is a delete of nothing."""
    schema = envelope_schema(row)
    envelopes = [envelope(one, op) for one, op in zip(rows, ops or "c" * len(rows), strict=True)]
    writer = Registered(registry, subject)
    avro = avro_schema(schema)
    return {
        "json": (
            batch([with_schema(schema, json_value(schema, one)) for one in envelopes]),
            DebeziumFormat(),
        ),
        "avro": (
            batch([writer.framed(avro, avro_value(schema, one)) for one in envelopes]),
            DebeziumFormat("avro", Registry(registry.url)),
        ),
    }
