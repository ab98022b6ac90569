"""Which stamp of a pipeline counts: the rules, over whatever can tell a table's history.

The newest stamp in main's ancestry is the authority. Where the ancestry ends at a snapshot that expired, the
table's property counts if the snapshot that it names is gone too. All else means that the history is not the
one that the pipeline wrote (a rollback, a replaced table), and somebody must say where to go on.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from frazil.core.errors import InvalidInput, PlaceLost
from frazil.core.stamp import Mirror, Stamp, epoch_key, stamp_key, stamp_tag


@dataclass(frozen=True)
class SnapshotView:
    """A snapshot with what its summary says; at least all stamps are there."""

    id: int
    parent_id: int | None
    summary: Mapping[str, str] = field(default_factory=dict)


class History(Protocol):
    """A table's snapshots, refs and properties at one moment."""

    @property
    def head(self) -> int | None:
        """The snapshot that main points at; None in a table without any."""

    def snapshot(self, snapshot_id: int) -> SnapshotView | None:
        """A snapshot, None if it is not there any more."""

    def snapshots(self) -> Iterable[SnapshotView]:
        """All that are there."""

    def property(self, key: str) -> str | None:
        """A table property."""

    def ref(self, name: str) -> int | None:
        """The snapshot of a branch or tag."""


class MetadataHistory:
    """The history in a table's metadata document, as `client.tables.load(…).metadata` has it."""

    def __init__(self, metadata: Mapping[str, Any]) -> None:
        found: Sequence[Mapping[str, Any]] = metadata.get("snapshots") or ()
        self._snapshots = {
            int(row["snapshot-id"]): SnapshotView(
                int(row["snapshot-id"]), _optional(row.get("parent-snapshot-id")), row.get("summary") or {}
            )
            for row in found
        }
        self._properties: Mapping[str, str] = metadata.get("properties") or {}
        self._refs = {name: int(ref["snapshot-id"]) for name, ref in (metadata.get("refs") or {}).items()}
        current = _optional(metadata.get("current-snapshot-id"))
        self.head = self._refs.get("main", None if current == -1 else current)

    def snapshot(self, snapshot_id: int) -> SnapshotView | None:
        return self._snapshots.get(snapshot_id)

    def snapshots(self) -> Iterable[SnapshotView]:
        return self._snapshots.values()

    def property(self, key: str) -> str | None:
        return self._properties.get(key)

    def ref(self, name: str) -> int | None:
        return self._refs.get(name)


def find_stamp(history: History, pipeline: str) -> Stamp | None:
    """The stamp from which the pipeline goes on; None: it never wrote here. HistoryChanged: see above."""
    key, last = stamp_key(pipeline), None
    for view in ancestry(history):
        if key in view.summary:
            return Stamp.decode(view.summary[key])
        last = view
    mirror, tagged = mirrored(history, pipeline), history.ref(stamp_tag(pipeline))
    if mirror is None and tagged is None:
        return None
    complete = history.head is None if last is None else last.parent_id is None
    if not complete and mirror is not None and history.snapshot(mirror.snapshot_id) is None:
        return mirror.stamp
    raise _lost(pipeline, mirror, tagged, complete)


def ancestry(history: History) -> Iterator[SnapshotView]:
    """Main's snapshots, newest first, down to the first one or to where they expired."""
    at = history.head
    while at is not None:
        view = history.snapshot(at)
        if view is None:
            return
        yield view
        at = view.parent_id


def mirrored(history: History, pipeline: str) -> Mirror | None:
    """What the table's property says."""
    text = history.property(stamp_key(pipeline))
    return None if text is None else Mirror.decode(text)


def known_stamps(history: History, pipeline: str) -> dict[int, Stamp]:
    """Every stamp of the pipeline that can still be read, by snapshot, whether in main's ancestry or not."""
    key = stamp_key(pipeline)
    found = {view.id: Stamp.decode(view.summary[key]) for view in history.snapshots() if key in view.summary}
    mirror = mirrored(history, pipeline)
    if mirror is not None:
        found.setdefault(mirror.snapshot_id, mirror.stamp)
    return found


def highest_epoch(history: History, pipeline: str) -> int:
    """No writer had a higher one, as far as the table knows; 0 if there was none.

    A rollback brings an older stamp to the top, but not older epochs: the file names of the writers that were
    rolled back must stay theirs, and those writers must find out.
    """
    key = epoch_key(pipeline)
    text = history.property(key) or "0"
    if re.fullmatch("[0-9]{1,18}", text) is None:
        raise InvalidInput(f"the table property {key} is '{text[:200]}': legal is the number of an epoch")
    return max(int(text), *(stamp.epoch for stamp in known_stamps(history, pipeline).values()), 0)


def _lost(pipeline: str, mirror: Mirror | None, tagged: int | None, complete: bool) -> PlaceLost:
    where = mirror.snapshot_id if mirror is not None else tagged
    known = f"its last commit is snapshot {where}"
    if mirror is not None:
        known += f" (epoch {mirror.stamp.epoch}, round {mirror.stamp.round})"
    if complete:
        reason = "which is not in main's history: the table was rolled back to before it, or replaced"
    else:
        reason = "and main's history ends at an expired snapshot above it: it may have been rolled back"
    return PlaceLost(
        f"pipeline {pipeline} cannot tell what is in the table: {known}, {reason}",
        f"Say where to go on: `frazil reset pipelines.yaml {pipeline} --to-stamp` for where that commit was, "
        "or --to-offsets or --to-time",
    )


def _optional(value: Any) -> int | None:
    return None if value is None else int(value)
