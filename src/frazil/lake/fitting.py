"""Arrow batches made to fit a table: columns by name, types cast, what is required checked."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from frazil.core.errors import InvalidInput
from frazil.core.schema import Field, ListType, MapType, Schema, StructType, Type


class Fitter:
    """Turns batches into those of a table's file schema. One that fits already costs nothing."""

    def __init__(self, schema: Schema) -> None:
        self._fields = schema.fields
        plain = schema.to_arrow()
        self._plain = _bare(plain)
        #: What files hold: as the table's schema in Arrow, with `uuid` told from other bytes.
        self.schema = pa.schema([_with_uuids(a, f.type) for a, f in zip(plain, self._fields, strict=True)])

    def fit(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch in the schema's order; InvalidInput names the column that cannot be."""
        if not batch.schema.equals(self.schema, check_metadata=True):
            columns = [self._column(batch, number) for number in range(len(self._fields))]
            if columns:
                batch = pa.RecordBatch.from_arrays(columns, schema=self._plain)
            batch = relabelled(batch, self.schema)
        for field, column in zip(self._fields, batch.columns, strict=True):
            _check(field.name, field.type, field.required, column)
        return batch

    def _column(self, batch: pa.RecordBatch, number: int) -> pa.Array:
        field, wanted = self._fields[number], self._plain.field(number).type
        indices = batch.schema.get_all_field_indices(field.name)
        if len(indices) > 1:
            raise InvalidInput(f"the rows have {len(indices)} columns '{field.name}'")
        if not indices:
            if field.required:
                names = ", ".join(batch.schema.names)
                raise InvalidInput(f"the required column '{field.name}' is missing; the rows have: {names}")
            return pa.nulls(batch.num_rows, wanted)
        column = batch.column(indices[0])
        if isinstance(column.type, pa.BaseExtensionType):
            column = column.storage
        if column.type == wanted:
            return column
        try:
            return pc.cast(column, wanted)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise InvalidInput(
                f"column '{field.name}' is {column.type} and cannot become {wanted}: {error}"
            ) from None


def relabelled(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The same memory under a schema of the same layout: ids, names of elements and `uuid` at any depth."""
    return pa.record_batch(_Relabelled(batch, schema))


class _Relabelled:
    def __init__(self, batch: pa.RecordBatch, schema: pa.Schema) -> None:
        self._batch = batch
        self._schema = schema

    def __arrow_c_array__(self, requested_schema: Any = None) -> tuple[Any, Any]:
        return self._schema.__arrow_c_schema__(), self._batch.__arrow_c_array__()[1]


def _bare(schema: pa.Schema) -> pa.Schema:
    """Without promises about nulls at any depth: those are checked afterwards, with a better message."""
    return pa.schema([_bare_field(field) for field in schema])


def _bare_field(field: pa.Field) -> pa.Field:
    kind = field.type
    if pa.types.is_struct(kind):
        kind = pa.struct([_bare_field(child) for child in kind.fields])
    elif pa.types.is_map(kind):
        kind = pa.map_(kind.key_field, _bare_field(kind.item_field))
    elif pa.types.is_list(kind):
        kind = pa.list_(_bare_field(kind.value_field))
    return pa.field(field.name, kind)


def _with_uuids(field: pa.Field, kind: Type) -> pa.Field:
    return field.with_type(_uuid_type(field.type, kind))


def _uuid_type(found: pa.DataType, kind: Type) -> pa.DataType:
    if isinstance(kind, StructType):
        return pa.struct([_with_uuids(a, f.type) for a, f in zip(found.fields, kind.fields, strict=True)])
    if isinstance(kind, ListType):
        return pa.list_(_with_uuids(found.value_field, kind.element))
    if isinstance(kind, MapType):
        return pa.map_(_with_uuids(found.key_field, kind.key), _with_uuids(found.item_field, kind.value))
    return pa.uuid() if kind == "uuid" else found


def _check(name: str, kind: Type, required: bool, column: pa.Array) -> None:
    """Refuse nulls where the schema has none."""
    if required and column.null_count:
        raise InvalidInput(
            f"column '{name}' is required, but {column.null_count} of {len(column)} rows have no value"
        )
    if isinstance(kind, StructType) and any(map(_demands, kind.fields)):
        for field, child in zip(kind.fields, _children(column), strict=True):
            _check(f"{name}.{field.name}", field.type, field.required, child)
    elif isinstance(kind, ListType) and _promises(kind):
        _check(f"{name}.element", kind.element, kind.element_required, column.flatten())
    elif isinstance(kind, MapType) and _promises(kind):
        present = column.drop_null() if column.null_count else column
        _check(f"{name}.key", kind.key, False, present.keys)
        _check(f"{name}.value", kind.value, kind.value_required, present.items)


def _children(column: pa.StructArray) -> list[pa.Array]:
    """The fields of the structs that are there."""
    present = column.drop_null() if column.null_count else column
    return list(present.flatten())


def _demands(field: Field) -> bool:
    return field.required or _promises(field.type)


def _promises(kind: Type) -> bool:
    """Whether something inside must not be null."""
    if isinstance(kind, StructType):
        return any(map(_demands, kind.fields))
    if isinstance(kind, ListType):
        return kind.element_required or _promises(kind.element)
    if isinstance(kind, MapType):
        return kind.value_required or _promises(kind.key) or _promises(kind.value)
    return False
