"""Many hot tables, one tiering service: whether each is as fresh as it promises."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from statistics import median

from pyiceberg.catalog.rest import RestCatalog

from bench.hot.events import COLUMNS, Stream, Times, produce
from bench.hot.place import NAMESPACE, Broken, Place, Tier
from bench.meter import Meter
from bench.tables import differing
from frazil.core.durations import parse_duration
from frazil.core.stamp import Stamp, stamp_key
from frazil.hot.table import TIERING, HotTable

_KEYS = 1000
_LOOK_SECONDS = 1.0


@dataclass(frozen=True)
class Settings:
    tables: int
    minutes: float
    #: Events a second, of all tables together.
    rate: float
    freshness: str
    #: Before anything counts: the service takes every table over, and its code is compiled.
    warm_seconds: float


@dataclass(frozen=True)
class Kept:
    """How promises were kept."""

    settings: Settings
    events: int
    #: Broken ones, as the service reported them, and how many there were of records of the warm-up.
    broken: Sequence[Broken]
    broken_before: int
    #: Commits that had a record older than promised, as the snapshots tell; the same of the warm-up.
    late: int
    late_before: int
    #: Age of the oldest record of each commit when it was made, seconds.
    usual: float
    oldest: float
    commits: int
    #: Share of one core that the service used.
    busy: float
    wrong: int
    load: float

    @property
    def breaches(self) -> int:
        """By whoever found more."""
        return max(len(self.broken), self.late)


@dataclass(frozen=True)
class Commit:
    """One of a table: when, and up to which offset the log was in it."""

    at: float
    end: int


def measure(place: Place, settings: Settings) -> Kept:
    """Every other table has a key."""
    tables = [
        place.create(f"t{number}", COLUMNS, keyed=number % 2 == 0, freshness=settings.freshness)
        for number in range(settings.tables)
    ]
    streams = [Stream(table.topic, _KEYS if table.key else 0) for table in tables]
    with Tier(place) as tier, ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        seconds = settings.warm_seconds + 60 * settings.minutes
        servers = place.kafka.bootstrap_servers
        with Meter(tier.processes) as meter:
            producing = pool.submit(produce, servers, streams, settings.rate, seconds)
            times = _awaited(producing, tier)
            load = os.getloadavg()[0]
            _drain(place, tier, tables, len(times[0]), parse_duration(settings.freshness))
        counted = float(times[0][0]) + settings.warm_seconds
        every = tier.broken()
    broken = [one for one in every if one.since >= counted]
    known = [
        (sent[first] >= counted, age)
        for table, sent in zip(tables, times, strict=True)
        for first, age in oldest_ages(commits_of(_snapshots(place, table), table.topic), sent)
    ]
    ages = [age for counts, age in known if counts]
    promised = parse_duration(settings.freshness)
    if not ages:
        raise RuntimeError(
            f"nothing was committed behind the warm-up: {settings.minutes:g} minutes are too few"
        )
    wrong = _wrong(place, tables, streams, len(times[0]))
    for table in tables:
        place.drop(table)
    return Kept(
        settings,
        events=sum(map(len, times)),
        broken=broken,
        broken_before=len(every) - len(broken),
        late=sum(age > promised for age in ages),
        late_before=sum(age > promised for counts, age in known if not counts),
        usual=median(ages),
        oldest=max(ages),
        commits=len(ages),
        busy=meter.usage.cpu_seconds / meter.usage.seconds,
        wrong=wrong,
        load=load,
    )


def oldest_ages(commits: Sequence[Commit], sent: Times) -> list[tuple[int, float]]:
    """Of every commit that has records: its oldest one, by number, and how old that was then."""
    found, following = [], 0
    for commit in commits:
        if commit.end > following:
            found.append((following, commit.at - float(sent[following])))
            following = commit.end
    return found


def commits_of(snapshots: Sequence[Mapping[str, object]], topic: str) -> list[Commit]:
    """Those of tiering, in their order. The topic has one partition."""
    found = []
    for snapshot in sorted(snapshots, key=lambda one: int(str(one["sequence-number"]))):
        summary, at = snapshot["summary"], snapshot["timestamp-ms"]
        assert isinstance(summary, Mapping), "of a metadata document"
        text = summary.get(stamp_key(TIERING))
        position = Stamp.decode(text).positions.get(topic) if text else None
        if position is not None:
            found.append(Commit(int(str(at)) / 1000, position.next[0]))
    return found


def _awaited(producing: Future[list[Times]], tier: Tier) -> list[Times]:
    while not producing.done():
        tier.require_running()
        time.sleep(_LOOK_SECONDS)
    return producing.result()


def _drain(place: Place, tier: Tier, tables: Sequence[HotTable], count: int, freshness: float) -> None:
    """Return when all events are in Iceberg; that takes no longer than the promise, and some patience."""
    deadline = time.monotonic() + 4 * freshness + 60
    waiting = list(tables)
    while waiting:
        tier.require_running()
        if time.monotonic() > deadline:
            raise RuntimeError(f"{waiting[0]} and {len(waiting) - 1} more do not have all events")
        time.sleep(_LOOK_SECONDS)
        waiting = [table for table in waiting if _end(place, table) < count]


def _end(place: Place, table: HotTable) -> int:
    commits = commits_of(_snapshots(place, table), table.topic)
    return commits[-1].end if commits else 0


def _snapshots(place: Place, table: HotTable) -> list[Mapping[str, object]]:
    metadata = place.client.tables.load(table.namespace, table.name).metadata
    return list(metadata.get("snapshots") or ())


def _wrong(place: Place, tables: Sequence[HotTable], streams: Sequence[Stream], count: int) -> int:
    """Ids of all tables whose rows are not as they should be, as PyIceberg reads them."""
    catalog, wrong = RestCatalog("hot", uri=place.server.catalog_uri), 0
    for table, stream in zip(tables, streams, strict=True):
        scan = catalog.load_table((NAMESPACE, table.name)).scan(selected_fields=("id", "version"))
        found = scan.to_arrow()
        rows = zip(found["id"].to_pylist(), found["version"].to_pylist(), strict=True)
        wrong += differing([*stream.rows(count)], [*rows])
    return wrong
