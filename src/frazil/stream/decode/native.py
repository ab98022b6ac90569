"""The native decoder: a schema as its plan, its buffers as Arrow arrays. No import where it was not built."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from frazil.core.schema import Field, ListType, MapType, Schema, StructType, arrow_type
from frazil.stream import _json
from frazil.stream.config.model import Contract, JsonFormat
from frazil.stream.decode import assemble
from frazil.stream.decode.decoded import Decoded, Undecodable
from frazil.stream.decode.reference import UNIT_SCALE, ReferenceReader, fields_of

#: In the order of `kind_t` in json_column.h.
_KINDS = {
    "boolean": 0,
    "int": 1,
    "long": 2,
    "float": 3,
    "double": 4,
    "decimal": 5,
    "string": 6,
    "date": 7,
    "time": 8,
    "timestamp": 9,
    "timestamptz": 10,
    "instant": 11,
    "uuid": 12,
    "binary": 13,
    "fixed": 14,
    "list": 15,
    "map": 16,
    "struct": 17,
}


class NativeReader:
    """Decodes in one pass over the bytes; a bad record is put into words by the reference."""

    def __init__(self, schema: Schema, format: JsonFormat, contract: Contract) -> None:  # noqa: A002
        self._type = pa.struct(list(schema.to_arrow()))
        self._plan = _json.plan(_describe(Field("", StructType(schema.fields), True), format))
        self._reference = ReferenceReader(schema, format, contract)

    def read(self, values: pa.BinaryArray) -> Decoded:
        validity, offsets, data = values.buffers()
        if not len(values):
            validity, offsets, data = None, bytes(4), b""
        columns, rows = _json.decode(
            self._plan,
            data or b"",
            offsets,
            validity,
            values.offset if len(values) else 0,
            len(values),
            True,
        )
        batch = assemble.batch(_array(self._type, columns))
        return Decoded(batch, tuple(self._explain(row, values) for row in rows))

    def _explain(self, row: int, values: pa.BinaryArray) -> Undecodable:
        found = self._reference.explain(row, values[row].as_py())
        if found is None:
            raise RuntimeError(
                f"the two JSON decoders do not agree on record {row} of the batch: set FRAZIL_NATIVE=0 to go "
                "on without the native one, and please report the record"
            )
        return found


def _describe(field: Field, settings: JsonFormat) -> Any:
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
        elif name in ("timestamp", "timestamptz") and settings.timestamps != "iso":
            name, scale = "instant", UNIT_SCALE[settings.timestamps]
    children = tuple(_describe(child, settings) for child in fields_of(kind))
    return _KINDS[name], int(field.required), width, precision, scale, field.name.encode(), children


def _array(kind: pa.DataType, column: Any) -> pa.Array:
    length, validity, fixed, offsets, text, children = column
    kinds = assemble.child_types(kind)
    if pa.types.is_map(kind):
        inner = [_array(kinds[0], (children[0][0], None, None, None, None, children))]
    else:
        inner = [_array(*pair) for pair in zip(kinds, children, strict=True)]
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
