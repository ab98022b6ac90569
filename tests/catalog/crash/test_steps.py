"""kill -9 at each step of each change: the old state or the new one, never anything between."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.catalog.concurrency.audit import Db, PostgresDb, SqliteDb
from tests.catalog.concurrency.checker import path_of
from tests.catalog.concurrency.rest import (
    SCHEMA,
    Json,
    Rest,
    append,
    create_namespace,
    create_table,
    load,
    snapshot_of,
    staged_updates,
    table_path,
    wait_until,
)
from tests.catalog.crash.trapped import TrappedServer, assert_rows_stand, files_below, state

pytestmark = pytest.mark.slow

_numbers = itertools.count(1)
#: Points at which the change is not yet, and at which it is already, certain.
BEFORE = ("before-file", "after-file", "before-commit")
AFTER = ("after-commit", "before-answer")


@dataclass
class World:
    server: TrappedServer
    db: Db
    rest: Rest

    @property
    def warehouse(self) -> Path:
        return self.server.data_dir / "warehouse"


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgres", marks=pytest.mark.services)])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """One server for all, started again after each death."""
    url = None
    if request.param == "postgres":
        url = request.getfixturevalue("postgres").create_database(f"crash_{uuid.uuid4().hex[:12]}")
    with TrappedServer(database_url=url, poll=0.2) as server:
        db: Db = PostgresDb(url) if url else SqliteDb(server.data_dir / "catalog.db")
        with Rest(server.port) as rest:
            create_namespace(rest, "ns")
            yield World(server, db, rest)


@dataclass(frozen=True)
class Request:
    """A change, what it answers when it is done, and whether it shows."""

    method: str
    path: str
    body: Json | None
    status: int
    done: Callable[[], bool]


def create(world: World) -> Request:
    name = f"t{next(_numbers)}"
    body = {"name": name, "schema": SCHEMA}
    return Request("POST", "/namespaces/ns/tables", body, 200, lambda: exists(world, name))


def staged_create(world: World) -> Request:
    name = f"t{next(_numbers)}"
    body = {"name": name, "schema": SCHEMA, "stage-create": True}
    staged = world.rest.of("POST", "/namespaces/ns/tables", body).json["metadata"]
    commit = {"requirements": [{"type": "assert-create"}], "updates": staged_updates(staged)}
    return Request("POST", table_path("ns", name), commit, 200, lambda: exists(world, name))


def commit(world: World) -> Request:
    name, number = f"t{next(_numbers)}", next(_numbers)
    metadata = create_table(world.rest, "ns", name)["metadata"]
    return Request(
        "POST",
        table_path("ns", name),
        append(metadata, number, {"flink.job-id": name}),
        200,
        lambda: landed(world, name, number),
    )


def transaction(world: World) -> Request:
    numbers: dict[str, int] = {}
    changes = []
    for _ in range(3):
        name, number = f"t{next(_numbers)}", next(_numbers)
        metadata = create_table(world.rest, "ns", name)["metadata"]
        numbers[name] = number
        updates = append(metadata, number, {"flink.job-id": name})
        changes.append({"identifier": {"namespace": ["ns"], "name": name}, **updates})

    def done() -> bool:
        shown = {name: landed(world, name, number) for name, number in numbers.items()}
        assert len(set(shown.values())) == 1, f"half a transaction: {shown}"
        return all(shown.values())

    return Request("POST", "/transactions/commit", {"table-changes": changes}, 204, done)


def rename(world: World) -> Request:
    source, target = f"t{next(_numbers)}", f"t{next(_numbers)}"
    create_table(world.rest, "ns", source)
    body = {
        "source": {"namespace": ["ns"], "name": source},
        "destination": {"namespace": ["ns"], "name": target},
    }

    def done() -> bool:
        assert exists(world, source) is not exists(world, target)
        return exists(world, target)

    return Request("POST", "/tables/rename", body, 204, done)


def drop_with_purge(world: World) -> Request:
    name = f"t{next(_numbers)}"
    metadata = create_table(world.rest, "ns", name)
    updates = append(metadata["metadata"], next(_numbers), {"flink.job-id": name})
    answer = world.rest.of("POST", table_path("ns", name), updates)
    files = [path_of(each["metadata-location"]) for each in (metadata, answer.json)]

    def done() -> bool:
        if exists(world, name):
            assert all(file.is_file() for file in files)
            assert len(writes_of(world, name)) == 1
            return False
        assert writes_of(world, name) == [], "nothing can come back"
        wait_until(lambda: not any(file.exists() for file in files), what="files to be purged")
        wait_until(lambda: not world.db.query("SELECT 1 FROM purge"), what="purge to be finished")
        return True

    return Request("DELETE", table_path("ns", name) + "?purgeRequested=true", None, 204, done)


def exists(world: World, name: str) -> bool:
    return world.rest.of("HEAD", table_path("ns", name)).status == 204


def snapshots(world: World, name: str) -> list[int]:
    metadata = load(world.rest, "ns", name)["metadata"]
    ids = [snapshot["snapshot-id"] for snapshot in metadata["snapshots"]]
    assert snapshot_of(metadata) == (ids[-1] if ids else None)
    return ids


def landed(world: World, name: str, number: int) -> bool:
    """Whether the table has the snapshot; then, and only then, the job is known that its summary names."""
    shown = snapshots(world, name)
    assert (shown, writes_of(world, name)) in (([], []), ([number], [(number, 1)]))
    return bool(shown)


def writes_of(world: World, name: str) -> list[tuple[object, ...]]:
    """What the index has of a job that is called like its table."""
    rows = world.db.query("SELECT job_id, last_snapshot_id, commits FROM job_table")
    return [tuple(row[1:]) for row in rows if row[0] == name]


CHANGES = [create, staged_create, commit, transaction, rename, drop_with_purge]
CASES = [
    pytest.param(change, point, keyed, id=f"{change.__name__}-{point}-{'key' if keyed else 'plain'}")
    for change in CHANGES
    for point in BEFORE + AFTER
    for keyed in (True, False)
    # These two write no file, and without a key only the path of a single statement differs.
    if not (change in (rename, drop_with_purge) and point in ("before-file", "after-file"))
    if keyed or change is commit
    # A single statement commits on its own: there is nothing between it and COMMIT.
    if keyed or point != "before-commit"
]


@pytest.mark.parametrize(("change", "point", "keyed"), CASES)
def test_kill(world: World, change: Callable[[World], Request], point: str, keyed: bool) -> None:
    # A test that failed may have left the server dead.
    world.rest.close()
    world.server.start()
    request = change(world)
    key = str(uuid.uuid4()) if keyed else None
    before, files = state(world.db), files_below(world.warehouse)

    answer = world.rest.of(request.method, request.path, request.body, key=key, headers={"X-Crash-At": point})
    assert answer.status == 0
    world.server.wait_dead()
    if point in BEFORE:
        settled(world, before)
        left = files_below(world.warehouse) - files
        expected = 0 if point == "before-file" or change in (rename, drop_with_purge) else 1
        assert len(left) == (3 if change is transaction and expected else expected)
    else:
        assert state(world.db)["tabular"] != before["tabular"]
        if change is drop_with_purge:
            assert len(state(world.db)["purge"]) == 1
    assert files <= files_below(world.warehouse), "a file is gone"

    world.server.start()
    assert_rows_stand(world.db, world.rest)
    assert request.done() is (point in AFTER)

    if key is not None:
        # The client does not know, so it sends the same again, and once more.
        for _ in range(2):
            again = world.rest.of(request.method, request.path, request.body, key=key)
            assert again.status == request.status, again
            assert request.done()
        assert state(world.db)["idempotency"][key] == (request.status,)
    elif point in AFTER:
        assert world.rest.of(request.method, request.path, request.body).status == 409
    else:
        assert world.rest.of(request.method, request.path, request.body).status == request.status
    assert request.done()
    assert_rows_stand(world.db, world.rest)


def settled(world: World, before: object) -> None:
    """PostgreSQL rolls back when it notices that its client is gone, which may take a moment."""
    if isinstance(world.db, PostgresDb):
        wait_until(lambda: not world.db.query(_SESSIONS), what="sessions to end")
    assert state(world.db) == before


_SESSIONS = (
    "SELECT 1 FROM pg_stat_activity WHERE application_name = 'frazil' AND datname = current_database()"
)
