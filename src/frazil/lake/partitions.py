"""Rows by partition: each batch is split into one batch for each partition that it has rows of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.core.errors import Unsupported
from frazil.core.partitioning import PartitionField, PartitionSpec
from frazil.core.schema import Schema, StructType, Type, show_type
from frazil.lake.transforms import json_values, result_type, transformed

#: Codes below this sort in linear time.
_SHORT = 1 << 16
_LONG = 1 << 62


@dataclass(frozen=True)
class Partition:
    """Values by the spec's field ids, in JSON's form."""

    #: Texts, because numbers hide a difference: 0.0 and -0.0 are equal.
    key: tuple[str, ...] = ()
    values: dict[int, Any] = field(default_factory=dict, compare=False)


@dataclass(frozen=True)
class _Source:
    field_id: int
    transform: str
    kind: str
    #: Where the column is, by position at each level; none for a dropped column (`void`).
    path: tuple[int, ...]


class Partitioner:
    """A table's partition spec, applied."""

    def __init__(self, spec: PartitionSpec, schema: Schema) -> None:
        self._sources = tuple(_source(field, schema) for field in spec.fields)

    def split(self, batch: pa.RecordBatch) -> Iterator[tuple[Partition, pa.RecordBatch]]:
        """Rows keep their order within a partition. Rows of one partition only are not copied."""
        columns = [self._encoded(source, batch) for source in self._sources]
        values = [
            json_values(result_type(source.transform, source.kind), column.dictionary)
            for source, column in zip(self._sources, columns, strict=True)
        ]
        if all(len(found) == 1 for found in values):
            yield self._partition([found[0] for found in values]), batch
            return
        codes = [column.indices.to_numpy() for column in columns]
        order, starts = _grouped(codes, [len(found) for found in values])
        for start, end in zip(starts, [*starts[1:], len(order)], strict=True):
            rows = order[start:end]
            chosen = [found[code[rows[0]]] for found, code in zip(values, codes, strict=True)]
            # A copy of its own: a slice would keep the rows of all other partitions in memory.
            yield self._partition(chosen), batch.take(pa.array(rows))

    def _encoded(self, source: _Source, batch: pa.RecordBatch) -> pa.DictionaryArray:
        column = _column(source.path, batch) if source.path else pa.nulls(batch.num_rows, pa.int32())
        return pc.dictionary_encode(transformed(source.transform, column), null_encoding="encode")

    def _partition(self, values: Sequence[Any]) -> Partition:
        ids = [source.field_id for source in self._sources]
        return Partition(tuple(map(repr, values)), dict(zip(ids, values, strict=True)))


def _column(path: tuple[int, ...], batch: pa.RecordBatch) -> pa.Array:
    column = batch.column(path[0])
    if len(path) > 1:
        column = pc.struct_field(column, list(path[1:]))
    return column.storage if isinstance(column.type, pa.BaseExtensionType) else column


def _grouped(
    codes: Sequence[npt.NDArray[Any]], sizes: Sequence[int]
) -> tuple[npt.NDArray[np.int64], list[int]]:
    """The rows ordered by their codes, and where each combination of codes begins."""
    combined, size = codes[0].astype(np.int64), sizes[0]
    for code, count in zip(codes[1:], sizes[1:], strict=True):
        if size * count > _LONG:
            distinct, combined = np.unique(combined, return_inverse=True)
            size = len(distinct)
        combined, size = combined * count + code, size * count
    if size < _SHORT:
        combined = combined.astype(np.uint16)
    order = np.argsort(combined, kind="stable")
    sorted_codes = combined[order]
    starts = np.flatnonzero(sorted_codes[1:] != sorted_codes[:-1]) + 1
    return order, [0, *starts.tolist()]


def _source(partition: PartitionField, schema: Schema) -> _Source:
    found = _find(partition.source_id, schema.fields)
    if found is None and partition.transform != "void":
        raise Unsupported(
            f"partition field '{partition.name}' is made of a column that the table does not have"
        )
    path, kind = found or ((), "int")
    if not isinstance(kind, str):
        raise Unsupported(f"partition field '{partition.name}' is made of a {show_type(kind)}")
    return _Source(partition.field_id, partition.transform, kind, path)


def _find(identifier: int, fields: Sequence[Any]) -> tuple[tuple[int, ...], Type] | None:
    for number, candidate in enumerate(fields):
        if candidate.id == identifier:
            return (number,), candidate.type
        if isinstance(candidate.type, StructType) and (inner := _find(identifier, candidate.type.fields)):
            return (number, *inner[0]), inner[1]
    return None
