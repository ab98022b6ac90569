"""Move a pipeline to other positions: say what that reads again or leaves out, then do it.

Rows that come twice or never are the user's decision here, and nowhere else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from frazil.core.errors import Conflict, HistoryChanged, InvalidInput, NotFound
from frazil.core.names import show
from frazil.core.stamp import Position, Stamp
from frazil.lake.authority import History, find_stamp, known_stamps
from frazil.lake.writers import PipelineWriter
from frazil.stream.bootstrap.choice import choose
from frazil.stream.bootstrap.place import of_log
from frazil.stream.bootstrap.table import HistoryTable
from frazil.stream.config.model import History as SourceHistory
from frazil.stream.config.model import PipelineConfig, Start
from frazil.stream.kafka.log import KafkaLog, LogView, kafka_source

if TYPE_CHECKING:
    from frazil.lake.catalog import Lake

End: TypeAlias = Literal["earliest", "latest"]
_TOPIC = re.compile(r"[A-Za-z0-9._-]+")
_SHOWN = 10


@dataclass(frozen=True)
class ToOffsets:
    """All of the log's beginning or end, or offsets by topic and partition; what is not named stays."""

    everywhere: End | None = None
    topics: Mapping[str, End | Mapping[int, int]] | None = None


@dataclass(frozen=True)
class ToTime:
    """The first record at or after it."""

    time: datetime


@dataclass(frozen=True)
class ToStamp:
    """Where an earlier commit of the pipeline was; None: its newest one, in main's history or not."""

    snapshot_id: int | None = None


@dataclass(frozen=True)
class ToHistory:
    """The rows of the table that is the pipeline's history, and the log behind them."""

    #: The table's document, for what is shown.
    metadata: Mapping[str, Any]


Target: TypeAlias = ToOffsets | ToTime | ToStamp | ToHistory


@dataclass(frozen=True)
class Move:
    """One partition: the next offset before and after."""

    topic: str
    partition: int
    #: None: it was never read, or what was read was another log.
    before: int | None
    after: int

    @property
    def again(self) -> int:
        """Offsets that would be read a second time."""
        return 0 if self.before is None else max(0, self.before - self.after)

    @property
    def skipped(self) -> int:
        """Offsets that would never be read."""
        return 0 if self.before is None else max(0, self.after - self.before)


@dataclass(frozen=True)
class Reset:
    """What a reset would do."""

    pipeline: str
    source: str
    positions: dict[str, Position]
    moves: tuple[Move, ...]
    #: The stamp that it moves away from; None: there is none that counts.
    base: Stamp | None
    #: What else to know before it is done.
    notes: tuple[str, ...] = ()

    @property
    def again(self) -> int:
        return sum(move.again for move in self.moves)

    @property
    def skipped(self) -> int:
        return sum(move.skipped for move in self.moves)


def parse_offsets(texts: Sequence[str]) -> ToOffsets:
    """
    >>> parse_offsets(["earliest"])
    ToOffsets(everywhere='earliest', topics=None)
    >>> parse_offsets(["orders=0:5,1:7", "clicks=latest"]).topics
    {'orders': {0: 5, 1: 7}, 'clicks': 'latest'}
    """
    if len(texts) == 1 and (end := _end(texts[0])) is not None:
        return ToOffsets(everywhere=end)
    found: dict[str, End | Mapping[int, int]] = {}
    for text in texts:
        topic, equals, rest = text.partition("=")
        if not equals or _TOPIC.fullmatch(topic) is None or topic in found:
            raise _not_offsets(text)
        found[topic] = _end(rest) or _by_partition(text, rest)
    return ToOffsets(topics=found)


def _end(text: str) -> End | None:
    return "earliest" if text == "earliest" else "latest" if text == "latest" else None


def _by_partition(text: str, rest: str) -> dict[int, int]:
    found: dict[int, int] = {}
    for part in rest.split(","):
        match = re.fullmatch(r"\s*(\d+):(\d+)\s*", part)
        if match is None or int(match[1]) in found:
            raise _not_offsets(text)
        found[int(match[1])] = int(match[2])
    return found


def _not_offsets(text: str) -> InvalidInput:
    return InvalidInput(
        f"'{text}' is no position: write earliest, latest, or TOPIC=PARTITION:OFFSET,… such as "
        "orders=0:5,1:7 or orders=earliest, each topic once"
    )


def plan_reset(config: PipelineConfig, history: History, log: KafkaLog, target: Target) -> Reset:
    """What a reset would do now; InvalidInput for positions that the log does not have."""
    notes: list[str] = []
    try:
        base = find_stamp(history, config.name)
    except HistoryChanged as error:
        base = None
        notes.append(error.message.partition(". ")[0])
    view = log.look()
    log.require(view.missing)
    if isinstance(target, ToStamp):
        chosen = _stamp(config.name, history, target)
        _same_log(chosen, view)
        positions = dict(chosen.positions)
    elif isinstance(target, ToHistory):
        wanted = history_of_source(config)
        choice = choose(wanted, target.metadata, view)
        positions = choice.positions
        rows = f"{choice.snapshot.total:,} rows of {show(wanted.namespace, wanted.name)}"
        notes.append(f"{rows} (snapshot {choice.snapshot.id}) come first, on top of what the table has")
    else:
        positions = _kept(base, view) | _positions(target, base, view, log)
    _inside(positions, view)
    return Reset(config.name, view.source, positions, _moves(positions, base, view), base, tuple(notes))


def reset(config: PipelineConfig, lake: Lake, target: Target, shown: Reset | None = None) -> Stamp:
    """Do it, and stop whatever writer of the pipeline runs. The counts of rows begin anew.

    `shown` is what was agreed to; Conflict if the pipeline went on since.
    """
    table = lake.load(*config.home)
    log = KafkaLog(kafka_source(config, "reset"))
    planned = plan_reset(config, table, log, target)
    if planned.base is not None:
        # First take over, then look again: a writer that still runs cannot go on between the two.
        PipelineWriter.claim(lake, table, config.name, _no_first, config.hash)
        planned = plan_reset(config, table, log, target)
    if shown is not None and planned.moves != shown.moves:
        raise Conflict(
            f"pipeline {config.name} went on while this reset was agreed to. Its writer was stopped and "
            "nothing was moved: give the command again"
        )
    positions = planned.positions
    if isinstance(target, ToHistory):
        _, positions = HistoryTable(lake, history_of_source(config), config).begin(log.look)
    writer = PipelineWriter.reset(lake, table, config.name, planned.source, positions, config.hash)
    return writer.stamp


def history_of_source(config: PipelineConfig) -> SourceHistory:
    """InvalidInput: it names none."""
    found = kafka_source(config, "reset").history
    if found is None:
        raise InvalidInput(
            f"pipeline '{config.name}' names no history: write the table under `source.history`, then give "
            "the command again"
        )
    return found


def _no_first() -> tuple[str, dict[str, Position]]:
    raise Conflict("the pipeline's stamp was there a moment ago and is gone: give the command again")


def _stamp(pipeline: str, history: History, target: ToStamp) -> Stamp:
    known = known_stamps(history, pipeline)
    if not known:
        raise NotFound(
            f"the table has no commit of pipeline {pipeline}: use --to-offsets or --to-time, or just run it"
        )
    if target.snapshot_id is None:
        return max(known.values(), key=lambda stamp: (stamp.epoch, stamp.round))
    if target.snapshot_id not in known:
        newest = sorted(known, key=lambda found: (known[found].epoch, known[found].round), reverse=True)
        shown = ", ".join(map(str, newest[:_SHOWN]))
        raise NotFound(
            f"snapshot {target.snapshot_id} is no commit of pipeline {pipeline} that can be read. "
            f"Newest: {shown}"
        )
    return known[target.snapshot_id]


def _same_log(stamp: Stamp, view: LogView) -> None:
    other = [
        name
        for name, topic in view.topics.items()
        if name in stamp.positions and stamp.positions[name].id != topic.id
    ]
    if stamp.source != view.source or other:
        what = f"topic {', '.join(other)}" if other else f"cluster {stamp.source}"
        raise InvalidInput(
            f"that commit is of another {what}, which was made again since: its offsets mean nothing here. "
            "Use --to-offsets or --to-time"
        )


def _kept(base: Stamp | None, view: LogView) -> dict[str, Position]:
    """Of topics that are no longer selected. Whoever says where to go on is done with a history."""
    if base is None or base.source != view.source:
        return {}
    return {name: position for name, position in of_log(base.positions).items() if name not in view.topics}


def _positions(
    target: ToOffsets | ToTime, base: Stamp | None, view: LogView, log: KafkaLog
) -> dict[str, Position]:
    if isinstance(target, ToTime):
        return log.start(Start(target.time))
    if target.everywhere is not None:
        return log.start(Start(target.everywhere))
    wanted = target.topics or {}
    unknown = sorted(wanted.keys() - view.topics.keys())
    if unknown:
        known = ", ".join(view.topics) or "none"
        raise InvalidInput(f"the pipeline does not read {', '.join(unknown)}. It reads: {known}")
    # A topic that was never read begins at 0 by itself.
    fresh = view.topics.keys() - wanted.keys() - (view.topics if base is None else base.positions).keys()
    return {name: _topic(name, wanted.get(name, {}), base, view) for name in view.topics if name not in fresh}


def _topic(name: str, wanted: End | Mapping[int, int], base: Stamp | None, view: LogView) -> Position:
    topic = view.topics[name]
    if isinstance(wanted, str):
        ends = view.beginnings if wanted == "earliest" else view.ends
        return Position(id=topic.id, next=ends[name])
    beyond = [partition for partition in wanted if partition >= topic.partitions]
    if beyond:
        raise InvalidInput(f"{name} has {topic.partitions} partitions: there is no {min(beyond)}")
    known = _known(name, base, view)
    following = []
    for partition in range(topic.partitions):
        at = wanted.get(partition, known[partition] if partition < len(known) else 0)
        if known or partition in wanted:
            following.append(at)
            continue
        raise InvalidInput(
            f"say where {name}-{partition} begins: the pipeline has no position in this topic. For all of "
            f"it, {name}=earliest"
        )
    return Position(id=topic.id, next=tuple(following))


def _known(name: str, base: Stamp | None, view: LogView) -> tuple[int, ...]:
    """What was read of this very topic."""
    if base is None or base.source != view.source or name not in base.positions:
        return ()
    position = base.positions[name]
    return position.next if position.id == view.topics[name].id else ()


def _inside(positions: Mapping[str, Position], view: LogView) -> None:
    for name, position in positions.items():
        if name not in view.topics:
            continue
        for partition, offset in enumerate(position.next):
            first, end = view.beginnings[name][partition], view.ends[name][partition]
            if not first <= offset <= end:
                raise InvalidInput(
                    f"{name}-{partition} cannot go on at {offset}: the log goes from {first} to {end}. Name "
                    f"a position in it, such as {name}={partition}:{first}"
                )


def _moves(positions: Mapping[str, Position], base: Stamp | None, view: LogView) -> tuple[Move, ...]:
    found = []
    for name, position in positions.items():
        if name in view.topics:
            known = _known(name, base, view)
            for partition, after in enumerate(position.next):
                before = known[partition] if partition < len(known) else None
                found.append(Move(name, partition, before, after))
    return tuple(found)
