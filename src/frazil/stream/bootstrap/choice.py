"""Which rows are the history of a log, and where the log goes on behind them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from frazil.core.errors import InvalidConfig, NotFound, SourceChanged
from frazil.core.names import show
from frazil.core.rebuild import REBUILD, Record, rebuilds_in
from frazil.core.stamp import Position, Stamp, stamp_key
from frazil.lake.history import Rewritten, TableHistory, TableSnapshot
from frazil.stream.bootstrap.place import of_log, pending
from frazil.stream.config.model import History
from frazil.stream.kafka.log import LogView

_STAMPS = stamp_key("")
#: Of a replay: what it put back are records of the pipeline's own topics.
_LETTERS = "letters:"


@dataclass(frozen=True)
class Choice:
    """A snapshot, and the positions of the log behind its rows."""

    snapshot: TableSnapshot
    positions: dict[str, Position]


def choose(wanted: History, metadata: Mapping[str, Any], log: LogView) -> Choice:
    """InvalidConfig, NotFound: it is no history of these topics; SourceChanged: the log lacks a part."""
    table, history = show(wanted.namespace, wanted.name), TableHistory(metadata)
    if history.head is None:
        raise NotFound(f"the table {table} has no snapshot, so it is no history: leave 'history' out")
    if wanted.offsets is not None:
        return _given(wanted, wanted.offsets, table, history, log)
    snapshot, stamp = _stamped(wanted, table, history, log)
    positions = of_log(stamp.positions)
    for name, topic in log.topics.items():
        # What the table has nothing of begins with its first record.
        positions.setdefault(name, Position(id=topic.id, next=log.beginnings[name]))
    require_held(table, positions, log)
    return Choice(snapshot, positions)


def _given(
    wanted: History, offsets: Mapping[str, tuple[int, ...]], table: str, history: TableHistory, log: LogView
) -> Choice:
    at = history.head if wanted.snapshot is None else wanted.snapshot
    snapshot = None if at is None else history.snapshot(at)
    if snapshot is None:
        raise NotFound(
            f"the table {table} has no snapshot {at} any more: name one that it has, or none for the current"
        )
    lacking = sorted(log.topics.keys() - offsets.keys())
    strange = sorted(offsets.keys() - log.topics.keys())
    short = [name for name in log.topics if len(offsets.get(name, ())) < log.topics[name].partitions]
    if lacking or strange or short:
        counts = ", ".join(f"{name} has {topic.partitions}" for name, topic in log.topics.items())
        raise InvalidConfig(
            "history: `offsets` says of every partition of the topics where the log goes on behind the rows "
            f"of {table}; {counts}, and {', '.join([*lacking, *strange, *short])} is not so"
        )
    beyond = [
        f"offset {offset} of {name}-{partition}, and the log ends at {end}"
        for name, ends in log.ends.items()
        for partition, (offset, end) in enumerate(zip(offsets[name], ends, strict=False))
        if offset > end
    ]
    if beyond:
        raise InvalidConfig(
            f"the history in {table} ends at {'; '.join(beyond)}: it is not the history of this log. Give "
            "`offsets` that it has"
        )
    positions = {name: Position(id=topic.id, next=offsets[name]) for name, topic in log.topics.items()}
    require_held(table, positions, log)
    return Choice(snapshot, positions)


def _stamped(wanted: History, table: str, history: TableHistory, log: LogView) -> tuple[TableSnapshot, Stamp]:
    """The newest snapshot, no younger than wanted, and the nearest stamp of these topics below it.

    What lies between them are rows that somebody corrected, removed or put back: as for a union read, they
    count, and the log goes on where the stamp says.
    """
    rebuilds = rebuilds_in(snapshot.summary for snapshot in history.ancestry())
    seen: dict[str, Stamp] = {}
    pinned: TableSnapshot | None = None
    then = None if wanted.until is None else _at(table, history, wanted.until)
    if wanted.until is not None and then is None:
        raise _none(wanted, table, seen, log)
    for snapshot in history.ancestry(None if then is None else then.id):
        pinned = pinned or snapshot
        stamps = [stamp for stamp in _stamps(snapshot) if stamp.pipeline not in rebuilds]
        for stamp in stamps:
            seen.setdefault(stamp.pipeline, stamp)
        found = next((stamp for stamp in stamps if _is_of(stamp, log)), None)
        if found is not None:
            _require_alone(table, history, pinned, found, log)
            return pinned, found
    raise _none(wanted, table, seen, log)


def _at(table: str, history: TableHistory, until: datetime) -> TableSnapshot | None:
    try:
        return history.newest_at(until)
    except Rewritten as error:
        raise InvalidConfig(
            f"`history.until`: what the table {table} was at {until.isoformat()} is not known any more: "
            f"{error}. Use a later time"
        ) from None


def _stamps(snapshot: TableSnapshot) -> Iterator[Stamp]:
    for key, text in snapshot.summary.items():
        if key.startswith(_STAMPS):
            yield Stamp.decode(text)


def _is_of(stamp: Stamp, log: LogView) -> bool:
    """Whether it is of one of these very topics, and all rows before its offsets are in the table."""
    # A stateful query holds records back, and one that began with a history may not have all of that.
    whole = stamp.query is None and pending(stamp.positions) is None
    return (
        whole
        and stamp.source == log.source
        and any(name in log.topics and log.topics[name].id == at.id for name, at in stamp.positions.items())
    )


def _require_alone(
    table: str, history: TableHistory, pinned: TableSnapshot, stamp: Stamp, log: LogView
) -> None:
    """Rows that came from elsewhere are no history of these topics."""
    read = of_log(stamp.positions)
    topics = [name for name in read if name not in log.topics]
    remade = [name for name, at in read.items() if name in log.topics and log.topics[name].id != at.id]
    others = _others(history, pinned, stamp)
    if not topics and not remade and not others:
        return
    why = [f"the topic {name}, which this pipeline does not read" for name in topics]
    why += [f"the topic {name}, which was deleted and made again since" for name in remade]
    why += [f"the pipeline {name}" for name in sorted(others)]
    raise InvalidConfig(
        f"the rows of the table {table} are not of these topics alone: it also has some of {', '.join(why)}. "
        "Read the same topics, or take another table; if its rows are what you want, say by "
        "`history.offsets` where the log goes on behind them"
    )


def _others(history: TableHistory, pinned: TableSnapshot, stamp: Stamp) -> set[str]:
    """Pipelines that also wrote rows; down to the last rebuild, below which nothing is left."""
    found: set[str] = set()
    for snapshot in history.ancestry(pinned.id):
        record = Record.decode(snapshot.summary.get(REBUILD))
        if record is not None and record.pipeline == stamp.pipeline:
            break
        found |= {
            other.pipeline
            for other in _stamps(snapshot)
            if other.read and not other.source.startswith(_LETTERS)
        }
    return found - {stamp.pipeline}


def _none(wanted: History, table: str, seen: Mapping[str, Stamp], log: LogView) -> InvalidConfig:
    when = "" if wanted.until is None else f" at or before {wanted.until.isoformat()}"
    asked = ", ".join(f"{name} ({topic.id})" for name, topic in log.topics.items()) or "no topic"
    if not seen:
        found = "it has none of any pipeline"
    else:
        of = (
            f"{name} wrote it from "
            f"{', '.join(f'{topic} ({at.id})' for topic, at in stamp.positions.items())} of {stamp.source}"
            f"{_why_not(stamp)}"
            for name, stamp in seen.items()
        )
        found = "; ".join(of)
    return InvalidConfig(
        f"no snapshot of the table {table}{when} has a stamp of {asked} of {log.source}: {found}. Without "
        "one nobody knows where the log goes on. Take a table that a pipeline or `frazil tier` fills from "
        "the topic; or, of a table that another tool filled, say it yourself: `history.offsets`"
    )


def _why_not(stamp: Stamp) -> str:
    if stamp.query is not None:
        return " by a stateful query, which holds records back"
    return "" if pending(stamp.positions) is None else ", and has not taken all of its own history"


def require_held(table: str, positions: Mapping[str, Position], log: LogView) -> None:
    """The log must go on where the history ends; SourceChanged: it lost records there."""
    for name, position in positions.items():
        first, end = log.beginnings[name], log.ends[name]
        if len(position.next) > len(first):
            raise InvalidConfig(
                f"the history in {table} ends at {len(position.next)} offsets of the topic {name}, which has "
                f"{len(first)} partitions"
            )
        # Of partitions that came later it has nothing.
        for partition, offset in enumerate(position.next + (0,) * (len(first) - len(position.next))):
            if offset < first[partition]:
                raise SourceChanged(
                    f"the history in {table} ends at offset {offset} of {name}-{partition}, and the log was "
                    f"trimmed up to {first[partition]}: what lies between is lost, and nothing was written. "
                    "Take a newer snapshot (a later `until`, or none), or let the topic keep its records for "
                    "longer"
                )
            if offset > end[partition]:
                raise SourceChanged(
                    f"the history in {table} ends at offset {offset} of {name}-{partition}, and the log ends "
                    f"at {end[partition]}: the log lost records, and those that come in their place would be "
                    "left out. Nothing was written; say by `history.offsets` where the log goes on"
                )
