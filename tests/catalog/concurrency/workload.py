"""Clients that change the catalog at random and write down what they asked and what they were told.

Every operation leaves a mark of its own: `op<number>` as a snapshot's summary entry, as a property or
as the `born` property of a table. So the checker can say of each operation whether, where and how often
it took effect.
"""

from __future__ import annotations

import itertools
import random
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from tests.catalog.concurrency.rest import (
    SCHEMA,
    Answer,
    Json,
    Rest,
    Told,
    append,
    create_namespace,
    staged_updates,
    table_path,
)

NAMESPACES = ("n0", "n1", "n2")
NAMES = tuple(f"t{number}" for number in range(4))
_PATIENCE_SECONDS = 8.0

#: Kinds of operations and how often they come.
MIX = {
    "append": 34,
    "property": 16,
    "transaction": 16,
    "create": 6,
    "stage": 4,
    "rename": 6,
    "drop": 3,
    "namespace": 8,
    "doubled": 5,
}


@dataclass
class Op:
    """One operation as its client saw it."""

    number: int
    kind: str
    #: Tables (by UUID) that must bear the mark if it took effect; for a create it is not known before.
    tables: tuple[str, ...] = ()
    #: Namespace and name that it is about; for a rename, also where to.
    source: tuple[str, str] = ("", "")
    target: tuple[str, str] = ("", "")
    #: A namespace property that it sets or removes.
    sets: str = ""
    removes: str = ""
    key: str | None = None
    began: float = 0.0
    #: 0 while it is under way.
    ended: float = 0.0
    told: Told = Told.REFUSED
    statuses: list[int] = field(default_factory=list)
    metadata_location: str | None = None

    @property
    def mark(self) -> str:
        return f"op{self.number}"


def marks_of(metadata: Json) -> list[str]:
    """Every mark in a table's metadata, with repetitions."""
    properties = metadata.get("properties", {})
    found = [properties["born"]] if "born" in properties else []
    found += [name for name in properties if name.startswith("op")]
    found += [s["summary"]["mark"] for s in metadata.get("snapshots", ()) if "mark" in s["summary"]]
    return found


class Client:
    """One client: runs until told to stop; talks to any of the servers."""

    def __init__(self, number: int, servers: Sequence[Rest], seed: int, numbers: Any) -> None:
        self.ops: list[Op] = []
        self.complaints: list[str] = []
        self._servers = servers
        self._random = random.Random(f"{seed}/{number}")
        self._numbers = numbers
        self._twin = ThreadPoolExecutor(1)
        self._mine: dict[str, set[str]] = {}
        self._set: list[tuple[str, str]] = []

    def run(self, stop: threading.Event) -> None:
        kinds, weights = list(MIX), list(MIX.values())
        actions: dict[str, Callable[[], None]] = {
            "append": self._append,
            "property": self._property,
            "transaction": self._transaction,
            "create": self._create,
            "stage": self._stage,
            "rename": self._rename,
            "drop": self._drop,
            "namespace": self._namespace,
            "doubled": lambda: self._append(doubled=True),
        }
        try:
            while not stop.is_set():
                actions[self._random.choices(kinds, weights)[0]]()
        except Exception as error:  # noqa: BLE001 - a broken client must fail the test, not vanish
            self.complaints.append(f"client broke: {error!r}")
        finally:
            self._twin.submit(self._close).result()
            self._twin.shutdown()
            self._close()

    # --- operations

    def _append(self, *, doubled: bool = False) -> None:
        found = self._load(self._name())
        if found is None:
            return
        name, metadata = found
        op = self._op("append", tables=(metadata["table-uuid"],), source=name)
        body = append(metadata, op.number, {"mark": op.mark})
        answer = self._ask(op, "POST", table_path(*name), body, doubled=doubled)
        self._note(op, answer)

    def _property(self) -> None:
        found = self._load(self._name())
        if found is None:
            return
        name, metadata = found
        op = self._op("property", tables=(metadata["table-uuid"],), source=name)
        body = {
            "requirements": [{"type": "assert-table-uuid", "uuid": metadata["table-uuid"]}],
            "updates": [{"action": "set-properties", "updates": {op.mark: "1"}}],
        }
        self._note(op, self._ask(op, "POST", table_path(*name), body))

    def _transaction(self) -> None:
        names = {self._name() for _ in range(self._random.choice((2, 3, 3)))}
        found = [entry for entry in map(self._load, sorted(names)) if entry is not None]
        if len(found) < 2:
            return
        self._random.shuffle(found)
        op = self._op("transaction", tables=tuple(metadata["table-uuid"] for _, metadata in found))
        if len(set(op.tables)) < len(op.tables):
            # A rename between two loads showed us one table twice.
            self.ops.pop()
            return
        changes = [
            {
                "identifier": {"namespace": [name[0]], "name": name[1]},
                **append(metadata, op.number * 4 + index, {"mark": op.mark}),
            }
            for index, (name, metadata) in enumerate(found)
        ]
        self._note(op, self._ask(op, "POST", "/transactions/commit", {"table-changes": changes}))

    def _create(self) -> None:
        name = self._name()
        op = self._op("create", source=name)
        body = {"name": name[1], "schema": SCHEMA, "properties": {"born": op.mark}}
        self._note(op, self._ask(op, "POST", f"/namespaces/{name[0]}/tables", body))

    def _stage(self) -> None:
        """Stage a table and create it with a snapshot in it."""
        name = self._name()
        op = self._op("stage", source=name)
        body = {"name": name[1], "schema": SCHEMA, "properties": {"born": op.mark}, "stage-create": True}
        staged = self._server().of("POST", f"/namespaces/{name[0]}/tables", body)
        if staged.status != 200:
            self._judge(staged)
            self.ops.pop()
            return
        metadata = staged.json["metadata"]
        op.tables = (metadata["table-uuid"],)
        first = append(metadata, op.number)
        commit = {
            "requirements": [{"type": "assert-create"}],
            "updates": staged_updates(metadata) + first["updates"],
        }
        self._note(op, self._ask(op, "POST", table_path(*name), commit))

    def _rename(self) -> None:
        source, target = self._name(), self._name()
        if source == target:
            return
        op = self._op("rename", source=source, target=target)
        body = {
            "source": {"namespace": [source[0]], "name": source[1]},
            "destination": {"namespace": [target[0]], "name": target[1]},
        }
        self._ask(op, "POST", "/tables/rename", body)

    def _drop(self) -> None:
        name = self._name()
        op = self._op("drop", source=name)
        self._ask(op, "DELETE", table_path(*name))

    def _namespace(self) -> None:
        namespace = self._random.choice(NAMESPACES)
        op = self._op("namespace", source=(namespace, ""))
        op.sets = op.mark
        body: Json = {"updates": {op.mark: "1"}}
        if self._set and self._random.random() < 0.3:
            before = self._set.pop(self._random.randrange(len(self._set)))
            op.source, op.removes = (before[0], ""), before[1]
            body["removals"] = [before[1]]
        self._ask(op, "POST", f"/namespaces/{op.source[0]}/properties", body)
        if op.told is Told.DONE:
            self._set.append((op.source[0], op.mark))

    # --- asking

    def _ask(
        self, op: Op, method: str, path: str, body: Json | None = None, *, doubled: bool = False
    ) -> Answer:
        """Send, and with a key send again until the outcome is known."""
        if doubled or self._random.random() < 0.5:
            op.key = str(uuid.UUID(int=self._random.getrandbits(128)))
        servers = [self._server(), self._server()]
        op.began = time.time()
        if doubled:
            # As a client does that was too impatient: the same request twice at the same time.
            twin = self._twin.submit(self._settle, servers[1], op, method, path, body)
            answer = self._settle(servers[0], op, method, path, body)
            other = twin.result()
            statuses = sorted((answer.status, other.status))
            if statuses[0] // 100 == 2 and statuses[1] // 100 == 4:
                self.complaints.append(f"{op.mark} {op.kind}: one key, told both {answer} and {other}")
            answer = answer if answer.told is Told.DONE else other
        else:
            answer = self._settle(servers[0], op, method, path, body)
        op.told = answer.told
        op.ended = time.time()
        return answer

    def _settle(self, server: Rest, op: Op, method: str, path: str, body: Json | None) -> Answer:
        unsure = False
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            answer = server.of(method, path, body, key=op.key)
            op.statuses.append(answer.status)
            self._judge(answer)
            unsure = unsure or answer.told is Told.UNKNOWN
            again = answer.told is Told.UNKNOWN or (unsure and answer.status in (-1, 503))
            if not again:
                if answer.status == -1:
                    time.sleep(0.05)
                return answer
            if op.key is None or time.monotonic() > deadline:
                return Answer(0)
            time.sleep(0.05)
            server = self._servers[(self._servers.index(server) + 1) % len(self._servers)]

    def _judge(self, answer: Answer) -> None:
        if answer.status >= 500 and answer.status != 503 and answer.kind != "CommitStateUnknownException":
            self.complaints.append(f"unexpected answer: {answer}")

    def _load(self, name: tuple[str, str]) -> tuple[tuple[str, str], Json] | None:
        answer = self._server().of("GET", table_path(*name))
        if answer.status != 200:
            if answer.status not in (404, 503, 0, -1):
                self.complaints.append(f"load of {name}: {answer}")
            return None
        metadata: Json = answer.json["metadata"]
        missing = self._mine.get(metadata["table-uuid"], set()) - set(marks_of(metadata))
        if missing:
            self.complaints.append(f"load of {name} does not show {sorted(missing)}, acknowledged before")
        return name, metadata

    def _note(self, op: Op, answer: Answer) -> None:
        if op.told is not Told.DONE:
            return
        if answer.body:
            body = answer.json
            op.metadata_location = body["metadata-location"]
            if op.kind == "create":
                op.tables = (body["metadata"]["table-uuid"],)
            if op.mark not in marks_of(body["metadata"]) and len(op.statuses) == 1:
                self.complaints.append(f"{op.mark} {op.kind}: the answer's metadata does not show it")
        for table in op.tables:
            self._mine.setdefault(table, set()).add(op.mark)

    def _op(
        self,
        kind: str,
        *,
        tables: tuple[str, ...] = (),
        source: tuple[str, str] = ("", ""),
        target: tuple[str, str] = ("", ""),
    ) -> Op:
        op = Op(next(self._numbers), kind, tables=tables, source=source, target=target)
        self.ops.append(op)
        return op

    def _server(self) -> Rest:
        return self._random.choice(self._servers)

    def _name(self) -> tuple[str, str]:
        """Two of the names are hot."""
        if self._random.random() < 0.3:
            return NAMESPACES[0], self._random.choice(NAMES[:2])
        return self._random.choice(NAMESPACES), self._random.choice(NAMES)

    def _close(self) -> None:
        for server in self._servers:
            server.close()


#: What the clients have done by now, in no order; the last of each may be under way.
SoFar = Callable[[], list[Op]]


def run_clients(
    servers: Sequence[Rest],
    *,
    clients: int,
    seconds: float,
    seed: int,
    disturb: Callable[[float, SoFar], None],
) -> tuple[list[Op], list[str]]:
    """Let the clients loose; `disturb` is given the seconds and does its harm meanwhile."""
    for namespace in NAMESPACES:
        create_namespace(servers[0], namespace)
    for server in servers:
        assert server.prefix
        server.close()
    numbers = itertools.count(1)
    crowd = [Client(number, servers, seed, numbers) for number in range(clients)]
    stop = threading.Event()
    threads = [threading.Thread(target=client.run, args=(stop,)) for client in crowd]
    for thread in threads:
        thread.start()
    try:
        disturb(seconds, lambda: [op for client in crowd for op in list(client.ops)])
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    ops = sorted((op for client in crowd for op in client.ops), key=lambda op: op.number)
    return ops, [complaint for client in crowd for complaint in client.complaints]
