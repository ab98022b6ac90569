"""Changes of a table, read in tasks: rows with the columns that tell what became of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
import numpy as np
import pyarrow as pa

from frazil.core.correction import CORRECTION
from frazil.core.errors import StorageError
from frazil.core.schema import Schema
from frazil.lake.changelog import (
    CHANGE_FIELDS,
    finished,
    identifier_fields,
    marked,
    shape_of,
    specs_of,
    told,
)
from frazil.lake.changelog_pairs import KEY_DIGEST, paired_all, slots
from frazil.lake.changelog_rows import Shape, UnitReader
from frazil.lake.changelog_units import Commit, TableFiles, Unit, commit_of
from frazil.lake.history import TableSnapshot
from frazil.lake.live import Target
from frazil.lake.manifests import DATA, ContentFile
from frazil.lake.places import KeyedPlace, PlacedFiles
from frazil.stream.source import RawBatch, Slice

#: Of a metadata document: what tasks need of it.
_LAYOUT = ("schemas", "schema", "current-schema-id", "partition-specs", "partition-spec", "properties")


class ChangedPart(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a task has to know of a slice beside its range; in its `version`, as JSON.

    - `rows`: a file that came, of which every row is there; offsets are its rows.
    - `live`: a file of the table as it was, without rows that are deleted; offsets are its rows.
    - `diff`: all else that a commit did. Offsets divide its rows by their keys: each row has one.
    """

    kind: Literal["rows", "live", "diff"]
    snapshot: int
    millis: int
    sequence: int = 0
    schema: int | None = None
    correction: str | None = None
    #: Of the snapshot and of its parent.
    manifests: str | None = None
    parent: str | None = None
    format: str = ""
    spec: int = 0
    #: The offsets of the whole commit.
    total: int = 0

    @classmethod
    def of(cls, kind: Literal["rows", "live", "diff"], snapshot: TableSnapshot, **more: Any) -> ChangedPart:
        return cls(
            kind,
            snapshot.id,
            snapshot.millis,
            snapshot.sequence,
            snapshot.schema_id,
            snapshot.summary.get(CORRECTION),
            None if kind == "rows" else snapshot.manifest_list,
            **more,
        )

    def text(self) -> str:
        return msgspec.json.encode(self).decode()

    def taken(self) -> TableSnapshot:
        summary = {} if self.correction is None else {CORRECTION: self.correction}
        return TableSnapshot(self.snapshot, None, self.millis, "", summary, self.manifests, self.sequence)

    def before(self) -> TableSnapshot | None:
        return None if self.parent is None else TableSnapshot(0, None, 0, "", {}, self.parent)


@dataclass(frozen=True)
class ChangeReader:
    """A `Reader` of slices whose version is a `ChangedPart`."""

    places: tuple[KeyedPlace, ...]
    table: str
    #: Schemas and partition specs of the table, now and ever.
    layout: Mapping[str, Any]

    @classmethod
    def of(cls, places: tuple[KeyedPlace, ...], table: str, metadata: Mapping[str, Any]) -> ChangeReader:
        return cls(places, table, {key: metadata[key] for key in _LAYOUT if key in metadata})

    @property
    def schema(self) -> Schema:
        """The columns of the table as they are now, and those of the change."""
        return Schema((*shape_of(self.layout, self.table).schema.fields, *CHANGE_FIELDS))

    def read(self, slices: Sequence[Slice]) -> Iterator[RawBatch]:
        storage = PlacedFiles(self.places)
        files = TableFiles(storage, specs_of(self.layout, shape_of(self.layout, self.table).schema))
        for part in slices:
            known = msgspec.json.decode(part.version, type=ChangedPart)
            if known.kind == "diff":
                yield from self._diff(part, known, files, storage)
            else:
                yield from self._file(part, known, files, storage)

    def _file(
        self, part: Slice, known: ChangedPart, files: TableFiles, storage: PlacedFiles
    ) -> Iterator[RawBatch]:
        """Rows of one file, all of which came."""
        if known.kind == "rows":
            file = ContentFile(part.topic, known.format, DATA, part.end, 0, known.spec, {}, 0)
            commit = commit_of(known.taken(), known.sequence, [Unit(None, Target(file))])
        else:
            commit = files.whole(known.taken(), known.sequence)
        units = [unit for unit in commit.units if unit.file.path == part.topic]
        if not units:
            raise StorageError(f"{part.topic} is not among the files of snapshot {known.snapshot}")
        reader = UnitReader(shape_of(self.layout, self.table), storage, units)
        for signed in reader.read(units[0], part.start, part.end):
            yield _raw(part, signed.positions, told(commit, signed), known.millis)

    def _past(self, schema_id: int | None, key: Sequence[str]) -> Shape:
        """A column that nobody can read was dropped since, and tells rows apart only as part of a key."""
        then = shape_of(self.layout, self.table, schema_id, foreign=False)
        names = {field.name for field in then.schema}
        return then if names.issuperset(key) else shape_of(self.layout, self.table, schema_id)

    def _diff(
        self, part: Slice, known: ChangedPart, files: TableFiles, storage: PlacedFiles
    ) -> Iterator[RawBatch]:
        """Rows whose offset is in the slice."""
        commit = files.commit(known.before(), known.taken(), known.sequence)
        shape = shape_of(self.layout, self.table)
        # A commit may be read in several rounds, and columns change between them: its own divide it.
        key = identifier_fields(self.layout, self.table, known.schema)
        then = self._past(known.schema, key)
        compared = None if then.schema == shape.schema else then
        rows = marked(shape, key, commit, storage, compared)
        mine = (_within(batch, part, known.total) for batch in rows)
        most = commit.changes * len(part) // known.total + 1
        for table in paired_all(filter(len, mine), most, keyed=bool(key)):
            offsets = slots(table.column(KEY_DIGEST), known.total)
            for batch in finished(table):
                yield _raw(part, offsets[: len(batch)], batch, known.millis)
                offsets = offsets[len(batch) :]


def diff_slice(table: str, snapshot: TableSnapshot, parent: TableSnapshot | None, commit: Commit) -> Slice:
    """All that a commit did."""
    before = None if parent is None else parent.manifest_list
    known = ChangedPart.of("diff", snapshot, parent=before, total=commit.changes)
    return Slice(f"{table}@{snapshot.id}", 0, 0, commit.changes, known.text())


def file_slices(snapshot: TableSnapshot, commit: Commit) -> list[Slice]:
    """Of a commit that only brings files: one for each."""
    found = []
    for unit in commit.units:
        file, kind = unit.file, ("rows" if unit.plain else "live")
        known = ChangedPart.of(kind, snapshot, format=file.format, spec=file.spec_id)  # type: ignore[arg-type]
        found.append(Slice(file.path, 0, 0, file.records, known.text()))
    return found


def _within(batch: pa.RecordBatch, part: Slice, total: int) -> pa.RecordBatch:
    if (part.start, part.end) == (0, total):
        return batch
    places = slots(batch.column(batch.schema.names.index(KEY_DIGEST)), total)
    return batch.filter(pa.array((places >= part.start) & (places < part.end)))


def _raw(part: Slice, offsets: np.ndarray, rows: pa.RecordBatch, millis: int) -> RawBatch:
    count = len(rows)
    return RawBatch(
        part.topic,
        part.partition,
        pa.nulls(count, pa.binary()),
        pa.array(offsets.astype(np.int64)),
        pa.array(np.full(count, millis, dtype=np.int64)),
        rows=rows,
        slice_start=part.start,
    )
