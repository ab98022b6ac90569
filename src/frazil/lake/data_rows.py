"""Rows of data files, whatever their format and age: columns by their ids, in the types they have now."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from frazil.core.errors import StorageError, Unsupported
from frazil.core.schema import Field, ListType, MapType, Schema, StructType, Type
from frazil.lake.avro_rows import avro_batches
from frazil.lake.fitting import Fitter, relabelled
from frazil.lake.name_mapping import NONE, Names, has_ids, with_id
from frazil.lake.projection import field_id, projected
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

    #: Which columns its names stand for, if it has no ids.
    mapping: Names = NONE

    @abstractmethod
    def _columns(self) -> Iterator[pa.Field]:
        """Those that the file has at its top, as it describes them."""

    @cached_property
    def columns(self) -> tuple[pa.Field, ...]:
        """Those that the file has at its top."""
        found = tuple(self._columns())
        if has_ids(found):
            self.mapping = NONE
        return tuple(with_id(column, self.mapping) for column in found)

    def told(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """A batch of the file with all that is known of its columns."""
        columns = {column.name: column for column in self.columns}
        if not self.mapping:
            return batch
        return relabelled(batch, pa.schema([columns[name] for name in batch.schema.names]))

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
def open_rows(storage: Inputs, path: str, format_: str, mapping: Names = NONE) -> Iterator[DataRows]:
    """StorageError: it cannot be read, also while it is read inside.

    `mapping`: what the table says of names in files without ids; else those of now are compared.
    """
    kind = _FORMATS.get(format_)
    if kind is None:
        raise Unsupported(f"{path} is in the format {format_}; frazil reads {', '.join(_FORMATS)}")
    with storage.open_input(path) as source, storage.reading(path):
        try:
            rows: DataRows = kind(source, path)
            rows.mapping = mapping
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

    def _columns(self) -> Iterator[pa.Field]:
        yield from self.file.schema_arrow

    @cached_property
    def written(self) -> dict[int, str]:
        """Names by the ids that the file itself has: to make its schema again takes long in wide tables.

        What is known by its name alone was written by others, perhaps in other units.
        """
        ids = ((field_id(column), column.name) for column in self._columns())
        return {identifier: name for identifier, name in ids if identifier is not None}

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
        name = self._rows.written.get(identifier)
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
        if not table.num_rows:
            return []
        return [self._rows.told(batch) for batch in table.combine_chunks().to_batches()]


class _OrcRows(DataRows):
    def __init__(self, source: pa.NativeFile, _: str) -> None:
        from pyarrow import orc

        self.file = orc.ORCFile(source)

    def _columns(self) -> Iterator[pa.Field]:
        yield from self.file.schema

    def groups(self) -> Iterator[RowGroup]:
        first = 0
        for number in range(self.file.nstripes):
            batch = self.told(self.file.read_stripe(number))
            yield _Held(first, batch)
            first += len(batch)


class _AvroRows(DataRows):
    def __init__(self, source: pa.NativeFile, path: str) -> None:
        self._batches = list(avro_batches(path, source, _AVRO_ROWS))

    def _columns(self) -> Iterator[pa.Field]:
        yield from self._batches[0].schema if self._batches else ()

    def groups(self) -> Iterator[RowGroup]:
        first = 0
        for batch in self._batches:
            yield _Held(first, self.told(batch))
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
