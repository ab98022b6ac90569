"""Columns by their field ids, under the names that a schema gives them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from frazil.core.errors import InvalidInput
from frazil.core.schema import FIELD_ID, ListType, MapType, Schema, StructType, Type

_ORC_ID = b"iceberg.id"
_NAMES = "schema.name-mapping.default"
#: The id of a column that is none of the table's.
_NOBODY = -1


def field_id(column: pa.Field) -> int | None:
    """As the file has it; None in files that were not written for an Iceberg table."""
    found = column.metadata or {}
    text = found.get(FIELD_ID, found.get(_ORC_ID))
    return None if text is None else int(text)


def names_of(metadata: Mapping[str, Any]) -> dict[str, int]:
    """The ids of a table's columns, by the names that they have in files without ids; none: nobody says."""
    text = (metadata.get("properties") or {}).get(_NAMES)
    try:
        found = [] if text is None else json.loads(text)
        return {
            str(name): int(each["field-id"]) for each in found for name in each["names"] if "field-id" in each
        }
    except (ValueError, TypeError, KeyError):
        raise InvalidInput(
            f"the table property {_NAMES} is no name mapping: {str(text)[:200]}. Restore it, or remove it"
        ) from None


def identified(columns: Sequence[pa.Field], names: Mapping[str, int]) -> list[pa.Field]:
    """Columns of a file that was not written for a table, with the ids that they have by their names."""
    if not names or any(field_id(column) is not None for column in columns):
        return list(columns)
    ids = ({FIELD_ID: str(names.get(column.name, _NOBODY)).encode()} for column in columns)
    return [column.with_metadata(more) for column, more in zip(columns, ids, strict=True)]


def projected(batch: pa.RecordBatch, schema: Schema) -> pa.RecordBatch:
    """Fields renamed, in nested types as well; what the schema does not have is left out.

    What the file does not have is missing. Without ids, names are compared.
    """
    wanted = StructType(schema.fields)
    found = [
        (name, _projected(column, kind))
        for column, (name, kind) in zip(batch.columns, _matched(list(batch.schema), wanted), strict=True)
        if name is not None
    ]
    return pa.RecordBatch.from_arrays([array for _, array in found], [name for name, _ in found])


def _matched(columns: list[pa.Field], wanted: StructType) -> list[tuple[str | None, Type]]:
    by_id = {field.id: field for field in wanted.fields}
    by_name = {field.name: field for field in wanted.fields}
    matched: list[tuple[str | None, Type]] = []
    for column in columns:
        identifier = field_id(column)
        field = by_name.get(column.name) if identifier is None else by_id.get(identifier)
        matched.append((None, "") if field is None else (field.name, field.type))
    return matched


def _projected(array: pa.Array, kind: Type) -> pa.Array:
    if _as_it_is(array.type, kind):
        return array
    if isinstance(kind, StructType):
        return _struct(array, kind)
    if isinstance(kind, ListType):
        values = _projected(array.values, kind.element)
        made = pa.ListArray.from_arrays if pa.types.is_list(array.type) else pa.LargeListArray.from_arrays
        return made(_offsets(array), values, mask=array.is_null())
    if isinstance(kind, MapType):
        keys, items = _projected(array.keys, kind.key), _projected(array.items, kind.value)
        return pa.MapArray.from_arrays(_offsets(array), keys, items, mask=array.is_null())
    return array


def _as_it_is(found: pa.DataType, kind: Type) -> bool:
    """Whether all fields have their names of now, and none is left out; most files are like that."""
    if isinstance(kind, StructType):
        fields = list(found)
        matched = _matched(fields, kind)
        return all(
            name == field.name and _as_it_is(field.type, below)
            for field, (name, below) in zip(fields, matched, strict=True)
        )
    if isinstance(kind, ListType):
        return _as_it_is(found.value_type, kind.element)
    if isinstance(kind, MapType):
        return _as_it_is(found.key_type, kind.key) and _as_it_is(found.item_type, kind.value)
    return True


def _struct(array: pa.StructArray, kind: StructType) -> pa.StructArray:
    children = [array.field(number) for number in range(array.type.num_fields)]
    found = [
        (name, _projected(child, below))
        for child, (name, below) in zip(children, _matched(list(array.type), kind), strict=True)
        if name is not None
    ]
    if not found:
        there = array.is_valid().to_pylist()
        return pa.array([{} if valid else None for valid in there], pa.struct([]))
    arrays, names = [child for _, child in found], [name for name, _ in found]
    return pa.StructArray.from_arrays(arrays, names, mask=array.is_null())


def _offsets(array: pa.ListArray | pa.MapArray) -> pa.Array:
    """A copy: Arrow does not take a mask beside offsets that are part of others."""
    return pa.array(array.offsets.to_numpy())
