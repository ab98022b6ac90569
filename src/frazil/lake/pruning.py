"""Which data files can hold one of many keys: by their partition and by the bounds of their columns.

And which can hold one of the values between two, by bounds alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from frazil.core.errors import InvalidInput
from frazil.core.partitioning import PartitionSpec
from frazil.core.schema import Field, Schema
from frazil.lake.data_rows import RowGroup
from frazil.lake.key_match import lanes
from frazil.lake.manifests import ContentFile
from frazil.lake.metrics import int_of
from frazil.lake.partitions import Partitioner
from frazil.lake.transforms import is_known

_NUMBERS = frozenset({"int", "long", "date", "time", "timestamp", "timestamptz"})
_BYTES = frozenset({"string", "binary"})


class KeyRanges:
    """The values of keys, column by column, in order."""

    def __init__(self, schema: Schema, keys: pa.Table) -> None:
        self._columns = [_Range(each, keys.column(each.name)) for each in schema if _is_ordered(each)]

    def meet_file(self, file: ContentFile) -> bool:
        """Whether the file may hold one of them, as the manifest tells."""
        return all(column.meets_file(file) for column in self._columns)

    def meet_group(self, group: RowGroup) -> bool:
        """The same for a part of a file, as the file itself tells."""
        return all(column.meets_group(group) for column in self._columns)


class _Bounded(ABC):
    """Values of one column that are asked for."""

    #: Whether null is one of them.
    _null = False

    def __init__(self, field: Field) -> None:
        self._id = field.id
        self._kind = str(field.type)

    def meets_file(self, file: ContentFile) -> bool:
        low, high = file.lower.get(self._id), file.upper.get(self._id)
        if self._null and file.nulls.get(self._id, 1):
            return True
        return self._between(
            None if low is None else self._decoded(low), None if high is None else self._decoded(high)
        )

    def meets_group(self, group: RowGroup) -> bool:
        found = group.bounds(self._id)
        if found is None or (self._null and found.nulls):
            return True
        if self._kind.startswith("decimal"):
            return self._between(int_of(found.low), int_of(found.high))
        if type(found.low) is not (bytes if self._kind in _BYTES else int):
            return True
        return self._between(found.low, found.high)

    @abstractmethod
    def _between(self, low: Any, high: Any) -> bool:
        """Whether one of them is neither below `low` nor above `high`; None: that may be anything."""

    def _decoded(self, bound: bytes) -> Any:
        if self._kind in _BYTES:
            return bound
        return int.from_bytes(bound, "big" if self._kind.startswith("decimal") else "little", signed=True)


class _Range(_Bounded):
    def __init__(self, field: Field, keys: pa.ChunkedArray) -> None:
        super().__init__(field)
        self._null = keys.null_count > 0
        self._sorted = _in_order(field, keys.combine_chunks().drop_null())

    def _between(self, low: Any, high: Any) -> bool:
        start = 0 if low is None else bisect_left(self._sorted, low)
        end = len(self._sorted) if high is None else bisect_right(self._sorted, high)
        # Files without any bound may hold nulls only, but older ones had none at all.
        return start < end


class ValueRange(_Bounded):
    """All values of a column from one to another."""

    def __init__(self, field: Field, bounds: pa.Array) -> None:
        """`bounds`: both, of a type that all writers order alike; null: there is no such bound."""
        assert _is_ordered(field), "others have no bounds that mean the same to all"
        super().__init__(field)
        self._low, self._high = (
            _in_order(field, bounds.slice(place, 1))[0] if bounds[place].is_valid else None
            for place in range(2)
        )

    def _between(self, low: Any, high: Any) -> bool:
        if self._low is not None and high is not None and high < self._low:
            return False
        return self._high is None or low is None or bool(low <= self._high)


class KeyPartitions:
    """The partitions of keys, by partition spec, as far as those are made of key columns."""

    def __init__(self, specs: Mapping[int, PartitionSpec], schema: Schema, keys: pa.Table) -> None:
        self._found = {
            number: found
            for number, spec in specs.items()
            if (found := _partitions(spec, schema, keys)) is not None
        }

    def meet(self, file: ContentFile) -> bool:
        if file.spec_id not in self._found:
            return True
        ids, values = self._found[file.spec_id]
        return tuple(file.partition.get(each) for each in ids) in values


def _partitions(
    spec: PartitionSpec, schema: Schema, keys: pa.Table
) -> tuple[tuple[int, ...], set[tuple[Any, ...]]] | None:
    ids = {field.id for field in schema}
    fields = tuple(
        each
        for each in spec.fields
        if each.source_id in ids and each.transform != "void" and is_known(each.transform)
    )
    if not fields:
        return None
    partitioner = Partitioner(PartitionSpec(fields, spec.id), schema)
    numbers = tuple(each.field_id for each in fields)
    try:
        found = [
            partition.values
            for batch in keys.to_batches()
            if len(batch)
            for partition, _ in partitioner.split(batch)
        ]
    except InvalidInput:
        # A value that no partition can have (NaN) says nothing about the others.
        return None
    return numbers, {tuple(values[each] for each in numbers) for values in found}


def _is_ordered(field: Field) -> bool:
    """Whether all writers agree on what is below what. (Not for `uuid`, see `metrics`.)"""
    return isinstance(field.type, str) and (
        field.type in _NUMBERS or field.type in _BYTES or field.type.startswith("decimal")
    )


def _in_order(field: Field, values: pa.Array) -> Sequence[Any]:
    """As bounds are compared."""
    if field.type in _BYTES:
        return sorted(values.cast(pa.binary()).to_pylist())
    words = [lane.to_numpy() for lane in lanes(values)]
    if len(words) == 1:
        # `bisect` does with an array, and to make many numbers Python's own is slow.
        ordered: Sequence[Any] = np.sort(words[0])  # type: ignore[assignment]
        return ordered
    # A wide decimal: the lower half has no sign.
    pairs = zip(*(word.tolist() for word in words), strict=True)
    return sorted((high << 64) | (low % (1 << 64)) for low, high in pairs)
