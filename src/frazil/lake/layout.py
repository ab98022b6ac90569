"""A table's columns as Arrow holds them, under other names and types of the same layout in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa

from frazil.core.schema import ListType, MapType, Schema, StructType, Type
from frazil.lake.fitting import relabelled

#: What each primitive is stored as, and what is said about a field: its id, whether it is required, its type.
Leaves = Callable[[str], pa.DataType]
Labels = Callable[[int, bool, Type], Mapping[str, str]]


class Layout:
    """Batches of a table's schema, read as those of another with the same layout; no value is touched."""

    def __init__(self, schema: Schema, leaves: Leaves, labels: Labels) -> None:
        self._leaves = leaves
        self._labels = labels
        self.schema = pa.schema([self._field(f.name, f.type, f.required, f.id) for f in schema.fields])

    def of(self, rows: pa.Table) -> pa.Table:
        return pa.Table.from_batches(
            [relabelled(batch, self.schema) for batch in rows.to_batches()], self.schema
        )

    def _field(self, name: str, kind: Type, required: bool, identifier: int) -> pa.Field:
        labels = dict(self._labels(identifier, required, kind))
        return pa.field(name, self._type(kind), not required, labels or None)

    def _type(self, kind: Type) -> pa.DataType:
        if isinstance(kind, StructType):
            return pa.struct([self._field(f.name, f.type, f.required, f.id) for f in kind.fields])
        if isinstance(kind, ListType):
            return pa.list_(self._field("element", kind.element, kind.element_required, kind.element_id))
        if isinstance(kind, MapType):
            return pa.map_(
                self._field("key", kind.key, True, kind.key_id),
                self._field("value", kind.value, kind.value_required, kind.value_id),
            )
        return self._leaves(kind)
