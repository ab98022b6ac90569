"""One side over one table: warmed, measured batch by batch, read, compared, and read again when compacted."""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import dataclass, field
from statistics import median

from bench.cdc.changes import ABSENT, Feed, Kind, Part, Workload, rendered
from bench.cdc.place import Place, sums_of
from bench.cdc.sides import OURS, Side
from bench.meter import Meter, Usage
from bench.processes import cpu_seconds
from bench.tables import Contents

#: Batches that are measured as one.
_STEP = 10
#: Java's compiler has to have seen how deletes are read, or the table that is read first looks dearer. It is
#: done after some twenty reads, or as many as use that many CPU-seconds.
_WARM_READS, _WARM_CPU_SECONDS, _READS = 20, 60.0, 5


@dataclass(frozen=True)
class Scenario:
    """A table and what happens to it."""

    rows: int
    batches: int
    warm: int
    size: int
    kind: Kind
    sides: tuple[str, ...]
    #: Whether reads are measured too.
    reads: bool = False

    @property
    def name(self) -> str:
        rows = f"{self.rows // 1_000_000}m" if self.rows >= 1_000_000 else f"{self.rows // 1000}k"
        return rows if self.kind == "random" else f"{rows}.{self.kind}"


@dataclass
class Measurement:
    """What a side used."""

    scenario: Scenario
    side: str
    label: str
    #: In the order of steps.
    steps: list[Usage] = field(default_factory=list)
    #: CPU-seconds.
    catalog_cpu: float = 0.0
    read_cpu: float | None = None
    compacted_cpu: float | None = None
    contents: Contents = field(default_factory=lambda: Contents(0, 0, 0))
    wrong: int = 0
    load: float = 0.0

    @property
    def write_cpu(self) -> float:
        return sum(step.cpu_seconds for step in self.steps)

    @property
    def batch_cpu(self) -> float:
        return self.write_cpu / self.scenario.batches

    @property
    def edges(self) -> tuple[float, float]:
        """CPU-seconds a batch of the first step and of the last one."""
        counts = [min(_STEP, self.scenario.batches - done) for done in range(0, self.scenario.batches, _STEP)]
        each = [step.cpu_seconds / count for step, count in zip(self.steps, counts, strict=True)]
        return each[0], each[-1]

    @property
    def per_second(self) -> float:
        return self.scenario.batches * self.scenario.size / sum(step.seconds for step in self.steps)


def measure(place: Place, scenario: Scenario, kind: type[Side]) -> Measurement:
    table = f"{kind.name}_{scenario.name.replace('.', '_')}"
    found = Measurement(scenario, kind.name, kind.label)
    workload = Workload(scenario.rows, scenario.size, scenario.kind)
    place.create(table, scenario.rows, kind.format_version)
    side = kind(place, place.topic(table), table, scenario.size)
    feed = Feed(place.kafka.bootstrap_servers, side.topic)
    with closing(side):
        side.start()
        _step(side, feed, workload, scenario.warm)
        before = cpu_seconds(place.server.pid)
        for done in range(0, scenario.batches, _STEP):
            found.steps.append(_step(side, feed, workload, min(_STEP, scenario.batches - done)))
        found.catalog_cpu = cpu_seconds(place.server.pid) - before
        found.load = os.getloadavg()[0]
    found.contents = place.contents(table)
    found.wrong = place.wrong(table, workload)
    if scenario.reads:
        found.read_cpu = _read(place, table, workload, found)
        if kind.name in OURS:
            place.compact(table)
            found.compacted_cpu = _read(place, table, workload, found)
    place.drop(table)
    return found


def _step(side: Side, feed: Feed, workload: Workload, batches: int) -> Usage:
    """Some batches; what the benchmark itself does is no part of it."""
    made = [workload.batch() for _ in range(batches)]
    messages = [rendered(parts) for parts in made]
    if side.cuts:
        for each in messages:
            feed.send(each)
    with Meter(side.processes) as meter:
        if side.cuts:
            side.land(batches * workload.size, sum(map(_rows, made)))
        else:
            for parts, each in zip(made, messages, strict=True):
                feed.send(each)
                side.land(workload.size, _rows(parts))
    return meter.usage


def _rows(parts: list[Part]) -> int:
    return sum(int((part.after != ABSENT).sum()) for part in parts)


def _read(place: Place, table: str, workload: Workload, found: Measurement) -> float:
    """Of the reads behind those that warm, the middle one."""
    expected = sums_of(workload)

    def once() -> float:
        cpu, sums = place.read(table)
        found.wrong += int(sums != expected)
        return cpu

    warming = 0.0
    for _ in range(_WARM_READS):
        warming += once()
        if warming > _WARM_CPU_SECONDS:
            break
    return median(once() for _ in range(_READS))
