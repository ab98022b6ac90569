"""Which snapshots a changelog is about: from one, which is left out, to another."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime

from frazil.core.errors import HistoryChanged, InvalidInput, NotFound
from frazil.lake.history import Rewritten, TableHistory, TableSnapshot

#: A snapshot by its id, the newest one at a time, or that of a tag or branch.
Moment = int | str | datetime
_LEGAL = "a snapshot id, a time such as 2026-01-01T00:00:00Z, or the name of a tag or branch"


@dataclass(frozen=True)
class SnapshotRange:
    """Snapshots in the order of their commits."""

    #: The state that changes are told from; None: a table without rows.
    start: TableSnapshot | None
    steps: tuple[TableSnapshot, ...]


def snapshot_range(
    history: TableHistory, table: str, since: Moment | None, until: Moment | None, *, net: bool = False
) -> SnapshotRange:
    """`since`: None for all that is known; `until`: None for main as it is now.

    `net`: snapshots between the two need not be there, because only the two are compared then.

    NotFound: there is no such snapshot. HistoryChanged: the one does not lead to the other.
    """
    end = history.head if until is None else _snapshot(history, table, "until", until)
    start = None if since is None else _snapshot(history, table, "since", since)
    if end is None or start == end:
        if start is not None and end is None:
            raise HistoryChanged(f"the table {table} has no snapshot on main, so none after {start}")
        return SnapshotRange(_found(history, start), ())
    found: list[TableSnapshot] = []
    for snapshot in history.ancestry(end):
        if snapshot.id == start:
            return SnapshotRange(snapshot, tuple(found[::-1]))
        found.append(snapshot)
    oldest = found[-1]
    if start is None and oldest.parent is None:
        return SnapshotRange(None, tuple(found[::-1]))
    first = _found(history, start)
    if (
        net
        and first is not None
        and _order(first) < _order(found[0])
        and not _related(history, first.id, end)
    ):
        return SnapshotRange(first, (_whole(found[0]),))
    raise HistoryChanged(_why_not(history, table, start, end, oldest))


def _related(history: TableHistory, start: int, end: int) -> bool:
    """Whether what is there shows how the one became the other: by a rollback, or on two branches."""
    below = {snapshot.id for snapshot in history.ancestry(end)}
    return any(snapshot.id in below for snapshot in history.ancestry(start))


def _order(snapshot: TableSnapshot) -> tuple[int, int]:
    """The older one is smaller. Clocks of writers differ, but tables of format 1 have no other numbers."""
    return snapshot.sequence, snapshot.millis


def _whole(snapshot: TableSnapshot) -> TableSnapshot:
    """It stands for all commits up to it, whatever it did itself."""
    return replace(snapshot, operation="overwrite", summary={})


def _found(history: TableHistory, snapshot_id: int | None) -> TableSnapshot | None:
    return None if snapshot_id is None else history.snapshot(snapshot_id)


def _snapshot(history: TableHistory, table: str, which: str, moment: Moment) -> int | None:
    """None: a time before the first snapshot."""
    if isinstance(moment, str):
        moment = _parsed(history, table, which, moment)
    if isinstance(moment, datetime):
        return _at(history, table, which, moment)
    if history.snapshot(moment) is None:
        raise NotFound(
            f"{which}: the table {table} has no snapshot {moment}: it expired, or is of another table. "
            f"{_oldest(history)}"
        )
    return moment


def _parsed(history: TableHistory, table: str, which: str, text: str) -> int | datetime:
    """Names first: a tag may be called like a number."""
    named = history.ref(text)
    if named is not None:
        return named
    if text.strip().isdecimal():
        return int(text)
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        there = ", ".join(history.refs()) or "none"
        raise InvalidInput(
            f"{which}: '{text}' is neither a tag nor a branch of the table {table} (there are: {there}) nor "
            f"anything else that names a snapshot; write {_LEGAL}"
        ) from None


def _at(history: TableHistory, table: str, which: str, moment: datetime) -> int | None:
    """What the table was at the time; without its log, the newest of main's snapshots that is no younger."""
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    try:
        then = history.main_at(moment) or history.newest_at(moment)
    except Rewritten as error:
        raise HistoryChanged(
            f"{which}: what the table {table} was at {moment.isoformat()} expired: {error}. "
            f"{_oldest(history)}"
        ) from None
    return None if then is None else then.id


def _why_not(history: TableHistory, table: str, start: int | None, end: int, oldest: TableSnapshot) -> str:
    if start is None:
        return (
            f"the changes of the table {table} from its beginning to snapshot {end} cannot be told: those "
            f"before {oldest.id} expired. Give `since`. {_oldest(history)}"
        )
    below = {snapshot.id for snapshot in history.ancestry(end)}
    if end in {snapshot.id for snapshot in history.ancestry(start)}:
        return (
            f"snapshot {start} of the table {table} comes after {end}: give the older one as `since`, or, if "
            "the table was rolled back to it, begin there"
        )
    common = next((snapshot for snapshot in history.ancestry(start) if snapshot.id in below), None)
    if common is not None:
        return (
            f"snapshot {start} of the table {table} is not among those that led to {end}: the table was "
            f"rolled back, or they are of two branches. Both come from snapshot {common.id} of "
            f"{_shown(common)}: what was taken after it is not in the table, so undo that and go on with "
            f"since={common.id}"
        )
    first, last = history.snapshot(start), history.snapshot(end)
    hint = "Give the older one as `since`"
    if first is not None and last is not None and _order(first) < _order(last):
        hint = "What is different in the end is told by --net (net=True)"
    return (
        f"the changes of the table {table} between the snapshots {start} and {end} cannot be told: those "
        f"before {oldest.id} expired, or the table was rolled back. {hint}. {_oldest(history)}"
    )


def _oldest(history: TableHistory) -> str:
    """What can still be asked for."""
    known = list(history.ancestry())
    if not known:
        return "It has no snapshot on main at all"
    first = known[-1]
    return (
        f"Changes can be told since={first.id} ({_shown(first)}) or later; keep snapshots for longer than "
        "their readers need (history.expire.max-snapshot-age-ms)"
    )


def _shown(snapshot: TableSnapshot) -> str:
    return snapshot.time.isoformat(timespec="seconds")
