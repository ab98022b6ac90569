"""Purge: exactly what the metadata reaches, however often the server dies over it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.table import Table
from tests.catalog.concurrency.audit import PostgresDb, SqliteDb
from tests.catalog.concurrency.checker import path_of
from tests.catalog.concurrency.rest import Rest, create_namespace, table_path, wait_until
from tests.catalog.crash.trapped import TrappedServer, files_below

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Written:
    """A table written with PyIceberg: what its metadata reaches, and neighbours that it does not."""

    name: str
    reachable: frozenset[Path]
    neighbours: frozenset[Path]

    @property
    def gone(self) -> bool:
        return not any(path.exists() for path in self.reachable)

    def assert_only_purged(self) -> None:
        assert self.gone
        missing = [path for path in self.neighbours if not path.exists()]
        assert not missing, f"deleted without being reachable: {missing}"


@contextmanager
def catalog_of(server: TrappedServer) -> Iterator[RestCatalog]:
    catalog = RestCatalog("lake", uri=server.catalog_uri)
    try:
        yield catalog
    finally:
        catalog._session.close()


def write(server: TrappedServer, name: str, appends: int = 4) -> Written:
    """Several snapshots, a rewrite that leaves old files reachable only through history, and strays."""
    with catalog_of(server) as catalog:
        schema = pa.schema([("id", pa.int64()), ("part", pa.string())])
        table = catalog.create_table(f"ns.{name}", schema)
        for number in range(appends):
            rows = [{"id": number * 10 + i, "part": f"p{i % 2}"} for i in range(4)]
            table.append(pa.Table.from_pylist(rows, schema=schema))
        table.delete("id < 2")
        reachable = reachable_of(table)
    root = path_of(table.metadata.location)
    strays = [
        root / "data" / "00000-0-stray.parquet",
        root / "metadata" / "00099-11111111-1111-1111-1111-111111111111.metadata.json",
        root / "metadata" / "stray-m0.avro",
        root / "notes.txt",
        root / "other" / "deep" / "file.parquet",
    ]
    for stray in strays:
        stray.parent.mkdir(parents=True, exist_ok=True)
        stray.write_text("not in the metadata")
    assert frozenset(strays) == files_below(root) - reachable
    assert reachable == files_below(root) - set(strays), "PyIceberg wrote what the test does not know of"
    return Written(name, reachable, frozenset(strays))


def reachable_of(table: Table) -> frozenset[Path]:
    """By PyIceberg's reading of the metadata, independent of the server's."""
    found = {table.metadata_location}
    found |= {entry.metadata_file for entry in table.metadata.metadata_log}
    for snapshot in table.metadata.snapshots:
        found.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            found.add(manifest.manifest_path)
            entries = manifest.fetch_manifest_entry(table.io, discard_deleted=True)
            found |= {entry.data_file.file_path for entry in entries}
    return frozenset(path_of(location) for location in found)


def drop(rest: Rest, name: str) -> None:
    answer = rest.of("DELETE", table_path("ns", name) + "?purgeRequested=true")
    assert answer.status == 204, answer


@contextmanager
def two_servers(url: str, **traps: float) -> Iterator[tuple[list[TrappedServer], list[Rest], PostgresDb]]:
    with ExitStack() as stack:
        servers = [stack.enter_context(TrappedServer(None, database_url=url, **traps)) for _ in range(2)]
        db = PostgresDb(url)
        db.install()
        clients = [stack.enter_context(Rest(server.port)) for server in servers]
        create_namespace(clients[0], "ns")
        yield servers, clients, db


@pytest.mark.services
def test_goes_on_after_each_kill(tmp_path: Path) -> None:
    """The server dies after every few deletions, in every phase, until nothing is left to do."""
    with TrappedServer(tmp_path, poll=0.2) as server, Rest(server.port) as rest:
        create_namespace(rest, "ns")
        other = write(server, "other", appends=1)
        table = write(server, "t")
        db = SqliteDb(server.data_dir / "catalog.db")
        server.stop()
        rest.close()
        server.traps["deletes"] = 3
        server.start()
        drop(rest, "t")
        rest.close()
        kills, left = 0, len(table.reachable)
        while True:
            deadline = time.monotonic() + 120
            while server.running and not (table.gone and not db.query("SELECT 1 FROM purge")):
                assert time.monotonic() < deadline, server.log_tail()
                time.sleep(0.02)
            if server.running:
                break
            kills += 1
            now = sum(path.exists() for path in table.reachable)
            assert now == left - 3, "no progress since the last kill"
            left = now
            assert len(db.query("SELECT 1 FROM purge")) == 1, "forgotten before it was done"
            assert all(path.exists() for path in table.neighbours)
            server.start()
        assert kills >= 4, f"only {kills} kills for {len(table.reachable)} files"
        table.assert_only_purged()
        assert all(path.exists() for path in other.reachable | other.neighbours)
        assert rest.of("GET", table_path("ns", "t")).status == 404


def test_two_servers_share_the_work(postgres_url: Callable[[], str]) -> None:
    """Both see each purge and hesitate; one of them takes it up, once. Nothing else is deleted."""
    with two_servers(postgres_url(), poll=0.05, claim_pause=0.2, delete_pause=0.005) as (
        servers,
        clients,
        db,
    ):
        tables = [write(servers[0], f"t{number}", appends=1) for number in range(5)]
        kept = write(servers[0], "kept", appends=1)
        for number, table in enumerate(tables):
            drop(clients[number % 2], table.name)
        wait_until(lambda: not db.query("SELECT 1 FROM purge"), what="purges to be done")
        for table in tables:
            table.assert_only_purged()
        assert all(path.exists() for path in kept.reachable | kept.neighbours)
        finished = db.query("SELECT name, attempts FROM audit_purge WHERE op = 'DELETE' ORDER BY name")
        assert [tuple(row) for row in finished] == [(f"ns.t{number}", 1) for number in range(5)]


def test_is_recorded_with_the_drop(postgres_url: Callable[[], str]) -> None:
    with two_servers(postgres_url()) as (servers, clients, db):
        table = write(servers[0], "t", appends=1)
        drop(clients[1], "t")
        wait_until(lambda: not db.query("SELECT 1 FROM purge"), what="purge to be done")
        table.assert_only_purged()
        rows = db.query(
            "SELECT count(*) FROM audit a JOIN audit_purge p ON p.tx = a.tx "
            "WHERE a.op = 'DELETE' AND p.op = 'INSERT'"
        )
        assert rows[0][0] == 1, "the row and the purge must change in one transaction"


def test_a_slow_purge_keeps_its_lease(postgres_url: Callable[[], str]) -> None:
    """It takes longer than a lease; the other server looks all the time and leaves it alone.

    A lease is renewed after a third of it: the rest is for a machine that has much else to do.
    """
    with two_servers(postgres_url(), poll=0.1, lease_ms=5000, delete_pause=0.6) as (servers, clients, db):
        table = write(servers[0], "t", appends=2)
        began = time.monotonic()
        drop(clients[0], "t")
        wait_until(lambda: not db.query("SELECT 1 FROM purge"), what="purge to be done")
        assert time.monotonic() - began > 5, "the test is too quick to prove anything"
        table.assert_only_purged()
        assert [row[0] for row in db.query("SELECT attempts FROM audit_purge WHERE op = 'DELETE'")] == [1]


def test_the_other_server_takes_over(postgres_url: Callable[[], str]) -> None:
    with two_servers(postgres_url(), poll=0.1, lease_ms=3000) as (servers, clients, db):
        table = write(servers[0], "t")
        servers[1].kill()
        servers[0].stop()
        clients[0].close()
        servers[0].traps["deletes"] = 4
        servers[0].start()
        drop(clients[0], "t")
        servers[0].wait_dead()
        died = time.monotonic()
        servers[1].start()
        assert sum(path.exists() for path in table.reachable) == len(table.reachable) - 4
        wait_until(lambda: not db.query("SELECT 1 FROM purge"), what="the other server to take over")
        assert time.monotonic() - died > 1, "taken over while the lease was still running"
        table.assert_only_purged()
        assert [row[0] for row in db.query("SELECT attempts FROM audit_purge WHERE op = 'DELETE'")] == [2]


@pytest.mark.services
def test_refused_without_gc(tmp_path: Path) -> None:
    with TrappedServer(tmp_path, poll=0.1) as server, Rest(server.port) as rest:
        create_namespace(rest, "ns")
        table = write(server, "t", appends=1)
        with catalog_of(server) as catalog:
            loaded = catalog.load_table("ns.t")
            loaded.transaction().set_properties({"gc.enabled": "false"}).commit_transaction()
        db = SqliteDb(server.data_dir / "catalog.db")
        rows, files = db.query("SELECT * FROM tabular"), files_below(server.data_dir / "warehouse")
        answer = rest.of("DELETE", table_path("ns", "t") + "?purgeRequested=true")
        assert answer.status == 400
        assert "gc.enabled" in answer.json["error"]["message"]
        time.sleep(0.5)
        assert db.query("SELECT * FROM tabular") == rows
        assert not db.query("SELECT 1 FROM purge")
        assert files_below(server.data_dir / "warehouse") == files
        assert all(path.exists() for path in table.reachable | table.neighbours)
        # Without purge it may go, and its files stay.
        assert rest.of("DELETE", table_path("ns", "t")).status == 204
        assert files_below(server.data_dir / "warehouse") == files


@pytest.mark.services
def test_a_restart_does_not_hasten_a_delayed_purge(tmp_path: Path) -> None:
    """A soft delete profile promises the files for some time, whatever happens to the server."""
    with TrappedServer(tmp_path, poll=0.1) as server, Rest(server.port) as rest:
        create_namespace(rest, "ns")
        table = write(server, "t", appends=1)
        db = SqliteDb(server.data_dir / "catalog.db")
        profile = '{"type":"soft","expiration-seconds":3600}'
        db.change(f"UPDATE warehouse SET delete_profile = '{profile}', version = version + 1")
        drop(rest, "t")
        rest.close()
        server.kill()
        server.start()
        assert rest.of("GET", table_path("ns", "t")).status == 404
        time.sleep(0.6)
        assert all(path.exists() for path in table.reachable | table.neighbours)
        assert len(db.query("SELECT 1 FROM purge")) == 1
        # Its time comes; the server's janitor does the rest.
        db.change("UPDATE purge SET not_before = 0")
        wait_until(lambda: not db.query("SELECT 1 FROM purge"), what="purge to be done")
        table.assert_only_purged()


@pytest.mark.services
def test_one_bad_purge_does_not_stop_the_others(tmp_path: Path) -> None:
    """A purge of which the server can make nothing fails again and again; the janitor lives on."""
    with TrappedServer(tmp_path, poll=0.1, lease_ms=2000) as server, Rest(server.port) as rest:
        create_namespace(rest, "ns")
        bad, good = write(server, "bad", appends=1), write(server, "good", appends=1)
        db = SqliteDb(server.data_dir / "catalog.db")
        server.traps["deletes"] = 0
        rest.close()
        server.restart()
        drop(rest, "bad")
        server.wait_dead()
        # A document of a kind that no server wrote.
        broken = zstd.compress(b'{"snapshots": 5}').hex()
        db.change(f"UPDATE purge SET metadata = x'{broken}'")
        del server.traps["deletes"]
        rest.close()
        server.start()
        wait_until(lambda: db.query("SELECT 1 FROM purge WHERE attempts > 1"), what="the bad one to be tried")
        drop(rest, "good")
        # Its row goes after its files.
        left = "SELECT name FROM purge"
        wait_until(lambda: [row[0] for row in db.query(left)] == ["ns.bad"], what="the good one to be purged")
        good.assert_only_purged()
        assert all(path.exists() for path in bad.reachable)
