"""The exact changes of any Iceberg table between two snapshots: all rows that came or went, by commit.

Iceberg's own changelog refuses tables with delete files. This one compares, for each snapshot and its parent,
which data files there are and which of their rows are alive: by deletion vectors, files of positions, and
values that others deleted. There is no JVM; the work is data, and can be done in tasks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from frazil.core.errors import InvalidInput, Unsupported
from frazil.core.foreign_types import without_foreign
from frazil.core.names import show
from frazil.core.partitioning import PartitionSpec
from frazil.core.schema import Field, Schema
from frazil.lake.arrow_scan import columns_of, defaulted
from frazil.lake.changelog_pairs import (
    CHANGE_COLUMNS,
    CHANGE_TYPE,
    CORRECTED,
    DELETE,
    INSERT,
    KEY_DIGEST,
    ORDINAL,
    ROW_DIGEST,
    SNAPSHOT,
    TIMESTAMP,
    paired_all,
)
from frazil.lake.changelog_range import Moment, SnapshotRange, snapshot_range
from frazil.lake.changelog_rows import Shape, SignedRows, UnitReader
from frazil.lake.changelog_units import Commit, TableFiles
from frazil.lake.history import TableHistory
from frazil.lake.name_mapping import names_of
from frazil.lake.places import PlacedFiles, ReadKeys
from frazil.lake.row_bytes import digests

if TYPE_CHECKING:
    from frazil.client import Client
    from frazil.lake.storage import Inputs

#: Behind the columns of the table.
CHANGE_FIELDS = (
    Field(CHANGE_TYPE, "string", required=True),
    Field(ORDINAL, "int", required=True),
    Field(SNAPSHOT, "long", required=True),
    Field(TIMESTAMP, "timestamptz", required=True),
    Field(CORRECTED, "string"),
)


@dataclass(frozen=True)
class Changelog:
    """What is asked for, as data: which snapshots of a table, and how their changes are told."""

    table: str
    range: SnapshotRange
    shape: Shape
    specs: Mapping[int, PartitionSpec]
    #: Columns by which rows that go and come are an update; none: they are not.
    key: tuple[str, ...] = ()
    #: Only what is different in the end.
    net: bool = False

    @property
    def schema(self) -> Schema:
        """The columns of the table, and those that tell of the change."""
        return Schema((*self.shape.schema.fields, *CHANGE_FIELDS))

    def files(self, storage: Inputs) -> TableFiles:
        return TableFiles(storage, self.specs)

    def commits(self, files: TableFiles) -> Iterator[Commit]:
        """Those that change rows, oldest first. Stamps and claims, which are empty, are counted only."""
        parent, ordinal = self.range.start, 0
        for snapshot in self.range.steps:
            if not files.rewrites(parent, snapshot):
                commit = files.commit(parent, snapshot, ordinal)
                if commit.units:
                    yield commit
                ordinal += 1
            parent = snapshot


def changelog_of(
    metadata: Mapping[str, Any],
    table: str,
    *,
    since: Moment | None = None,
    until: Moment | None = None,
    key: Sequence[str] | None = None,
    net: bool = False,
) -> Changelog:
    """From a table's metadata document. `key`: None for the table's identifier fields, () for no key."""
    found = snapshot_range(TableHistory(metadata), table, since, until, net=net)
    newest = found.steps[-1] if found.steps else found.start
    at = None if until is None or newest is None else newest.schema_id
    shape, columns = shape_of(metadata, table, at), identifier_fields(metadata, table, at)
    return Changelog(
        table, found, shape, specs_of(metadata, shape.schema), key_of(shape.schema, key, columns), net
    )


def read_changes(
    client: Client,
    table: str,
    *,
    since: Moment | None = None,
    until: Moment | None = None,
    key: Sequence[str] | None = None,
    net: bool = False,
) -> Iterator[pa.RecordBatch]:
    """The changes of `namespace.name` after `since` and up to `until`, in this process, batch by batch.

    Both are snapshot ids, times, or names of tags and branches; without them, all changes up to now. With a
    `key` (or identifier fields of the table) a row that replaces another is an update. `net`: rows that came
    and went in between are left out, and several updates are one.

    >>> for batch in read_changes(client, "shop.orders", since="last-report"):  # doctest: +SKIP
    ...     print(batch.to_pylist())
    """
    from frazil.client.naming import identifier

    namespace, name = identifier(table)
    metadata = client.tables.load(namespace, name).metadata
    places = ReadKeys(client, namespace, name).places(metadata)
    shown = show(namespace, name)
    changelog = changelog_of(metadata, shown, since=since, until=until, key=key, net=net)
    return changes(changelog, PlacedFiles(places))


def changes(changelog: Changelog, storage: Inputs) -> Iterator[pa.RecordBatch]:
    """The rows of a changelog, oldest commit first, an update's two rows one behind the other."""
    commits = changelog.commits(changelog.files(storage))
    if not changelog.net:
        for commit in commits:
            yield from commit_changes(changelog, commit, storage)
        return
    known = list(commits)
    if not any(unit.before for commit in known for unit in commit.units):
        for commit in known:
            yield from commit_changes(changelog, commit, storage)
        return
    rows = (batch for commit in known for batch in marked(changelog.shape, changelog.key, commit, storage))
    most = sum(commit.changes for commit in known)
    for table in paired_all(rows, most, keyed=bool(changelog.key), net=True):
        yield from finished(table)


def commit_changes(changelog: Changelog, commit: Commit, storage: Inputs) -> Iterator[pa.RecordBatch]:
    """Of one commit."""
    if not commit.paired:
        reader = UnitReader(changelog.shape, storage, commit.units)
        for unit in commit.units:
            yield from map(partial(told, commit), reader.read(unit))
        return
    rows = marked(changelog.shape, changelog.key, commit, storage)
    for table in paired_all(rows, commit.changes, keyed=bool(changelog.key)):
        yield from finished(table)


def marked(
    shape: Shape, key: Sequence[str], commit: Commit, storage: Inputs, compared: Shape | None = None
) -> Iterator[pa.RecordBatch]:
    """Rows of a commit that came and went, with the digests that pair them.

    `compared`: the columns that make rows equal, and that `key` is of, where those are not the same.
    """
    reader = UnitReader(shape, storage, commit.units)
    other = reader if compared is None else UnitReader(compared, storage, commit.units)
    names = [field.name for field in (compared or shape).schema]
    places = [names.index(name) for name in key]
    for unit in commit.units:
        found = reader.read(unit)
        # Batches are made of positions, so those of two shapes hold the same rows.
        pairs = (
            ((each, each) for each in found) if other is reader else zip(found, other.read(unit), strict=True)
        )
        for signed, like in pairs:
            count = len(signed.rows)
            whole = digests(like.rows.columns, count)
            keys = digests([like.rows.column(place) for place in places], count) if places else whole
            batch = told(commit, signed)
            yield pa.RecordBatch.from_arrays(
                [*batch.columns, whole, keys], [*batch.schema.names, ROW_DIGEST, KEY_DIGEST]
            )


def told(commit: Commit, signed: SignedRows) -> pa.RecordBatch:
    """Rows with the columns that tell of the change."""
    rows, count = signed.rows, len(signed.rows)
    words = pa.DictionaryArray.from_arrays(signed.came.astype(np.int32), pa.array([DELETE, INSERT]))
    columns = [
        words.cast(pa.string()),
        pa.repeat(pa.scalar(commit.ordinal, pa.int32()), count),
        pa.repeat(pa.scalar(commit.snapshot, pa.int64()), count),
        pa.repeat(pa.scalar(commit.millis * 1000, CHANGE_COLUMNS.field(TIMESTAMP).type), count),
        pa.repeat(pa.scalar(commit.correction, pa.string()), count),
    ]
    schema = pa.schema([*rows.schema, *CHANGE_COLUMNS])
    return pa.RecordBatch.from_arrays([*rows.columns, *columns], schema=schema)


def finished(table: pa.Table) -> list[pa.RecordBatch]:
    """Without the digests."""
    batches: list[pa.RecordBatch] = table.drop_columns([ROW_DIGEST, KEY_DIGEST]).combine_chunks().to_batches()
    return batches


def shape_of(
    metadata: Mapping[str, Any], table: str, schema_id: int | None = None, *, foreign: bool = True
) -> Shape:
    """Of the table as it is now, or by a schema of its past.

    Unsupported: frazil has no type for one of its columns; without `foreign` such columns are left out.
    """
    document = _schema(metadata, schema_id)
    if not foreign:
        document = without_foreign(document)
    schema = Schema.from_json(document, table)
    taken = [field.name for field in schema if field.name in CHANGE_COLUMNS.names]
    if taken:
        raise Unsupported(
            f"the table {table} has a column {', '.join(taken)}, which is what a changelog calls a column of "
            "its own: rename it"
        )
    defaults = {*defaulted(document)}
    elsewhere = {
        number: frozenset(defaults | {f.source_id for f in spec.fields if f.transform == "identity"})
        for number, spec in specs_of(metadata, schema).items()
    }
    return Shape(schema, columns_of(_schemas(metadata)), elsewhere, names_of(metadata))


def specs_of(metadata: Mapping[str, Any], schema: Schema) -> dict[int, PartitionSpec]:
    documents = metadata.get("partition-specs") or [
        {"spec-id": 0, "fields": metadata.get("partition-spec", ())}
    ]
    specs = [PartitionSpec.from_json(document, schema) for document in documents]
    return {spec.id: spec for spec in specs}


def identifier_fields(
    metadata: Mapping[str, Any], table: str, schema_id: int | None = None
) -> tuple[str, ...]:
    """The names of the columns that a table says its rows are known by."""
    document = _schema(metadata, schema_id)
    wanted = {int(number) for number in document.get("identifier-field-ids") or ()}
    found = [str(each["name"]) for each in document["fields"] if int(each["id"]) in wanted]
    if len(found) < len(wanted):
        raise Unsupported(
            f"an identifier field of the table {table} is inside a struct; name the columns of the key, or "
            "() for none"
        )
    return tuple(found)


def key_of(schema: Schema, given: Sequence[str] | None, identifiers: tuple[str, ...]) -> tuple[str, ...]:
    if given is None:
        return identifiers
    if isinstance(given, str):
        raise InvalidInput(f"key: give the names of columns as a list, [{given!r}]")
    for name in given:
        schema.field(name)
    return tuple(given)


def _schemas(metadata: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found = metadata.get("schemas") or [metadata["schema"]]
    return sorted(found, key=lambda each: int(each.get("schema-id", 0)))


def _schema(metadata: Mapping[str, Any], schema_id: int | None) -> Mapping[str, Any]:
    wanted = int(metadata.get("current-schema-id", 0)) if schema_id is None else schema_id
    return next(each for each in _schemas(metadata) if int(each.get("schema-id", 0)) == wanted)
