"""The database goes away while commits are under way: no answer may say more than is known."""

from __future__ import annotations

import asyncio
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

import asyncpg
import pytest
from tests.catalog.concurrency.audit import PostgresDb
from tests.catalog.concurrency.checker import check
from tests.catalog.concurrency.rest import (
    Answer,
    Json,
    Rest,
    append,
    create_namespace,
    create_table,
    load,
    snapshot_of,
    table_path,
    wait_until,
)
from tests.catalog.concurrency.servers import on_postgres
from tests.catalog.concurrency.workload import SoFar, run_clients
from tests.catalog.crash.proxy import Proxy
from tests.catalog.crash.trapped import files_below

from frazil.devstack.frazil_server import FrazilServer
from frazil.devstack.postgres import Postgres

pytestmark = [pytest.mark.slow, pytest.mark.services]


@pytest.fixture(scope="module")
def mortal() -> Iterator[Postgres]:
    """A PostgreSQL of our own, for we shall kill it."""
    with Postgres(fsync=False) as server:
        yield server


@dataclass(frozen=True)
class World:
    postgres: Postgres
    server: FrazilServer
    db: PostgresDb
    rest: Rest
    proxy: Proxy

    def snapshots(self, name: str) -> list[int]:
        """As the database has them, without asking the server."""
        rows = self.db.query(f"SELECT metadata_location FROM tabular WHERE name = '{name}'")
        assert len(rows) == 1
        metadata = load(self.rest, "ns", name)
        assert metadata["metadata-location"] == rows[0][0]
        return [snapshot["snapshot-id"] for snapshot in metadata["metadata"]["snapshots"]]

    def serves_again(self) -> None:
        """Without a restart."""
        wait_until(lambda: self.rest.of("GET", "/namespaces").status == 200, what="server to recover")
        assert self.server.running


@pytest.fixture(scope="module")
def stage(mortal: Postgres) -> Iterator[World]:
    """One server for all these tests: none of them may bring it down."""
    url = mortal.create_database(f"w_{uuid.uuid4().hex[:12]}")
    with Proxy(mortal.port) as proxy:
        through = url.replace(f":{mortal.port}/", f":{proxy.port}/")
        with on_postgres(through, 1) as (servers, _), Rest(servers[0].port) as rest:
            yield World(mortal, servers[0], PostgresDb(url), rest, proxy)


@pytest.fixture
def world(stage: World) -> Iterator[World]:
    stage.proxy.cuts, stage.proxy.stay_cut = 0, False
    # The server hangs up on a client that was silent for some seconds.
    stage.rest.close()
    stage.serves_again()
    stage.db.query("DELETE FROM idempotency")
    create_namespace(stage.rest, "ns")
    create_table(stage.rest, "ns", "t")
    create_table(stage.rest, "ns", "u")
    yield stage
    stage.proxy.restore()
    stage.postgres.start()
    stage.serves_again()
    for path in (table_path("ns", "t"), table_path("ns", "u"), "/namespaces/ns"):
        assert stage.rest.of("DELETE", path).status == 204


def single(world: World, number: int) -> tuple[str, Json]:
    return table_path("ns", "t"), append(load(world.rest, "ns", "t")["metadata"], number)


def double(world: World, number: int) -> tuple[str, Json]:
    changes = [
        {
            "identifier": {"namespace": ["ns"], "name": name},
            **append(load(world.rest, "ns", name)["metadata"], number),
        }
        for name in ("t", "u")
    ]
    return "/transactions/commit", {"table-changes": changes}


REQUESTS = [
    pytest.param(single, False, "UPDATE 1", id="statement"),
    pytest.param(single, True, "COMMIT", id="commit-with-key"),
    pytest.param(double, False, "COMMIT", id="transaction"),
    pytest.param(double, True, "COMMIT", id="transaction-with-key"),
]
Builder = Callable[[World, int], tuple[str, Json]]


@pytest.mark.parametrize(("build", "keyed", "tag"), REQUESTS)
def test_confirmation_lost(world: World, build: Builder, keyed: bool, tag: str) -> None:
    """It landed and the server was not told. With the database back at once, it finds out by itself."""
    path, body = build(world, 7)
    key = str(uuid.uuid4()) if keyed else None
    world.proxy.cut_at = tag.encode()
    answer = world.rest.of("POST", path, body, key=key)
    assert world.proxy.cuts == 1
    assert 200 <= answer.status < 300, answer
    for name in ("t", "u") if build is double else ("t",):
        assert world.snapshots(name) == [7]


@pytest.mark.parametrize(("build", "keyed", "tag"), REQUESTS)
def test_confirmation_lost_and_the_database_away(world: World, build: Builder, keyed: bool, tag: str) -> None:
    """It landed and nobody can find out: unknown, and not a single file is deleted."""
    path, body = build(world, 7)
    key = str(uuid.uuid4()) if keyed else None
    world.proxy.stay_cut = True
    world.proxy.cut_at = tag.encode()
    answer = world.rest.of("POST", path, body, key=key)
    assert world.proxy.cuts == 1
    assert (answer.status, answer.kind) == (500, "CommitStateUnknownException"), answer
    away = world.rest.of("POST", path, body, key=key)
    assert away.status == 503, "with the database away nothing is done"
    world.proxy.restore()
    world.serves_again()
    for name in ("t", "u") if build is double else ("t",):
        assert world.snapshots(name) == [7]
    if key is not None:
        again = world.rest.of("POST", path, body, key=key)
        assert 200 <= again.status < 300, again
        assert world.snapshots("t") == [7]


@contextmanager
def row_held(world: World, name: str) -> Iterator[None]:
    """While it lasts, nobody can change the row of that table."""
    held, release = threading.Event(), threading.Event()

    async def hold() -> None:
        connection = await asyncpg.connect(world.db._url)
        try:
            transaction = connection.transaction()
            await transaction.start()
            await connection.fetch("SELECT 1 FROM tabular WHERE name = $1 FOR UPDATE", name)
            held.set()
            await asyncio.to_thread(release.wait)
        finally:
            connection.terminate()

    thread = threading.Thread(target=lambda: asyncio.run(hold()))
    thread.start()
    try:
        assert held.wait(120)
        yield
    finally:
        release.set()
        thread.join()


_WAITING = "SELECT 1 FROM pg_stat_activity WHERE application_name = 'frazil' AND wait_event_type = 'Lock'"


@pytest.mark.parametrize(("build", "keyed", "tag"), REQUESTS)
def test_killed_in_the_swap(world: World, build: Builder, keyed: bool, tag: str) -> None:
    """The database dies with the swap half done; it did not land."""
    path, body = build(world, 7)
    key = str(uuid.uuid4()) if keyed else None
    files = files_below(world.server.data_dir / "warehouse")
    with ThreadPoolExecutor(1) as pool:
        with row_held(world, "t"):
            pending: Future[Answer] = pool.submit(_send, world, path, body, key)
            wait_until(lambda: world.db.query(_WAITING), what="the swap to wait for the row")
            world.postgres.kill()
        answer = pending.result(120)
    world.postgres.start()
    if tag == "COMMIT":
        # The transaction had not been committed: nothing was done, for certain, and nothing is left.
        assert answer.status == 503, f"{answer}\n{world.server.log_tail()}"
        assert files_below(world.server.data_dir / "warehouse") == files
    else:
        assert (answer.status, answer.kind) == (500, "CommitStateUnknownException"), answer
    world.serves_again()
    assert world.snapshots("t") == []
    assert world.snapshots("u") == []
    again = world.rest.of("POST", path, body, key=key)
    assert 200 <= again.status < 300, again
    assert world.snapshots("t") == [7]


def test_killed_in_commit(world: World) -> None:
    """COMMIT was sent and takes its time when the database dies."""
    world.db.query(
        "DO $$ BEGIN "
        "EXECUTE 'CREATE FUNCTION dawdle() RETURNS trigger LANGUAGE plpgsql AS "
        "''BEGIN PERFORM pg_sleep(20); RETURN NULL; END''';"
        "EXECUTE 'CREATE CONSTRAINT TRIGGER dawdle AFTER UPDATE ON tabular DEFERRABLE INITIALLY DEFERRED "
        "FOR EACH ROW EXECUTE FUNCTION dawdle()'; END $$"
    )
    path, body = double(world, 7)
    key = str(uuid.uuid4())
    with ThreadPoolExecutor(1) as pool:
        pending = pool.submit(_send, world, path, body, key)
        wait_until(
            lambda: world.db.query("SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'"),
            what="COMMIT to dawdle",
        )
        world.postgres.kill()
        answer = pending.result(120)
    assert (answer.status, answer.kind) == (500, "CommitStateUnknownException"), answer
    world.postgres.start()
    world.serves_again()
    assert world.snapshots("t") == []
    world.db.query("DROP TRIGGER dawdle ON tabular")
    assert world.rest.of("POST", path, body, key=key).status == 204
    assert world.snapshots("t") == world.snapshots("u") == [7]


def test_clients_while_the_database_is_killed(mortal: Postgres) -> None:
    """The clients of the concurrency test; here the database dies, twice, and the servers live on."""
    url = mortal.create_database(f"k_{uuid.uuid4().hex[:12]}")
    with on_postgres(url) as (servers, db):
        clients = [Rest(server.port) for server in servers]
        back = 0.0

        def disturb(seconds: float, so_far: SoFar) -> None:
            nonlocal back
            for _ in range(2):
                time.sleep(seconds / 3)
                killed = time.time()
                mortal.kill()
                wait_until(
                    lambda killed=killed: any(op.began > killed and 503 in op.statuses for op in so_far()),
                    what="somebody to notice that the database is away",
                )
                mortal.start()
                back = time.time()
            time.sleep(seconds / 3)
            wait_until(
                lambda: any(op.began > back and op.ended and op.told == "done" for op in so_far()),
                what="the servers to serve again",
            )

        pids = [server.pid for server in servers]
        ops, complaints = run_clients(clients, clients=8, seconds=6, seed=3, disturb=disturb)
        assert [server.pid for server in servers] == pids
        assert all(server.running for server in servers)
        report = check(db, ops, clients)
        for client in clients:
            client.close()
    print(f"\n{dict(sorted(report.counts.items()))}")
    findings = report.findings + complaints
    assert not findings, f"{len(findings)} findings:\n" + "\n".join(findings[:40])
    statuses = {status for op in ops for status in op.statuses}
    assert 503 in statuses, "nobody noticed that the database was away"
    late = [op for op in ops if op.began > back and op.told == "done"]
    assert late, "the servers do not serve again"


def _send(world: World, path: str, body: Json, key: str | None) -> Answer:
    with Rest(world.rest.port) as rest:
        return rest.of("POST", path, body, key=key)


def test_refused_answers_do_nothing(world: World) -> None:
    """503 for each kind of change while the database is away, and afterwards all is as before."""
    metadata = load(world.rest, "ns", "t")["metadata"]
    before = world.db.query("SELECT * FROM tabular ORDER BY tabular_id")
    files = files_below(world.server.data_dir / "warehouse")
    world.postgres.kill()
    move = {"source": {"namespace": ["ns"], "name": "t"}, "destination": {"namespace": ["ns"], "name": "v"}}
    schema = {"type": "struct", "fields": []}
    requests: list[tuple[str, str, Json | None]] = [
        ("POST", table_path("ns", "t"), append(metadata, 9)),
        ("POST", "/namespaces/ns/tables", {"name": "v", "schema": schema}),
        ("POST", "/tables/rename", move),
        ("DELETE", table_path("ns", "t") + "?purgeRequested=true", None),
        ("POST", "/namespaces/ns/properties", {"updates": {"a": "b"}}),
        ("POST", "/namespaces", {"namespace": ["other"]}),
        ("DELETE", "/namespaces/ns", None),
    ]
    try:
        for key in (None, str(uuid.uuid4())):
            for method, path, body in requests:
                answer = world.rest.of(method, path, body, key=key)
                assert (answer.status, answer.kind) == (503, "ServiceUnavailableException"), answer
    finally:
        world.postgres.start()
    world.serves_again()
    assert world.db.query("SELECT * FROM tabular ORDER BY tabular_id") == before
    assert not world.db.query("SELECT 1 FROM purge UNION ALL SELECT 1 FROM idempotency")
    assert len(world.db.query("SELECT 1 FROM namespace WHERE properties = '{}'")) == 1
    assert files_below(world.server.data_dir / "warehouse") == files
    assert snapshot_of(load(world.rest, "ns", "t")["metadata"]) is None
