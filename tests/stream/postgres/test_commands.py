"""Commands about a pipeline that follows a database, while it runs and while it does not."""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest
from pyiceberg.catalog import Catalog
from tests.stream.crash.runs import Run, frazil
from tests.stream.postgres.remote import Shop
from tests.stream.postgres.test_pipeline import config, in_database, in_lake

from frazil.devstack.frazil_server import FrazilServer

pytestmark = [pytest.mark.services, pytest.mark.jvm, pytest.mark.slow]

_SCHEMA = """
CREATE TABLE customers (id int PRIMARY KEY, name text);
CREATE TABLE orders (id bigint PRIMARY KEY, customer int);
INSERT INTO customers SELECT g, 'c' || g FROM generate_series(1, 20) g;
INSERT INTO orders SELECT g, g % 20 FROM generate_series(1, 60) g;
"""


def _said(given: dict[str, Any], code: int, *arguments: str) -> str:
    done = frazil(given, *arguments)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout if code == 0 else done.stdout + done.stderr


def test_rows_that_somebody_removed_come_back_while_it_runs(
    shop: Shop, frazil_sqlite: FrazilServer, catalog: Catalog
) -> None:
    shop.run(_SCHEMA)
    given = config(shop, frazil_sqlite)
    with Run(given) as run:
        for table in ("customers", "orders"):
            run.until(lambda table=table: _same(catalog, shop, table), "rows are copied")  # type: ignore[misc]
        catalog.load_table((shop.name, "orders")).delete()
        catalog.load_table((shop.name, "customers")).delete()
        shop.run("UPDATE orders SET customer = 99 WHERE id % 3 = 0")
        said = _said(given, 0, "snapshot", shop.name, "--table", f"{shop.name}.orders", "--json")
        assert json.loads(said) == {"pipeline": shop.name, "asked-for": "public.orders"}
        for number in range(100, 110):
            shop.run(f"INSERT INTO orders VALUES ({number}, 1); DELETE FROM orders WHERE id = {number - 99}")
        run.until(lambda: _same(catalog, shop, "orders"), "its rows come back")
        assert in_lake(catalog, shop, "customers") == [], "nobody asked for these"
        asked = _said(given, 1, "snapshot", shop.name)
        assert f"say which by --table: {shop.name}.customers, {shop.name}.orders" in asked
        assert "Stop it first" in _said(given, 1, "reset", shop.name, "--to-offsets", "earliest", "--yes")
        states = json.loads(_said(given, 0, "status", "--json"))
        assert [state["table"] for state in states] == [f"{shop.name}.customers", f"{shop.name}.orders"]
        assert all(state["exists"] and state["committed-at"] for state in states)
        assert "after its last commit" in _said(given, 0, "plan")
        run.signal(signal.SIGTERM)
        assert run.wait() == 0, run.story()


def _same(catalog: Catalog, shop: Shop, table: str) -> bool:
    if not catalog.table_exists((shop.name, table)):
        return False
    return in_lake(catalog, shop, table) == in_database(shop, table)


@pytest.mark.exhaustive
def test_a_pipeline_begins_anew(shop: Shop, frazil_sqlite: FrazilServer, catalog: Catalog) -> None:
    shop.run(_SCHEMA)
    given = config(shop, frazil_sqlite)
    assert "just run it" in _said(given, 1, *_earliest(shop))
    with Run(given, "--once") as run:
        assert run.wait() == 0, run.story()
    shop.run(f"SELECT pg_drop_replication_slot('frazil_{shop.name}'); DELETE FROM orders WHERE id = 1")
    shop.run("INSERT INTO orders VALUES (70, 7); UPDATE customers SET name = 'anew' WHERE id = 3")
    assert f"the slot frazil_{shop.name} is gone" in _said(given, 1, "status")
    assert f"the slot frazil_{shop.name} is gone" in _said(given, 1, "plan")
    assert "--to-offsets earliest" in _said(given, 1, "reset", shop.name, "--to-offsets", "latest", "--yes")
    said = _said(given, 0, *_earliest(shop))
    assert "Rows of the copy that are gone at the source, and whose delete was lost, stay." in said
    with Run(given, "--once") as run:
        assert run.wait() == 0, run.story()
    assert _same(catalog, shop, "customers")
    assert in_lake(catalog, shop, "orders") == [{"id": 1, "customer": 1}, *in_database(shop, "orders")]


def _earliest(shop: Shop) -> tuple[str, ...]:
    return "reset", shop.name, "--to-offsets", "earliest", "--yes"


@pytest.mark.exhaustive
def test_one_table_begins_anew(shop: Shop, frazil_sqlite: FrazilServer, catalog: Catalog) -> None:
    shop.run(_SCHEMA)
    given = config(shop, frazil_sqlite)
    with Run(given, "--once") as run:
        assert run.wait() == 0, run.story()
    shop.run("INSERT INTO customers VALUES (50, 'late'); UPDATE orders SET customer = 5 WHERE id = 9")
    for table in ("customers", "orders"):
        catalog.load_table((shop.name, table)).delete()
    done = json.loads(_said(given, 0, *_earliest(shop), "--table", f"{shop.name}.orders", "--json"))
    assert done == {"pipeline": shop.name, "tables": {f"{shop.name}.orders": 2}, "slot-dropped": False}
    with Run(given, "--once") as run:
        assert run.wait() == 0, run.story()
    assert _same(catalog, shop, "orders")
    assert in_lake(catalog, shop, "customers") == [{"id": 50, "name": "late"}], "it goes on where it was"


def test_a_server_that_does_not_answer_is_a_problem_of_the_pipeline(
    shop: Shop, frazil_sqlite: FrazilServer
) -> None:
    given = config(shop, frazil_sqlite)
    given["pipelines"][shop.name]["source"]["postgres"]["port"] = 1
    for command in ("status", "plan"):
        said = _said(given, 1, command)
        assert f"127.0.0.1:1/{shop.name}" in said
        assert shop.server.password not in said
    for command in ("snapshot", "reset"):
        more = () if command == "snapshot" else ("--to-offsets", "earliest", "--yes")
        assert "127.0.0.1:1" in _said(given, 1, command, shop.name, "--table", "a.b", *more)
