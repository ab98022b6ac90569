"""The shops of the change data example: databases, and somebody who works on them."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, Self, TypeAlias

from frazil.devstack.mariadb import MariaDb
from frazil.devstack.postgres import Postgres

DATABASE = "shop"
#: Without what is null: a column that came later is null in rows that have not changed since.
Row: TypeAlias = dict[str, str]
#: By table and key; the database has one row for each.
Rows: TypeAlias = dict[tuple[str, str], list[Row]]

_COLUMNS = {
    "customers": {"id": "int", "name": "text", "city": "text"},
    "orders": {
        "id": "bigint",
        "customer": "int",
        "amount": "numeric(10, 2)",
        "placed": "date",
        "note": "text",
    },
    "refunds": {"id": "bigint", "reason": "text"},
}
_CUSTOMERS, _ORDERS = 50, 200
_CHANGES_PER_TRANSACTION = 25
_ROLLED_BACK = 5
_PAUSE_SECONDS = 0.25


class Shop:
    """A database on one of the servers, worked on with the same changes for the same seed."""

    def __init__(self, server: Postgres | MariaDb, seed: int) -> None:
        mariadb = isinstance(server, MariaDb)
        self.server = server
        self.name = "mariadb" if mariadb else "postgres"
        self.title = "MariaDB" if mariadb else "PostgreSQL"
        self.changes = 0
        #: Transactions.
        self.rolled_back = 0
        self._json = "JSON_OBJECT" if mariadb else "json_build_object"
        self._tables: dict[str, list[str]] = {}
        self._publication: str | None = None
        self._transactions = 0
        self._orders = list(range(1, _ORDERS + 1))
        self._last = _ORDERS
        self._rng = random.Random(f"{seed} {self.name}")  # noqa: S311 - the same changes for the same seed
        self._lock = threading.Lock()
        server.create_database(DATABASE)
        self._create("customers")
        self._create("orders")
        if not mariadb:
            # Beside its row, and so left out of updates that do not change it.
            self.execute("ALTER TABLE orders ALTER COLUMN note SET STORAGE EXTERNAL")
        customers = [f"({number}, 'customer {number}', 'Tromsø')" for number in range(1, _CUSTOMERS + 1)]
        note = "repeat('long ', 600)"
        orders = [f"({number}, 1, {number}.25, '2024-01-02', {note})" for number in self._orders]
        self.execute(f"INSERT INTO customers VALUES {', '.join(customers)}")  # noqa: S608 - texts of ours
        self.execute(f"INSERT INTO orders VALUES {', '.join(orders)}")  # noqa: S608 - texts of ours

    @property
    def tables(self) -> tuple[str, ...]:
        return tuple(self._tables)

    def execute(self, sql: str) -> str:
        return self.server.execute(sql, DATABASE)

    def publish(self, publication: str) -> None:
        """Let a connector follow all tables, those that come later too: PostgreSQL wants to be told."""
        if isinstance(self.server, MariaDb):
            return
        self._publication = publication
        self.execute(f"CREATE PUBLICATION {publication} FOR TABLE {', '.join(self._tables)}")

    def work(self) -> None:
        """A transaction of many changes; every fifth one is rolled back."""
        with self._lock:
            before = list(self._orders), self._last
            statements = "; ".join(self._change() for _ in range(_CHANGES_PER_TRANSACTION))
            self._transactions += 1
            if self._transactions % _ROLLED_BACK:
                self.execute(f"BEGIN; {statements}; COMMIT")
                self.changes += _CHANGES_PER_TRANSACTION
            else:
                self.execute(f"BEGIN; {statements}; ROLLBACK")
                self._orders, self._last = before
                self.rolled_back += 1

    def add_column(self) -> None:
        """`orders` get a priority, which is null until they change."""
        with self._lock:
            self.execute("ALTER TABLE orders ADD COLUMN priority int")
            self._tables["orders"].append("priority")

    def add_table(self) -> None:
        """`refunds`, of the orders that go from now on."""
        with self._lock:
            self._create("refunds")

    def count(self) -> int:
        parts = (f"(SELECT count(*) FROM {table})" for table in self._tables)  # noqa: S608 - names of ours
        return int(self.execute(f"SELECT {' + '.join(parts)}"))

    def rows(self) -> Rows:
        found: Rows = {}
        for table, columns in self._tables.items():
            pairs = ", ".join(f"'{name}', {name}" for name in columns)
            answer = self.execute(f"SELECT {self._json}({pairs}) FROM {table}")  # noqa: S608 - names of ours
            for line in filter(None, answer.split("\n")):
                # Numbers stay as they were written.
                add(found, table, json.loads(line, parse_float=str, parse_int=str))
        return found

    def _create(self, table: str) -> None:
        definitions = ", ".join(f"{name} {kind}" for name, kind in _COLUMNS[table].items())
        self.execute(f"CREATE TABLE {table} ({definitions}, PRIMARY KEY (id))")
        if self._publication is not None:
            self.execute(f"ALTER PUBLICATION {self._publication} ADD TABLE {table}")
        self._tables[table] = list(_COLUMNS[table])

    def _change(self) -> str:
        rng = self._rng
        kind = rng.choices(("insert", "update", "delete", "key", "customer"), (5, 6, 3, 1, 2))[0]
        if kind == "customer":
            city = rng.choice(("Tromsø", "Nuuk", "Alert", "Tiksi"))
            return f"UPDATE customers SET city = '{city}' WHERE id = {rng.randint(1, _CUSTOMERS)}"  # noqa: S608
        if kind == "insert" or not self._orders:
            return self._insert()
        at = rng.randrange(len(self._orders))
        order = self._orders[at]
        if kind == "update":
            priority = f", priority = {rng.randint(1, 5)}" if "priority" in self._tables["orders"] else ""
            amount = rng.randint(1, 99_999) / 100
            return f"UPDATE orders SET amount = {amount}{priority} WHERE id = {order}"  # noqa: S608
        if kind == "delete":
            del self._orders[at]
            gone = f"DELETE FROM orders WHERE id = {order}"  # noqa: S608
            if "refunds" not in self._tables:
                return gone
            return f"{gone}; INSERT INTO refunds VALUES ({order}, 'too cold')"  # noqa: S608
        self._orders[at] = self._next()
        return f"UPDATE orders SET id = {self._orders[at]} WHERE id = {order}"  # noqa: S608

    def _insert(self) -> str:
        rng = self._rng
        self._orders.append(self._next())
        customer, amount = rng.randint(1, _CUSTOMERS), rng.randint(1, 99_999) / 100
        note = f"repeat('note ', {rng.choice((1, 1000))})"
        values = f"{self._orders[-1]}, {customer}, {amount}, current_date, {note}"
        return f"INSERT INTO orders (id, customer, amount, placed, note) VALUES ({values})"  # noqa: S608

    def _next(self) -> int:
        self._last += 1
        return self._last


def add(rows: Rows, table: str, row: dict[str, Any]) -> None:
    """Values become text, as which all engines have them alike."""
    told = {name: str(value) for name, value in row.items() if value is not None}
    rows.setdefault((table, told["id"]), []).append(told)


class Work:
    """Somebody works on each of the shops while the block runs."""

    def __init__(self, shops: Sequence[Shop]) -> None:
        self._shops = shops
        self._stop = threading.Event()
        self._pool = ThreadPoolExecutor(len(shops))
        self._every = 1

    def __enter__(self) -> Self:
        self._working = [self._pool.submit(self._go_on, shop) for shop in self._shops]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._pool.shutdown()
        for each in self._working:
            each.result()

    def slow_down(self) -> None:
        """Half as many transactions from now on."""
        self._every *= 2

    def speed_up(self) -> None:
        """As many as at first."""
        self._every = 1

    def _go_on(self, shop: Shop) -> None:
        beats = 0
        while not self._stop.wait(_PAUSE_SECONDS):
            beats += 1
            if beats % self._every == 0:
                shop.work()
