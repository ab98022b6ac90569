"""Arrow arrays into the types of columns, and which rows cannot be."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.core.schema import (
    Field,
    ListType,
    MapType,
    SchemaChange,
    StructType,
    arrow_type,
    show_type,
)
from frazil.stream.config.model import Contract
from frazil.stream.decode import assemble
from frazil.stream.decode.columns import fields_of
from frazil.stream.decode.decoded import Fault
from frazil.stream.decode.drift import Drift
from frazil.stream.decode.problem import Problem as Refusal
from frazil.stream.decode.rows_cast import cast
from frazil.stream.decode.rows_types import iceberg_type, is_list, widened

_Rows: TypeAlias = npt.NDArray[np.bool_]
_Path: TypeAlias = tuple[str, ...]


@dataclass(frozen=True)
class Problem:
    """Rows, of the array that was looked at, that have the same thing wrong."""

    rows: _Rows
    path: _Path
    reason: str
    fault: Fault


_Fitted: TypeAlias = tuple[pa.Array, list[Problem]]


class Fitting:
    """One batch's way into a schema; `changes` is what the schema would have to become."""

    def __init__(self, drift: Drift, contract: Contract) -> None:
        self._contract = contract
        self._drift = drift

    @property
    def changes(self) -> tuple[SchemaChange, ...]:
        return self._drift.changes

    def children(
        self, values: pa.StructArray, kind: StructType, path: _Path
    ) -> tuple[list[pa.Array], list[Problem]]:
        """The fields of a struct, in the order of the schema."""
        present = _bools(values.is_valid())
        places = {values.type.field(at).name: at for at in range(values.type.num_fields)}
        arrays, problems = [], list[Problem]()
        for field in kind.fields:
            at = places.pop(field.name, None)
            column = values.field(at) if at is not None else None
            found, wrong = self._field(column, field, present, (*path, field.name))
            arrays.append(found)
            problems += wrong
        for name, at in places.items():
            problems += self._unknown(values.field(at), present, (*path, name))
        return arrays, problems

    def _field(self, values: pa.Array | None, field: Field, present: _Rows, path: _Path) -> _Fitted:
        """`present`: where there is a struct for the field to be in."""
        kind = arrow_type(field.type)
        if values is None:
            found, problems = _nulls(len(present), kind), list[Problem]()
            reason = "is missing, and its column is required"
        else:
            found, problems = self._value(values, field, path)
            problems = [replace(one, rows=one.rows & present) for one in problems]
            reason = "is null, and its column is required"
        if not field.required or not found.null_count:
            return found, problems
        nulls = _bools(found.is_null())
        return _filled(found, kind), [*problems, Problem(nulls & present, path, reason, Fault.MISSING)]

    def _value(self, values: pa.Array, field: Field, path: _Path) -> _Fitted:
        values = _plain(values)
        kind = values.type
        if pa.types.is_null(kind):
            return _nulls(len(values), arrow_type(field.type)), []
        if isinstance(field.type, StructType) and pa.types.is_struct(kind):
            arrays, problems = self.children(values, field.type, path)
            return assemble.array(arrow_type(field.type), len(values), [_validity(values)], arrays), problems
        if isinstance(field.type, ListType) and is_list(kind):
            return self._list(_listed(values), field, path)
        if isinstance(field.type, MapType) and pa.types.is_map(kind):
            return self._list(_entries(values), field, path)
        return self._primitive(values, field, path)

    def _list(self, values: pa.ListArray, field: Field, path: _Path) -> _Fitted:
        """Of a map, the list of its entries."""
        elements = values.flatten()
        parents = pc.list_parent_indices(values).to_numpy()
        present = np.ones(len(elements), bool)
        parts = [elements.field(0), elements.field(1)] if isinstance(field.type, MapType) else [elements]
        arrays, problems = [], list[Problem]()
        for part, inner in zip(parts, fields_of(field.type), strict=True):
            found, wrong = self._field(part, inner, present, (*path, inner.name))
            arrays.append(found)
            problems += [replace(one, rows=_raised(one.rows, parents, len(values))) for one in wrong]
        kind = arrow_type(field.type)
        if isinstance(field.type, MapType):
            arrays = [assemble.array(assemble.child_types(kind)[0], len(elements), [None], arrays)]
        lengths = pc.fill_null(pc.list_value_length(values), 0).to_numpy()
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        buffers = [_validity(values), pa.py_buffer(offsets)]
        return assemble.array(kind, len(values), buffers, arrays), problems

    def _primitive(self, values: pa.Array, field: Field, path: _Path) -> _Fitted:
        needed = iceberg_type(values.type)
        if self._contract.types == "evolve" and needed is not None:
            wider = widened(field.type, needed)
            if wider is not None:
                self._drift.add([SchemaChange(path, wider, widens=True)])
                return _nulls(len(values), arrow_type(field.type)), []
        kind = arrow_type(field.type)
        if isinstance(field.type, str) and not pa.types.is_nested(values.type):
            found, lossy = cast(values, kind)
        else:
            found, lossy = _nulls(len(values), kind), _bools(values.is_valid())
        if not lossy.any() or (self._contract.types == "discard_value" and not field.required):
            return found, []
        reason = f"a value of type {values.type} that is not exactly a {show_type(field.type)}"
        return found, [Problem(lossy, path, reason, Fault.TYPE)]

    def _unknown(self, values: pa.Array, present: _Rows, path: _Path) -> list[Problem]:
        word = self._contract.columns
        needed = iceberg_type(values.type)
        if word == "discard_value" or pa.types.is_null(values.type):
            return []
        reason = f"the schema has no such column, and the contract says {word}"
        if word == "evolve":
            reason = (
                f"no column has this field, and the table cannot get one: {values.type} has no type there"
            )
            if needed is not None:
                try:
                    self._drift.add([SchemaChange(path, needed)])
                except Refusal as refusal:
                    reason = refusal.reason
                else:
                    return []
        there = present & _bools(values.is_valid())
        return [Problem(there, path, reason, Fault.UNKNOWN_FIELD)] if there.any() else []


def _bools(mask: pa.BooleanArray) -> _Rows:
    found: _Rows = mask.to_numpy(zero_copy_only=False)
    return found


def _validity(values: pa.Array) -> pa.Buffer | None:
    return values.is_valid().buffers()[1] if values.null_count else None


def _raised(rows: _Rows, parents: npt.NDArray[np.int64], length: int) -> _Rows:
    """Elements as the lists that they are in."""
    found = np.zeros(length, bool)
    found[parents[rows]] = True
    return found


def _plain(values: pa.Array) -> pa.Array:
    """Without what only says how values are stored."""
    if isinstance(values, pa.ExtensionArray):
        return _plain(values.storage)
    if pa.types.is_dictionary(values.type):
        return _plain(values.dictionary_decode())
    if pa.types.is_run_end_encoded(values.type):
        return _plain(pc.run_end_decode(values))
    if pa.types.is_float16(values.type):
        # Arrow cannot compare these; each is a float.
        return values.cast(pa.float32())
    return values


def _listed(values: pa.Array) -> pa.ListArray:
    kind = values.type
    if not (pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind)):
        return values.cast(pa.list_(kind.value_type))
    # Arrow's cast of a view loses elements; its parts are right.
    lengths = pc.fill_null(pc.list_value_length(values), 0).to_numpy()
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    buffers = [_validity(values), pa.py_buffer(offsets)]
    return pa.Array.from_buffers(pa.list_(kind.value_type), len(values), buffers, children=[values.flatten()])


def _entries(values: pa.MapArray) -> pa.ListArray:
    kind = pa.list_(pa.struct([values.type.key_field, values.type.item_field]))
    entries = pa.StructArray.from_arrays([values.keys, values.items], fields=list(kind.value_type))
    validity = _validity(values)
    return pa.Array.from_buffers(kind, len(values), [validity, _offsets(values)], children=[entries])


def _offsets(values: pa.MapArray) -> pa.Buffer:
    """From the first map on: an array may be a part of a longer one."""
    return pa.py_buffer(values.offsets.to_numpy())


def _nulls(length: int, kind: pa.DataType) -> pa.Array:
    if not pa.types.is_struct(kind):
        return pa.nulls(length, kind)
    fields = [kind.field(at) for at in range(kind.num_fields)]
    children = [_nulls(length, field.type) for field in fields]
    children = [
        one if field.nullable else _filled(one, field.type)
        for one, field in zip(children, fields, strict=True)
    ]
    return assemble.array(kind, length, [pa.py_buffer(bytes(length // 8 + 1))], children)


def _filled(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """With some value for each null, in a column that may have none; such rows are bad or in no struct."""
    if not values.null_count:
        return values
    if not pa.types.is_nested(kind):
        text = [pa.py_buffer(b"")] if pa.types.is_string(kind) or pa.types.is_binary(kind) else []
        return pc.fill_null(values, assemble.array(kind, 1, [None, pa.py_buffer(bytes(64)), *text], [])[0])
    if pa.types.is_struct(kind):
        children = [values.field(at) for at in range(kind.num_fields)]
        return assemble.array(kind, len(values), [None], children)
    if pa.types.is_map(kind):
        inner = assemble.child_types(kind)[0]
        children = [assemble.array(inner, len(values.keys), [None], [values.keys, values.items])]
    else:
        children = [values.values]
    return assemble.array(kind, len(values), [None, values.buffers()[1]], children)
