"""The same rows in every format. Avro and Protobuf are encoded by columns: millions take seconds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
import numpy.typing as npt

from bench.ingest.messages import COUNTRIES, STATUSES, Render, Values, render
from bench.numbers import Ids
from frazil.stream.config.model import AvroFormat, CsvFormat, Format, JsonFormat, ProtobufFormat, Registry

AVRO_SCHEMA = """\
{"type": "record", "name": "Order", "namespace": "bench", "fields": [
  {"name": "id", "type": "long"},
  {"name": "customer", "type": "string"},
  {"name": "ts", "type": {"type": "long", "logicalType": "timestamp-millis"}},
  {"name": "amount", "type": "double"},
  {"name": "status", "type": "string"},
  {"name": "country", "type": "string"},
  {"name": "quantity", "type": "int"}
]}"""

PROTOBUF_SCHEMA = """\
syntax = "proto3";
package bench;

import "google/protobuf/timestamp.proto";

message Order {
  int64 id = 1;
  string customer = 2;
  google.protobuf.Timestamp ts = 3;
  double amount = 4;
  string status = 5;
  string country = 6;
  int32 quantity = 7;
}
"""

Name = Literal["json", "csv", "avro", "protobuf"]
#: What a registry has to know: kind and text by format.
REGISTERED: dict[Name, tuple[str, str]] = {
    "avro": ("AVRO", AVRO_SCHEMA),
    "protobuf": ("PROTOBUF", PROTOBUF_SCHEMA),
}
_CUSTOMER_DIGITS = 7
#: How a field of Protobuf is written.
_VARINT, _DOUBLE, _LENGTH = 0, 1, 2

Bytes = npt.NDArray[np.uint8]


def renderer(name: Name, schema_id: int = 0) -> Render:
    """Can be pickled. `schema_id` is for those with a registry."""
    if name == "json":
        return render
    return _csv if name == "csv" else partial(_avro if name == "avro" else _protobuf, schema_id)


def format_of(name: Name, registry: str | None) -> Format:
    """How a pipeline is told to read it."""
    if name == "json":
        return JsonFormat(timestamps="ms")
    if name == "csv":
        return CsvFormat(timestamps="ms")
    assert registry is not None, "a registry was started for these"
    return (AvroFormat if name == "avro" else ProtobufFormat)(registry=Registry(registry))


@dataclass(frozen=True)
class _Part:
    """One part of many messages: a line of bytes for each, of which the first `sizes` count."""

    lines: Bytes
    sizes: Ids

    @classmethod
    def whole(cls, lines: Bytes) -> _Part:
        return cls(lines, np.full(len(lines), lines.shape[1], dtype=np.int64))

    @classmethod
    def same(cls, text: bytes, count: int) -> _Part:
        return cls.whole(np.tile(np.frombuffer(text, np.uint8), (count, 1)))


def _messages(parts: Sequence[_Part]) -> Iterator[bytes]:
    """The parts of each message one after the other, without what does not count between them."""
    counts = np.hstack([np.arange(part.lines.shape[1]) < part.sizes[:, None] for part in parts])
    text = np.hstack([part.lines for part in parts])[counts].tobytes()
    start = 0
    for end in np.cumsum(_size(parts)).tolist():
        yield text[start:end]
        start = end


def _size(parts: Sequence[_Part]) -> Ids:
    found: Ids = np.sum([part.sizes for part in parts], axis=0)
    return found


def _varint(values: Ids) -> _Part:
    """Not negative."""
    width = max(1, -(-int(values.max()).bit_length() // 7))
    lines = np.empty((len(values), width), np.uint8)
    sizes = np.ones(len(values), np.int64)
    for place in range(width):
        rest = values >> 7 * (place + 1)
        goes_on = rest > 0
        lines[:, place] = (values >> 7 * place) & 0x7F | goes_on * 0x80
        sizes += goes_on
    return _Part(lines, sizes)


def _zigzag(values: Ids) -> _Part:
    return _varint(values * 2)


def _double(values: npt.NDArray[np.float64]) -> _Part:
    return _Part.whole(values.astype("<f8").view(np.uint8).reshape(len(values), 8))


def _customer(numbers: Ids) -> _Part:
    lines = np.tile(np.frombuffer(b"customer-0000000", np.uint8), (len(numbers), 1))
    for place in range(_CUSTOMER_DIGITS):
        lines[:, -1 - place] += (numbers // 10**place % 10).astype(np.uint8)
    return _Part.whole(lines)


def _word(places: Ids, words: Sequence[str]) -> _Part:
    encoded = [word.encode() for word in words]
    width = max(map(len, encoded))
    lines = np.array([list(word.ljust(width, b"\0")) for word in encoded], np.uint8)
    return _Part(lines[places], np.array(list(map(len, encoded)))[places])


def _header(schema_id: int) -> bytes:
    """Confluent's."""
    return b"\0" + schema_id.to_bytes(4, "big")


def _avro(schema_id: int, ids: Ids) -> Iterator[bytes]:
    v = Values.of(ids)
    texts = (_customer(v.customer), _word(v.status, STATUSES), _word(v.country, COUNTRIES))
    customer, status, country = ([_zigzag(text.sizes), text] for text in texts)
    parts = [_Part.same(_header(schema_id), len(ids)), _zigzag(ids), *customer, _zigzag(v.ts_ms)]
    return _messages([*parts, _double(v.cents / 100), *status, *country, _zigzag(v.quantity)])


def _protobuf(schema_id: int, ids: Ids) -> Iterator[bytes]:
    """The first message of its schema. As proto3 wants it, what is zero is left out."""
    v = Values.of(ids)
    moment = [*_number(1, v.ts_ms // 1000), *_number(2, v.ts_ms % 1000 * 1_000_000)]
    parts = [_Part.same(_header(schema_id) + b"\0", len(ids)), *_number(1, ids)]
    parts += [*_text(2, [_customer(v.customer)]), *_text(3, moment)]
    parts += _field(4, _DOUBLE, _double(v.cents / 100), v.cents != 0)
    parts += [*_text(5, [_word(v.status, STATUSES)]), *_text(6, [_word(v.country, COUNTRIES)])]
    return _messages([*parts, *_number(7, v.quantity)])


def _field(number: int, wire: int, content: _Part, there: npt.NDArray[np.bool_]) -> list[_Part]:
    parts = [_Part.same(bytes([number << 3 | wire]), len(there)), content]
    return [_Part(part.lines, part.sizes * there) for part in parts]


def _number(number: int, values: Ids) -> list[_Part]:
    return _field(number, _VARINT, _varint(values), values != 0)


def _text(number: int, content: Sequence[_Part]) -> list[_Part]:
    size = _size(content)
    return [*_field(number, _LENGTH, _varint(size), size >= 0), *content]


def _csv(ids: Ids) -> Iterator[bytes]:
    v = Values.of(ids)
    columns = (ids, v.customer, v.ts_ms, v.cents, v.status, v.country, v.quantity)
    for i, customer, ts, cents, status, country, quantity in zip(*(c.tolist() for c in columns), strict=True):
        words = STATUSES[status].encode(), COUNTRIES[country].encode()
        amount = cents // 100, cents % 100
        yield b"%d,customer-%07d,%d,%d.%02d,%s,%s,%d" % (i, customer, ts, *amount, *words, quantity)
