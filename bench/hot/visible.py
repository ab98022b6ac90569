"""From the produce call to a row in the hands of the reader without Spark, while tiering goes on."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import numpy as np
import pyarrow.compute as pc

from bench.hot.events import COLUMNS, Stream, Times, events, produce
from bench.hot.place import Place, Tier
from bench.numbers import Ids
from frazil.hot.read.stream import follow
from frazil.lake.changelog_pairs import BEFORE, CHANGE_TYPE, DELETE

_TABLE, _KEYS, _BUCKETS = "steady", 100_000, 2
#: How long the last events may take to appear.
_DRAIN_SECONDS = 120


@dataclass(frozen=True)
class Visible:
    """Seconds."""

    rate: int
    events: int
    p50: float
    p99: float
    longest: float
    #: In which the events came.
    batches: int
    #: Share of one core that the reader used.
    busy: float
    wrong: int
    load: float


@dataclass(frozen=True)
class _Seen:
    waited: Times
    #: By key, the version that the changelog leaves.
    left: Ids
    batches: int
    busy: float


def measure(place: Place, *, rate: int, warm_seconds: float, seconds: float) -> Visible:
    """Changes of a keyed table at `rate` a second; the first `warm_seconds` do not count."""
    table = place.create(_TABLE, COLUMNS, keyed=True, buckets=_BUCKETS)
    streams, total = [Stream(table.topic, _KEYS)], warm_seconds + seconds
    count = events(streams, rate, total)
    spawned = multiprocessing.get_context("spawn")
    with Tier(place) as tier, ProcessPoolExecutor(2, mp_context=spawned) as pool:
        limit = int(total) + _DRAIN_SECONDS
        reading = pool.submit(_follow, place.server.uri, str(table), count, int(rate * warm_seconds), limit)
        pool.submit(produce, place.kafka.bootstrap_servers, streams, rate, total).result()
        seen = reading.result()
        tier.require_running()
        load = os.getloadavg()[0]
    place.drop(table)
    return Visible(
        rate=rate,
        events=len(seen.waited),
        p50=float(np.percentile(seen.waited, 50)),
        p99=float(np.percentile(seen.waited, 99)),
        longest=float(seen.waited.max()),
        batches=seen.batches,
        busy=seen.busy,
        wrong=int((seen.left != streams[0].left(count)).sum()),
        load=load,
    )


def _follow(uri: str, table: str, count: int, warm: int, limit: int) -> _Seen:
    """Ends when all events were seen; a process that waits for longer than `limit` seconds is ended."""
    signal.alarm(limit)
    waited, batches = [], 0
    left: Ids = np.full(_KEYS, -1, np.int64)
    began, used = time.monotonic(), time.process_time()
    for some in follow(table, catalog=uri):
        now = time.time()
        batches += 1
        rows = some.rows.filter(pc.not_equal(some.rows.column(CHANGE_TYPE), BEFORE))
        gone = pc.equal(rows.column(CHANGE_TYPE), DELETE).to_numpy(zero_copy_only=False)
        version = rows.column("version").to_numpy()
        left[rows.column("id").to_numpy()] = np.where(gone, -1, version)
        counted = ~gone & (version >= warm)
        waited.append(now - rows.column("sent").to_numpy()[counted] / 1e6)
        if sum(some.pins.ends) >= count:
            break
    busy = (time.process_time() - used) / (time.monotonic() - began)
    signal.alarm(0)
    return _Seen(np.concatenate(waited), left, batches, busy)
