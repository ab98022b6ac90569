"""What would be lost: rows of the table that the pipeline did not write, as far as its history tells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from frazil.core.correction import CORRECTION
from frazil.core.rebuild import REBUILD, Record, recorded
from frazil.core.stamp import Stamp, stamp_key
from frazil.lake.history import TableHistory, TableSnapshot

_STAMPS = stamp_key("")
_SHOWN = 5


@dataclass(frozen=True)
class Others:
    """Commits of others that changed rows, and what else speaks against a swap."""

    commits: tuple[TableSnapshot, ...] = ()
    #: What the history, which goes back not far enough, leaves open.
    doubt: str | None = None

    def __bool__(self) -> bool:
        return bool(self.commits) or self.doubt is not None

    def texts(self) -> list[str]:
        """For people, the newest first."""
        told = [_told(snapshot) for snapshot in self.commits[:_SHOWN]]
        if len(self.commits) > _SHOWN:
            told.append(f"{len(self.commits) - _SHOWN} more such commits")
        return told + ([self.doubt] if self.doubt is not None else [])


def others(metadata: Mapping[str, Any], stamp: Stamp) -> Others:
    """Who else than the stamp's pipeline has rows in main, or took some away.

    Down to the pipeline's last rebuild, below which nothing is left, or to the first snapshot. Where the
    history ends before that, the number of rows must be what the pipeline wrote.
    """
    history, key = TableHistory(metadata), stamp_key(stamp.pipeline)
    found: list[TableSnapshot] = []
    oldest: TableSnapshot | None = None
    for snapshot in history.ancestry():
        record = Record.decode(snapshot.summary.get(REBUILD))
        if record is not None and record.pipeline == stamp.pipeline:
            return Others(tuple(found))
        # A pipeline that appends takes nothing away: where its own commits did, rows were changed by key.
        strange = snapshot.removals() or (snapshot.added and key not in snapshot.summary)
        if strange and not snapshot.rewrites:
            found.append(snapshot)
        oldest = snapshot
    if oldest is None or oldest.parent is None or found:
        return Others(tuple(found))
    return Others(doubt=_counted(metadata, history, stamp))


def _counted(metadata: Mapping[str, Any], history: TableHistory, stamp: Stamp) -> str | None:
    """None: the rows are as many as the pipeline wrote."""
    head = None if history.head is None else history.snapshot(history.head)
    assert head is not None, "the history was walked from there"
    last = recorded(metadata, stamp.pipeline)
    wrote = stamp.written if last is None else last.rows + stamp.written - last.written
    if int(head.summary.get("total-delete-files", "0")):
        return "delete files, which the pipeline does not write, in a history whose beginning expired"
    if head.total == wrote:
        return None
    return (
        f"perhaps rows of others: the table has {head.total:,} and the pipeline wrote {wrote:,}, as far as "
        "its stamp tells, and the history that could say why expired"
    )


def _told(snapshot: TableSnapshot) -> str:
    summary = snapshot.summary
    writers = [name.removeprefix(_STAMPS) for name in summary if name.startswith(_STAMPS)]
    if writers:
        who = f"pipeline {', '.join(writers)}"
    elif CORRECTION in summary:
        who = "a correction"
    else:
        who = summary.get("engine-name") or summary.get("app-id") or "another writer"
    gone = int(summary.get("deleted-records", "0")) + int(summary.get("added-position-deletes", "0"))
    what = [f"{snapshot.added:,} rows came"] if snapshot.added else []
    what += [f"{gone:,} rows went"] if gone else []
    changes = " and ".join(what) or "rows were changed"
    return f"{changes} by {who} at {snapshot.time.isoformat(timespec='seconds')} (snapshot {snapshot.id})"
