"""What a commit did to a table, file by file: the difference between a snapshot and its parent, as data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from frazil.core.correction import CORRECTION
from frazil.core.errors import Unsupported
from frazil.core.partitioning import PartitionSpec
from frazil.lake.history import TableSnapshot
from frazil.lake.live import LiveFiles, Target
from frazil.lake.manifests import DATA, ContentFile, Manifests
from frazil.lake.storage import Inputs

_FileId = tuple[str, int | None]


@dataclass(frozen=True)
class Unit:
    """A data file, and what reaches it before and after a commit. None: it is not part of the table."""

    before: Target | None
    after: Target | None

    @property
    def file(self) -> ContentFile:
        target = self.after or self.before
        assert target is not None, "one of them is there"
        return target.file

    @property
    def plain(self) -> bool:
        """Whether it came, with all its rows."""
        return self.before is None and not _deletes(self.after)

    @property
    def changes(self) -> int:
        """No fewer rows than change, as far as manifests tell."""
        if self.before is None or self.after is None:
            return self.file.records
        known, more = _deletes(self.before), _deletes(self.after)
        moved = [more[key] for key in more.keys() - known.keys()]
        moved += [known[key] for key in known.keys() - more.keys()]
        return min(self.file.records, max(1, sum(file.records for file in moved)))


@dataclass(frozen=True)
class Commit:
    """One snapshot's changes."""

    snapshot: int
    millis: int
    #: Its place among the snapshots that change rows.
    ordinal: int
    #: What its summary says if it is a correction.
    correction: str | None
    units: tuple[Unit, ...]

    @property
    def paired(self) -> bool:
        """Whether rows may both go and come: then those that are equal did not change."""
        goes = any(unit.before is not None for unit in self.units)
        return goes and any(_may_bring(unit) for unit in self.units)

    @property
    def plain(self) -> bool:
        """Whether it only brings files, of which every row is there."""
        return all(unit.plain for unit in self.units)

    @property
    def changes(self) -> int:
        """No fewer rows than change."""
        return sum(unit.changes for unit in self.units)


class TableFiles:
    """The files of snapshots. Consecutive ones share most manifests, which are read once."""

    def __init__(self, storage: Inputs, specs: Mapping[int, PartitionSpec]) -> None:
        self._storage = storage
        self._specs = specs
        self._manifests = Manifests(())
        #: The newest two, by their manifest lists.
        self._kept: dict[str, LiveFiles] = {}

    def renew(self, storage: Inputs, specs: Mapping[int, PartitionSpec]) -> None:
        """With the keys and partition specs of now."""
        self._storage = storage
        if specs.keys() != self._specs.keys():
            self._specs = specs
            self._kept.clear()

    def live(self, snapshot: TableSnapshot) -> LiveFiles:
        """All at the snapshot."""
        path = snapshot.manifest_list
        if path is None:
            raise Unsupported(
                f"snapshot {snapshot.id} has no manifest list, as very old writers of Iceberg left it; "
                "rewrite the table's manifests with an engine"
            )
        if path not in self._kept:
            files = LiveFiles(self._manifests.live(self._storage, path), self._specs)
            for other in list(self._kept)[:-1]:
                del self._kept[other]
            self._kept[path] = files
        return self._kept[path]

    def commit(self, parent: TableSnapshot | None, snapshot: TableSnapshot, ordinal: int) -> Commit:
        """What it changed. `parent`: None for the first one of a table."""
        before = LiveFiles((), self._specs) if parent is None else self.live(parent)
        return commit_of(snapshot, ordinal, diff(before, self.live(snapshot)))

    def rewrites(self, parent: TableSnapshot | None, snapshot: TableSnapshot) -> bool:
        """Whether it is a `replace`, which by Iceberg's spec leaves all rows as they are.

        It is taken at its word, unless the number of rows, where manifests tell it exactly, is another.
        """
        if not snapshot.rewrites or parent is None:
            return False
        before, after = _rows(self.live(parent)), _rows(self.live(snapshot))
        return before is None or after is None or before == after

    def append(self, snapshot: TableSnapshot, ordinal: int) -> Commit:
        """The same of one that only appends, where its parent expired."""
        if snapshot.operation != "append" or snapshot.removals() or not snapshot.sequence:
            raise Unsupported(
                f"what snapshot {snapshot.id} changed cannot be told: the one before it expired, with files "
                "that it removed"
            )
        live = self.live(snapshot)
        new = [file for file in live.data if file.sequence == snapshot.sequence]
        # In the order of `diff`: some may have been taken while the parent was there.
        new.sort(key=lambda file: file.path)
        return commit_of(snapshot, ordinal, [Unit(None, live.target(file)) for file in new])

    def whole(self, snapshot: TableSnapshot, ordinal: int) -> Commit:
        """All its rows, as if it had brought them."""
        live = self.live(snapshot)
        return commit_of(snapshot, ordinal, [Unit(None, live.target(file)) for file in live.data])


def diff(before: LiveFiles, after: LiveFiles) -> list[Unit]:
    """Data files that came or went, and those whose delete files are others, by path."""
    old, new = _by_place(before.data), _by_place(after.data)
    units = [Unit(before.target(old[place]), None) for place in old.keys() - new.keys()]
    units += [Unit(None, after.target(new[place])) for place in new.keys() - old.keys()]
    for place in old.keys() & new.keys():
        was, now = before.target(old[place]), after.target(new[place])
        if _deletes(was).keys() != _deletes(now).keys():
            units.append(Unit(was, now))
    return sorted(units, key=lambda unit: (unit.file.path, unit.before is None))


def commit_of(snapshot: TableSnapshot, ordinal: int, units: Iterable[Unit]) -> Commit:
    return Commit(snapshot.id, snapshot.millis, ordinal, snapshot.summary.get(CORRECTION), tuple(units))


def _rows(live: LiveFiles) -> int | None:
    """None: only a look into delete files would tell. A vector has as many records as it takes rows away."""
    count = 0
    for file in live.data:
        target = live.target(file)
        if target.own or target.shared or target.equality:
            return None
        count += file.records - (0 if target.vector is None else target.vector.records)
    return count


def _by_place(files: Iterable[ContentFile]) -> dict[tuple[str, int, int], ContentFile]:
    """By path and commit; one that others added several times has its rows as often, as for every reader."""
    found: dict[tuple[str, int, int], ContentFile] = {}
    for file in files:
        if file.content == DATA:
            times = 0
            while (file.path, file.sequence, times) in found:
                times += 1
            found[file.path, file.sequence, times] = file
    return found


def _deletes(target: Target | None) -> dict[_FileId, ContentFile]:
    if target is None:
        return {}
    vector = () if target.vector is None else (target.vector,)
    return {
        (file.path, file.offset): file for file in (*vector, *target.own, *target.shared, *target.equality)
    }


def _may_bring(unit: Unit) -> bool:
    """A file that stays brings rows where a delete file is gone that nothing else stands for."""
    if unit.after is None:
        return False
    return unit.before is None or bool(_deletes(unit.before).keys() - _deletes(unit.after).keys())
