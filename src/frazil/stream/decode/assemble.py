"""Arrow arrays of exactly a wanted type, field ids inside nested types included."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa


def child_types(kind: pa.DataType) -> list[pa.DataType]:
    """The types of the child arrays; a map's single child is the struct of its entries."""
    if pa.types.is_struct(kind):
        return [kind.field(index).type for index in range(kind.num_fields)]
    if pa.types.is_map(kind):
        return [pa.struct([kind.key_field, kind.item_field])]
    return [kind.value_type] if pa.types.is_list(kind) else []


def array(
    kind: pa.DataType, length: int, buffers: Sequence[pa.Buffer | None], children: Sequence[pa.Array]
) -> pa.Array:
    return pa.Array.from_buffers(kind, length, list(buffers), null_count=-1, children=list(children))


def retyped(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """The same values: Arrow's builders lose the metadata of fields below a map."""
    kinds = child_types(kind)
    if pa.types.is_struct(kind):
        children = [values.field(index) for index in range(len(kinds))]
    elif pa.types.is_map(kind):
        entries = pa.StructArray.from_arrays([values.keys, values.items], ["key", "value"])
        children = [entries]
    elif pa.types.is_list(kind):
        children = [values.values]
    else:
        return values
    own = values.buffers()[: 1 if pa.types.is_struct(kind) else 2]
    return array(kind, len(values), own, [retyped(*pair) for pair in zip(children, kinds, strict=True)])


def batch(root: pa.StructArray) -> pa.RecordBatch:
    """A struct without nulls as a batch of its fields."""
    return pa.RecordBatch.from_struct_array(root)
