"""Rows of data files, whatever their format and age: columns by their ids, in the types they have now."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from frazil.core.errors import StorageError, Unsupported
from frazil.core.schema import Field, ListType, MapType, Schema, StructType, Type
from frazil.lake.avro_rows import avro_batches
from frazil.lake.fitting import Fitter
from frazil.lake.projection import field_id, identified, projected
from frazil.lake.storage import Inputs

_AVRO_ROWS = 65_536


@dataclass(frozen=True)
class GroupBounds:
    """What a file says about a column in a group of rows, as Parquet holds values."""

    low: Any
    high: Any
    #: Whether some may be null.
    nulls: bool


class RowGroup(ABC):
    """Consecutive rows of a file, that are read together."""

    #: The position of its first row.
    first: int
    count: int

    @abstractmethod
    def _batches(self, columns: Schema) -> list[pa.RecordBatch]:
        """At least those columns of `columns` that the file has."""

    def bounds(self, identifier: int) -> GroupBounds | None:
        """Of the column with that id, if the file tells."""
        return None

    def read(self, columns: Columns) -> pa.Table:
        """The columns; null where the file is older than they are."""
        schema = columns.fitter.schema
        found = [projected(each, columns.schema) for each in self._batches(columns.schema)]
        if not any(each.num_columns for each in found):
            # Without a column a batch does not know how many rows it has.
            return pa.table([pa.nulls(self.count, field.type) for field in schema], schema=schema)
        return pa.Table.from_batches([columns.fitter.fit(each) for each in found], schema)


class Columns:
    """Columns to read: nothing is required of them, since files may be older than that."""

    def __init__(self, schema: Schema) -> None:
        self.schema = Schema(tuple(replace(field, required=False) for field in schema), schema.id)
        self.fitter = Fitter(self.schema)


class DataRows(ABC):
    """An open file."""

    #: The ids of columns by their names, for files that have no ids.
    by_name: Mapping[str, int] = MappingProxyType({})

    @abstractmethod
    def _written(self) -> Sequence[pa.Field]:
        """The columns that the file has at its top."""

    @cached_property
    def columns(self) -> tuple[pa.Field, ...]:
        """The same with their ids, as far as anybody knows them."""
        return tuple(identified(self._written(), self.by_name))

    def identified(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """A batch of the file, in which columns have their ids."""
        fields = identified(list(batch.schema), self.by_name)
        return pa.RecordBatch.from_arrays(batch.columns, schema=pa.schema(fields)) if self.by_name else batch

    @abstractmethod
    def groups(self) -> Iterator[RowGroup]:
        """In order."""

    def names(self, schema: Schema) -> list[str]:
        """What the file calls the columns of `schema` that it has."""
        ids = {field.id for field in schema}
        names = {field.name for field in schema}
        found = []
        for column in self.columns:
            identifier = field_id(column)
            if (column.name in names) if identifier is None else (identifier in ids):
                found.append(column.name)
        return found

    def require(self, path: str, schema: Schema, elsewhere: frozenset[int]) -> None:
        """Unsupported: a column is not in the file, and its value is `elsewhere`, by id, instead."""
        lacking = list(_lacking(self.columns, schema.fields, elsewhere))
        if lacking:
            raise Unsupported(
                f"{path} does not hold the column {', '.join(lacking)}: its value is in the partition or in "
                "a default of the table alone. Rewrite the file with an engine (rewrite_data_files), and "
                "start again"
            )


def _lacking(
    columns: Sequence[pa.Field], fields: Sequence[Field], elsewhere: frozenset[int], before: str = ""
) -> Iterator[str]:
    """Fields of `elsewhere` that are not among the columns, nor inside those that are."""
    known = {field_id(column) or column.name: column.type for column in columns}
    for field in fields:
        found = known.get(field.id, known.get(field.name))
        if found is not None:
            yield from _lacking_inside(found, field.type, elsewhere, f"{before}{field.name}")
        elif field.id in elsewhere:
            yield before + field.name


def _lacking_inside(found: pa.DataType, kind: Type, elsewhere: frozenset[int], name: str) -> Iterator[str]:
    if isinstance(kind, StructType):
        yield from _lacking(list(found), kind.fields, elsewhere, f"{name}.")
    elif isinstance(kind, ListType):
        yield from _lacking_inside(found.value_type, kind.element, elsewhere, name)
    elif isinstance(kind, MapType):
        yield from _lacking_inside(found.key_type, kind.key, elsewhere, name)
        yield from _lacking_inside(found.item_type, kind.value, elsewhere, name)


@contextmanager
def open_rows(
    storage: Inputs, path: str, format_: str, by_name: Mapping[str, int] = MappingProxyType({})
) -> Iterator[DataRows]:
    """`by_name`: see `names_of`. StorageError: it cannot be read, also while it is read inside."""
    kind = _FORMATS.get(format_)
    if kind is None:
        raise Unsupported(f"{path} is in the format {format_}; frazil reads {', '.join(_FORMATS)}")
    with storage.open_input(path) as source, storage.reading(path):
        try:
            rows: DataRows = kind(source, path)
            rows.by_name = by_name
            yield rows
        except pa.ArrowException as error:
            raise StorageError(f"read {path}: {error}") from None


def row_groups(storage: Inputs, path: str, format_: str, schema: Schema) -> Iterator[tuple[int, pa.Table]]:
    """All rows of a file, with the position of the first of each group."""
    columns = Columns(schema)
    with open_rows(storage, path, format_) as rows:
        for group in rows.groups():
            yield group.first, group.read(columns)


class _ParquetRows(DataRows):
    def __init__(self, source: pa.NativeFile, _: str) -> None:
        self.file = pq.ParquetFile(source, pre_buffer=True)

    def _written(self) -> Sequence[pa.Field]:
        return list(self.file.schema_arrow)

    @cached_property
    def leaves(self) -> dict[str, int]:
        schema = self.file.schema
        return {schema.column(number).path: number for number in range(len(schema))}

    def groups(self) -> Iterator[RowGroup]:
        first = 0
        for number in range(self.file.num_row_groups):
            group = _ParquetGroup(self, number, first)
            yield group
            first += group.count


class _ParquetGroup(RowGroup):
    def __init__(self, rows: _ParquetRows, number: int, first: int) -> None:
        self._rows = rows
        self._number = number
        self._metadata = rows.file.metadata.row_group(number)
        self.first = first
        self.count = self._metadata.num_rows

    def bounds(self, identifier: int) -> GroupBounds | None:
        # What is known by its name alone was written by others, perhaps in other units.
        written = self._rows.file.schema_arrow
        name = next((column.name for column in written if field_id(column) == identifier), None)
        leaf = None if name is None else self._rows.leaves.get(name)
        found = None if leaf is None else self._metadata.column(leaf).statistics
        if found is None or not found.has_min_max:
            return None
        return GroupBounds(found.min_raw, found.max_raw, not found.has_null_count or found.null_count > 0)

    def _batches(self, columns: Schema) -> list[pa.RecordBatch]:
        names = self._rows.names(columns)
        if not names:
            return []
        table = self._rows.file.read_row_group(self._number, columns=names, use_threads=False)
        return [self._rows.identified(each) for each in table.combine_chunks().to_batches() if len(each)]


class _OrcRows(DataRows):
    def __init__(self, source: pa.NativeFile, _: str) -> None:
        from pyarrow import orc

        self.file = orc.ORCFile(source)

    def _written(self) -> Sequence[pa.Field]:
        return list(self.file.schema)

    def groups(self) -> Iterator[RowGroup]:
        first = 0
        for number in range(self.file.nstripes):
            batch = self.file.read_stripe(number)
            yield _Held(first, self.identified(batch))
            first += len(batch)


class _AvroRows(DataRows):
    def __init__(self, source: pa.NativeFile, path: str) -> None:
        self._batches = list(avro_batches(path, source, _AVRO_ROWS))

    def _written(self) -> Sequence[pa.Field]:
        return list(self._batches[0].schema) if self._batches else ()

    def groups(self) -> Iterator[RowGroup]:
        first = 0
        for batch in self._batches:
            yield _Held(first, self.identified(batch))
            first += len(batch)


class _Held(RowGroup):
    """In memory as a whole."""

    def __init__(self, first: int, batch: pa.RecordBatch) -> None:
        self.first = first
        self.count = len(batch)
        self._batch = batch

    def _batches(self, columns: Schema) -> list[pa.RecordBatch]:
        return [self._batch]


_FORMATS: dict[str, Any] = {"parquet": _ParquetRows, "orc": _OrcRows, "avro": _AvroRows}
