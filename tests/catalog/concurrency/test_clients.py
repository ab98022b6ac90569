"""Many clients, several servers, kill -9 in the middle: nothing lost, nothing twice, nothing halved."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from tests.catalog.concurrency.audit import Db, PostgresDb
from tests.catalog.concurrency.checker import Report, check
from tests.catalog.concurrency.rest import Rest, closing_all, wait_until
from tests.catalog.concurrency.servers import on_postgres, on_sqlite
from tests.catalog.concurrency.workload import run_clients

from frazil.devstack.frazil_server import FrazilServer

CLIENTS = 16


def killing(servers: Sequence[FrazilServer], kills: int) -> Callable[[float], None]:
    """Kill the servers in turn, spread over the time, and start each again a moment later."""

    def disturb(seconds: float) -> None:
        pause = seconds / (kills + 1)
        for number in range(kills):
            time.sleep(pause)
            victim = servers[number % len(servers)]
            victim.kill()
            time.sleep(min(1.0, pause / 4))
            victim.start()
        time.sleep(pause)

    return disturb


def run(servers: Sequence[FrazilServer], db: Db, *, seconds: float, kills: int, seed: int) -> Report:
    with closing_all([Rest(server.port) for server in servers]) as clients:
        ops, complaints = run_clients(
            clients, clients=CLIENTS, seconds=seconds, seed=seed, disturb=killing(servers, kills)
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


def assert_sound(report: Report, *, least: int) -> None:
    print(f"\n{sum(report.counts.values())} operations: {dict(sorted(report.counts.items()))}")
    assert not report.findings, f"{len(report.findings)} findings:\n" + "\n".join(report.findings[:40])
    # A run in which hardly anything happened, or nothing of a kind, would prove nothing.
    for kind in ("append", "property", "transaction", "create", "stage", "rename", "drop", "namespace"):
        assert report.counts[f"{kind} done"] >= least, report.counts
    for kind in ("append", "transaction"):
        assert report.counts[f"{kind} refused"] >= least, report.counts
    assert any(count for kind, count in report.counts.items() if kind.endswith("unknown")), report.counts


@pytest.mark.slow
def test_clients_of_two_servers_on_postgres(postgres_url: Callable[[], str]) -> None:
    with on_postgres(postgres_url()) as (servers, db):
        assert_sound(run(servers, db, seconds=18, kills=3, seed=1), least=5)


@pytest.mark.slow
@pytest.mark.services
def test_clients_of_one_server_on_sqlite(tmp_path: Path) -> None:
    with on_sqlite(tmp_path) as (servers, db):
        assert_sound(run(servers, db, seconds=14, kills=3, seed=2), least=5)


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(100, 105))
def test_clients_on_postgres_at_length(postgres_url: Callable[[], str], seed: int) -> None:
    with on_postgres(postgres_url()) as (servers, db):
        assert_sound(run(servers, db, seconds=90, kills=20, seed=seed), least=20)


@pytest.mark.exhaustive
@pytest.mark.services
@pytest.mark.parametrize("seed", range(200, 203))
def test_clients_on_sqlite_at_length(tmp_path: Path, seed: int) -> None:
    with on_sqlite(tmp_path) as (servers, db):
        assert_sound(run(servers, db, seconds=60, kills=15, seed=seed), least=20)
