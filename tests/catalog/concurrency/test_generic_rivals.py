"""Rivals over names and locations of generic tables: one wins, nobody gets a 500, no place has two owners."""

from __future__ import annotations

import itertools
import random
import threading
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.catalog.concurrency.audit import Db
from tests.catalog.concurrency.rest import SCHEMA, Answer, Json, Rest, create_namespace
from tests.catalog.concurrency.servers import on_postgres, on_sqlite

from frazil.devstack.postgres import Postgres

TRIES = 20
_numbers = itertools.count(1)
RIVALS = 4
NAMES = ("a", "b", "c")
PLACES = ("p", "p/q", "p/q/r", "p0", "s")

Call = tuple[str, str, Json | None]


@dataclass
class Arena:
    """One or two servers on one database, and threads that call them at the same instant."""

    ports: list[int]
    prefix: str
    root: Path
    db: Db

    def fire(self, calls: Sequence[Call]) -> list[Answer]:
        start = threading.Barrier(len(calls))

        def send(index: int) -> Answer:
            with Rest(self.ports[index % len(self.ports)]) as rest:
                assert rest.prefix
                start.wait()
                method, path, body = calls[index]
                return rest.call(method, path, body)

        with ThreadPoolExecutor(len(calls)) as pool:
            return list(pool.map(send, range(len(calls))))

    def send(self, call: Call) -> Answer:
        with Rest(self.ports[0]) as rest:
            return rest.call(*call)

    def create(self, name: str, place: str | None = None, **properties: str) -> Call:
        body: Json = {"name": name, "format": "csv", "properties": properties}
        if place is not None:
            body["base-location"] = self.location(place)
        return "POST", f"/lakekeeper/v1/{self.prefix}/namespaces/ns/generic-tables", body

    def create_table(self, name: str, place: str) -> Call:
        body: Json = {"name": name, "schema": SCHEMA, "location": self.location(place)}
        return "POST", f"/catalog/v1/{self.prefix}/namespaces/ns/tables", body

    def drop_table(self, name: str) -> Call:
        return "DELETE", f"/catalog/v1/{self.prefix}/namespaces/ns/tables/{name}", None

    def rename(self, source: str, target: str) -> Call:
        body = {
            "source": {"namespace": ["ns"], "name": source},
            "destination": {"namespace": ["ns"], "name": target},
        }
        return "POST", f"/lakekeeper/v1/{self.prefix}/generic-tables/rename", body

    def drop(self, name: str, *, purge: bool = False) -> Call:
        path = f"/lakekeeper/v1/{self.prefix}/namespaces/ns/generic-tables/{name}"
        return "DELETE", f"{path}?purgeRequested={'true' if purge else 'false'}", None

    def load(self, name: str) -> Call:
        return "GET", f"/lakekeeper/v1/{self.prefix}/namespaces/ns/generic-tables/{name}", None

    def location(self, place: str) -> str:
        return f"file://{self.root}/{place}"

    def names(self) -> set[str]:
        return {str(row[0]) for row in self.db.query("SELECT name FROM tabular")}

    def assert_one_owner(self) -> None:
        """No location of one is at or below that of another, be it alive or waiting for its purge."""
        live = [str(row[0]) for row in self.db.query("SELECT location FROM tabular")]
        doomed = [str(row[0]) for row in self.db.query("SELECT location FROM purge")]
        for one, other in itertools.permutations(live, 2):
            assert not f"{one}/".startswith(f"{other}/"), (one, other)
        for one, other in itertools.product(live, doomed):
            assert not f"{one}/".startswith(f"{other}/"), (one, other)
            assert not f"{other}/".startswith(f"{one}/"), (one, other)


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def arena(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arena]:
    if request.param == "sqlite":
        started = on_sqlite(tmp_path_factory.mktemp("arena"))
    else:
        postgres: Postgres = request.getfixturevalue("postgres")
        started = on_postgres(postgres.create_database("generic_rivals"))
    with started as (servers, db), Rest(servers[0].port) as rest:
        create_namespace(rest, "ns")
        prefix = rest.prefix.rpartition("/")[2]
        yield Arena([s.port for s in servers], prefix, servers[0].data_dir / "warehouse", db)


pytestmark = pytest.mark.services


def told(answers: Sequence[Answer]) -> list[str]:
    return [str(answer) for answer in answers]


def test_creates_of_one_name(arena: Arena) -> None:
    for attempt in itertools.islice(_numbers, TRIES):
        calls = [arena.create(f"t{attempt}") for _ in range(RIVALS - 1)]
        calls.append(arena.create_table(f"T{attempt}", f"iceberg{attempt}"))
        answers = arena.fire(calls)
        assert sorted(a.status for a in answers) == [200] + [409] * (RIVALS - 1), told(answers)
        kinds = {a.kind for a in answers if a.status == 409}
        assert kinds <= {"GenericTableAlreadyExists", "AlreadyExistsException"}
        assert len(arena.names() & {f"t{attempt}", f"T{attempt}"}) == 1


def test_creates_in_one_place(arena: Arena) -> None:
    for attempt in itertools.islice(_numbers, TRIES):
        where = f"x{attempt}"
        calls = [
            arena.create(f"a{attempt}", where),
            arena.create(f"b{attempt}", f"{where}/in/side"),
            arena.create_table(f"c{attempt}", f"{where}/in"),
            arena.create(f"d{attempt}", where),
        ]
        random.Random(attempt).shuffle(calls)
        answers = arena.fire(calls)
        assert sorted(a.status for a in answers) == [200, 409, 409, 409], told(answers)
        assert {a.kind for a in answers if a.status == 409} == {"LocationAlreadyTaken"}
    arena.assert_one_owner()


def test_a_create_against_a_rename(arena: Arena) -> None:
    for attempt in itertools.islice(_numbers, TRIES):
        assert arena.send(arena.create(f"old{attempt}")).status == 200
        calls = [arena.create(f"new{attempt}"), arena.rename(f"old{attempt}", f"new{attempt}")]
        create, rename = arena.fire(calls)
        assert (create.status, rename.status) in {(200, 409), (409, 204)}, told([create, rename])
        left = arena.names() & {f"new{attempt}", f"old{attempt}"}
        assert left == ({f"new{attempt}"} if rename.status == 204 else {f"new{attempt}", f"old{attempt}"})


def test_a_drop_against_renames(arena: Arena) -> None:
    for attempt in itertools.islice(_numbers, TRIES):
        assert arena.send(arena.create(f"old{attempt}", f"x{attempt}")).status == 200
        answers = arena.fire(
            [
                arena.drop(f"old{attempt}", purge=True),
                arena.rename(f"old{attempt}", f"x{attempt}"),
                arena.rename(f"old{attempt}", f"y{attempt}"),
            ]
        )
        assert sorted(a.status for a in answers) == [204, 404, 404], told(answers)
        left = arena.names() & {f"{kind}{attempt}" for kind in ("old", "x", "y")}
        winner = [a.status for a in answers].index(204)
        assert left == [set(), {f"x{attempt}"}, {f"y{attempt}"}][winner]


def test_drops_of_one_table(arena: Arena) -> None:
    for attempt in itertools.islice(_numbers, TRIES):
        assert arena.send(arena.create(f"t{attempt}")).status == 200
        answers = arena.fire([arena.drop(f"t{attempt}", purge=True)] * RIVALS)
        assert sorted(a.status for a in answers) == [204] + [404] * (RIVALS - 1), told(answers)


def test_a_crowd(arena: Arena) -> None:
    """Whoever creates a table writes a file there; no purge of an earlier owner may take it away."""

    def act(seed: int) -> list[str]:
        chance = random.Random(seed)
        wrong = []
        for _ in range(12):
            name, place, token = chance.choice(NAMES), chance.choice(PLACES), uuid.uuid4().hex
            call = chance.choice(
                (
                    arena.create(name, place, token=token),
                    arena.create(name, place, token=token),
                    arena.create_table(name, place),
                    arena.drop_table(name),
                    arena.rename(name, chance.choice(NAMES)),
                    arena.drop(name, purge=True),
                    arena.drop(name),
                )
            )
            with Rest(chance.choice(arena.ports)) as rest:
                answer = rest.call(*call)
            if answer.status not in {200, 204, 404, 409}:
                wrong.append(f"{call}: {answer}")
            if answer.status == 200 and "lakekeeper" in call[1]:
                folder = arena.root / place
                # Another may have dropped it by now, and its purge removes emptied folders: one that was
                # just found may be gone at the next look.
                with suppress(FileNotFoundError, FileExistsError):
                    folder.mkdir(parents=True, exist_ok=True)
                    (folder / token).write_text(name)
        return wrong

    created = 0
    with ThreadPoolExecutor(RIVALS) as pool:
        for turn in range(10):
            wrong = list(pool.map(act, range(turn * RIVALS, (turn + 1) * RIVALS)))
            assert not any(wrong), wrong
            arena.assert_one_owner()
            for name in NAMES:
                answer = arena.send(arena.load(name))
                if answer.status == 200:
                    table = answer.json["table"]
                    folder = Path(table["base-location"].removeprefix("file://"))
                    assert (folder / table["properties"]["token"]).exists()
                    created += 1
    assert created, "the crowd must leave something to look at"
