"""The load client: runs in a process of its own and drives one server over 8 connections."""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context

from bench.catalog.http_client import Connection
from bench.catalog.measurement import Measurement, Round
from bench.catalog.targets import Target
from bench.catalog.workloads import WORKLOADS, Workload, WrongAnswer
from bench.processes import cpu_seconds, resident_mb

CONNECTIONS = 8


@dataclass(frozen=True)
class Plan:
    """How much of a workload to run: operations, or seconds where `seconds` is set."""

    workload: str
    warm: int = 0
    measured: int = 0
    warm_seconds: float = 0.0
    seconds: float = 0.0
    rounds: int = 3
    #: Of the workload's own, by name.
    options: tuple[tuple[str, int], ...] = ()


def run(target: Target, plan: Plan) -> Measurement:
    """Run a workload in a fresh client process."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_run_here, target, plan).result()


def _run_here(target: Target, plan: Plan) -> Measurement:
    import uvloop

    result: Measurement = uvloop.run(_measure(target, plan))
    return result


class _Driver:
    """Eight workers, each with its connection, that take steps until told to stop."""

    def __init__(self, workload: Workload, connections: Sequence[Connection]) -> None:
        self.workload = workload
        self.connections = connections
        self.latencies: list[float] = []
        self.statuses: Counter[int] = Counter()
        self._left = 0
        self._deadline = 0.0

    async def run(self, steps: int, seconds: float) -> int:
        """That many steps, or for so long; how many succeeded."""
        self._left = steps or sys.maxsize
        self._deadline = time.perf_counter() + seconds if seconds else float("inf")
        done = await asyncio.gather(*(self._work(n, c) for n, c in enumerate(self.connections)))
        return sum(done)

    async def _work(self, worker: int, connection: Connection) -> int:
        done = 0
        clock = time.perf_counter
        step, latencies, statuses = self.workload.step, self.latencies, self.statuses
        while self._left > 0:
            self._left -= 1
            started = clock()
            if started > self._deadline:
                break
            status = await step(worker, connection)
            latencies.append(clock() - started)
            statuses[status] += 1
            done += 200 <= status < 300
        return done


async def _measure(target: Target, plan: Plan) -> Measurement:
    connections = [await Connection.open(target.port) for _ in range(CONNECTIONS)]
    workload = WORKLOADS[plan.workload](target, CONNECTIONS, dict(plan.options))
    driver = _Driver(workload, connections)
    measurement = Measurement(target.server, target.database, plan.workload)
    await workload.prepare(connections, plan.warm + plan.measured)
    if not plan.rounds:
        return measurement
    await driver.run(plan.warm, plan.warm_seconds)
    driver.latencies.clear()
    driver.statuses.clear()
    measurement.memory_before_mb = resident_mb(target.pid)
    for _ in range(plan.rounds):
        before, started = _clocks(target), time.perf_counter()
        operations = await driver.run(plan.measured // plan.rounds, plan.seconds / plan.rounds)
        seconds = time.perf_counter() - started
        server, database, client = (b - a for a, b in zip(before, _clocks(target), strict=True))
        measurement.rounds.append(Round(operations, seconds, server, database, client))
    measurement.memory_after_mb = resident_mb(target.pid)
    measurement.statuses = dict(driver.statuses)
    _check_statuses(target, measurement, workload.losers)
    ordered = sorted(driver.latencies)
    measurement.p50 = 1000 * ordered[len(ordered) // 2]
    measurement.p99 = 1000 * ordered[len(ordered) * 99 // 100]
    measurement.verified = await workload.verify(connections[0])
    for connection in connections:
        connection.close()
    return measurement


def _check_statuses(target: Target, measurement: Measurement, losers: int | None) -> None:
    """Figures of a server that refuses good requests mean nothing; only the reference may, now and then."""
    refused = {status: n for status, n in measurement.statuses.items() if status >= 300 and status != losers}
    if refused and (target.server == "frazil" or sum(refused.values()) > measurement.operations // 10):
        raise WrongAnswer(f"{target.label}: {measurement.workload} was answered with {refused}")


def _clocks(target: Target) -> tuple[float, float, float]:
    database = cpu_seconds(target.database_pid) if target.database_pid is not None else 0.0
    return cpu_seconds(target.pid), database, time.process_time()
