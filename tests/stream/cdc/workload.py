"""A random workload on a database, the same for the same seed, in as many parts as a test likes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from tests.stream.cdc.columns import Column, Table, new_column, new_table, tables_of
from tests.stream.cdc.sources import Database

#: How often each kind of step comes, against the others.
WEIGHTS = {
    "insert": 24,
    "update": 30,
    "update_many": 5,
    "delete": 10,
    "change_key": 7,
    "come_back": 4,
    "transaction": 12,
    "rollback": 5,
    "truncate": 1,
    "add_column": 2,
    "drop_column": 1,
    "rename_column": 1,
    "widen_column": 1,
    "new_table": 1,
}
_ROW_KINDS = ("insert", "update", "delete", "change_key", "come_back")
_FIRST_ROWS = 12
_MOST_EXTRA_TABLES = 3

Key = tuple[str, ...]


@dataclass(frozen=True)
class Step:
    """One transaction."""

    kind: str
    statements: tuple[str, ...]
    rollback: bool = False


@dataclass
class _State:
    """What is in a table, as far as the next steps must know: literals of the keys."""

    table: Table
    columns: list[Column]
    live: list[Key] = field(default_factory=list)
    dead: list[Key] = field(default_factory=list)
    numbers: int = 0


class Workload:
    """Steps for the tables of `columns.tables_of`, and those that come while it runs.

    >>> workload = Workload(source, seed=1)
    >>> workload.create()
    >>> source.start()
    >>> workload.run(100)
    """

    def __init__(
        self,
        source: Database,
        seed: int,
        *,
        weights: Mapping[str, int] | None = None,
        without: Iterable[str] = (),
        publishing: Callable[[str], Sequence[str]] | None = None,
    ) -> None:
        """`weights` replace some of WEIGHTS; `without` are columns to leave out.

        `publishing` gives the statements that make a new table's changes captured, by default the source's.
        """
        self._source = source
        self._random = Random(seed)
        self._weights = {**WEIGHTS, **(weights or {})}
        self._publishing = source.publishing if publishing is None else publishing
        self._states = {
            table.name: _State(table, list(table.columns)) for table in tables_of(source.dialect, without)
        }
        self._columns = 0
        self._extra_tables = 0
        #: All steps so far, for whoever must find out what went wrong.
        self.steps: list[Step] = []

    @property
    def tables(self) -> list[str]:
        return list(self._states)

    @property
    def kinds(self) -> set[str]:
        """What there was among the steps so far."""
        return {step.kind for step in self.steps}

    def create(self) -> None:
        """The tables with their first rows: what a connector's snapshot finds."""
        if self._source.dialect == "postgres":
            self._do(Step("create", ("CREATE TYPE mood AS ENUM ('glad', 'sad', 'it''s ok')",)))
        for name, state in self._states.items():
            self._do(Step("create", (*state.table.creation(), *self._publishing(name))))
            self._do(Step("create", tuple(self._insert(state) for _ in range(_FIRST_ROWS))))

    def run(self, count: int) -> None:
        """The next `count` steps."""
        kinds, weights = list(self._weights), list(self._weights.values())
        for _ in range(count):
            (kind,) = self._random.choices(kinds, weights)
            self._do(self._step(kind))

    def _do(self, step: Step) -> None:
        self.steps.append(step)
        self._source.run(*step.statements, rollback=step.rollback)

    def _step(self, kind: str) -> Step:
        match kind:
            case "transaction":
                return Step(kind, tuple(self._several()))
            case "rollback":
                before = copy.deepcopy(self._states)
                statements = tuple(self._several())
                self._states = before
                return Step(kind, statements, rollback=True)
            case "update_many":
                return Step(kind, (self._update_many(self._any_state()),))
            case "truncate":
                return Step(kind, (self._truncate(),))
            case "new_table":
                return self._new_table()
            case "add_column" | "drop_column" | "rename_column" | "widen_column":
                return self._alter(kind)
            case _:
                return Step(kind, (self._row(kind, self._any_state()),))

    def _any_state(self) -> _State:
        return self._random.choice(list(self._states.values()))

    def _several(self) -> list[str]:
        """Changes of a few rows; sometimes a part of them is taken back within the transaction."""
        statements: list[str] = []
        for _ in range(self._random.randrange(1, 4)):
            statements += self._rows()
            if self._random.random() < 0.2:
                before = copy.deepcopy(self._states)
                statements += ["SAVEPOINT here", *self._rows(), "ROLLBACK TO SAVEPOINT here"]
                self._states = before
        return statements

    def _rows(self) -> list[str]:
        # Mostly one table, so that a row is changed more than once.
        state = self._any_state()
        kinds = self._random.choices(_ROW_KINDS, (4, 6, 2, 2, 1), k=self._random.randrange(1, 6))
        return [self._row(kind, state) for kind in kinds]

    def _row(self, kind: str, state: _State) -> str:
        if kind == "come_back" and state.dead:
            return self._insert(state, state.dead.pop(self._random.randrange(len(state.dead))))
        if kind in ("insert", "come_back") or not state.live:
            return self._insert(state)
        key = self._hot(state)
        if kind == "delete":
            return self._delete(state, key)
        if kind == "change_key":
            return self._change_key(state, key)
        return self._update(state, [key])

    def _hot(self, state: _State) -> Key:
        """A key, more often than not one of the last."""
        keys = state.live[-5:] if self._random.random() < 0.6 else state.live
        return self._random.choice(keys)

    def _fresh(self, state: _State) -> Key:
        state.numbers += 1
        return tuple(make(self._random, state.numbers) for _, _, make in state.table.key)

    def _insert(self, state: _State, key: Key | None = None) -> str:
        key = key or self._fresh(state)
        state.live.append(key)
        names = [*state.table.key_names, *(column.name for column in state.columns)]
        values = [*key, *(column.literal(self._random) for column in state.columns)]
        return f"INSERT INTO {state.table.name} ({', '.join(names)}) VALUES ({', '.join(values)})"

    def _update(self, state: _State, keys: Sequence[Key]) -> str:
        count = self._random.randint(1, min(4, len(state.columns)))
        changed = self._random.sample(state.columns, count)
        values = ", ".join(f"{column.name} = {column.literal(self._random)}" for column in changed)
        return f"UPDATE {state.table.name} SET {values} WHERE {_where(state.table, keys)}"

    def _update_many(self, state: _State) -> str:
        if not state.live:
            return self._insert(state)
        return self._update(state, self._random.sample(state.live, min(len(state.live), 20)))

    def _delete(self, state: _State, key: Key) -> str:
        state.live.remove(key)
        state.dead.append(key)
        return f"DELETE FROM {state.table.name} WHERE {_where(state.table, [key])}"

    def _change_key(self, state: _State, key: Key) -> str:
        """To a key that never was, or to one that was deleted; sometimes more than the key changes."""
        back = state.dead and self._random.random() < 0.3
        new = state.dead.pop() if back else self._fresh(state)
        state.live[state.live.index(key)] = new
        state.dead.append(key)
        values = [f"{name} = {part}" for name, part in zip(state.table.key_names, new, strict=True)]
        if self._random.random() < 0.5:
            column = self._random.choice(state.columns)
            values.append(f"{column.name} = {column.literal(self._random)}")
        return f"UPDATE {state.table.name} SET {', '.join(values)} WHERE {_where(state.table, [key])}"

    def _truncate(self) -> str:
        state = self._random.choice([each for each in self._states.values() if each.table.truncated])
        state.dead += state.live
        state.live = []
        return f"TRUNCATE TABLE {state.table.name}"

    def _new_table(self) -> Step:
        if self._extra_tables == _MOST_EXTRA_TABLES:
            return self._step("insert")
        self._extra_tables += 1
        table = new_table(self._source.dialect, self._extra_tables)
        self._states[table.name] = _State(table, list(table.columns))
        return Step("new_table", (*table.creation(), *self._publishing(table.name)))

    def _alter(self, kind: str) -> Step:
        if kind == "widen_column":
            return self._widen()
        added = [(s, c) for s in self._states.values() for c in s.columns if c.name.startswith("more_")]
        if kind == "add_column" or not added:
            return self._add_column()
        state, column = self._random.choice(added)
        alter = f"ALTER TABLE {state.table.name}"
        if kind == "drop_column":
            state.columns.remove(column)
            return Step(kind, (f"{alter} DROP COLUMN {column.name}",))
        self._columns += 1
        renamed = replace(column, name=f"more_{self._columns}")
        state.columns[state.columns.index(column)] = renamed
        # To a follower this is one column less and one more, so what it held must be written again.
        # By way of NULL: MariaDB does not log an update that changes nothing.
        fill = renamed.make(self._random)
        target = f"UPDATE {state.table.name} SET {renamed.name}"
        rename = f"{alter} RENAME COLUMN {column.name} TO {renamed.name}"
        return Step(kind, (rename, f"{target} = NULL", f"{target} = {fill}"))

    def _add_column(self) -> Step:
        state = self._any_state()
        self._columns += 1
        column = new_column(self._source.dialect, self._columns, self._random)
        state.columns.append(column)
        return Step("add_column", (f"ALTER TABLE {state.table.name} ADD COLUMN {column.definition}",))

    def _widen(self) -> Step:
        can = [(s, c) for s in self._states.values() for c in s.columns if c.wider is not None]
        if not can:
            return self._step("update")
        state, column = self._random.choice(can)
        assert column.wider is not None
        state.columns[state.columns.index(column)] = column.wider
        change = f"ALTER COLUMN {column.name} TYPE {column.wider.type}"
        if self._source.dialect != "postgres":
            change = f"MODIFY COLUMN {column.wider.definition}"
        return Step("widen_column", (f"ALTER TABLE {state.table.name} {change}",))


def _where(table: Table, keys: Sequence[Key]) -> str:
    rows = ", ".join(f"({', '.join(key)})" for key in keys)
    return f"({', '.join(table.key_names)}) IN ({rows})"
