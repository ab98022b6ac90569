"""A pipeline that follows a database with no Kafka between, as a user runs it."""

from __future__ import annotations

import json
import signal
from typing import Any

import pyarrow.compute as pc
import pytest
from pyiceberg.catalog import Catalog
from tests.stream.crash.runs import Run
from tests.stream.postgres.remote import Shop

from frazil.devstack.frazil_server import FrazilServer

pytestmark = [pytest.mark.services, pytest.mark.jvm, pytest.mark.slow]

_SCHEMA = """
CREATE TABLE customers (id int PRIMARY KEY, name text);
CREATE TABLE orders (id bigint PRIMARY KEY, customer int, body text);
ALTER TABLE orders ALTER COLUMN body SET STORAGE EXTERNAL;
INSERT INTO customers SELECT g, 'c' || g FROM generate_series(1, 20) g;
INSERT INTO orders SELECT g, g % 20, repeat('x', 4000) || g FROM generate_series(1, 60) g;
"""


def config(shop: Shop, server: FrazilServer, **settings: Any) -> dict[str, Any]:
    postgres = {
        "host": "127.0.0.1",
        "port": shop.server.port,
        "database": shop.name,
        "user": shop.server.user,
        "password": shop.server.password,
        "tables": "public.*",
    }
    pipeline = {
        "source": {"postgres": postgres},
        "table": f"{shop.name}.{{table}}",
        "freshness": "200ms",
        "limits": {"records_per_round": 50},
    }
    return {
        "catalog": {"uri": server.uri},
        "spark": {"master": "local[2]"},
        "pipelines": {shop.name: pipeline | settings},
    }


def in_database(shop: Shop, table: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(
        shop.run(f"SELECT coalesce(json_agg(t ORDER BY id), '[]') FROM {table} t")
    )
    return found


def in_lake(catalog: Catalog, shop: Shop, table: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = catalog.load_table((shop.name, table)).scan().to_arrow().to_pylist()
    return sorted(rows, key=lambda row: row["id"])


def test_a_copy_survives_kills(shop: Shop, frazil_sqlite: FrazilServer, catalog: Catalog) -> None:
    """Each start is also the recovery from the death before."""
    shop.run(_SCHEMA)
    given = config(shop, frazil_sqlite)
    with Run(given, "--once", failpoint="commit.before") as run:
        assert run.wait() == -signal.SIGKILL, run.story()
    shop.run("UPDATE orders SET customer = 99 WHERE id % 3 = 0; DELETE FROM orders WHERE id % 7 = 0")
    shop.run("UPDATE customers SET id = id + 100 WHERE id <= 5; INSERT INTO customers VALUES (1, 'again')")
    with Run(given, "--once", failpoint="commit.after") as run:
        assert run.wait() == -signal.SIGKILL, run.story()
    shop.run("UPDATE orders SET customer = 7 WHERE id % 5 = 0; UPDATE orders SET id = -id WHERE id < 10")
    with Run(given, "--once") as run:
        assert run.wait() == 0, run.story()
    for table in ("customers", "orders"):
        assert in_lake(catalog, shop, table) == in_database(shop, table)
    at = shop.confirmed()
    shop.run("TRUNCATE customers; INSERT INTO customers VALUES (3, 'after'), (4, 'after')")
    shop.run("CREATE TABLE items (id int PRIMARY KEY, n int); INSERT INTO items VALUES (1, 1), (2, 2)")
    shop.run("UPDATE items SET n = 3 WHERE id = 1; DELETE FROM orders WHERE id > 30")
    with Run(given, "--once") as run:
        assert run.wait() == 0, run.story()
    for table in ("customers", "orders", "items"):
        assert in_lake(catalog, shop, table) == in_database(shop, table)
    # The database can forget what has landed.
    assert shop.moves_past(at)


def test_no_snapshot_shows_half_of_a_transaction(
    shop: Shop, frazil_sqlite: FrazilServer, catalog: Catalog
) -> None:
    """Also of one that has more changes than a round."""
    shop.run("CREATE TABLE accounts (id int PRIMARY KEY, balance int)")
    shop.run("INSERT INTO accounts SELECT g, 100 FROM generate_series(1, 60) g")
    given = config(shop, frazil_sqlite, changes={"whole_transactions": True}, limits={"records_per_round": 3})
    with Run(given, "--once") as run:
        assert run.wait() == 0, run.story()
    table = catalog.load_table((shop.name, "accounts"))
    before = len(table.snapshots())
    move = "UPDATE accounts SET balance = balance {:+} WHERE id = {}"
    for number in range(1, 9):
        pays = [move.format(-5, number), move.format(5, number + 1), move.format(1, number + 20)]
        shop.run("; ".join(["BEGIN", *pays, move.format(-1, number + 30), "COMMIT"]))
    shop.run("UPDATE accounts SET balance = 200 - balance")
    with Run(given, "--once") as run:
        assert run.wait() == 0, run.story()
    assert in_lake(catalog, shop, "accounts") == in_database(shop, "accounts")
    table.refresh()
    scans = [table.scan(snapshot_id=one.snapshot_id).to_arrow() for one in table.snapshots()[before:]]
    assert {pc.sum(scan["balance"]).as_py() for scan in scans} == {60 * 100}
    assert len(scans) > 5, "in more than one commit"


@pytest.mark.exhaustive
def test_a_bad_change_stops_before_its_transaction(
    shop: Shop, frazil_sqlite: FrazilServer, catalog: Catalog
) -> None:
    shop.run("CREATE TABLE dated (id int PRIMARY KEY, at timestamp); INSERT INTO dated VALUES (1, 'now')")
    given = config(shop, frazil_sqlite, changes={"whole_transactions": True})
    with Run(given, "--once") as run:
        assert run.wait() == 0, run.story()
    shop.run("INSERT INTO dated VALUES (2, 'now')")
    shop.run("INSERT INTO dated VALUES (3, 'now'), (4, 'now'), (5, 'infinity'), (6, 'now')")
    with Run(given, "--once") as run:
        assert run.wait() == 1, run.story()
        assert "a change cannot be taken" in run.errors
    assert [row["id"] for row in in_lake(catalog, shop, "dated")] == [1, 2]


@pytest.mark.exhaustive
def test_a_table_that_cannot_go_on_stops_no_other(
    shop: Shop, frazil_sqlite: FrazilServer, catalog: Catalog
) -> None:
    shop.run("CREATE TABLE good (id int PRIMARY KEY, n int); INSERT INTO good VALUES (1, 1)")
    shop.run(
        "CREATE TABLE dated (id int PRIMARY KEY, at timestamp); INSERT INTO dated VALUES (1, '2024-05-01')"
    )
    with Run(config(shop, frazil_sqlite), "--once") as run:
        assert run.wait() == 0, run.story()
    at = shop.confirmed()
    shop.run("INSERT INTO dated VALUES (2, 'infinity'), (3, '2024-05-03'); UPDATE good SET n = 2")
    with Run(config(shop, frazil_sqlite), "--once") as run:
        assert run.wait() == 1, run.story()
        assert "a change cannot be taken" in run.errors
        assert [event["table"] for event in run.events("table-stopped")] == [f"{shop.name}.dated"]
    assert in_lake(catalog, shop, "good") == [{"id": 1, "n": 2}]
    assert [row["id"] for row in in_lake(catalog, shop, "dated")] == [1]
    letters = config(shop, frazil_sqlite, dead_letters=f"{shop.name}.letters")
    with Run(letters, "--once") as run:
        assert run.wait() == 0, run.story()
    assert [row["id"] for row in in_lake(catalog, shop, "dated")] == [1, 3], "the slot had waited for it"
    assert len(catalog.load_table((shop.name, "letters")).scan().to_arrow()) == 1
    assert shop.moves_past(at)


@pytest.mark.exhaustive
def test_a_table_that_cannot_be_followed_stops_no_other(
    shop: Shop, frazil_sqlite: FrazilServer, catalog: Catalog
) -> None:
    """One that was dropped and made again, and one that this user may not put into the publication."""
    shop.run("CREATE TABLE kept (id int PRIMARY KEY); CREATE TABLE remade (id int PRIMARY KEY)")
    shop.run("INSERT INTO kept VALUES (1); INSERT INTO remade VALUES (1)")
    shop.run(f"CREATE PUBLICATION frazil_{shop.name} FOR TABLE kept, remade")
    shop.run(f"CREATE ROLE {shop.name}_reader LOGIN REPLICATION PASSWORD 's3cret'")
    rights = f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {shop.name}_reader"
    shop.run(rights)
    given = config(shop, frazil_sqlite)
    (pipeline,) = given["pipelines"].values()
    pipeline["source"]["postgres"] |= {"user": f"{shop.name}_reader", "password": "s3cret"}
    with Run(given, "--once") as run:
        assert run.wait() == 0, run.story()
    shop.run(f"CREATE TABLE others (id int PRIMARY KEY); {rights}; INSERT INTO kept VALUES (2)")
    shop.run(f"DROP TABLE remade; CREATE TABLE remade (id int PRIMARY KEY); {rights}")
    shop.run(f"ALTER PUBLICATION frazil_{shop.name} ADD TABLE remade")
    with Run(given, "--once") as run:
        assert run.wait() == 1, run.story()
        told = {event["table"]: event["error"] for event in run.events("table-stopped")}
    assert "was dropped and made again" in told.pop(f"{shop.name}.remade")
    assert "ADD TABLE" in told.pop(f"{shop.name}.others")
    assert not told
    assert in_lake(catalog, shop, "kept") == in_database(shop, "kept") == [{"id": 1}, {"id": 2}]
    assert in_lake(catalog, shop, "remade") == [{"id": 1}]
