"""The run: traffic for some minutes, samples meanwhile, and every row compared in the end."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from statistics import mean, median

from bench.meter import cpu_by_kind, mb_by_kind
from bench.soak.bank import Bank
from bench.soak.copies import FORMATS, Comparison, Copy, Files, Read, compare
from bench.soak.place import Place
from bench.soak.traffic import Traffic

_TICK_SECONDS = 1.0
#: Between two samples, evenly: a table costs more just before its files are merged than just after.
_READS = 6
#: For the rows that were there at first, and for the last changes.
_DRAIN_SECONDS = 300.0
#: So that each is done many times over in half an hour: the defaults are made for days.
_MAINTENANCE = {"merge_every": 10, "keep_snapshots": "3m"}


@dataclass(frozen=True)
class Settings:
    minutes: float
    #: Seconds.
    every: float
    #: Transactions a second.
    rate: float
    #: As pgbench counts it: 100,000 accounts each.
    scale: int
    #: Of the pipelines, such as `5s`.
    freshness: str


@dataclass(frozen=True)
class State:
    """One copy at the time of a sample."""

    #: All processes of the pipeline, the median since the last sample: while one forks, it counts twice.
    mb: float
    #: As it is now.
    mb_by_kind: Mapping[str, float]
    #: CPU-seconds since the last sample, by kind of process.
    cpu: Mapping[str, float]
    #: Records of Kafka that are not in the tables.
    behind: int
    accounts: Files
    #: Of one read; the mean of those since the last sample.
    read_cpu: float
    read_seconds: float


@dataclass(frozen=True)
class Sample:
    #: Seconds since the traffic began.
    at: float
    load: float
    #: Transactions that Debezium had not brought to Kafka.
    unsent: int
    copies: Mapping[int, State]


@dataclass
class Soak:
    """What was found."""

    settings: Settings
    postgres: str
    load_before: float
    samples: list[Sample] = field(default_factory=list)
    per_second: float = 0.0
    #: Until the last change was in all tables.
    drain_seconds: float = 0.0
    ends: dict[int, Comparison] = field(default_factory=dict)


def soak(
    place: Place, settings: Settings, tell: Callable[[Sample], None], say: Callable[[str], None]
) -> Soak:
    found = Soak(settings, place.postgres.execute("SHOW server_version"), os.getloadavg()[0])
    with ExitStack() as stack:
        say(f"filling {100_000 * settings.scale:,} accounts, starting Debezium and two pipelines …")
        bank = stack.enter_context(Bank(place.postgres, place.kafka, place.connect, settings.scale))
        chosen = {"freshness": settings.freshness, "maintenance": _MAINTENANCE}
        copies = [
            stack.enter_context(Copy(place.kafka, place.server, version, chosen)) for version in FORMATS
        ]
        _drain(bank, copies)
        for copy in copies:
            copy.read()
        say(f"{settings.minutes:g} minutes of {settings.rate:g} transactions/s …")
        with Traffic(bank, settings.rate, 60 * settings.minutes) as traffic:
            watch = _Watch(bank, copies)
            while watch.wait(settings.every, traffic):
                found.samples.append(watch.sample())
                tell(found.samples[-1])
            found.per_second = traffic.per_second
        say("the traffic has ended; every row of every table is compared …")
        started = time.monotonic()
        bank.settle()
        _drain(bank, copies)
        found.drain_seconds = time.monotonic() - started
        found.ends = {copy.version: compare(bank, copy) for copy in copies}
    return found


class _Watch:
    """Looks at the copies all the time, and sums up now and then."""

    def __init__(self, bank: Bank, copies: Sequence[Copy]) -> None:
        self._bank, self._copies = bank, copies
        self._started = self._due = time.monotonic()
        self._cpu = {copy.version: cpu_by_kind(copy.processes()) for copy in copies}
        self._held: dict[int, list[float]] = {copy.version: [] for copy in copies}
        self._reads: dict[int, list[Read]] = {copy.version: [] for copy in copies}

    def wait(self, seconds: float, traffic: Traffic) -> bool:
        """Until the next sample is due; False: the traffic ended before."""
        began, self._due = self._due, self._due + seconds
        while traffic.running:
            now = time.monotonic()
            for copy in self._copies:
                self._look(copy)
                reads = self._reads[copy.version]
                if now >= began + len(reads) * seconds / _READS:
                    reads.append(copy.read())
            left = self._due - time.monotonic()
            if left <= 0:
                return True
            time.sleep(min(left, _TICK_SECONDS))
        return False

    def sample(self) -> Sample:
        at, load, ends = time.monotonic() - self._started, os.getloadavg()[0], self._bank.ends()
        states = {copy.version: self._state(copy, ends) for copy in self._copies}
        return Sample(at, load, self._bank.unsent(ends), states)

    def _look(self, copy: Copy) -> None:
        copy.require_running()
        self._held[copy.version].append(sum(process.resident_mb for process in copy.processes()))

    def _state(self, copy: Copy, ends: Mapping[str, int]) -> State:
        processes = copy.processes()
        before, self._cpu[copy.version] = self._cpu[copy.version], cpu_by_kind(processes)
        held, self._held[copy.version] = self._held[copy.version], []
        reads, self._reads[copy.version] = self._reads[copy.version], []
        return State(
            mb=median(held),
            mb_by_kind=mb_by_kind(processes),
            cpu={kind: cpu - before.get(kind, 0.0) for kind, cpu in self._cpu[copy.version].items()},
            behind=copy.behind(ends),
            accounts=copy.files(),
            read_cpu=mean(read.cpu for read in reads),
            read_seconds=mean(read.seconds for read in reads),
        )


def _drain(bank: Bank, copies: Sequence[Copy]) -> None:
    """Return when the tables have all that is in Kafka."""
    deadline = time.monotonic() + _DRAIN_SECONDS
    while left := sum(copy.behind(bank.ends()) for copy in copies):
        for copy in copies:
            copy.require_running()
        if time.monotonic() > deadline:
            raise RuntimeError(f"{left:,} records are not in the tables after {_DRAIN_SECONDS:g} s")
        time.sleep(_TICK_SECONDS)


def growth(values: Sequence[float]) -> float:
    """The middle value of the last third over that of the second sixth.

    The first sixth is warm-up: heaps, code caches and the first merge. Medians over several merges and
    expiries leave out where in its cycle a sample met a table.
    """
    first, last = max(len(values) // 6, 1), max(len(values) // 3, 1)
    return median(values[-last:]) / median(values[first : max(2 * first, first + 1)] or values)
