"""Rows of data files that are gone already: by deletion vectors, files of positions, or by their values."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeVar

import pyarrow as pa
from pyroaring import BitMap64

from frazil.core.errors import StorageError, Unsupported
from frazil.core.schema import Field, Schema
from frazil.lake.data_rows import Columns, open_rows
from frazil.lake.deletion_vector import decoded
from frazil.lake.key_match import KeyMatcher
from frazil.lake.live import Target
from frazil.lake.manifests import ContentFile
from frazil.lake.position_deletes import read_positions
from frazil.lake.storage import Inputs

T = TypeVar("T")
#: A Puffin file is read in one piece if at least one in so many of its bytes is asked for.
_SPARSE = 4


class DeletedRows:
    """The delete files of some data files. Those that several share are read once. For many threads."""

    def __init__(self, storage: Inputs, targets: Iterable[Target], schema: Schema) -> None:
        """`schema`: the table's, for the columns that rows are deleted by."""
        self._storage = storage
        self._schema = schema
        self._places: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for target in targets:
            if target.vector is not None:
                self._places[target.vector.path].append(_place(target.vector))
        self._once = _Once()

    def positions(self, target: Target) -> tuple[BitMap64, BitMap64]:
        """Those in delete files that are about this data file alone, and those in files that are not.

        Where there is a vector, it has all of them.
        """
        path, own, shared = target.file.path, BitMap64(), BitMap64()
        if target.vector is not None:
            return self._vector(target.vector), shared
        for file in target.own:
            own |= read_positions(self._storage, file.path, file.format).get(path, shared)
        for file in target.shared:
            read = partial(read_positions, self._storage, file.path, file.format)
            shared |= self._once(file.path, read).get(path, BitMap64())
        return own, shared

    def values(self, file: ContentFile) -> tuple[Columns, KeyMatcher | None]:
        """The columns of a file of values, and what finds rows that have them; None: there are no values."""
        return self._once(file.path, partial(self._values, file))

    def _vector(self, file: ContentFile) -> BitMap64:
        places, (offset, length) = self._places[file.path], _place(file)
        start, end = min(places)[0], max(at + size for at, size in places)
        if _SPARSE * sum(size for _, size in places) >= end - start:
            data = self._once(file.path, partial(self._bytes, file.path, start, end - start))
            return decoded(data[offset - start : offset - start + length], file.path)
        return decoded(self._bytes(file.path, offset, length), file.path)

    def _bytes(self, path: str, start: int, length: int) -> bytes:
        with self._storage.open_input(path) as file, self._storage.reading(path):
            data: bytes = file.read_at(length, start)
            return data

    def _values(self, file: ContentFile) -> tuple[Columns, KeyMatcher | None]:
        columns = Columns(Schema(self._fields(file)))
        with open_rows(self._storage, file.path, file.format) as rows:
            tables = [group.read(columns) for group in rows.groups()]
        table = pa.concat_tables(tables) if tables else None
        if not table:
            return columns, None
        return columns, KeyMatcher([column.combine_chunks() for column in table.columns])

    def _fields(self, file: ContentFile) -> tuple[Field, ...]:
        known = {field.id: field for field in self._schema}
        unknown = [str(number) for number in file.equality_ids if number not in known]
        if unknown:
            raise Unsupported(
                f"{file.path} deletes rows by the columns with the ids {', '.join(unknown)}, which the table "
                "does not have any more, or not at its top. Rewrite its data files with an engine "
                "(rewrite_data_files with delete-file-threshold 1), and start again"
            )
        return tuple(known[number] for number in file.equality_ids)


class _Once:
    """What was asked for before is there; several threads that ask at the same time wait for one of them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._locks: dict[str, threading.Lock] = {}
        self._found: dict[str, Any] = {}

    def __call__(self, name: str, make: Callable[[], T]) -> T:
        with self._lock:
            own = self._locks.setdefault(name, threading.Lock())
        with own:
            if name not in self._found:
                self._found[name] = make()
            found: T = self._found[name]
            return found


def _place(file: ContentFile) -> tuple[int, int]:
    if file.offset is None or file.length is None:
        raise StorageError(f"read {file.path}: the table does not say where in it the deletion vector is")
    return file.offset, file.length
