"""Jobs for a Flink cluster, and what they really do, written by hand from their statements.

They are what is hard to tell from outside: Kafka tables that exist in one session only, some of them called
like an Iceberg table that is something else, a temporary table inside of an Iceberg catalog, sinks that are
chained, several of them in one job, jobs that ended badly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

NAMESPACE = "lin"
DATABASE = "lineage"
ORDERS, PAYMENTS, SMALL, HEAVY = "shop.orders", "shop_payments", "shop.small", "shop.heavy"

#: Tables as the truth calls them, beside those of the Iceberg catalog, which are `lin.<table>` in both.
DATASETS = {
    "orders": f"kafka:{ORDERS}",
    "payments": f"kafka:{PAYMENTS}",
    "k_small": f"kafka:{SMALL}",
    "k_heavy": f"kafka:{HEAVY}",
    "customers": f"postgres:{DATABASE}.public.customers",
    "totals": f"postgres:{DATABASE}.public.totals",
}

#: For each column that is written the columns it is made of: `*` behind those that are computed with, `+`
#: behind those that are aggregated over rows.
Columns = Mapping[str, str]


@dataclass(frozen=True)
class Job:
    """A statement and the truth about it, by table that is written."""

    name: str
    statement: str
    writes: Mapping[str, Columns]
    state: str = "FINISHED"
    #: Which of Iceberg's two sinks: they name themselves differently.
    new_sink: bool = True
    #: A job whose rows it reads.
    after: str | None = None


_UNBOUNDED = "/*+ OPTIONS('scan.bounded.mode'='unbounded') */"

JOBS = (
    Job(
        "append",
        "INSERT INTO ice.lin.orders SELECT order_id, customer_id, amount, ts FROM orders",
        {
            "lin.orders": {
                "order_id": "orders.order_id",
                "customer": "orders.customer_id",
                "amount": "orders.amount",
                "placed": "orders.ts*",
            }
        },
    ),
    Job(
        "append_old_sink",
        "INSERT INTO ice.lin.notes SELECT order_id, UPPER(note) FROM orders",
        {"lin.notes": {"id": "orders.order_id", "text": "orders.note*"}},
        new_sink=False,
    ),
    Job(
        "upsert",
        "INSERT INTO ice.lin.latest SELECT customer_id, order_id, amount FROM orders",
        {
            "lin.latest": {
                "customer_id": "orders.customer_id",
                "order_id": "orders.order_id",
                "amount": "orders.amount",
            }
        },
    ),
    Job(
        "iceberg_to_iceberg",
        "INSERT INTO ice.lin.heavy SELECT order_id, amount * 2 FROM ice.lin.orders WHERE amount > 10",
        {"lin.heavy": {"order_id": "lin.orders.order_id", "doubled": "lin.orders.amount*"}},
        after="append",
    ),
    Job(
        "join",
        "INSERT INTO ice.lin.paid SELECT o.order_id, o.amount, p.paid, o.amount - p.paid "
        "FROM orders AS o JOIN payments AS p ON o.order_id = p.order_id",
        {
            "lin.paid": {
                "order_id": "orders.order_id",
                "amount": "orders.amount",
                "paid": "payments.paid",
                "still": "orders.amount* payments.paid*",
            }
        },
    ),
    Job(
        "window",
        "INSERT INTO ice.lin.hourly SELECT customer_id, window_start, SUM(amount) "
        "FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '1' HOUR)) "
        "GROUP BY customer_id, window_start, window_end",
        {
            "lin.hourly": {
                "customer_id": "orders.customer_id",
                "starts": "orders.ts*",
                "total": "orders.amount+",
            }
        },
    ),
    Job(
        "union",
        "INSERT INTO ice.lin.movements SELECT order_id, amount FROM orders "
        "UNION ALL SELECT order_id, paid FROM payments",
        {
            "lin.movements": {
                "order_id": "orders.order_id payments.order_id",
                "amount": "orders.amount payments.paid",
            }
        },
    ),
    Job(
        "lookup",
        "INSERT INTO ice.lin.enriched SELECT o.order_id, c.name, c.city FROM orders AS o "
        "JOIN customers FOR SYSTEM_TIME AS OF o.proc AS c ON o.customer_id = c.customer_id",
        {
            "lin.enriched": {
                "order_id": "orders.order_id",
                "name": "customers.name",
                "city": "customers.city",
            }
        },
    ),
    Job(
        # The Kafka table is called what the Iceberg table is called, and is as wide.
        "statement_set",
        "EXECUTE STATEMENT SET BEGIN "
        "INSERT INTO ice.lin.small SELECT order_id, amount FROM orders WHERE amount <= 10; "
        "INSERT INTO small SELECT order_id, note FROM orders WHERE amount <= 10; END",
        {
            "lin.small": {"order_id": "orders.order_id", "amount": "orders.amount"},
            "k_small": {"id": "orders.order_id", "what": "orders.note"},
        },
    ),
    Job(
        # Here too, and this job writes no Iceberg table at all.
        "kafka_to_kafka",
        "INSERT INTO heavy SELECT order_id, amount FROM orders WHERE amount > 10",
        {"k_heavy": {"id": "orders.order_id", "worth": "orders.amount"}},
    ),
    Job(
        # Its source looks like a table of the Iceberg catalog.
        "temporary_table",
        "INSERT INTO ice.lin.receipts SELECT order_id, paid FROM ice.lin.incoming",
        {"lin.receipts": {"order_id": "payments.order_id", "paid": "payments.paid"}},
    ),
    Job(
        "jdbc_read",
        "INSERT INTO ice.lin.people SELECT customer_id, name FROM pg.lineage.`public.customers`",
        {"lin.people": {"id": "customers.customer_id", "name": "customers.name"}},
    ),
    Job(
        "jdbc_write",
        "INSERT INTO pg.lineage.`public.totals` SELECT customer_id, SUM(amount) FROM orders "
        "WHERE customer_id IS NOT NULL GROUP BY customer_id",
        {"totals": {"customer_id": "orders.customer_id", "total": "orders.amount+"}},
    ),
    Job(
        "failed",
        "INSERT INTO ice.lin.broken SELECT CAST(note AS BIGINT), amount FROM orders",
        {"lin.broken": {"number": "orders.note*", "amount": "orders.amount"}},
        state="FAILED",
    ),
    Job(
        "canceled",
        f"INSERT INTO ice.lin.live SELECT order_id, amount FROM orders {_UNBOUNDED}",
        {"lin.live": {"order_id": "orders.order_id", "amount": "orders.amount"}},
        state="CANCELED",
    ),
    Job(
        "running",
        f"INSERT INTO small SELECT order_id, note FROM orders {_UNBOUNDED}",
        {"k_small": {"id": "orders.order_id", "what": "orders.note"}},
        state="RUNNING",
    ),
)

ICEBERG_TABLES = {
    "orders": "order_id BIGINT, customer BIGINT, amount DOUBLE, placed TIMESTAMP(6)",
    "notes": "id BIGINT, text STRING",
    "latest": "customer_id BIGINT, order_id BIGINT, amount DOUBLE, PRIMARY KEY (customer_id) NOT ENFORCED",
    "heavy": "order_id BIGINT, doubled DOUBLE",
    "paid": "order_id BIGINT, amount DOUBLE, paid DOUBLE, still DOUBLE",
    "hourly": "customer_id BIGINT, starts TIMESTAMP(6), total DOUBLE",
    "movements": "order_id BIGINT, amount DOUBLE",
    "enriched": "order_id BIGINT, name STRING, city STRING",
    "small": "order_id BIGINT, amount DOUBLE",
    "receipts": "order_id BIGINT, paid DOUBLE",
    "people": "id BIGINT, name STRING",
    "broken": "number BIGINT, amount DOUBLE",
    "live": "order_id BIGINT, amount DOUBLE",
}
_UPSERT = "WITH ('format-version'='2', 'write.upsert.enabled'='true')"

_ORDERS = (
    "order_id BIGINT, customer_id BIGINT, amount DOUBLE, note STRING, ts TIMESTAMP(3), "
    "proc AS PROCTIME(), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND"
)
_PAYMENTS = "order_id BIGINT, paid DOUBLE"

POSTGRES_TABLES = """
CREATE TABLE customers (customer_id BIGINT PRIMARY KEY, name TEXT, city TEXT);
CREATE TABLE totals (customer_id BIGINT PRIMARY KEY, total DOUBLE PRECISION);
INSERT INTO customers SELECT n, 'name ' || n, 'city ' || n FROM generate_series(0, 4) AS n;
"""


@dataclass(frozen=True)
class Addresses:
    """What the statements need to know."""

    catalog_uri: str
    bootstrap_servers: str
    postgres_port: int
    postgres_user: str
    postgres_password: str


def catalogs(at: Addresses) -> list[str]:
    ice = f"CREATE CATALOG ice WITH ('type'='iceberg', 'catalog-type'='rest', 'uri'='{at.catalog_uri}')"
    postgres = (
        f"CREATE CATALOG pg WITH ('type'='jdbc', 'default-database'='{DATABASE}', "
        f"'base-url'='jdbc:postgresql://127.0.0.1:{at.postgres_port}', {_login(at)})"
    )
    return [ice, postgres]


def session_tables(at: Addresses) -> list[str]:
    """Tables that exist in the session only that makes them."""
    kafka = (("orders", _ORDERS, ORDERS), ("payments", _PAYMENTS, PAYMENTS))
    sinks = (
        ("small", "id BIGINT, what STRING", SMALL),
        ("heavy", "id BIGINT, worth DOUBLE", HEAVY),
    )
    jdbc = (
        "CREATE TABLE customers (customer_id BIGINT, name STRING, city STRING) WITH ('connector'='jdbc', "
        f"'url'='jdbc:postgresql://127.0.0.1:{at.postgres_port}/{DATABASE}', 'table-name'='customers', "
        f"{_login(at)})"
    )
    made = [f"CREATE TABLE {name} ({columns}) {_kafka(at, topic)}" for name, columns, topic in kafka + sinks]
    temporary = f"CREATE TEMPORARY TABLE ice.{NAMESPACE}.incoming ({_PAYMENTS}) {_kafka(at, PAYMENTS)}"
    return [*made, jdbc, temporary]


def described_tables() -> list[str]:
    """Of the JDBC catalog, for a reader that cannot ask Flink what it has."""
    return [f"CREATE TABLE pg.{DATABASE}.`public.totals` (customer_id BIGINT, total DOUBLE)"]


def iceberg_tables() -> list[str]:
    found = [f"CREATE DATABASE IF NOT EXISTS ice.{NAMESPACE}"]
    for name, columns in ICEBERG_TABLES.items():
        found.append(
            f"CREATE TABLE ice.{NAMESPACE}.{name} ({columns}) {_UPSERT if 'PRIMARY' in columns else ''}"
        )
    return found


def _login(at: Addresses) -> str:
    return f"'username'='{at.postgres_user}', 'password'='{at.postgres_password}'"


def _kafka(at: Addresses, topic: str) -> str:
    return (
        f"WITH ('connector'='kafka', 'topic'='{topic}', 'format'='json', "
        f"'properties.bootstrap.servers'='{at.bootstrap_servers}', "
        "'scan.startup.mode'='earliest-offset', 'scan.bounded.mode'='latest-offset')"
    )
