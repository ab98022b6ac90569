"""Many clients, several servers, kill -9 in the middle: nothing lost, nothing twice, nothing halved."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from tests.catalog.concurrency.audit import Db, PostgresDb
from tests.catalog.concurrency.checker import Report, check
from tests.catalog.concurrency.rest import Rest, closing_all, wait_until
from tests.catalog.concurrency.servers import on_postgres, on_sqlite
from tests.catalog.concurrency.workload import SoFar, run_clients

from frazil.devstack.frazil_server import FrazilServer

CLIENTS = 16
#: How long the clients may go on until they have done enough, on a machine that has much else to do.
_MOST_SECONDS = 300.0


def killing(servers: Sequence[FrazilServer], kills: int, least: int) -> Callable[[float, SoFar], None]:
    """Kill the servers in turn, spread over the time, and start each again a moment later.

    It goes on until every kind of operation was done `least` times: how many fit into the time is the
    machine's affair.
    """

    def disturb(seconds: float, so_far: SoFar) -> None:
        pause = seconds / (kills + 1)
        latest = time.monotonic() + _MOST_SECONDS
        for number in itertools.count():
            time.sleep(pause)
            done = Counter(f"{op.kind} {op.told}" for op in so_far() if op.ended)
            if number >= kills and (enough(done, least) or time.monotonic() > latest):
                return
            victim = servers[number % len(servers)]
            victim.kill()
            time.sleep(min(1.0, pause / 4))
            victim.start()

    return disturb


def run(
    servers: Sequence[FrazilServer], db: Db, *, seconds: float, kills: int, seed: int, least: int
) -> Report:
    with closing_all([Rest(server.port) for server in servers]) as clients:
        ops, complaints = run_clients(
            clients, clients=CLIENTS, seconds=seconds, seed=seed, disturb=killing(servers, kills, least)
        )
        if isinstance(db, PostgresDb):
            # The database may still be at what a killed server sent last.
            wait_until(lambda: not db.query(_BUSY), what="database sessions to end")
        report = check(db, ops, clients)
    report.findings += complaints
    return report


_BUSY = (
    "SELECT pid FROM pg_stat_activity WHERE application_name = 'frazil' AND state <> 'idle' "
    "AND datname = current_database()"
)


def enough(counts: Mapping[str, int], least: int) -> bool:
    """A run in which hardly anything happened, or nothing of a kind, would prove nothing."""
    kinds = ("append", "property", "transaction", "create", "stage", "rename", "drop", "namespace")
    wanted = [f"{kind} done" for kind in kinds] + ["append refused", "transaction refused"]
    unknown = any(count for kind, count in counts.items() if kind.endswith("unknown"))
    return unknown and all(counts.get(kind, 0) >= least for kind in wanted)


def assert_sound(report: Report, *, least: int) -> None:
    print(f"\n{sum(report.counts.values())} operations: {dict(sorted(report.counts.items()))}")
    assert not report.findings, f"{len(report.findings)} findings:\n" + "\n".join(report.findings[:40])
    assert enough(report.counts, least), report.counts


@pytest.mark.slow
def test_clients_of_two_servers_on_postgres(postgres_url: Callable[[], str]) -> None:
    with on_postgres(postgres_url()) as (servers, db):
        assert_sound(run(servers, db, seconds=18, kills=3, seed=1, least=5), least=5)


@pytest.mark.slow
@pytest.mark.services
def test_clients_of_one_server_on_sqlite(tmp_path: Path) -> None:
    with on_sqlite(tmp_path) as (servers, db):
        assert_sound(run(servers, db, seconds=14, kills=3, seed=2, least=5), least=5)


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(100, 105))
def test_clients_on_postgres_at_length(postgres_url: Callable[[], str], seed: int) -> None:
    with on_postgres(postgres_url()) as (servers, db):
        assert_sound(run(servers, db, seconds=90, kills=20, seed=seed, least=20), least=20)


@pytest.mark.exhaustive
@pytest.mark.services
@pytest.mark.parametrize("seed", range(200, 203))
def test_clients_on_sqlite_at_length(tmp_path: Path, seed: int) -> None:
    with on_sqlite(tmp_path) as (servers, db):
        assert_sound(run(servers, db, seconds=60, kills=15, seed=seed, least=20), least=20)
