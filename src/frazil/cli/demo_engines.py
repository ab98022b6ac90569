"""What the engines do in `frazil demo`; each function tells its part and returns the facts it found."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator
from importlib import metadata, util
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from frazil.core.errors import ServiceError

if TYPE_CHECKING:
    from frazil.devstack.frazil_server import FrazilServer

Facts = dict[str, Any]
Say = Callable[[str], None]

DUCKDB = ("duckdb", "duckdb_extension_httpfs", "duckdb_extension_avro", "duckdb_extension_iceberg")

_WAREHOUSE = "demo"
_TOTALS = "SELECT count(*), CAST(sum(amount) AS STRING), max(placed) FROM lake.shop.orders"
_SNAPSHOTS = "SELECT count(*) FROM lake.shop.orders.snapshots WHERE summary['added-records'] IS NOT NULL"
_BUSIEST = """\
SELECT o.customer, count(*) AS orders, sum(o.amount) AS spent, coalesce(sum(r.refund), 0) AS refunded
FROM lake.shop.orders o LEFT JOIN lake.shop.returns r USING (order_id)
GROUP BY o.customer ORDER BY spent DESC LIMIT 3"""
_BY_STATUS = """\
SELECT status, count(*) AS orders, sum(amount) AS amount FROM lake.shop.orders
GROUP BY status ORDER BY status"""
_ATTACH = "ATTACH '{warehouse}' AS lake (TYPE iceberg, ENDPOINT '{uri}', AUTHORIZATION_TYPE 'none')"


def query_with_spark(say: Say, server: FrazilServer) -> Facts:
    from frazil.lake.session import spark_session, spark_settings

    log = server.directory / "spark.log"
    interrupt = signal.getsignal(signal.SIGINT)
    settings = spark_settings(
        server.catalog_uri,
        _WAREHOUSE,
        "lake",
        {"header.X-Iceberg-Access-Delegation": "vended-credentials"},
    )
    try:
        with _stderr_to(log):
            spark = spark_session(settings, app="frazil demo")
    except Exception as error:
        tail = log.read_text(errors="replace")[-3000:]
        raise ServiceError(f"Spark did not start: {error}\n{tail}") from error
    finally:
        # PySpark's own handler calls the JVM, which fails in the middle of an answer and after the end.
        signal.signal(signal.SIGINT, interrupt)
    try:
        ((orders, amount, newest),) = spark.sql(_TOTALS).collect()
        ((commits,),) = spark.sql(_SNAPSHOTS).collect()
        say(code(_BUSIEST))
        for customer, count, spent, refunded in spark.sql(_BUSIEST).collect():
            say(f"  {customer:<14} {count:>4} orders {spent:>12} spent {refunded:>12} refunded")
    finally:
        with _stderr_to(log), contextlib.suppress(Exception):
            spark.stop()
    say(f"{orders:,} orders in {commits} commits; the newest was placed at {newest:%H:%M:%S}.")
    return {"orders": orders, "amount": amount}


def query_with_pyiceberg(say: Say, server: FrazilServer) -> Facts:
    import pyarrow.compute as pc
    from pyiceberg.catalog import load_catalog

    say(code(f'load_catalog("lake", type="rest", uri="{server.catalog_uri}", warehouse="{_WAREHOUSE}")'))
    with load_catalog("lake", type="rest", uri=server.catalog_uri, warehouse=_WAREHOUSE) as catalog:
        rows = catalog.load_table("shop.orders").scan().to_arrow()
        returns = catalog.load_table("shop.returns").scan().to_arrow()
    amount = str(pc.sum(rows["amount"]).as_py())
    returned = pc.sum(pc.equal(rows["status"], "returned")).as_py()
    say(f"PyIceberg {metadata.version('pyiceberg')} reads {rows.num_rows:,} orders, {amount} in all;")
    say(f"{returned:,} were returned, and shop.returns has {returns.num_rows:,} rows.")
    if returned != returns.num_rows:
        raise ServiceError(f"{returned} orders were returned, shop.returns has {returns.num_rows}")
    return {"orders": rows.num_rows, "amount": amount, "returns": returns.num_rows}


def query_with_duckdb(say: Say, server: FrazilServer) -> Facts:
    import duckdb

    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    try:
        for name in DUCKDB[1:]:
            connection.execute(f"LOAD '{_extension(name)}'")
        attach = _ATTACH.format(warehouse=_WAREHOUSE, uri=server.catalog_uri)
        say(code(attach))
        connection.execute(attach)
        say(code(_BY_STATUS))
        found = connection.execute(_BY_STATUS).fetchall()
    finally:
        connection.close()
    for status, orders, amount in found:
        say(f"  {status:<10} {orders:>8,} {amount:>14}")
    return {"orders": sum(row[1] for row in found), "amount": str(sum(row[2] for row in found))}


def code(text: str) -> str:
    """Text as it could be typed, in a colour where there are colours."""
    return "\n".join(click.style(line, fg="cyan") for line in text.splitlines())


def _extension(module: str) -> Path:
    spec = util.find_spec(module)
    folder = Path((spec.submodule_search_locations or [""])[0]) if spec else Path()
    return next(folder.rglob("*.duckdb_extension"))


@contextlib.contextmanager
def _stderr_to(log: Path) -> Iterator[None]:
    """Send file descriptor 2 to a file: a JVM started meanwhile keeps it and stays out of the story."""
    sys.stderr.flush()
    saved = os.dup(2)
    try:
        with log.open("ab") as file:
            os.dup2(file.fileno(), 2)
        yield
    finally:
        sys.stderr.flush()
        os.dup2(saved, 2)
        os.close(saved)
