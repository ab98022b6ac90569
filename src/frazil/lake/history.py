"""A table's history as a log: the snapshots of main, and which of them come after one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

#: Of the summary: what was taken away from the table.
_REMOVALS = ("deleted-data-files", "deleted-records", "removed-delete-files", "added-delete-files")


class Rewritten(Exception):
    """The history does not go on from where it was read. The text says why, without a full stop."""


@dataclass(frozen=True)
class TableSnapshot:
    """One commit to a table."""

    id: int
    parent: int | None
    #: Milliseconds since 1970.
    millis: int
    operation: str
    summary: Mapping[str, str] = field(repr=False)
    manifest_list: str | None
    #: Of its commit; 0 in tables of format 1.
    sequence: int = 0
    #: None in tables of old writers.
    schema_id: int | None = None

    @property
    def added(self) -> int:
        """Records that it added, as it says."""
        return int(self.summary.get("added-records", "0"))

    @property
    def total(self) -> int:
        """Records of the table at it."""
        return int(self.summary.get("total-records", "0"))

    @property
    def rewrites(self) -> bool:
        """Whether the rows are the same as before: compaction and the like."""
        return self.operation == "replace"

    def removals(self) -> dict[str, int]:
        """What it took away."""
        return {name: int(self.summary[name]) for name in _REMOVALS if int(self.summary.get(name, "0"))}

    @property
    def time(self) -> datetime:
        return datetime.fromtimestamp(self.millis / 1000, UTC)


class TableHistory:
    """What a table's metadata document says of its snapshots."""

    def __init__(self, metadata: Mapping[str, Any]) -> None:
        self._snapshots = {int(row["snapshot-id"]): _snapshot(row) for row in metadata.get("snapshots") or ()}
        self._refs = {name: int(ref["snapshot-id"]) for name, ref in (metadata.get("refs") or {}).items()}
        self._log = [
            (datetime.fromtimestamp(int(row["timestamp-ms"]) / 1000, UTC), int(row["snapshot-id"]))
            for row in metadata.get("snapshot-log") or ()
        ]
        current = self._refs.get("main", metadata.get("current-snapshot-id"))
        #: What main points at; None in a table without a snapshot.
        self.head: int | None = None if current in (None, -1) else int(current)

    def snapshot(self, snapshot_id: int) -> TableSnapshot | None:
        """None if it expired."""
        return self._snapshots.get(snapshot_id)

    def snapshots(self) -> Iterable[TableSnapshot]:
        """All that are there, on whatever branch."""
        return self._snapshots.values()

    def ref(self, name: str) -> int | None:
        """The snapshot of a tag or branch."""
        return self._refs.get(name)

    def refs(self) -> list[str]:
        return sorted(self._refs)

    def ancestry(self, start: int | None = None) -> Iterator[TableSnapshot]:
        """Main's snapshots, or a snapshot and its ancestors: newest first, down to where they expired."""
        at = self.head if start is None else start
        while at is not None and at in self._snapshots:
            yield self._snapshots[at]
            at = self._snapshots[at].parent

    def following(self, read: int) -> list[TableSnapshot]:
        """Main's snapshots after `read` (0: all), oldest first. Rewritten: they cannot be told."""
        found: list[TableSnapshot] = []
        if read == (self.head or 0):
            return found
        for snapshot in self.ancestry():
            found.append(snapshot)
            if (snapshot.parent or 0) == read:
                return found[::-1]
        oldest = found[-1].parent if found else None
        if oldest is None:
            raise Rewritten(
                f"it was read up to snapshot {read}, which is not in main's history: the table was rolled "
                "back to before it, or replaced"
            )
        after = f"snapshot {read}" if read else "its first snapshot"
        raise Rewritten(
            f"snapshots after {after} and up to {oldest} expired before they were read, or were rolled back"
        )

    def main_at(self, moment: datetime, *, before: bool = False) -> TableSnapshot | None:
        """What main pointed at then, or just before then; None: the table's log does not go back so far.

        A snapshot's own time does not tell: main may be moved to one of a branch that is older, or back.
        """
        found = None
        for time, snapshot_id in self._log:
            if time < moment or (time == moment and not before):
                found = snapshot_id
        return None if found is None else self._snapshots.get(found)

    def taken_at(self, moment: datetime, *, before: bool = False) -> TableSnapshot | None:
        """The newest of main's snapshots that main had then; None: the table's log does not tell."""
        then = self.main_at(moment, before=before)
        if then is None:
            return None
        line = {snapshot.id for snapshot in self.ancestry()}
        return next((snapshot for snapshot in self.ancestry(then.id) if snapshot.id in line), None)

    def newest_at(self, moment: datetime, *, before: bool = False) -> TableSnapshot | None:
        """The same; where the log does not tell, by the snapshots' own times. None: the first one came later.

        Rewritten: what was then expired.
        """
        taken = self.taken_at(moment, before=before)
        if taken is not None:
            return taken
        came: dict[int, datetime] = {}
        for time, snapshot_id in self._log:
            came.setdefault(snapshot_id, time)
        oldest = None
        for snapshot in self.ancestry():
            oldest = snapshot
            if snapshot.time < moment or (snapshot.time == moment and not before):
                moved = came.get(snapshot.id, snapshot.time)
                if moved < moment or (moved == moment and not before):
                    return snapshot
                # It was made by then, on a branch, or rolled back to since: main was something else.
                raise Rewritten(f"its log goes back to {moved.isoformat(timespec='seconds')} only")
        if oldest is not None and oldest.parent is not None:
            raise Rewritten(f"its snapshots go back to {oldest.time.isoformat(timespec='seconds')} only")
        return None


def _snapshot(row: Mapping[str, Any]) -> TableSnapshot:
    parent = row.get("parent-snapshot-id")
    summary: Mapping[str, str] = row.get("summary") or {}
    return TableSnapshot(
        int(row["snapshot-id"]),
        None if parent in (None, -1) else int(parent),
        int(row["timestamp-ms"]),
        summary.get("operation", "append"),
        summary,
        row.get("manifest-list"),
        int(row.get("sequence-number") or 0),
        row.get("schema-id"),
    )
