"""What native decoders take and give: columns as tuples."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

import pyarrow as pa

from frazil.core.schema import Field, ListType, MapType, Schema, StructType, Type, arrow_type
from frazil.stream.decode import assemble

#: Kind, required, width, precision, scale, children.
Plan: TypeAlias = tuple[int, int, int, int, int, tuple["Plan", ...]]
#: Length, then validity, fixed-width values, offsets and bytes as far as there are any, then the children.
Column: TypeAlias = tuple[int, Any, Any, Any, Any, tuple["Column", ...]]

#: In the order of `kind_t` in json_column.h.
KINDS = (
    "boolean",
    "int",
    "long",
    "float",
    "double",
    "decimal",
    "string",
    "date",
    "time",
    "timestamp",
    "timestamptz",
    "instant",
    "uuid",
    "binary",
    "fixed",
    "list",
    "map",
    "struct",
    "raw",
    "skip",
)


def fields_of(kind: Type) -> Iterable[Field]:
    """The members of a nested type as fields, as `Schema.to_arrow` names them."""
    if isinstance(kind, StructType):
        return kind.fields
    if isinstance(kind, ListType):
        return (Field("element", kind.element, kind.element_required),)
    if isinstance(kind, MapType):
        return (Field("key", kind.key, True), Field("value", kind.value, kind.value_required))
    return ()


def plan_of(schema: Schema, instants: int | None = None) -> Plan:
    """The columns of a schema. `instants`: timestamps are numbers, of 10 to this many microseconds."""
    return _plan(Field("", StructType(schema.fields), True), instants)


def _plan(field: Field, instants: int | None) -> Plan:
    kind = field.type
    width = precision = scale = 0
    if isinstance(kind, StructType | ListType | MapType):
        name = {StructType: "struct", ListType: "list", MapType: "map"}[type(kind)]
    else:
        name = kind.split("(")[0].split("[")[0]
        arrow = arrow_type(kind)
        width = arrow.bit_width // 8 if name not in ("string", "binary") else 0
        if name == "decimal":
            precision, scale = arrow.precision, arrow.scale
        elif name in ("timestamp", "timestamptz") and instants is not None:
            name, scale = "instant", instants
    children = tuple(_plan(child, instants) for child in fields_of(kind))
    return KINDS.index(name), int(field.required), width, precision, scale, children


def input_of(values: pa.BinaryArray) -> tuple[Any, Any, Any, int, int]:
    """Data, offsets, validity, offset and length of an array of records."""
    if not len(values):
        return b"", bytes(4), None, 0, 0
    validity, offsets, data = values.buffers()
    return data or b"", offsets, validity, values.offset, len(values)


def batch_of(kind: pa.StructType, column: Column) -> pa.RecordBatch:
    return assemble.batch(array_of(kind, column))


def array_of(kind: pa.DataType, column: Column) -> pa.Array:
    length, validity, fixed, offsets, text, children = column
    kinds = assemble.child_types(kind)
    if pa.types.is_map(kind):
        inner = [array_of(kinds[0], (children[0][0], None, None, None, None, children))]
    else:
        inner = [array_of(*pair) for pair in zip(kinds, children, strict=True)]
    buffers = [_buffer(validity)]
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        buffers.append(_buffer(offsets, bytes(4)))
    elif pa.types.is_string(kind) or pa.types.is_binary(kind):
        buffers += [_buffer(offsets, bytes(4)), _buffer(text, b"")]
    elif not pa.types.is_struct(kind):
        buffers.append(_buffer(fixed, b""))
    return assemble.array(kind, length, buffers, inner)


def _buffer(memory: Any, otherwise: bytes | None = None) -> pa.Buffer | None:
    memory = otherwise if memory is None else memory
    return None if memory is None else pa.py_buffer(memory)
