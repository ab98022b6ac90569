"""Compares what clients were told with what the database, the disk and the servers show.

Returns findings instead of raising, so that one run shows everything that is wrong.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tests.catalog.concurrency.audit import (
    Db,
    Event,
    events,
    idempotency_keys,
    namespace_events,
    namespaces,
    plain,
    table_rows,
)
from tests.catalog.concurrency.rest import Json, Rest, Told, snapshot_of, table_path
from tests.catalog.concurrency.workload import Op, marks_of

#: The clocks of the test, of PostgreSQL and of SQLite are one clock, read with different precision.
_CLOCK_SECONDS = 0.005


@dataclass(frozen=True)
class Document:
    """What the checker needs of one metadata file."""

    digest: bytes
    uuid: str
    marks: Counter[str]
    main: int | None
    snapshots: tuple[tuple[int, int | None], ...]
    log: tuple[str, ...]


@dataclass
class Report:
    findings: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def expect(self, condition: object, finding: str) -> bool:
        if not condition:
            self.findings.append(finding)
        return bool(condition)


def path_of(location: str) -> Path:
    return Path(unquote(urlsplit(location).path))


def check(db: Db, ops: Sequence[Op], servers: Sequence[Rest]) -> Report:
    """Everything that can be held against the servers."""
    report = Report()
    for op in ops:
        report.counts[f"{op.kind} {op.told}"] += 1
    history = _Histories(db, report)
    history.check_steps({op.mark: op for op in ops})
    history.check_outcomes(ops)
    _check_moves(db, ops, history.events, report)
    _check_namespaces(db, ops, report)
    _check_keys(db, ops, report)
    _check_present(db, servers, history, report)
    return report


class _Histories:
    """The life of each table, from the database's own notes and the metadata files."""

    def __init__(self, db: Db, report: Report) -> None:
        self.events = events(db)
        self.report = report
        self.lives: dict[str, list[Event]] = defaultdict(list)
        for event in self.events:
            self.lives[event.tabular_id].append(event)
        self.rows = {row.tabular_id: row for row in table_rows(db)}
        self._documents: dict[str, Document | None] = {}
        #: Where each mark came into a table: mark -> [(table UUID, event)].
        self.landed: dict[str, list[tuple[str, Event]]] = defaultdict(list)
        #: The metadata locations of a table in order, by table UUID.
        self.locations: dict[str, list[str]] = {}

    def document(self, location: str) -> Document | None:
        if location not in self._documents:
            self._documents[location] = self._read(location)
        return self._documents[location]

    def _read(self, location: str) -> Document | None:
        try:
            data = path_of(location).read_bytes()
            metadata: Json = json.loads(data)
        except (OSError, ValueError) as error:
            self.report.findings.append(f"metadata file {location}: {error}")
            return None
        return Document(
            digest=hashlib.sha256(data).digest(),
            uuid=metadata["table-uuid"],
            marks=Counter(marks_of(metadata)),
            main=snapshot_of(metadata),
            snapshots=tuple((s["snapshot-id"], s.get("parent-snapshot-id")) for s in metadata["snapshots"]),
            log=tuple(entry["metadata-file"] for entry in metadata["metadata-log"]),
        )

    def check_steps(self, ops: dict[str, Op]) -> None:
        seen: Counter[str] = Counter()
        owners: dict[str, str] = {}
        for tabular_id, life in self.lives.items():
            self._check_life(tabular_id, life)
            before: Document | None = None
            for event in life:
                if event.location is None or event.location == event.old_location:
                    continue
                seen[event.location] += 1
                after = self.document(event.location)
                if after is None:
                    return
                self._check_step(before, after, event, ops)
                before = after
                owner = owners.setdefault(after.uuid, tabular_id)
                self.report.expect(owner == tabular_id, f"two rows had the table UUID {after.uuid}")
                self.locations.setdefault(after.uuid, []).append(event.location)
        twice = [location for location, count in seen.items() if count > 1]
        self.report.expect(not twice, f"metadata locations that became current twice: {twice}")

    def _check_life(self, tabular_id: str, life: list[Event]) -> None:
        """Born once, each step begins where the last one ended, and the end is what the row shows."""
        expect = self.report.expect
        expect(life[0].op == "INSERT", f"{tabular_id}: first event is {life[0].op}")
        for before, after in pairwise(life):
            state = (before.namespace, before.name, before.location)
            expect(
                state == (after.old_namespace, after.old_name, after.old_location),
                f"{tabular_id}: {after} does not follow {before}",
            )
        last, row = life[-1], self.rows.get(tabular_id)
        if last.op == "DELETE":
            expect(row is None, f"{tabular_id} was dropped and is there")
        elif expect(row is not None, f"{tabular_id} vanished") and row is not None:
            expect(
                (row.namespace_id, row.name, row.metadata_location)
                == (last.namespace, last.name, last.location),
                f"row of {tabular_id} is not as its last event left it",
            )

    def _check_step(self, before: Document | None, after: Document, event: Event, ops: dict[str, Op]) -> None:
        """A step adds exactly one operation's mark, keeps all others and continues both chains."""
        expect, what = self.report.expect, f"{event.location}"
        row = hashlib.sha256(plain(event.metadata or b"")).digest()
        expect(row == after.digest, f"{what}: the row's metadata was not the file's")
        added = after.marks - (before.marks if before else Counter())
        lost = (before.marks if before else Counter()) - after.marks
        expect(not lost, f"{what}: lost {dict(lost)}")
        if not expect(sum(added.values()) == 1, f"{what}: one step added {dict(added)}"):
            return
        (mark,) = added
        self.landed[mark].append((after.uuid, event))
        expect(mark in ops, f"{what}: nobody asked for {mark}")
        if before is None:
            return
        expect(before.uuid == after.uuid, f"{what}: table UUID changed")
        expect(after.log and after.log[-1] == event.old_location, f"{what}: log does not end at its base")
        kept = before.log[len(before.log) - len(after.log) + 1 :] if len(after.log) > 1 else ()
        expect(after.log[:-1] == kept, f"{what}: metadata log was rewritten")
        expect(after.snapshots[: len(before.snapshots)] == before.snapshots, f"{what}: snapshots changed")
        new = after.snapshots[len(before.snapshots) :]
        if new:
            expect(
                len(new) == 1 and new[0] == (after.main, before.main),
                f"{what}: snapshots {new} on main {before.main}, now {after.main}",
            )
        else:
            expect(after.main == before.main, f"{what}: main moved without a snapshot")

    def check_outcomes(self, ops: Iterable[Op]) -> None:
        for op in ops:
            if op.kind not in ("append", "property", "transaction", "create", "stage"):
                continue
            landed = self.landed.get(op.mark, [])
            where = sorted(table for table, _ in landed)
            what = f"{op.mark} {op.kind} ({op.told}, {op.statuses}, key {op.key})"
            if op.told is Told.REFUSED:
                self.report.expect(not landed, f"{what} took effect in {where}")
            elif op.told is Told.DONE:
                self.report.expect(where == sorted(op.tables), f"{what} took effect in {where}")
            elif landed and op.tables:
                self.report.expect(where == sorted(op.tables), f"{what} took effect only in {where}")
            else:
                self.report.expect(len(landed) <= 1, f"{what} took effect {len(landed)} times")
            if landed:
                self._check_together(op, what, [event for _, event in landed])

    def _check_together(self, op: Op, what: str, landed: list[Event]) -> None:
        """In one transaction, within the time of the request, and with the answer's metadata."""
        transactions = {event.tx for event in landed}
        numbers = sorted(event.seq for event in landed)
        self.report.expect(len(transactions) == 1, f"{what} took {len(transactions)} transactions")
        if transactions == {None}:
            self.report.expect(numbers[-1] - numbers[0] == len(numbers) - 1, f"{what} was interleaved")
        for event in landed:
            self.report.expect(_within(op, event.at), f"{what} took effect outside of its request")
        if op.metadata_location is not None:
            table, event = self.landed[op.mark][0]
            later = self.locations[table]
            assert event.location is not None
            shown = later[later.index(event.location) :]
            # A repeated request is answered with the present state.
            exact = len(op.statuses) == 1
            good = op.metadata_location == shown[0] if exact else op.metadata_location in shown
            self.report.expect(good, f"{what} was answered with {op.metadata_location}")


def _within(op: Op, at: float) -> bool:
    begun = op.began - _CLOCK_SECONDS <= at
    return begun and (op.told is Told.UNKNOWN or at <= op.ended + _CLOCK_SECONDS)


def _check_moves(db: Db, ops: Sequence[Op], found: Sequence[Event], report: Report) -> None:
    """Renames and drops have no marks: each acknowledged one needs an event of its own in its time."""
    names = {key: name for key, (name, _) in namespaces(db).items()}
    happened: dict[tuple[object, ...], list[float]] = defaultdict(list)
    for event in found:
        old = (names.get(event.old_namespace or ""), event.old_name)
        new = (names.get(event.namespace or ""), event.name)
        if event.op == "DELETE":
            happened["drop", old].append(event.at)
        elif event.op == "UPDATE" and old != new:
            happened["rename", old, new].append(event.at)
            report.expect(event.location == event.old_location, f"a rename changed the metadata: {event}")
    for op in sorted(ops, key=lambda op: (op.told is not Told.DONE, op.ended)):
        if op.kind not in ("rename", "drop") or op.told is Told.REFUSED:
            continue
        move = ("drop", op.source) if op.kind == "drop" else ("rename", op.source, op.target)
        times = happened[move]
        match = next((at for at in times if _within(op, at)), None)
        if match is not None:
            times.remove(match)
        else:
            report.expect(
                op.told is not Told.DONE, f"{op.mark} {move} was acknowledged ({op.statuses}), not done"
            )
    left = {move: times for move, times in happened.items() if times}
    report.expect(not left, f"moves that nobody was told of: {left}")


def _check_namespaces(db: Db, ops: Sequence[Op], report: Report) -> None:
    """Each change of a namespace's properties is exactly one operation's."""
    by_mark = {op.mark: op for op in ops if op.kind == "namespace"}
    names = namespaces(db)
    landed: Counter[str] = Counter()
    state: dict[str, dict[str, str]] = {}
    for event in namespace_events(db):
        before = state.get(event.namespace_id, {})
        report.expect(event.before == before, f"namespace {event.namespace_id}: events do not chain")
        state[event.namespace_id] = event.after
        added = event.after.keys() - event.before.keys()
        removed = event.before.keys() - event.after.keys()
        op = by_mark.get(next(iter(added), ""))
        if not report.expect(len(added) == 1 and op is not None, f"one namespace step added {added}"):
            continue
        assert op is not None
        landed[op.mark] += 1
        report.expect(removed == ({op.removes} - {""}), f"{op.mark} removed {removed}, not {op.removes}")
        report.expect(_within(op, event.at), f"{op.mark} namespace: outside of its request")
        report.expect(names[event.namespace_id][0] == op.source[0], f"{op.mark}: another namespace")
    for op in by_mark.values():
        times, what = landed[op.mark], f"{op.mark} namespace ({op.told}, {op.statuses})"
        allowed = {Told.DONE: (1,), Told.REFUSED: (0,), Told.UNKNOWN: (0, 1)}[op.told]
        report.expect(times in allowed, f"{what} took effect {times} times")
    for namespace_id, (name, properties) in names.items():
        report.expect(properties == state.get(namespace_id, {}), f"namespace {name}: not its last event")


def _check_keys(db: Db, ops: Sequence[Op], report: Report) -> None:
    """A key is recorded with what its client was told."""
    recorded = idempotency_keys(db)
    for op in ops:
        if op.key is None:
            continue
        status = recorded.get(op.key)
        if op.told is Told.DONE:
            report.expect(status is not None and status < 300, f"{op.mark} {op.kind}: key has {status}")
        elif op.told is Told.REFUSED:
            report.expect(status is None or status >= 400, f"{op.mark} {op.kind}: key has {status}")


def _check_present(db: Db, servers: Sequence[Rest], history: _Histories, report: Report) -> None:
    """Row, metadata file and answer are the same bytes; servers list exactly the rows."""
    names = {key: name for key, (name, _) in namespaces(db).items()}
    locations = Counter(row.location for row in history.rows.values())
    report.expect(all(count == 1 for count in locations.values()), "two tables share a location")
    listed = sorted((names[row.namespace_id], row.name) for row in history.rows.values())
    for row in history.rows.values():
        report.expect(row.tabular_id in history.lives, f"row {row.tabular_id} came from nowhere")
        file = path_of(row.metadata_location)
        if report.expect(file.is_file(), f"dangling row: no {file}"):
            report.expect(file.read_bytes() == row.metadata, f"{row.name}: row and file differ")
        for server in servers:
            answer = server.of("GET", table_path(names[row.namespace_id], row.name))
            whole = b'"metadata":' + row.metadata + b","
            report.expect(answer.status == 200 and whole in answer.body, f"{row.name}: load shows {answer}")
    for server in servers:
        shown = []
        for name in names.values():
            answer = server.of("GET", f"/namespaces/{name}/tables")
            shown += [(name, entry["name"]) for entry in answer.json["identifiers"]]
        report.expect(sorted(shown) == listed, f"listed {shown}, there are {listed}")
