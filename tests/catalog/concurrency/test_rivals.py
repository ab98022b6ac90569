"""Rivals on one base, fired at the same instant at two servers: exactly one wins, wholly.

Iceberg's reference server acknowledges both in nearly every try.
"""

from __future__ import annotations

import itertools
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.catalog.concurrency.rest import (
    SCHEMA,
    Answer,
    Json,
    Rest,
    append,
    create_namespace,
    create_table,
    load,
    snapshot_of,
    staged_updates,
    table_path,
)
from tests.catalog.concurrency.servers import on_postgres

TRIES = 40
_numbers = itertools.count(1)


@pytest.fixture
def rivals(postgres_url: Callable[[], str]) -> Iterator[list[Rest]]:
    with on_postgres(postgres_url()) as (servers, _):
        clients = [Rest(server.port) for server in servers]
        create_namespace(clients[0], "ns")
        yield clients
        for client in clients:
            client.close()


class Ring:
    """Sends requests from several threads at the same instant, each to its own server."""

    def __init__(self, servers: Sequence[Rest], size: int) -> None:
        self._servers = servers
        self._pool = ThreadPoolExecutor(size)
        self._start = threading.Barrier(size)

    def fire(self, path: str, bodies: Sequence[Json], keys: Sequence[str | None] = ()) -> list[Answer]:
        def send(index: int) -> Answer:
            rest = Rest(self._servers[index % len(self._servers)].port)
            prefix = rest.prefix
            self._start.wait()
            with rest:
                return rest.call("POST", prefix + path, bodies[index], key=keys[index] if keys else None)

        return list(self._pool.map(send, range(len(bodies))))

    def close(self) -> None:
        self._pool.shutdown()


@pytest.fixture
def ring(rivals: list[Rest]) -> Iterator[Callable[[int], Ring]]:
    made: list[Ring] = []

    def make(size: int) -> Ring:
        made.append(Ring(rivals, size))
        return made[-1]

    yield make
    for each in made:
        each.close()


def change(name: str, body: Json) -> Json:
    return {"identifier": {"namespace": ["ns"], "name": name}, **body}


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 6])
def test_transactions_on_one_base(rivals: list[Rest], ring: Callable[[int], Ring], size: int) -> None:
    arena, names = ring(size), ("a", "b", "c")
    tables = {name: create_table(rivals[0], "ns", name)["metadata"] for name in names}
    for attempt in range(TRIES if size == 2 else TRIES // 2):
        bodies: list[Json] = []
        ids: list[dict[str, int]] = []
        for number in range(size):
            # Each rival takes two tables or three, in an order of its own; all of them share `b`.
            mine = [("a", "b"), ("c", "b"), ("b", "a", "c")][(attempt + number) % 3]
            ids.append({name: next(_numbers) for name in mine})
            bodies.append(
                {"table-changes": [change(name, append(tables[name], ids[-1][name])) for name in mine]}
            )
        answers = arena.fire("/transactions/commit", bodies)
        statuses = sorted(answer.status for answer in answers)
        assert statuses == [204] + [409] * (size - 1), [str(answer) for answer in answers]
        assert all(a.kind == "CommitFailedException" for a in answers if a.status == 409)
        winner = next(index for index, answer in enumerate(answers) if answer.status == 204)
        for name in names:
            after = load(rivals[attempt % 2], "ns", name)["metadata"]
            expected = ids[winner].get(name, snapshot_of(tables[name]))
            assert snapshot_of(after) == expected
            added = {s["snapshot-id"] for s in after["snapshots"]}
            added -= {s["snapshot-id"] for s in tables[name]["snapshots"]}
            assert added == ({ids[winner][name]} if name in ids[winner] else set())
            tables[name] = after


@pytest.mark.slow
def test_a_transaction_against_commits(rivals: list[Rest], ring: Callable[[int], Ring]) -> None:
    """A requirement on a table that the transaction leaves as it is holds at the commit as well."""
    arena = ring(2)
    for name in ("guard", "data"):
        create_table(rivals[0], "ns", name)
    for _ in range(TRIES):
        guard, data = (load(rivals[0], "ns", name)["metadata"] for name in ("guard", "data"))
        watched = {"requirements": append(guard, 1)["requirements"], "updates": []}
        one = {"table-changes": [change("guard", watched), change("data", append(data, next(_numbers)))]}
        watched = {"requirements": append(data, 1)["requirements"], "updates": []}
        two = {"table-changes": [change("data", watched), change("guard", append(guard, next(_numbers)))]}
        answers = arena.fire("/transactions/commit", [one, two])
        assert sorted(answer.status for answer in answers) == [204, 409], [str(a) for a in answers]


@pytest.mark.slow
def test_staged_creates_of_one_name(rivals: list[Rest], ring: Callable[[int], Ring]) -> None:
    """With each comes a commit to a second table, which lands only for the one that creates."""
    arena = ring(2)
    create_table(rivals[0], "ns", "log")
    for attempt in range(TRIES // 2):
        name = f"new{attempt}"
        log = load(rivals[0], "ns", "log")["metadata"]
        bodies, uuids = [], []
        for rest in rivals:
            body = {"name": name, "schema": SCHEMA, "stage-create": True}
            staged = rest.of("POST", "/namespaces/ns/tables", body).json["metadata"]
            uuids.append(staged["table-uuid"])
            create = {"requirements": [{"type": "assert-create"}], "updates": staged_updates(staged)}
            note = {
                "requirements": [{"type": "assert-table-uuid", "uuid": log["table-uuid"]}],
                "updates": [{"action": "set-properties", "updates": {staged["table-uuid"]: "created"}}],
            }
            bodies.append({"table-changes": [change(name, create), change("log", note)]})
        answers = arena.fire("/transactions/commit", bodies)
        assert sorted(answer.status for answer in answers) == [204, 409], [str(a) for a in answers]
        winner = uuids[[answer.status for answer in answers].index(204)]
        assert load(rivals[0], "ns", name)["metadata"]["table-uuid"] == winner
        noted = load(rivals[1], "ns", "log")["metadata"]["properties"].keys() & set(uuids)
        assert noted == {winner}


@pytest.mark.slow
def test_one_key_sent_twice_at_once(rivals: list[Rest], ring: Callable[[int], Ring]) -> None:
    """A client that did not wait for its first answer: both requests get the same one."""
    arena = ring(2)
    create_table(rivals[0], "ns", "t")
    create_table(rivals[0], "ns", "u")
    for _ in range(TRIES):
        tables = {name: load(rivals[0], "ns", name)["metadata"] for name in ("t", "u")}
        key, ids = str(uuid.uuid4()), {name: next(_numbers) for name in tables}
        body = {"table-changes": [change(name, append(tables[name], ids[name])) for name in tables]}
        answers = arena.fire("/transactions/commit", [body, body], [key, key])
        assert [answer.status for answer in answers] == [204, 204], [str(a) for a in answers]
        for name, before in tables.items():
            after = load(rivals[1], "ns", name)["metadata"]
            assert len(after["snapshots"]) == len(before["snapshots"]) + 1
            assert snapshot_of(after) == ids[name]
        alone = append(load(rivals[0], "ns", "t")["metadata"], next(_numbers))
        key = str(uuid.uuid4())
        answers = arena.fire(table_path("ns", "t"), [alone, alone], [key, key])
        assert [answer.status for answer in answers] == [200, 200], [str(a) for a in answers]
        assert answers[0].json["metadata-location"] == answers[1].json["metadata-location"]


@pytest.mark.slow
def test_a_drop_and_a_rename_of_one_table(rivals: list[Rest]) -> None:
    """Whoever loses is told so: a drop of the old name never takes the renamed table away."""
    barrier = threading.Barrier(2)

    def drop() -> int:
        rest = Rest(rivals[0].port)
        prefix = rest.prefix
        barrier.wait()
        with rest:
            return rest.call("DELETE", prefix + table_path("ns", "old")).status

    def rename() -> int:
        rest = Rest(rivals[1].port)
        body = {
            "source": {"namespace": ["ns"], "name": "old"},
            "destination": {"namespace": ["ns"], "name": "new"},
        }
        prefix = rest.prefix
        barrier.wait()
        with rest:
            return rest.call("POST", f"{prefix}/tables/rename", body).status

    with ThreadPoolExecutor(2) as pool:
        for _ in range(TRIES):
            create_table(rivals[0], "ns", "old")
            dropping, renaming = pool.submit(drop), pool.submit(rename)
            assert sorted((dropping.result(), renaming.result())) == [204, 404]
            shown = rivals[0].of("HEAD", table_path("ns", "new")).status
            assert shown == renaming.result()
            if renaming.result() == 204:
                assert rivals[0].of("DELETE", table_path("ns", "new")).status == 204
