"""Random Protobuf files, tables for their messages, and records that fit them more or less."""

from __future__ import annotations

import struct
from collections.abc import Callable
from random import Random
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet

from frazil.core.schema import Field, ListType, MapType, Schema, StructType, Type
from frazil.stream.decode.protobuf_types import is_map, message_of, type_of

_NAMES = (
    "double float int32 int64 uint32 uint64 sint32 sint64 fixed32 fixed64 sfixed32 sfixed64 bool string bytes"
)
SCALARS = _NAMES.split()
_KNOWN = [
    f"google.protobuf.{name}"
    for name in (
        "Timestamp",
        "Duration",
        "Int64Value",
        "StringValue",
        "BytesValue",
        "BoolValue",
        "UInt64Value",
    )
]
_KEYS = ["int32", "int64", "uint32", "uint64", "sint32", "fixed32", "sfixed64", "bool", "string"]
_TEXTS = ["", "a", "é", "2024-02-29", "12:00", "1.5", "2024-01-01T00:00:00Z", "x" * 30, "NEW"]
IMPORTS = "".join(
    f'import "google/protobuf/{name}.proto";\n' for name in ("timestamp", "duration", "wrappers")
)


def proto(rng: Random) -> str:
    """The text of a file whose first message is wanted."""
    syntax = rng.choice(["proto2", "proto3"])
    inner = [f"Inner{n}" for n in range(rng.randint(0, 2))]
    text = f'syntax = "{syntax}";\npackage test;\n{IMPORTS}'
    text += _message(rng, "Record", syntax, inner)
    for place, name in enumerate(inner):
        text += _message(rng, name, syntax, inner[place + 1 :])
    return text + "enum Kind { NONE = 0; NEW = 1; OLD = 7; LESS = -1; }\n"


def _message(rng: Random, name: str, syntax: str, inner: list[str]) -> str:
    numbers = rng.sample([*range(1, 12), 15, 16, 63, 64, 2000, 2**29 - 1], rng.randint(1, 8))
    lines, oneof = [], []
    for place, number in enumerate(numbers):
        kind = _kind(rng, inner)
        end = f"f{place} = {number};"
        odds = rng.random()
        if odds < 0.2:
            oneof.append(f"{kind} {end}")
        elif odds < 0.4:
            lines.append(f"repeated {kind} {end}")
        elif odds < 0.55:
            lines.append(f"map<{rng.choice(_KEYS)}, {kind}> {end}")
        elif syntax == "proto2":
            lines.append(f"{rng.choice(['optional', 'optional', 'required'])} {kind} {end}")
        else:
            lines.append(f"{rng.choice(['optional ', ''])}{kind} {end}")
    if oneof:
        lines.append(f"oneof one {{ {' '.join(oneof)} }}")
    return f"message {name} {{\n{chr(10).join(lines)}\n}}\n"


def _kind(rng: Random, inner: list[str]) -> str:
    return rng.choice([*SCALARS, *SCALARS, "Kind", rng.choice(_KNOWN), *inner, *inner])


def table(rng: Random, message: Descriptor) -> Schema:
    """Columns for most fields; some too narrow, some of other types, some that no field has."""
    return Schema(_columns(rng, message)).with_fresh_ids()


def _columns(rng: Random, message: Descriptor) -> tuple[Field, ...]:
    fields = [one for one in message.fields if rng.random() < 0.85] or list(message.fields)[:1]
    rng.shuffle(fields)
    columns = []
    for one in fields:
        kind = type_of(one)
        if kind is not None:
            columns.append(Field(one.name, _bent(rng, kind, one), rng.random() < 0.15))
    if rng.random() < 0.1:
        columns.append(Field("missing", "string", rng.random() < 0.05))
    return tuple(columns) or (Field("missing", "string"),)


def _bent(rng: Random, kind: Type, one: FieldDescriptor) -> Type:
    """Mostly the same type."""
    if rng.random() < 0.03:
        others: list[Type] = ["long", "string", "boolean", ListType("int"), StructType((Field("a", "int"),))]
        return rng.choice(others)
    if isinstance(kind, StructType):
        return StructType(_columns(rng, message_of(one))) if not is_map(one) else kind
    if isinstance(kind, ListType):
        return ListType(_bent(rng, kind.element, one), rng.random() < 0.3)
    if isinstance(kind, MapType):
        value = _bent(rng, kind.value, message_of(one).fields_by_number[2])
        return MapType(kind.key, value, rng.random() < 0.3)
    if one.type == FieldDescriptor.TYPE_MESSAGE and rng.random() < 0.2 and kind in ("timestamptz", "long"):
        return StructType((Field("seconds", "long"), Field("nanos", "int")))
    similar = {
        "long": ["int", "decimal(25, 3)", "decimal(9, 0)", "decimal(19, 0)"],
        "int": ["long", "decimal(5, 1)"],
        "decimal(20, 0)": ["long", "int", "decimal(38, 10)"],
        "double": ["float"],
        "float": ["double"],
        "string": ["date", "uuid", "timestamptz", "decimal(4, 2)", "time", "timestamp", "int"],
        "binary": ["fixed[3]", "uuid"],
    }
    return rng.choice(similar[str(kind)]) if str(kind) in similar and rng.random() < 0.2 else kind


def record(rng: Random, message: Descriptor) -> bytes:
    """Fields on the wire; now and then twice, in odd forms, or ones that the message does not have."""
    parts = []
    for one in message.fields:
        if one.is_required or rng.random() < 0.8:
            parts.append(_field(rng, one))
            if rng.random() < 0.05:
                parts.append(_field(rng, one))
    if rng.random() < 0.2:
        parts.append(_stray(rng, rng.choice([1, 2, 3, 13, 14, 99, 3000])))
    if rng.random() < 0.3:
        rng.shuffle(parts)
    return b"".join(parts)


def _field(rng: Random, one: FieldDescriptor) -> bytes:
    if rng.random() < 0.02:
        return _stray(rng, one.number)
    if is_map(one):
        return b"".join(
            _tagged(one.number, 2, _sized(record(rng, message_of(one)))) for _ in range(_count(rng))
        )
    if not one.is_repeated:
        return _value(rng, one)
    packed = one.type not in (
        FieldDescriptor.TYPE_STRING,
        FieldDescriptor.TYPE_BYTES,
        FieldDescriptor.TYPE_MESSAGE,
    )
    if packed and rng.random() < 0.6:
        return _tagged(one.number, 2, _sized(b"".join(_scalar(rng, one)[1] for _ in range(_count(rng)))))
    return b"".join(_value(rng, one) for _ in range(_count(rng)))


def _value(rng: Random, one: FieldDescriptor) -> bytes:
    if one.type == FieldDescriptor.TYPE_MESSAGE:
        return _tagged(one.number, 2, _sized(_inside(rng, message_of(one))))
    wire, data = _scalar(rng, one)
    return _tagged(one.number, wire, data)


def _inside(rng: Random, message: Descriptor) -> bytes:
    if message.full_name in ("google.protobuf.Timestamp", "google.protobuf.Duration") and rng.random() < 0.9:
        seconds = rng.choice([0, 1, -1, 10**9, rng.randint(-(10**11), 10**11)])
        nanos = rng.choice([0, 1000, 999_999_000, -1000, 1, 10**9]) if rng.random() < 0.5 else 0
        return _tagged(1, 0, varint(seconds)) + _tagged(2, 0, varint(nanos))
    return record(rng, message)


def _scalar(rng: Random, one: FieldDescriptor) -> tuple[int, bytes]:
    name = SCALARS_BY_TYPE[one.type]
    return _MAKERS[name](rng)


def _integer(bits: int) -> Callable[[Random], int]:
    return lambda rng: rng.randint(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) >> rng.randint(0, bits - 1)


def _text(rng: Random) -> bytes:
    bad = rng.choice([b"\xff", b"\xc3", b"\xed\xa0\x80"]) if rng.random() < 0.01 else b""
    return _sized(rng.choice(_TEXTS).encode() + bad)


def _zigzag(value: int) -> int:
    return value * 2 if value >= 0 else -value * 2 - 1


SCALARS_BY_TYPE = {getattr(FieldDescriptor, f"TYPE_{name.upper()}"): name for name in (*SCALARS, "enum")}
_MAKERS: dict[str, Callable[[Random], tuple[int, bytes]]] = {
    "double": lambda rng: (1, struct.pack("<d", rng.choice([0.0, 1.5, -2.25, 1e300, float("inf"), 0.1]))),
    "float": lambda rng: (5, struct.pack("<f", rng.choice([0.0, 1.5, -2.25, 1e30, float("-inf")]))),
    "int32": lambda rng: (0, varint(_integer(32)(rng))),
    "int64": lambda rng: (0, varint(_integer(64)(rng))),
    "uint32": lambda rng: (0, varint(_integer(32)(rng) & 0xFFFFFFFF)),
    "uint64": lambda rng: (0, varint(_integer(64)(rng))),
    "sint32": lambda rng: (0, varint(_zigzag(_integer(32)(rng)))),
    "sint64": lambda rng: (0, varint(_zigzag(_integer(64)(rng)))),
    "fixed32": lambda rng: (5, rng.randbytes(4)),
    "fixed64": lambda rng: (1, rng.randbytes(8)),
    "sfixed32": lambda rng: (5, rng.randbytes(4)),
    "sfixed64": lambda rng: (1, rng.randbytes(8)),
    "bool": lambda rng: (0, varint(rng.choice([0, 1, 1, 2**40]))),
    "string": lambda rng: (2, _text(rng)),
    "bytes": lambda rng: (2, _sized(rng.randbytes(rng.choice([0, 1, 3, 16])))),
    "enum": lambda rng: (0, varint(rng.choice([0, 1, 7, -1, 5, 2**31 - 1]))),
}


def _stray(rng: Random, number: int) -> bytes:
    wire = rng.choice([0, 1, 2, 3, 5])
    data: Any = {0: varint(_integer(64)(rng)), 1: rng.randbytes(8), 5: rng.randbytes(4)}.get(wire)
    if wire == 2:
        data = _sized(rng.randbytes(rng.randint(0, 5)))
    if wire == 3:
        data = _tagged(1, 0, varint(5)) + varint(number << 3 | 4)
    return _tagged(number, wire, data)


def mutated(rng: Random, value: bytes) -> bytes:
    """With a byte or some changed, added, taken out, or the end cut off."""
    pieces = [
        b"\x80\x00",
        b"\xff" * 10,
        b"\x80" * 4,
        b"\x0b",
        b"\x0c",
        b"\x00",
        b"\x07",
        b"\xff\xff\xff\xff\x0f",
    ]
    for _ in range(rng.randint(1, 3)):
        at = rng.randint(0, len(value))
        piece = rng.choice([rng.choice(pieces), bytes([rng.randrange(256)]), b""])
        value = value[:at] + piece + value[at + rng.choice([0, 0, 1, 1, 2, len(value)]) :]
    return value


def varint(value: int) -> bytes:
    value &= 2**64 - 1
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*found, value))


def _tagged(number: int, wire: int, data: bytes) -> bytes:
    return varint(number << 3 | wire) + data


def _sized(data: bytes) -> bytes:
    return varint(len(data)) + data


def _count(rng: Random) -> int:
    return rng.choice([0, 1, 2, 3, 3, 12])


def descriptor_set(*files: Any) -> bytes:
    found = FileDescriptorSet()
    found.file.extend(files)
    return bytes(found.SerializeToString())
