"""From the produce call to a row that anybody can query, under a steady stream."""

from __future__ import annotations

import multiprocessing
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from bench.driver_process import DriverProcess
from bench.ingest import drivers, messages
from bench.ingest.drivers import Addresses
from bench.ingest.place import NAMESPACE, Place
from bench.meter import Meter, spark_processes
from frazil.client import Client
from frazil.core.stamp import Stamp, stamp_key

FRESHNESS = 1.0
_POLL_SECONDS = 0.02
_TICK_SECONDS = 0.01
#: How long the last rows may take to appear.
_DRAIN_SECONDS = 60.0
_TOPIC, _TABLE = "steady", "steady"

Times = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Latency:
    """Seconds."""

    rate: int
    rows: int
    p50: float
    p99: float
    longest: float
    commits: int
    #: Share of one core that the side used.
    busy: float
    wrong: int


@dataclass
class _Watch:
    """Sees the table's snapshots as a reader of the catalog does."""

    client: Client
    #: When each snapshot was first seen, and the offsets it covers.
    seen: list[tuple[float, tuple[int, ...]]] = field(default_factory=list)
    _known: set[int] = field(default_factory=set)
    _end: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        while not self._end.is_set():
            self._look()
            self._end.wait(_POLL_SECONDS)

    def stop(self) -> None:
        self._end.set()

    def covered(self, ends: tuple[int, ...]) -> bool:
        return bool(self.seen) and all(a >= b for a, b in zip(self.seen[-1][1], ends, strict=True))

    def _look(self) -> None:
        metadata = self.client.tables.load((NAMESPACE,), _TABLE).metadata
        now = time.time()
        for snapshot in metadata.get("snapshots", ()):
            text = snapshot["summary"].get(stamp_key(drivers.PIPELINE))
            if snapshot["snapshot-id"] in self._known or text is None:
                continue
            self._known.add(snapshot["snapshot-id"])
            position = Stamp.decode(text).positions.get(_TOPIC)
            if position is not None:
                self.seen.append((now, position.next))


def measure(place: Place, *, rate: int, warm_seconds: float, seconds: float) -> Latency:
    """Run a pipeline at freshness 1 s under `rate` rows a second; the first `warm_seconds` do not count."""
    place.kafka.create_topic(_TOPIC, partitions=messages.PARTITIONS)
    place.create(_TABLE)
    rows = int(rate * (warm_seconds + seconds))
    addresses = Addresses(place.kafka.bootstrap_servers, place.server.catalog_uri)
    driver = DriverProcess(drivers.serve_steady, addresses, _TOPIC, _TABLE, FRESHNESS)
    with Client(place.server.uri) as client:
        watch = _Watch(client)
        watching = threading.Thread(target=watch.run, name="watch", daemon=True)
        watching.start()
        try:
            # The claim's own snapshot: from here on the pipeline is at work.
            _drain(watch, (0,) * messages.PARTITIONS)
            with Meter(lambda: spark_processes(driver.pid)) as meter:
                times = _produced(place.kafka.bootstrap_servers, rate, rows)
                _drain(watch, tuple(len(column) for column in times))
            driver.call(None)
        finally:
            driver.close()
            watch.stop()
            watching.join()
    skipped = int(rate * warm_seconds) // messages.PARTITIONS
    late = np.concatenate([_waited(watch, p, column)[skipped:] for p, column in enumerate(times)])
    return Latency(
        rate=rate,
        rows=len(late),
        p50=float(np.percentile(late, 50)),
        p99=float(np.percentile(late, 99)),
        longest=float(late.max()),
        commits=len(watch.seen),
        busy=meter.usage.cpu_seconds / meter.usage.seconds,
        wrong=place.examine(_TABLE, rows).wrong,
    )


def _drain(watch: _Watch, ends: tuple[int, ...]) -> None:
    deadline = time.monotonic() + _DRAIN_SECONDS
    while not watch.covered(ends):
        if time.monotonic() > deadline:
            raise RuntimeError(f"rows up to {ends} were not visible after {_DRAIN_SECONDS:g} s")
        time.sleep(_POLL_SECONDS)


def _waited(watch: _Watch, partition: int, produced: Times) -> Times:
    """For each record of a partition, how long it was on its way."""
    stamps = [(when, ends[partition]) for when, ends in watch.seen if len(ends) > partition]
    first = np.searchsorted([end for _, end in stamps], np.arange(len(produced)), side="right")
    found: Times = np.array([when for when, _ in stamps])[first] - produced
    return found


def _produced(bootstrap_servers: str, rate: int, rows: int) -> list[Times]:
    """When each record was handed to the producer, by partition and offset; in a process of its own."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(_produce_steadily, bootstrap_servers, rate, rows).result()


def _produce_steadily(bootstrap_servers: str, rate: int, rows: int) -> list[Times]:
    from confluent_kafka import Producer

    producer = Producer(
        {"bootstrap.servers": bootstrap_servers, "enable.idempotence": True, "linger.ms": 5}
        | {"compression.type": "lz4", "log_level": 3}
    )
    values = list(messages.render(np.arange(rows, dtype=np.int64)))
    times: list[list[float]] = [[] for _ in range(messages.PARTITIONS)]
    began, sent = time.time(), 0
    while sent < rows:
        due = min(rows, int((time.time() - began) * rate))
        for number in range(sent, due):
            partition = number % messages.PARTITIONS
            times[partition].append(time.time())
            producer.produce(_TOPIC, values[number], partition=partition)
        sent = due
        producer.poll(0)
        time.sleep(_TICK_SECONDS)
    if left := producer.flush(60):
        raise RuntimeError(f"{left} messages were not delivered to {_TOPIC}")
    return [np.array(column) for column in times]
