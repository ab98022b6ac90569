"""A range of a log: the snapshots whose stamps cover it, and the data files that hold its rows now.

Rows do not say which record they were. Data files of an append do, as long as nobody mixed them with others:
so a range begins and ends where commits of the pipeline did.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from frazil.core.correction import Correction, show_offsets
from frazil.core.errors import Conflict, InvalidInput
from frazil.core.stamp import Stamp, stamp_key
from frazil.hot.correct.place import Place
from frazil.lake.changelog import specs_of
from frazil.lake.changelog_units import TableFiles
from frazil.lake.history import TableSnapshot
from frazil.stream.dlq import name_of_replay
from frazil.stream.source import Slice

#: By topic and partition: the first offset and the one behind the last.
Offsets: TypeAlias = Mapping[str, Mapping[int, tuple[int, int]]]
_TOPIC = re.compile(r"([A-Za-z0-9._-]+)=(.+)")
_PART = re.compile(r"\s*(\d+):(\d+)-(\d+)\s*")
_INSTEAD = "Correct it by a predicate over its columns (--where) instead"


def parse_ranges(texts: Sequence[str]) -> dict[str, dict[int, tuple[int, int]]]:
    """
    >>> parse_ranges(["orders=0:5-9,1:0-3"])
    {'orders': {0: (5, 9), 1: (0, 3)}}
    """
    found: dict[str, dict[int, tuple[int, int]]] = {}
    for text in texts:
        named = _TOPIC.fullmatch(text)
        parts = [_PART.fullmatch(part) for part in named[2].split(",")] if named else [None]
        if named is None or named[1] in found or None in parts:
            raise _no_range(text)
        ranges = {int(part[1]): (int(part[2]), int(part[3])) for part in parts if part is not None}
        if len(ranges) < len(parts) or any(first > end for first, end in ranges.values()):
            raise _no_range(text)
        found[named[1]] = ranges
    if not found:
        raise _no_range("")
    return found


def _no_range(text: str) -> InvalidInput:
    return InvalidInput(
        f"'{text}' is no range of a log: write TOPIC=PARTITION:FIRST-END,… such as orders=0:5-9,1:0-3 (the "
        "record at END is not in it), each topic and partition once"
    )


@dataclass(frozen=True)
class _Border:
    """A commit of the pipeline, and how far the log was read then."""

    snapshot: TableSnapshot
    stamp: Stamp

    def at(self, topic: str, partition: int) -> int:
        known = self.stamp.positions.get(topic)
        return known.next[partition] if known is not None and partition < len(known.next) else 0


@dataclass(frozen=True)
class LogRange:
    """From one commit of a pipeline, whose rows are not in it, to another."""

    first: _Border
    last: _Border

    @property
    def stamp(self) -> Stamp:
        return self.last.stamp

    @property
    def offsets(self) -> dict[str, dict[int, tuple[int, int]]]:
        """Of every partition that was read in it."""
        found: dict[str, dict[int, tuple[int, int]]] = {}
        for topic, position in self.stamp.positions.items():
            parts = {number: (self.first.at(topic, number), end) for number, end in enumerate(position.next)}
            moved = {number: (start, end) for number, (start, end) in parts.items() if start < end}
            if moved:
                found[topic] = moved
        return found

    def slices(self) -> list[Slice]:
        return [
            Slice(topic, number, first, end)
            for topic, parts in sorted(self.offsets.items())
            for number, (first, end) in sorted(parts.items())
        ]


def find_range(place: Place, pipeline: str, wanted: Offsets, snapshot: int) -> LogRange:
    """The commits that a range lies between. InvalidInput: none are there; it names those that are."""
    line = _borders(place, pipeline, snapshot)
    for topic, parts in wanted.items():
        _require_topic(place, pipeline, line, topic, parts)
    starts = [at for at, one in enumerate(line) if _is(one, wanted, 0)]
    if starts:
        # Of several commits that read nothing, the latest.
        first = starts[-1]
        for at in range(first, len(line)):
            found = LogRange(line[first], line[at])
            if _is(line[at], wanted, 1) and _covers(found, wanted):
                return found
    raise InvalidInput(
        f"the range {show_offsets(wanted)} does not begin and end where commits of pipeline {pipeline} to "
        f"{place} did, and its rows cannot be told from those around it. {_nearest(line, wanted)}"
    )


def range_files(place: Place, pipeline: str, found: LogRange, snapshot: int) -> set[str]:
    """The data files that hold the rows of the range, all of them and no others, at the snapshot.

    Conflict: rows were deleted or replaced, or lie in one file with those of other ranges.
    """
    line = _line_since(place, found.first.snapshot, snapshot)
    files = TableFiles(place.inputs(), specs_of(place.metadata, place.schema))
    text = show_offsets(found.offsets)
    own, parent = set[str](), found.first.snapshot
    done = False
    for one in line:
        units = files.commit(parent, one, 0).units
        came = {unit.file.path for unit in units if unit.before is None}
        went = {unit.file.path for unit in units if unit.after is None}
        touched = {unit.file.path for unit in units} - came - went
        if stamp_key(name_of_replay(pipeline)) in one.summary:
            raise _lost(place, text, one, "put dead letters of the pipeline back, perhaps some of the range")
        if not done and stamp_key(pipeline) in one.summary:
            if went or touched:
                raise _lost(place, text, one, "is a commit of the pipeline that replaced rows")
            own |= came
        elif went & own and went <= own and (one.rewrites or _same(one, text)):
            own = (own - went) | came
        elif went & own or (touched & own and not one.rewrites):
            what = "mixed rows of the range with others" if one.rewrites else "deleted or replaced rows of it"
            raise _lost(place, text, one, what)
        done = done or one.id == found.last.snapshot.id
        parent = one
    return own


def _borders(place: Place, pipeline: str, snapshot: int) -> list[_Border]:
    """Oldest first; after the newest reset, because offsets say nothing about rows of before."""
    key, found = stamp_key(pipeline), list[_Border]()
    for one in place.history.ancestry(snapshot):
        if key in one.summary:
            border = _Border(one, Stamp.decode(one.summary[key]))
            if found and _goes_back(border.stamp, found[-1].stamp):
                break
            found.append(border)
    if not found:
        raise InvalidInput(
            f"pipeline {pipeline} has no commit in the history of {place}: is it another pipeline's table? "
            f"{_INSTEAD}"
        )
    return found[::-1]


def _goes_back(older: Stamp, newer: Stamp) -> bool:
    for topic, position in older.positions.items():
        other = newer.positions.get(topic)
        if other is None or other.id != position.id:
            return True
        if any(one > two for one, two in zip(position.next, other.next, strict=False)):
            return True
    return False


def _require_topic(
    place: Place, pipeline: str, line: Sequence[_Border], topic: str, parts: Mapping[int, tuple[int, int]]
) -> None:
    known = line[-1].stamp.positions
    if topic not in known or max(parts) >= len(known[topic].next):
        there = ", ".join(f"{name} (partitions 0 to {len(at.next) - 1})" for name, at in known.items())
        raise InvalidInput(
            f"pipeline {pipeline} of {place} did not read {topic} {max(parts)}; it read {there}"
        )


def _is(border: _Border, wanted: Offsets, side: int) -> bool:
    return all(
        border.at(topic, number) == ends[side]
        for topic, parts in wanted.items()
        for number, ends in parts.items()
    )


def _covers(found: LogRange, wanted: Offsets) -> bool:
    """Whether nothing else was read meanwhile."""
    named = {(topic, number) for topic, parts in wanted.items() for number in parts}
    return all((topic, number) in named for topic, parts in found.offsets.items() for number in parts)


def _nearest(line: Sequence[_Border], wanted: Offsets) -> str:
    """The smallest range around it that can be told."""
    points = [(topic, number, *ends) for topic, parts in wanted.items() for number, ends in parts.items()]
    below = [one for one in line if all(one.at(t, n) <= first for t, n, first, _ in points)]
    above = [one for one in line if all(one.at(t, n) >= end for t, n, _, end in points)]
    if below and above:
        return f"The nearest that does: {show_offsets(LogRange(below[-1], above[0]).offsets)}"
    return (
        f"What can be corrected by offsets: {show_offsets(LogRange(line[0], line[-1]).offsets) or 'nothing'}"
    )


def _line_since(place: Place, first: TableSnapshot, snapshot: int) -> list[TableSnapshot]:
    """Oldest first, without `first`."""
    found: list[TableSnapshot] = []
    for one in place.history.ancestry(snapshot):
        if one.id == first.id:
            return found[::-1]
        found.append(one)
    raise Conflict(
        f"snapshot {first.id} is not in the history of {place} any more: it was rolled back, so the "
        "correction is not published. Drop it and make it again"
    )


def _same(one: TableSnapshot, text: str) -> bool:
    """Whether it is a correction of this very range."""
    record = Correction.told(one.summary)
    return record is not None and record.range == text


def _lost(place: Place, text: str, one: TableSnapshot, what: str) -> Conflict:
    return Conflict(
        f"the rows of {text} in {place} cannot be told from others any more: snapshot {one.id} "
        f"({one.operation}, {one.time.isoformat(timespec='seconds')}) {what}. {_INSTEAD}"
    )
