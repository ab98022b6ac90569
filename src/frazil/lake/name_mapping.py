"""Ids of columns in files that have none, because they were not written for an Iceberg table.

The table says which of its columns a name stands for. Without that, names of now are compared, and a column
that was renamed since would be empty.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa

from frazil.core.errors import InvalidInput
from frazil.core.schema import FIELD_ID
from frazil.lake.fitting import relabelled
from frazil.lake.projection import field_id

NAME_MAPPING = "schema.name-mapping.default"
#: The id of a column that is none of the table's.
_NOBODY = -1


@dataclass(frozen=True)
class Mapped:
    """A column, and those inside of it by their names."""

    id: int
    below: Mapping[str, Mapped]


Names = Mapping[str, Mapped]
NONE: Names = {}
_UNKNOWN = Mapped(_NOBODY, NONE)


def names_of(metadata: Mapping[str, Any]) -> Names:
    """What the table's metadata document says."""
    return names_in(metadata.get("properties") or {})


def names_in(properties: Mapping[str, str]) -> Names:
    """What the table's properties say."""
    text = properties.get(NAME_MAPPING)
    try:
        return NONE if text is None else _names(msgspec.json.decode(text))
    except (msgspec.MsgspecError, AttributeError, KeyError, TypeError, ValueError):
        raise InvalidInput(
            f"the table property {NAME_MAPPING} is no name mapping: {str(text)[:200]}. Restore it, or "
            "remove it"
        ) from None


def has_ids(columns: Sequence[pa.Field]) -> bool:
    return any(field_id(column) is not None for column in columns)


def identified(batch: pa.RecordBatch, names: Names) -> pa.RecordBatch:
    """The batch with ids, of a file that has none."""
    return relabelled(batch, pa.schema([with_id(field, names) for field in batch.schema]))


def with_id(field: pa.Field, names: Names) -> pa.Field:
    """As the mapping knows it: a column that is not in it is none of the table's. Without one, as it is."""
    if not names:
        return field
    known = names.get(field.name, _UNKNOWN)
    metadata = {**(field.metadata or {}), FIELD_ID: str(known.id).encode()}
    return pa.field(field.name, _inside(field.type, known.below), field.nullable, metadata)


def _inside(kind: pa.DataType, names: Names) -> pa.DataType:
    if not names:
        return kind
    if pa.types.is_struct(kind):
        return pa.struct([with_id(child, names) for child in kind.fields])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        made = pa.list_ if pa.types.is_list(kind) else pa.large_list
        return made(_called(kind.value_field, "element", names))
    if pa.types.is_map(kind):
        return pa.map_(_called(kind.key_field, "key", names), _called(kind.item_field, "value", names))
    return kind


def _called(field: pa.Field, name: str, names: Names) -> pa.Field:
    """Formats have names of their own for what is inside of lists and maps."""
    return with_id(field.with_name(name), names).with_name(field.name)


def _names(rows: Sequence[Mapping[str, Any]]) -> Names:
    found: dict[str, Mapped] = {}
    for row in rows:
        number = row.get("field-id")
        mapped = Mapped(_NOBODY if number is None else int(number), _names(row.get("fields") or ()))
        found.update(dict.fromkeys(row.get("names") or (), mapped))
    return found
