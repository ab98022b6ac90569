"""The workloads. A step is what one worker does at a time; it returns the status of its answer."""

from __future__ import annotations

import asyncio
import itertools
import json
import math
import random
import uuid
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar
from urllib.parse import quote

import msgspec

from bench.catalog.documents import append_body, create_body, new_id, table_metadata
from bench.catalog.http_client import Connection, ask, get, post
from bench.catalog.targets import Target

Json = dict[str, Any]


class WrongAnswer(Exception):
    """A server said something that is not so; a figure for it would mean nothing."""


@dataclass
class Table:
    """A table and what this client was told about it."""

    name: str
    path: str
    location: str
    uuid: str
    current: int | None
    sequence: int
    snapshots: int


class Workload(ABC):
    """One workload on one server, in a namespace of its own."""

    name: ClassVar[str]
    #: The status of those that come second in a race, where there is one.
    losers: ClassVar[int | None] = None

    def __init__(self, target: Target, workers: int, options: dict[str, int]) -> None:
        self.target = target
        self.workers = workers
        self.options = options
        self.namespace = f"bench_{self.name}"
        self.tables_path = f"{target.base}/namespaces/{self.namespace}/tables"

    async def prepare(self, connections: Sequence[Connection], operations: int) -> None:
        """Make what the steps need; `operations` is how many there will be, warm-up included."""
        body = json.dumps({"namespace": [self.namespace], "properties": {}}).encode()
        await ask(connections[0], post(f"{self.target.base}/namespaces", body), 200, 409)

    @abstractmethod
    async def step(self, worker: int, connection: Connection) -> int: ...

    @abstractmethod
    async def verify(self, connection: Connection) -> str:
        """Compare what the server has with what it acknowledged; says what was seen."""

    async def register(self, connection: Connection, name: str, snapshots: int) -> Table:
        """A table with a history, from a metadata file that is already there."""
        location = f"file://{self.target.warehouse}/{self.namespace}/{name}"
        folder = self.target.warehouse / self.namespace / name / "metadata"
        folder.mkdir(parents=True)
        metadata = table_metadata(location, str(uuid.uuid4()), snapshots)
        file = f"{snapshots:05d}-{uuid.uuid4()}.metadata.json"
        (folder / file).write_text(json.dumps(metadata))
        body = json.dumps({"name": name, "metadata-location": f"{location}/metadata/{file}"}).encode()
        path = f"{self.target.base}/namespaces/{self.namespace}/register"
        await ask(connection, post(path, body))
        return Table(
            name,
            f"{self.tables_path}/{name}",
            location,
            metadata["table-uuid"],
            metadata["current-snapshot-id"],
            snapshots,
            snapshots,
        )

    async def register_many(
        self, connections: Sequence[Connection], names: Sequence[str], snapshots: int
    ) -> list[Table]:
        found: dict[str, Table] = {}
        waiting = iter(names)

        async def work(connection: Connection) -> None:
            for name in waiting:
                found[name] = await self.register(connection, name, snapshots)

        # The reference server on SQLite answers some rivals with an error, so there one after the other.
        one = self.target.server == "reference" and self.target.database == "sqlite"
        await asyncio.gather(*map(work, connections[:1] if one else connections))
        return [found[name] for name in names]

    async def check_table(self, connection: Connection, table: Table) -> None:
        metadata = (await ask(connection, get(table.path)))["metadata"]
        seen = (metadata["table-uuid"], metadata["current-snapshot-id"], len(metadata["snapshots"]))
        told = (table.uuid, table.current, table.snapshots)
        if seen != told:
            raise WrongAnswer(f"{self.target.label}: {table.name} is {seen}, acknowledged was {told}")


class Load(Workload):
    """GET of one of some tables, each with a few snapshots."""

    name = "load"

    async def prepare(self, connections: Sequence[Connection], operations: int) -> None:
        await super().prepare(connections, operations)
        names = [f"events_{number:03d}" for number in range(self.options.get("tables", 50))]
        tables = await self.register_many(connections, names, self.options.get("snapshots", 10))
        self._requests = [(get(table.path), table.uuid.encode()) for table in tables]
        self._next = itertools.cycle(self._requests)

    async def step(self, worker: int, connection: Connection) -> int:
        request, wanted = next(self._next)
        status, body = await connection.send(request)
        if status == 200 and wanted not in body:
            raise WrongAnswer(f"{self.target.label}: a load answered with another table")
        return status

    async def verify(self, connection: Connection) -> str:
        return "every answer was the table asked for"


class Create(Workload):
    """POST of a new table."""

    name = "create"

    async def prepare(self, connections: Sequence[Connection], operations: int) -> None:
        await super().prepare(connections, operations)
        bodies = (create_body(f"table_{number:06d}") for number in range(operations))
        self._requests = iter([post(self.tables_path, body) for body in bodies])
        self._made = 0

    async def step(self, worker: int, connection: Connection) -> int:
        status, _ = await connection.send(next(self._requests))
        self._made += status == 200
        return status

    async def verify(self, connection: Connection) -> str:
        seen, token = 0, ""
        while True:
            path = f"{self.tables_path}?pageSize=1000&pageToken={quote(token, safe='')}"
            answer = await ask(connection, get(path))
            seen += len(answer["identifiers"])
            token = answer.get("next-page-token") or ""
            if not token:
                break
        if seen < self._made or (self.target.server == "frazil" and seen != self._made):
            raise WrongAnswer(f"{self.target.label}: {self._made} creates acknowledged, {seen} tables listed")
        return f"{seen} tables listed, {self._made} acknowledged"


class Commit(Workload):
    """Append to a table that has 100 snapshots; it is left for a fresh one at 110."""

    name = "commit"

    async def prepare(self, connections: Sequence[Connection], operations: int) -> None:
        await super().prepare(connections, operations)
        history, self._more = self.options.get("history", 100), self.options.get("more", 10)
        self._group = self.options.get("tables-per-connection", 8)
        # Workers are not exactly equally fast.
        share = math.ceil(operations / self.workers / self._more * 1.2)
        groups = math.ceil(share / self._group) + 1
        count = self.workers * groups * self._group
        names = [f"table_{number:05d}" for number in range(count)]
        tables = await self.register_many(connections, names, history)
        self._queues = [self._order(tables[worker :: self.workers]) for worker in range(self.workers)]
        self._touched: dict[str, Table] = {}

    def _order(self, tables: list[Table]) -> itertools.chain[Table]:
        """Turn by turn through a group of tables, then the next group."""
        groups = [tables[at : at + self._group] for at in range(0, len(tables), self._group)]
        return itertools.chain.from_iterable(group * self._more for group in groups)

    async def step(self, worker: int, connection: Connection) -> int:
        table = next(self._queues[worker])
        snapshot_id = new_id()
        body = append_body(table.location, table.uuid, table.current, table.sequence + 1, snapshot_id)
        status, _ = await connection.send(post(table.path, body))
        if status == 200:
            table.current, table.sequence, table.snapshots = (
                snapshot_id,
                table.sequence + 1,
                table.snapshots + 1,
            )
            self._touched[table.name] = table
        return status

    async def verify(self, connection: Connection) -> str:
        for table in self._touched.values():
            await self.check_table(connection, table)
        return f"{len(self._touched)} tables have exactly the acknowledged snapshots"


class _Metadata(msgspec.Struct, rename="kebab"):
    table_uuid: str
    location: str
    last_sequence_number: int
    current_snapshot_id: int | None = None


class _Loaded(msgspec.Struct):
    metadata: _Metadata


class Hot(Workload):
    """All workers on one table: load it, append to what was loaded, begin again when another was first.

    The table is left for a new one after 100 commits, so that a faster server does not get larger tables.
    """

    name = "hot"
    losers = 409

    async def prepare(self, connections: Sequence[Connection], operations: int) -> None:
        await super().prepare(connections, operations)
        self._limit = self.options.get("limit", 100)
        self._decode = msgspec.json.Decoder(_Loaded).decode
        self._acknowledged: dict[str, int] = {}
        self._unknown = 0
        self._numbers = itertools.count()
        await self._fresh_table(connections[0])

    async def _fresh_table(self, connection: Connection) -> None:
        name = f"hot_{next(self._numbers):04d}"
        await ask(connection, post(self.tables_path, create_body(name)))
        self._acknowledged[name] = 0
        self._hot = name
        self._changing = False

    async def step(self, worker: int, connection: Connection) -> int:
        if self._acknowledged[self._hot] >= self._limit and not self._changing:
            self._changing = True
            await self._fresh_table(connection)
        name = self._hot
        path = f"{self.tables_path}/{name}"
        status, body = await connection.send(get(path))
        if status != 200:
            return status
        table = self._decode(body).metadata
        parent = None if table.current_snapshot_id == -1 else table.current_snapshot_id
        commit = append_body(
            table.location, table.table_uuid, parent, table.last_sequence_number + 1, new_id()
        )
        status, _ = await connection.send(post(path, commit))
        if status == 200:
            self._acknowledged[name] += 1
        elif status >= 500:
            self._unknown += 1
        return status

    async def verify(self, connection: Connection) -> str:
        seen = 0
        for name in self._acknowledged:
            answer = await ask(connection, get(f"{self.tables_path}/{name}"))
            seen += len(answer["metadata"]["snapshots"])
        told = sum(self._acknowledged.values())
        if not told <= seen <= told + self._unknown:
            raise WrongAnswer(f"{self.target.label}: {told} commits acknowledged, {seen} snapshots present")
        return f"{told} commits acknowledged, {seen} snapshots present"


SPREAD_NAMESPACE = "bench_spread"


def spread_name(number: int) -> str:
    return f"table_{number:06d}"


class Spread(Workload):
    """GET of `asked` tables that lie evenly among `total`, in random order. They are there already."""

    name = "spread"

    async def prepare(self, connections: Sequence[Connection], operations: int) -> None:
        await super().prepare(connections, operations)
        total, asked = self.options.get("total", 0), self.options.get("asked", 0)
        self._requests = []
        for number in range(0, total, max(1, total // max(1, asked))):
            wanted = str(uuid.UUID(int=number)).encode()
            self._requests.append((get(f"{self.tables_path}/{spread_name(number)}"), wanted))
        random.Random(7).shuffle(self._requests)
        self._next = itertools.cycle(self._requests)

    async def step(self, worker: int, connection: Connection) -> int:
        request, wanted = next(self._next)
        status, body = await connection.send(request)
        if status == 200 and wanted not in body:
            raise WrongAnswer(f"{self.target.label}: a load answered with another table")
        return status

    async def verify(self, connection: Connection) -> str:
        return "every answer was the table asked for"


class Delegated(Workload):
    """GET of tables on S3 that are there already: with credentials (`vended` is 1) or plain (0)."""

    name = "delegated"

    async def prepare(self, connections: Sequence[Connection], operations: int) -> None:
        self._vended = bool(self.options["vended"])
        mode = "vended-credentials" if self._vended else "client-managed"
        listed = await ask(connections[0], get(self.tables_path))
        paths = [f"{self.tables_path}/{one['name']}" for one in listed["identifiers"]]
        self._requests = []
        for path in paths:
            wanted = (await ask(connections[0], get(path)))["metadata"]["table-uuid"].encode()
            self._requests.append((get(path, X_Iceberg_Access_Delegation=mode), wanted))
        self._next = itertools.cycle(self._requests)

    async def step(self, worker: int, connection: Connection) -> int:
        request, wanted = next(self._next)
        status, body = await connection.send(request)
        if status == 200:
            if wanted not in body:
                raise WrongAnswer(f"{self.target.label}: a load answered with another table")
            if (b'"s3.secret-access-key"' in body) is not self._vended:
                raise WrongAnswer(f"{self.target.label}: credentials where none belong, or none")
        return status

    async def verify(self, connection: Connection) -> str:
        return "every answer was the table asked for, with credentials only where asked for"


WORKLOADS: dict[str, type[Workload]] = {
    kind.name: kind for kind in (Load, Create, Commit, Hot, Spread, Delegated)
}
