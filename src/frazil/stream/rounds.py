"""What one round reads: bounded, shared fairly among partitions, cut evenly into tasks."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Protocol

from msgspec import structs

from frazil.core.errors import InvalidConfig, NotFound, RoundFailed, SourceChanged
from frazil.core.stamp import Position, Stamp
from frazil.stream.bootstrap.place import pending
from frazil.stream.config.model import Limits
from frazil.stream.kafka.log import LogView, Topic
from frazil.stream.source import Slice


@dataclass(frozen=True)
class RoundPlan:
    """Slices by task, none if there is nothing to read, and where the round ends."""

    tasks: tuple[tuple[Slice, ...], ...]
    #: Of the stamp that commits this round; topics that are no longer selected keep theirs.
    positions: dict[str, Position]
    #: Read by this round.
    offsets: int
    #: Left for later ones, by topic and partition.
    lags: dict[str, tuple[int, ...]]

    @property
    def lag(self) -> int:
        return sum(sum(lags) for lags in self.lags.values())

    def reads(self, topic: str, partition: int, offset: int | None = None) -> bool:
        """Whether this record is part of it; None: whether anything of the partition is."""
        return any(
            (part.topic, part.partition) == (topic, partition)
            and (offset is None or part.start <= offset < part.end)
            for task in self.tasks
            for part in task
        )

    def before(self, topic: str, partition: int, offset: int) -> RoundPlan:
        """The same, but for this partition only up to the offset. RoundFailed: that is not part of it."""
        # Behind a transform an error is found in Spark's text, which may quote what somebody wrote.
        if not self.reads(topic, partition, offset):
            raise RoundFailed(f"an error names the record {topic}-{partition}:{offset}, which was not read")

        def kept(part: Slice) -> Slice:
            ends = (part.topic, part.partition) == (topic, partition) and part.end > offset
            return replace(part, end=max(part.start, offset)) if ends else part

        cut_tasks = (tuple(part for part in map(kept, task) if len(part)) for task in self.tasks)
        tasks = tuple(task for task in cut_tasks if task)
        position = self.positions[topic]
        left = position.next[partition] - offset
        return RoundPlan(
            tasks,
            self.positions | {topic: structs.replace(position, next=_put(position.next, partition, offset))},
            self.offsets - left,
            self.lags | {topic: _put(self.lags[topic], partition, self.lags[topic][partition] + left)},
        )


class Log(Protocol):
    def look(self) -> LogView: ...

    def topics(self) -> Mapping[str, Topic]: ...

    def require(self, missing: Sequence[str]) -> None: ...


def plan_round(
    stamp: Stamp, log: Log, limits: Limits, parallelism: int, *, confirm_seconds: float = 2.0
) -> RoundPlan:
    """The next round after the stamp; SourceChanged if the log does not go on where it left off.

    A cluster in the middle of a restart can answer oddly, so what would stop the pipeline for good is
    looked at twice.
    """
    try:
        return plan(stamp, log, log.look(), limits, parallelism)
    except SourceChanged:
        time.sleep(confirm_seconds)
        return plan(stamp, log, log.look(), limits, parallelism)


def confirm(stamp: Stamp, log: Log, positions: Mapping[str, Position]) -> None:
    """After reading: the topics must still be those of the plan. One that was made again meanwhile has other
    records at the same offsets."""
    try:
        found = log.topics()
    except NotFound as error:
        # Gone, or a broker that is just starting: the next plan finds out which.
        raise RoundFailed(f"after the round was read, {error.message}") from None
    for name, topic in found.items():
        if name in positions and positions[name].id != topic.id:
            raise _remade(stamp, name, positions[name].id, topic.id)


def reached(ends: Mapping[str, tuple[int, ...]], stamp: Stamp, plan: RoundPlan) -> bool:
    """Whether the stamp is at or beyond the ends; topics that the plan does not see any more do not count."""
    return all(
        all(done >= end for done, end in zip_longest(_next(stamp, topic), wanted, fillvalue=0))
        for topic, wanted in ends.items()
        if topic in plan.lags
    )


def _next(stamp: Stamp, topic: str) -> tuple[int, ...]:
    return stamp.positions[topic].next if topic in stamp.positions else ()


def plan(stamp: Stamp, log: Log, view: LogView, limits: Limits, parallelism: int) -> RoundPlan:
    starts = _starts(stamp, log, view)
    backlog = {
        (name, partition): view.ends[name][partition] - start
        for name, following in starts.items()
        for partition, start in enumerate(following)
    }
    shares = share(backlog, limits.records_per_round)
    ranges = [
        Slice(name, partition, starts[name][partition], starts[name][partition] + length)
        for (name, partition), length in sorted(shares.items())
        if length
    ]
    total = sum(shares.values())
    tasks = min(parallelism, -(-total // limits.records_per_task))
    positions = dict(stamp.positions)
    for name, following in starts.items():
        moved = (start + shares[name, partition] for partition, start in enumerate(following))
        positions[name] = Position(id=view.topics[name].id, next=tuple(moved))
    lags = {
        name: tuple(backlog[name, partition] - shares[name, partition] for partition in range(len(following)))
        for name, following in starts.items()
    }
    return RoundPlan(cut(ranges, max(1, tasks)), positions, total, lags)


def share(backlog: Mapping[tuple[str, int], int], budget: int) -> dict[tuple[str, int], int]:
    """How much of each backlog a round takes: small ones whole, the rest in equal parts.

    Every partition that has something gets at least one, even where that is more than the budget: one that
    never gets its turn would never be read.
    """
    waiting = sorted((size, key) for key, size in backlog.items() if size > 0)
    left = max(budget, len(waiting))
    shares = dict.fromkeys(backlog, 0)
    for index, (size, key) in enumerate(waiting):
        shares[key] = min(size, left // (len(waiting) - index))
        left -= shares[key]
    return shares


def cut(ranges: Sequence[Slice], tasks: int) -> tuple[tuple[Slice, ...], ...]:
    """The ranges laid end to end and cut into parts that differ by one offset at most; no part is empty."""
    total = sum(map(len, ranges))
    tasks = min(tasks, total)
    bounds = [number * total // tasks for number in range(1, tasks + 1)] if tasks else []
    parts: list[list[Slice]] = [[] for _ in bounds]
    task = reached = 0
    for whole in ranges:
        start = whole.start
        while start < whole.end:
            end = min(whole.end, start + bounds[task] - reached)
            parts[task].append(replace(whole, start=start, end=end))
            reached += end - start
            start = end
            task += reached == bounds[task]
    return tuple(map(tuple, parts))


def _starts(stamp: Stamp, log: Log, view: LogView) -> dict[str, tuple[int, ...]]:
    """Where each selected partition goes on; a new one at 0."""
    past = pending(stamp.positions)
    if past is not None:
        raise InvalidConfig(
            f"pipeline '{stamp.pipeline}' began with the rows of {past.table}, and {past.left} "
            "of them are still to be taken before the log: name the table again under `source.history`, or "
            "leave them out by `frazil reset`"
        )
    if view.source != stamp.source:
        raise _changed(stamp, f"it was read from {stamp.source}, and this is {view.source}", "earliest")
    gone = [name for name in view.missing if name in stamp.positions]
    if gone:
        raise _changed(stamp, f"the topic {', '.join(gone)} is gone", None)
    log.require(view.missing)
    return {name: _following(stamp, view, name) for name in view.topics}


def _following(stamp: Stamp, view: LogView, name: str) -> tuple[int, ...]:
    topic, known = view.topics[name], stamp.positions.get(name)
    if known is not None and known.id != topic.id:
        raise _remade(stamp, name, known.id, topic.id)
    count = len(known.next) if known is not None else 0
    if topic.partitions < count:
        found = f"the topic {name} had {count} partitions and has {topic.partitions}"
        raise _changed(stamp, found, f"{name}=earliest")
    following = (known.next if known is not None else ()) + (0,) * (topic.partitions - count)
    for partition, start in enumerate(following):
        first, end = view.beginnings[name][partition], view.ends[name][partition]
        where = f"{name}-{partition}"
        if start < first:
            found = (
                f"{first - start} offsets of {where} were removed before they were read ({start} to {first})"
            )
            to = f"{partition}:{first}" if known is not None else "earliest"
            raise _changed(stamp, found, f"{name}={to}")
        if start > end:
            found = f"{where} was read up to {start} and now ends at {end}: the log lost records"
            raise _changed(stamp, found, f"{name}={partition}:{end}")
    return following


def _put(values: tuple[int, ...], index: int, value: int) -> tuple[int, ...]:
    return (*values[:index], value, *values[index + 1 :])


def _remade(stamp: Stamp, name: str, was: str, now: str) -> SourceChanged:
    found = f"the topic {name} was deleted and made again (its id was {was} and is {now})"
    return _changed(stamp, found, f"{name}=earliest")


def _changed(stamp: Stamp, found: str, to: str | None) -> SourceChanged:
    """`to`: what `frazil reset` would be told to go on, where there is something to go on with."""
    command = f"frazil reset pipelines.yaml {stamp.pipeline} --to-offsets {to}"
    then = f"go on with `{command}`, which first shows what would be read again or left out"
    if to is None:
        then = "bring it back, or take it out of the pipeline"
    return SourceChanged(f"pipeline {stamp.pipeline}: {found}. Nothing was written; {then}")
