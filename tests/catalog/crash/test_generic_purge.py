"""The purge of a generic table goes on until nothing is left below its location, whoever dies over it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.catalog.concurrency.audit import PostgresDb, SqliteDb
from tests.catalog.concurrency.rest import Answer, Rest, create_namespace, wait_until
from tests.catalog.crash.trapped import TrappedServer, files_below

pytestmark = pytest.mark.slow

FILES = 14


def call(rest: Rest, method: str, path: str, body: dict[str, object] | None = None) -> Answer:
    return rest.call(method, f"/lakekeeper/v1/{rest.prefix.rpartition('/')[2]}/namespaces/ns{path}", body)


def create(rest: Rest, name: str, folder: Path) -> Answer:
    body: dict[str, object] = {"name": name, "format": "csv", "base-location": f"file://{folder}"}
    return call(rest, "POST", "/generic-tables", body)


def drop(rest: Rest, name: str) -> None:
    answer = call(rest, "DELETE", f"/generic-tables/{name}")
    assert answer.status == 204, answer


def fill(folder: Path) -> None:
    for number in range(FILES):
        path = folder / f"part={number % 3}" / f"{number}.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("1,2\n")


@pytest.mark.services
def test_goes_on_after_each_kill(tmp_path: Path) -> None:
    with TrappedServer(tmp_path, poll=0.2, deletes=3) as server, Rest(server.port) as rest:
        create_namespace(rest, "ns")
        root = server.data_dir / "warehouse"
        for name in ("t1", "t10"):
            assert create(rest, name, root / name).status == 200
            fill(root / name)
        others = files_below(root / "t10")
        db = SqliteDb(server.data_dir / "catalog.db")
        drop(rest, "t1")
        rest.close()
        kills, left = 0, FILES
        while True:
            deadline = time.monotonic() + 120
            while server.running and db.query("SELECT 1 FROM purge"):
                assert time.monotonic() < deadline, server.log_tail()
                time.sleep(0.02)
            if server.running:
                break
            kills += 1
            now = len(files_below(root / "t1"))
            assert now == left - 3, "no progress since the last kill"
            left = now
            assert len(db.query("SELECT 1 FROM purge")) == 1, "forgotten before it was done"
            rest.close()
            server.start()
            if left > 3:
                # The dead server's location is still taken. This one dies as well: it may not answer.
                assert create(rest, "t1", root / "t1" / "sub").status in {409, 0, -1}
        assert kills == FILES // 3
        assert not (root / "t1").exists()
        assert files_below(root / "t10") == others
        rest.close()
        assert create(rest, "t1", root / "t1" / "sub").status == 200


def test_the_other_server_takes_over(postgres_url: Callable[[], str]) -> None:
    url = postgres_url()
    with (
        TrappedServer(None, database_url=url, poll=0.1, lease_ms=3000, deletes=4) as first,
        TrappedServer(None, database_url=url, poll=0.1, lease_ms=3000) as second,
        Rest(first.port) as rest,
        Rest(second.port) as other,
    ):
        db = PostgresDb(url)
        db.install()
        create_namespace(rest, "ns")
        root = first.data_dir / "warehouse"
        assert create(rest, "t", root / "t").status == 200
        fill(root / "t")
        second.kill()
        drop(rest, "t")
        first.wait_dead()
        assert len(files_below(root / "t")) == FILES - 4
        second.start()
        other.close()
        wait_until(lambda: not db.query("SELECT 1 FROM purge"), what="the other server to take over")
        assert not (root / "t").exists()
        assert [row[0] for row in db.query("SELECT attempts FROM audit_purge WHERE op = 'DELETE'")] == [2]
        assert create(other, "u", root / "t").status == 200


def test_a_slow_purge_keeps_its_lease(postgres_url: Callable[[], str]) -> None:
    """It takes longer than a lease; the other server looks all the time and leaves it alone.

    A lease is renewed after a third of it: the rest is for a machine that has much else to do.
    """
    url = postgres_url()
    traps = {"poll": 0.1, "lease_ms": 5000, "delete_pause": 0.6}
    with (
        TrappedServer(None, database_url=url, **traps) as first,
        TrappedServer(None, database_url=url, **traps),
        Rest(first.port) as rest,
    ):
        db = PostgresDb(url)
        db.install()
        create_namespace(rest, "ns")
        root = first.data_dir / "warehouse"
        assert create(rest, "t", root / "t").status == 200
        fill(root / "t")
        drop(rest, "t")
        wait_until(lambda: not db.query("SELECT 1 FROM purge"), what="purge to be done")
        assert not (root / "t").exists()
        assert [row[0] for row in db.query("SELECT attempts FROM audit_purge WHERE op = 'DELETE'")] == [1]


@pytest.mark.services
def test_is_not_done_while_a_file_is_left(tmp_path: Path) -> None:
    """The location stays taken until the storage has deleted the last file."""
    with TrappedServer(tmp_path, poll=0.1, refusals=2) as server, Rest(server.port) as rest:
        create_namespace(rest, "ns")
        root = server.data_dir / "warehouse"
        assert create(rest, "t", root / "t").status == 200
        fill(root / "t")
        db = SqliteDb(server.data_dir / "catalog.db")
        # Noted by the database: a row that is looked at may be gone by then.
        db.change("CREATE TABLE refusal (error TEXT)")
        db.change(
            "CREATE TRIGGER note_refusal AFTER UPDATE OF last_error ON purge "
            "BEGIN INSERT INTO refusal VALUES (NEW.last_error); END"
        )
        drop(rest, "t")
        wait_until(lambda: not db.query("SELECT 1 FROM purge"), what="purge to be done")
        refusals = [row[0] for row in db.query("SELECT error FROM refusal")]
        assert ["not today" in error for error in refusals] == [True, True]
        assert not (root / "t").exists()


@pytest.mark.services
def test_who_lost_the_lease_stops(tmp_path: Path) -> None:
    """Somebody else may finish the purge, and another table may move in: nothing more may be deleted."""
    # So long a lease that it is renewed between two batches only: there the server says that it was lost.
    with (
        TrappedServer(tmp_path, poll=0.1, delete_pause=0.001, lease_ms=3_600_000) as server,
        Rest(server.port) as rest,
    ):
        create_namespace(rest, "ns")
        root = server.data_dir / "warehouse"
        assert create(rest, "t", root / "t").status == 200
        (root / "t").mkdir()
        for number in range(3100):
            (root / "t" / str(number)).touch()
        db = SqliteDb(server.data_dir / "catalog.db")
        drop(rest, "t")
        wait_until(lambda: len(files_below(root / "t")) < 3100, what="the purge to begin")
        db.change("UPDATE purge SET not_before = not_before + 1")
        wait_until(lambda: "taken over" in server.log_tail(), what="the server to notice")
        left = files_below(root / "t")
        assert len(left) >= 100
        assert len(db.query("SELECT 1 FROM purge")) == 1
        time.sleep(0.3)
        assert files_below(root / "t") == left
