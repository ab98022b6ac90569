"""What the engines do in `frazil demo`; each function tells its part and returns the facts it found."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from importlib import metadata, util
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from frazil.core.errors import ServiceError

if TYPE_CHECKING:
    import pyarrow as pa

    from frazil.devstack.frazil_server import FrazilServer

Facts = dict[str, Any]
Say = Callable[[str], None]

WAREHOUSE, TABLE = "demo", "arctic.floes"
DUCKDB = ("duckdb", "duckdb_extension_httpfs", "duckdb_extension_avro", "duckdb_extension_iceberg")

_CREATE = """\
CREATE TABLE lake.arctic.floes (id BIGINT, region STRING, area DOUBLE, seen TIMESTAMP)
USING iceberg PARTITIONED BY (region)
TBLPROPERTIES ('format-version' = '3', 'write.merge.mode' = 'merge-on-read')"""
_APPEND = """\
INSERT INTO lake.arctic.floes
SELECT id, element_at(array('Baffin', 'Barents', 'Kara', 'Laptev'), CAST(id % 4 + 1 AS INT)), 1.0,
       TIMESTAMP '2026-01-01' + make_interval(0, 0, 0, 0, CAST(id AS INT))
FROM range(1000)"""
_MERGE = """\
MERGE INTO lake.arctic.floes t USING (SELECT id FROM range(875, 1050)) s ON t.id = s.id
WHEN MATCHED AND t.id >= 975 THEN DELETE
WHEN MATCHED THEN UPDATE SET area = 2.0
WHEN NOT MATCHED THEN INSERT (id, region, area, seen) VALUES (s.id, 'Kara', 3.0, TIMESTAMP '2026-03-01')"""
_TOTALS = "SELECT count(*), sum(area) FROM lake.arctic.floes"
_SNAPSHOTS = "SELECT snapshot_id FROM lake.arctic.floes.snapshots ORDER BY committed_at"
_BEFORE = "SELECT count(*) FROM lake.arctic.floes VERSION AS OF {snapshot}"
_REGIONS = """\
SELECT region, count(*) AS floes, sum(area) AS area FROM lake.arctic.floes
GROUP BY region ORDER BY region"""
_ATTACH = "ATTACH '{warehouse}' AS lake (TYPE iceberg, ENDPOINT '{uri}', AUTHORIZATION_TYPE 'none')"


def call(server: FrazilServer, method: str, path: str, body: Facts) -> tuple[int, Facts]:
    """A request to the management API; an answer that is no success ends the demo with its message."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    try:
        connection.request(method, path, json.dumps(body), {"content-type": "application/json"})
        answer = connection.getresponse()
        text = answer.read()
    finally:
        connection.close()
    document: Facts = json.loads(text) if text else {}
    if answer.status >= 300:
        message = document.get("error", {}).get("message", text.decode(errors="replace"))
        raise ServiceError(f"{method} {path} answered {answer.status}: {message}")
    return answer.status, document


def create_warehouse(say: Say, server: FrazilServer) -> Facts:
    path = server.directory / "warehouse"
    path.mkdir()
    body = {"warehouse-name": WAREHOUSE, "storage-profile": {"type": "local", "path": str(path)}}
    status, answer = call(server, "POST", "/management/v1/warehouse", body)
    say(f"POST /management/v1/warehouse  ->  {status}")
    say(code(json.dumps(body)))
    say(f"The server tried the storage with a probe object; the id is {answer['warehouse-id']}.")
    return {"name": WAREHOUSE, "id": answer["warehouse-id"], "path": str(path)}


def write_with_spark(say: Say, server: FrazilServer) -> Facts:
    from frazil.jvm.jars import SPARK_ICEBERG, jars
    from frazil.jvm.java import find_java
    from frazil.lake.session import spark_session, spark_settings

    java = find_java()
    with _download_progress(say):
        names = [jar.name for jar in jars(SPARK_ICEBERG)]
    say(f"Spark {metadata.version('pyspark')} starts on Java {java.version}, with {' and '.join(names)}")
    log = server.directory / "spark.log"
    interrupt = signal.getsignal(signal.SIGINT)
    try:
        with _stderr_to(log):
            spark = spark_session(spark_settings(server.catalog_uri, WAREHOUSE, "lake"), app="frazil demo")
    except Exception as error:
        tail = log.read_text(errors="replace")[-3000:]
        raise ServiceError(f"Spark did not start: {error}\n{tail}") from error
    finally:
        # PySpark's own handler calls the JVM, which fails in the middle of an answer and after the end.
        signal.signal(signal.SIGINT, interrupt)
    try:
        spark.sql("CREATE NAMESPACE lake.arctic")
        for statement in (_CREATE, _APPEND, _MERGE):
            say(code(statement))
            spark.sql(statement)
        ((rows, area),) = spark.sql(_TOTALS).collect()
        snapshots = [row[0] for row in spark.sql(_SNAPSHOTS).collect()]
        ((before,),) = spark.sql(_BEFORE.format(snapshot=snapshots[0])).collect()
        files = spark.table("lake.arctic.floes.files").count()
    finally:
        with _stderr_to(log), contextlib.suppress(Exception):
            spark.stop()
    say(f"{before:,} rows after the INSERT (read back with VERSION AS OF {snapshots[0]}),")
    say(f"{rows:,} after the MERGE; sum(area) = {area:g}; {len(snapshots)} snapshots, {files} files.")
    facts = {"rows": rows, "area": area, "rows_before_merge": before}
    return facts | {"snapshots": len(snapshots), "files": files}


def read_with_pyiceberg(say: Say, server: FrazilServer) -> tuple[pa.Table, Facts]:
    import pyarrow.compute as pc
    from pyiceberg.catalog import load_catalog

    say(code(f'load_catalog("lake", type="rest", uri="{server.catalog_uri}", warehouse="{WAREHOUSE}")'))
    with load_catalog("lake", type="rest", uri=server.catalog_uri, warehouse=WAREHOUSE) as catalog:
        table = catalog.load_table(TABLE)
        rows = table.scan().to_arrow()
        area = pc.sum(rows["area"]).as_py()
        kara = table.scan(row_filter="region = 'Kara'").to_arrow().num_rows
    version = metadata.version("pyiceberg")
    say(f"PyIceberg {version} reads {rows.num_rows:,} rows, {kara:,} of them in Kara; sum(area) = {area:g}.")
    return rows, {"rows": rows.num_rows, "area": area}


def read_with_duckdb(say: Say, server: FrazilServer) -> Facts:
    import duckdb

    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    try:
        for name in DUCKDB[1:]:
            connection.execute(f"LOAD '{_extension(name)}'")
        attach = _ATTACH.format(warehouse=WAREHOUSE, uri=server.catalog_uri)
        say(code(attach))
        connection.execute(attach)
        say(code(_REGIONS))
        regions = connection.execute(_REGIONS).fetchall()
    finally:
        connection.close()
    for region, floes, area in regions:
        say(f"  {region:<8} {floes:>6,} {area:>8g}")
    rows = sum(row[1] for row in regions)
    say(f"DuckDB {metadata.version('duckdb')} reads {rows:,} rows.")
    return {"rows": rows, "area": sum(row[2] for row in regions)}


def copy_to_s3(say: Say, server: FrazilServer, rows: pa.Table) -> Facts:
    from pyiceberg.catalog import load_catalog

    from frazil.devstack.seaweed import ObjectStore

    name = f"{WAREHOUSE}-s3"
    with ObjectStore() as store:
        profile, credential = store.warehouse_storage("lake", "warehouse")
        body = {"warehouse-name": name, "storage-profile": profile, "storage-credential": credential}
        status, _ = call(server, "POST", "/management/v1/warehouse", body)
        say(f"POST /management/v1/warehouse  ->  {status}")
        say(code(json.dumps(profile)))
        # No keys here: the server vends some that reach this one table, and not for long.
        with load_catalog("s3", type="rest", uri=server.catalog_uri, warehouse=name) as catalog:
            catalog.create_namespace("arctic")
            table = catalog.create_table(TABLE, schema=rows.schema)
            table.append(rows)
            copied = catalog.load_table(TABLE).scan().count()
            say(f"PyIceberg wrote {copied:,} rows to {table.location()} and read them back,")
            say("with keys that the server vended for this table alone.")
    if copied != rows.num_rows:
        raise ServiceError(f"the copy on S3 has {copied} rows, the table {rows.num_rows}")
    return {"warehouse": name, "rows": copied}


def code(text: str) -> str:
    """Text as it could be typed, in a colour where there are colours."""
    return "\n".join(click.style(line, fg="cyan") for line in text.splitlines())


def _extension(module: str) -> Path:
    spec = util.find_spec(module)
    folder = Path((spec.submodule_search_locations or [""])[0]) if spec else Path()
    return next(folder.rglob("*.duckdb_extension"))


@contextlib.contextmanager
def _download_progress(say: Say, seconds: float = 3) -> Iterator[None]:
    """Say how far the download is, every few seconds, as long as it grows."""
    from frazil.core.cache import cache_dir

    done = threading.Event()
    folder = cache_dir("ivy")

    def watch() -> None:
        last = start = _size(folder)
        while not done.wait(seconds):
            if (now := _size(folder)) != last:
                say(f"... {(now - start) / 1e6:,.0f} MB")
                last = now

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


def _size(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):
            total += path.stat().st_size if path.is_file() else 0
    return total


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
