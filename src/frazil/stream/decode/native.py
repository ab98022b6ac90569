"""The native decoder: a schema as its plan, its buffers as Arrow arrays. No import where it was not built."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.core.schema import Field, ListType, MapType, Schema, StructType, arrow_type
from frazil.stream import _json
from frazil.stream.config.model import Contract, JsonFormat
from frazil.stream.decode import assemble
from frazil.stream.decode.decoded import Decoded, Undecodable
from frazil.stream.decode.reference import ReferenceReader, fields_of
from frazil.stream.decode.scalars import UNIT_SCALE

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
#: In the order of `unknown_t` in json_scan.h: what becomes of fields that no column has.
_REFUSED = 1
_UNKNOWN = {"discard_value": 0, "evolve": 2}


class NativeReader:
    """Decodes in one pass over the bytes; a bad record is put into words by the reference."""

    def __init__(
        self,
        schema: Schema,
        format: JsonFormat,  # noqa: A002 - the settings' own word
        contract: Contract,
        reserved: Iterable[str] = (),
    ) -> None:
        self._unknown = _UNKNOWN.get(contract.columns, _REFUSED)
        self._lax = contract.types == "discard_value"
        self._type = pa.struct(list(schema.to_arrow()))
        self._plan = _json.plan(_describe(Field("", StructType(schema.fields), True), format))
        self._reference = ReferenceReader(schema, format, contract, reserved)

    def read(self, values: pa.BinaryArray) -> Decoded:
        rows, bad, drifted = self._decode(values)
        if not bad and not drifted:
            return Decoded(rows)
        drift = self._reference.drift()
        refused, known = [], set(bad)
        for row in sorted((*bad, *drifted)):
            found, lacking = self._reference.judge(row, values[row].as_py(), drift)
            if found is not None:
                refused.append(found)
            elif row in known and not lacking:
                raise _disagreement(row)
        if drift.changes:
            rows = rows[:0]
        elif len(rows) + len(refused) > len(values):
            rows = self._without(values, refused)
        return Decoded(rows, tuple(refused), drift.changes)

    def _decode(self, values: pa.BinaryArray) -> tuple[pa.RecordBatch, list[int], list[int]]:
        """The good records, the numbers of the bad ones, and of good ones that no column has all of."""
        validity, offsets, data = values.buffers()
        if not len(values):
            validity, offsets, data = None, bytes(4), b""
        columns, bad, drifted = _json.decode(
            self._plan,
            data or b"",
            offsets,
            validity,
            values.offset if len(values) else 0,
            len(values),
            self._unknown,
            self._lax,
        )
        return assemble.batch(_array(self._type, columns)), bad, drifted

    def _without(self, values: pa.BinaryArray, bad: Iterable[Undecodable]) -> pa.RecordBatch:
        """Again, for records that are bad by what they have besides columns."""
        kept = np.ones(len(values), bool)
        kept[[one.index for one in bad]] = False
        rows, _, _ = self._decode(pc.if_else(pa.array(kept), values, pa.scalar(None, pa.binary())))
        return rows


def _disagreement(row: int) -> RuntimeError:
    return RuntimeError(
        f"the two JSON decoders do not agree on record {row} of the batch: set FRAZIL_NATIVE=0 to go on "
        "without the native one, and please report the record"
    )


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
