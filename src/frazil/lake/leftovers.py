"""Data files that no commit took: their writer died; the next one finds them by name and removes them.

A file is removed only if no snapshot that the table still has refers to it. Most files need no look into
manifests for that: the token in their name is in a stamp. The others are looked for in every snapshot that
could have them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain

import msgspec

from frazil.core.stamp import Stamp, stamp_key
from frazil.lake.authority import SnapshotView, ancestry, known_stamps
from frazil.lake.java import java_errors
from frazil.lake.table import LakeTable
from frazil.lake.writers import PipelineWriter

_NAME = re.compile(r"(\d{6,})/(\d{8,})-([0-9a-f]{8})-[^/]*")
_TOKEN = 8
#: Beyond this number of snapshots to look into, files are left to orphan removal.
_MOST_SNAPSHOTS = 500


@dataclass(frozen=True)
class Swept:
    """What became of the files of older writers."""

    removed: tuple[str, ...] = ()
    #: Perhaps left over, but that would take too many snapshots, or other tables, to prove.
    unproven: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Named:
    """A file of the pipeline, by what its name says."""

    path: str
    #: Below the pipeline's directory; unlike the whole path, spelled in one way only.
    name: str
    epoch: int
    round: int
    token: str


def remove_leftovers(writer: PipelineWriter, table: LakeTable | None = None) -> Swept:
    """Remove what older epochs of the writer's pipeline wrote and never committed. Call it after the claim.

    In all its tables, or in one that joined later. Such a writer may still run, but since the claim none of
    its commits can land.
    """
    swept = [_sweep(writer, each) for each in ([table] if table else writer.tables.values())]
    removed, unproven = [one.removed for one in swept], [one.unproven for one in swept]
    return Swept(tuple(chain(*removed)), tuple(chain(*unproven)))


def _sweep(writer: PipelineWriter, table: LakeTable) -> Swept:
    # What the table knew before the claim is not enough: a commit may have landed until then.
    writer.patience.until_answered(table.refresh)
    storage, root = table.storage(), f"{writer.folder(table)}/"
    older = [found for found in _named(root, storage.list(root)) if found.epoch < writer.stamp.epoch]
    if not older:
        return Swept()
    search = _Search(table, writer)
    committed = {stamp.token[:_TOKEN] for stamp in search.stamps.values()}
    extras = search.extras([file for file in older if file.token in committed])
    strangers = [file for file in older if file.token not in committed]
    places = search.places(strangers) if strangers else []
    # Elsewhere (`write.data.path`) another table may have its files, and a pipeline of the same name.
    alone = table.data_location.startswith(f"{table.location}/")
    if len(places) > _MOST_SNAPSHOTS or not alone:
        strangers, unproven = [], strangers
    else:
        used = search.referred(places)
        strangers, unproven = [file for file in strangers if file.name not in used], []
    doomed = [file.path for file in (*extras, *strangers)]
    storage.delete(doomed)
    return Swept(tuple(doomed), tuple(file.path for file in unproven))


def _named(root: str, paths: Iterable[str]) -> list[_Named]:
    found = []
    for path in paths:
        match = _NAME.fullmatch(path.removeprefix(root))
        if match is not None:
            found.append(_Named(path, match[0], int(match[1]), int(match[2]), match[3]))
    return found


class _Search:
    """What the table's snapshots refer to."""

    def __init__(self, table: LakeTable, writer: PipelineWriter) -> None:
        self._table = table
        self._pipeline = pipeline = writer.stamp.pipeline
        #: Elsewhere pipelines of this name with another home, and other epochs, may have left stamps.
        self._home = str(table) == str(writer.table)
        self._mark = f"/{writer.folder(table).rpartition('/')[2]}/"
        self._snapshots = {view.id: view for view in table.snapshots()}
        self._names: dict[str, set[str]] = {}
        self.stamps = known_stamps(table, pipeline)

    def extras(self, files: list[_Named]) -> list[_Named]:
        """Files of landed rounds that were not in their commit: a task ran twice, or failed and ran again."""
        listed = Counter(file.token for file in files)
        surplus = []
        for token, count in listed.items():
            # Others may carry the stamp of a round on, but only its own commit added files of its name.
            taken: set[str] = set()
            for view in self._carrying(token):
                if int(view.summary.get("added-data-files", "0")) < count:
                    taken |= {name for name in self._added(view.id) if f"-{token}-" in name}
                else:
                    taken |= {file.name for file in files if file.token == token}
            if taken:
                surplus += [file for file in files if file.token == token and file.name not in taken]
        return surplus

    def places(self, strangers: list[_Named]) -> list[int]:
        """The snapshots that could refer to files whose token is in no stamp.

        Not those that were there before the files were: below a stamp of an earlier round. Nor the pipeline's
        own commits above it, which add nothing but the files of their token to what their parent has.
        """
        first = min((file.epoch, file.round) for file in strangers)
        innocent: set[int] = set()
        below = False
        for view in ancestry(self._table):
            stamp = self._stamp(view)
            earlier = self._home and stamp is not None and (stamp.epoch, stamp.round) < first
            below = below or earlier
            known = view.parent_id is None or view.parent_id in self._snapshots
            if below or (stamp is not None and known and view.id != self._table.head):
                innocent.add(view.id)
        return [found for found in self._snapshots if found not in innocent]

    def referred(self, snapshots: Iterable[int]) -> set[str]:
        """Names of the pipeline's files in any of the snapshots."""
        found: set[str] = set()
        for identifier in snapshots:
            found |= self._live(identifier, added_only=False)
        return found

    def _carrying(self, token: str) -> list[SnapshotView]:
        return [
            self._snapshots[identifier]
            for identifier, stamp in self.stamps.items()
            if identifier in self._snapshots and stamp.token.startswith(token)
        ]

    def _added(self, snapshot_id: int) -> set[str]:
        return self._live(snapshot_id, added_only=True)

    def _stamp(self, view: SnapshotView) -> Stamp | None:
        text = view.summary.get(stamp_key(self._pipeline))
        return None if text is None else Stamp.decode(text)

    def _live(self, snapshot_id: int, *, added_only: bool) -> set[str]:
        found: set[str] = set()
        with java_errors(f"reading the manifests of the table {self._table}"):
            io = self._table.operations.io()
            manifests = self._table.metadata.snapshot(snapshot_id).allManifests(io)
            for number in range(manifests.size()):
                manifest = manifests.get(number)
                if added_only and manifest.snapshotId() != snapshot_id:
                    continue
                path = str(manifest.path())
                if path not in self._names:
                    self._names[path] = self._read(manifest, io)
                found |= self._names[path]
        return found

    def _read(self, manifest: object, io: object) -> set[str]:
        lake, mark = self._table.lake, self._mark
        files = lake.iceberg.ManifestFiles.readPaths(manifest, io, self._table.metadata.specsById())
        copy = lake.iceberg.relocated.com.google.common.collect.ImmutableList.copyOf(files.iterator())
        paths: list[str] = msgspec.json.decode(lake.json.writeValueAsString(copy))
        files.close()
        return {path.rpartition(mark)[2] for path in paths if mark in path}
