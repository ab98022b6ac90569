"""One commit: files and what it says about itself, built on a base, sent if the branch is still there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from frazil.core.errors import FrazilError
from frazil.core.stamp import Mirror, Stamp, stamp_key, stamp_tag
from frazil.lake.delta import DeleteFile, RowDelta
from frazil.lake.files import DataFile, Metrics
from frazil.lake.java import as_commit, java_errors
from frazil.lake.position_deletes import PATH_ID
from frazil.lake.table import LakeTable

if TYPE_CHECKING:
    from frazil.lake.catalog import Lake

#: To look whether manifests should be merged doubles the time of a commit: one in so many does, by chance,
#: because runs may be too short to count.
_MERGE_EVERY = 20
MAIN = "main"
T = TypeVar("T")


@dataclass(frozen=True)
class Staged:
    """A table's part of a commit: manifests that are written and that nobody sees yet."""

    table: LakeTable
    #: The snapshot of its branch that it is built on, and asserts.
    base: int | None
    #: None: it makes no snapshot, and only moves branches.
    snapshot_id: int | None
    start: Any = field(repr=False)
    updated: Any = field(repr=False)
    branch: str = MAIN
    #: A branch that goes with it; it asserts that one, too.
    ends: str = ""

    @property
    def possible(self) -> bool:
        """Whether the branches are still where it asserts them, as the table was last loaded."""
        at = self.table.head if self.branch == MAIN else self.table.ref(self.branch)
        return at == self.base and (not self.ends or self.table.ref(self.ends) is not None)

    def clean(self) -> None:
        """Remove its manifests."""
        if self.snapshot_id is None:
            return
        with suppress(FrazilError), java_errors("removing the manifests of a refused commit"):
            io = self.table.operations.io()
            snapshot = self.updated.snapshot(self.snapshot_id)
            for manifest in snapshot.allManifests(io):
                if manifest.snapshotId() == self.snapshot_id:
                    io.deleteFile(manifest.path())
            io.deleteFile(snapshot.manifestListLocation())


@dataclass
class Attempt(Generic[T]):
    """A commit that is ready to be sent: all of its parts land, or none."""

    #: What is known when it landed.
    outcome: T
    parts: tuple[Staged, ...]
    #: A request of it went without an answer, so it may land at any time while it is `possible`.
    doubtful: bool = False

    @property
    def tables(self) -> list[LakeTable]:
        return [part.table for part in self.parts]

    @property
    def possible(self) -> bool:
        """Whether every branch is still where it asserts it, as the tables were last loaded."""
        return all(part.possible for part in self.parts)

    def send(self) -> None:
        """Ask the catalog for it, once. CommitFailed: refused; CommitStateUnknown: it may have landed.

        Not by the `commitTransaction` of Iceberg's transactions, which on a conflict tries again on whatever
        main is then.
        """
        names = ", ".join(str(table) for table in self.tables)
        try:
            with java_errors(f"committing to the table{'s' * (len(self.parts) > 1)} {names}"):
                self._send()
        except FrazilError as error:
            raise as_commit(error) from None
        for part in self.parts:
            part.table.reread(part.updated if len(self.parts) > 1 else None)

    def _send(self) -> None:
        if len(self.parts) == 1:
            (part,) = self.parts
            part.table.operations.commit(part.start, part.updated)
        else:
            lake = self.parts[0].table.lake
            lake.commit_together([(part.table, part.start, part.updated) for part in self.parts])

    def clean(self) -> None:
        """Remove its manifests, if it cannot land any more. Data files stay: the next attempt takes them."""
        if not self.doubtful:
            for part in self.parts:
                part.clean()


def stage(
    table: LakeTable, transaction: Any, stamp: Stamp, change: Sequence[DataFile] | RowDelta, home: bool
) -> Staged:
    """Write the manifests of a commit. `transaction` is the table's last: its base is what was checked.

    Only the home table gets tag and property: what it says is what counts. Conflict: rows were looked up in
    another snapshot than the base, and what happened in between does not allow it.
    """
    delta = change if isinstance(change, RowDelta) else RowDelta(table.head, change)
    merging = bool(delta.rows) and int(stamp.token, 16) % _MERGE_EVERY == 0
    told = {**delta.summary, stamp_key(stamp.pipeline): stamp.encode()}
    with java_errors(f"preparing a commit to the table {table}"):
        snapshot_id = _changed(table, transaction, delta, told, merging=merging)
        if home:
            _move_tag(table, transaction, stamp.pipeline, snapshot_id)
            mirror = Mirror(snapshot_id, stamp).encode()
            transaction.updateProperties().set(stamp_key(stamp.pipeline), mirror).commit()
        return Staged(
            table, table.head, snapshot_id, transaction.startMetadata(), transaction.currentMetadata()
        )


def stage_unstamped(
    table: LakeTable, transaction: Any, delta: RowDelta, told: Mapping[str, str], branch: str, ends: str = ""
) -> Staged:
    """The same of a commit that is no pipeline's: to a branch, with a summary of its own.

    `ends`: a branch that goes with it. Stamps, tags and properties stay as they are.
    """
    with java_errors(f"preparing a commit to the table {table}"):
        snapshot_id = _changed(table, transaction, delta, told, branch)
        _end(transaction, ends)
        start, updated = transaction.startMetadata(), transaction.currentMetadata()
        return Staged(table, delta.base, snapshot_id, start, updated, branch, ends)


def stage_refs(
    table: LakeTable, transaction: Any, change: Callable[[Any], Any] | None, branch: str, ends: str = ""
) -> Staged:
    """A commit that moves branches and writes nothing; `change` gets Java's `ManageSnapshots`.

    `ends`: a branch that goes with it.
    """
    base = table.head if branch == MAIN else table.ref(branch)
    with java_errors(f"moving the branches of the table {table}"):
        _end(transaction, ends)
        if change is not None:
            change(transaction.manageSnapshots()).commit()
        start, updated = transaction.startMetadata(), transaction.currentMetadata()
        return Staged(table, base, None, start, updated, branch, ends)


def _end(transaction: Any, branch: str) -> None:
    """Take a branch away, from where it is: two who end it do not both land.

    Iceberg asserts that of a branch that is changed, and nothing of one that only goes.
    """
    if branch:
        transaction.manageSnapshots().setMaxRefAgeMs(branch, 1).commit()
        transaction.manageSnapshots().removeBranch(branch).commit()


def _changed(
    table: LakeTable,
    transaction: Any,
    delta: RowDelta,
    told: Mapping[str, str],
    branch: str = MAIN,
    *,
    merging: bool = False,
) -> int:
    """The snapshot that it makes."""
    if delta.truncates:
        update = _overwritten(table, transaction, delta)
    elif delta.deletes or delta.replaced or delta.removed:
        update = _row_delta(table, transaction, delta)
    else:
        update = _appended(table, transaction, delta, merging)
    for key, text in told.items():
        update.set(key, text)
    if branch != MAIN:
        update.toBranch(branch)
    update.commit()
    return int(transaction.currentMetadata().ref(branch).snapshotId())


def _appended(table: LakeTable, transaction: Any, delta: RowDelta, merging: bool) -> Any:
    append = transaction.newAppend() if merging else transaction.newFastAppend()
    for file in _parsed(table.lake, table.metadata.specsById(), _coming(delta)):
        append.appendFile(file)
    return append


def _overwritten(table: LakeTable, transaction: Any, delta: RowDelta) -> Any:
    """All files go, whatever they are, and with them their delete files."""
    overwrite = transaction.newOverwrite().overwriteByRowFilter(table.lake.every_row)
    for file in _parsed(table.lake, table.metadata.specsById(), _coming(delta)):
        overwrite.addFile(file)
    return overwrite


def _row_delta(table: LakeTable, transaction: Any, delta: RowDelta) -> Any:
    change = transaction.newRowDelta()
    put(table.lake, table.metadata.specsById(), delta, change)
    if delta.base is not None:
        change.validateFromSnapshot(delta.base)
    change.conflictDetectionFilter(table.lake.every_row)
    change.validateDataFilesExist(table.lake.texts(delete.references for delete in delta.deletes))
    change.validateDeletedFiles()
    change.validateNoConflictingDataFiles()
    change.validateNoConflictingDeleteFiles()
    return change


def put(lake: Lake, specs: Any, delta: RowDelta, change: Any) -> None:
    """The files of the delta into a `RowDelta` of Java's."""
    for add, files in (
        (change.addRows, _coming(delta)),
        (change.addDeletes, map(delete_json, delta.deletes)),
        (change.removeDeletes, delta.replaced),
        (change.removeRows, delta.removed),
    ):
        for file in _parsed(lake, specs, files):
            add(file)


def _coming(delta: RowDelta) -> list[Mapping[str, Any]]:
    return [*map(content_json, delta.rows), *delta.copied]


def _move_tag(table: LakeTable, transaction: Any, pipeline: str, snapshot_id: int) -> None:
    name, change = stamp_tag(pipeline), transaction.manageSnapshots()
    if table.ref(name) is None:
        change.createTag(name, snapshot_id).commit()
    else:
        change.replaceTag(name, snapshot_id).commit()


def _parsed(lake: Lake, specs: Any, files: Iterable[Mapping[str, Any]]) -> list[Any]:
    """Java's content files: one text for all, not one call for each metric."""
    documents = list(files)
    if not documents:
        return []
    rows = lake.json.readTree(msgspec.json.encode(documents).decode())
    return [lake.files.fromJson(rows.get(number), specs) for number in range(len(documents))]


def content_json(file: DataFile) -> dict[str, Any]:
    """A data file as the REST spec writes it."""
    document: dict[str, Any] = {
        "spec-id": file.spec_id,
        "content": "data",
        "file-path": file.path,
        "file-format": file.format,
        "partition": {str(key): value for key, value in file.partition.items() if value is not None},
        "file-size-in-bytes": file.size,
        "record-count": file.records,
        **_metrics_json(file.metrics),
    }
    if file.split_offsets:
        document["split-offsets"] = file.split_offsets
    return document


def delete_json(file: DeleteFile) -> dict[str, Any]:
    """A delete file as the REST spec writes it.

    Older readers tell by the bounds that a file of positions is about one data file alone.
    """
    document: dict[str, Any] = {
        "spec-id": file.spec_id,
        "content": "position-deletes",
        "file-path": file.path,
        "file-format": file.format,
        "partition": {str(key): value for key, value in file.partition.items() if value is not None},
        "file-size-in-bytes": file.size,
        "record-count": file.records,
        "referenced-data-file": file.references,
    }
    if file.offset is not None:
        return document | {"content-offset": file.offset, "content-size-in-bytes": file.length}
    path = {PATH_ID: file.references.encode()}
    return document | _metrics_json(Metrics(lower_bounds=path, upper_bounds=path))


def _metrics_json(metrics: Metrics) -> dict[str, Any]:
    counts = {
        "column-sizes": metrics.column_sizes,
        "value-counts": metrics.value_counts,
        "null-value-counts": metrics.null_value_counts,
        "nan-value-counts": metrics.nan_value_counts,
    }
    bounds = {"lower-bounds": metrics.lower_bounds, "upper-bounds": metrics.upper_bounds}
    found: dict[str, Any] = {
        name: {"keys": list(values), "values": list(values.values())}
        for name, values in counts.items()
        if values
    }
    return found | {
        name: {"keys": list(values), "values": [value.hex().upper() for value in values.values()]}
        for name, values in bounds.items()
        if values
    }
