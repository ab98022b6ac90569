"""Clients that have no keys at all: PyIceberg and Spark work through remote signing alone."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.utils.concurrent import ExecutorFactory
from tests.catalog.signing.conftest import Signed

from frazil.lake.session import spark_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HEADER = "header.X-Iceberg-Access-Delegation"


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that an SDK could find and sign with by itself."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    # With more threads PyIceberg 0.12 sends some requests unsigned (apache/iceberg-python issue 3896).
    monkeypatch.setenv("PYICEBERG_MAX_WORKERS", "1")
    monkeypatch.setattr(ExecutorFactory, "_instance", None)


def test_pyiceberg_writes_and_reads(signed: Signed) -> None:
    name = "pyiceberg"
    settings = {
        "type": "rest",
        "uri": signed.server.catalog_uri,
        "warehouse": signed.name,
        HEADER: "remote-signing",
    }
    with load_catalog("signed", **settings) as catalog:
        catalog.create_namespace(name)
        rows = pa.table({"id": [1, 2, 3], "part": ["a/b", "c d", ".."]})
        table = catalog.create_table((name, "t"), schema=rows.schema)
        assert table.io.properties["s3.remote-signing-enabled"] == "true"
        table.append(rows)
        table.delete("id = 2")
        found = catalog.load_table((name, "t")).scan().to_arrow()
        assert sorted(found["id"].to_pylist()) == [1, 3]
        with catalog.create_table_transaction((name, "staged"), schema=rows.schema) as transaction:
            transaction.append(rows)
        assert catalog.load_table((name, "staged")).scan().to_arrow().num_rows == 3


def test_pyiceberg_with_read_only_access_cannot_write(signed: Signed) -> None:
    settings = {"type": "rest", "uri": signed.server.catalog_uri, "warehouse": signed.name}
    settings[HEADER] = "remote-signing"
    rows = pa.table({"id": [1]})
    with load_catalog("signed", **settings) as catalog:
        catalog.create_namespace_if_not_exists("readers")
        catalog.create_table(("readers", "t"), schema=rows.schema).append(rows)
    with load_catalog("reader", **settings, **{"header.X-Frazil-Access": "read"}) as catalog:
        table = catalog.load_table(("readers", "t"))
        assert table.scan().to_arrow().num_rows == 1
        with pytest.raises(Exception, match="403"):
            table.append(rows)


@pytest.fixture
def recorder(signed: Signed) -> Iterator[Recorder]:
    """A proxy before the catalog that remembers what was signed."""
    with Recorder(signed.server.port) as proxy:
        yield proxy


class Recorder:
    """Passes requests on and keeps path, request and status of those to be signed."""

    def __init__(self, port: int) -> None:
        recorder = self
        self.signed: list[tuple[str, dict[str, Any], int]] = []

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def forward(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
                connection.request(self.command, self.path, body, dict(self.headers))
                answer = connection.getresponse()
                data = answer.read()
                if self.path.endswith("/sign"):
                    recorder.signed.append((self.path, json.loads(body), answer.status))
                self.send_response_only(answer.status)
                for name, value in answer.getheaders():
                    if name not in ("connection", "date"):
                        self.send_header(name, value)
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(data)
                connection.close()

            do_GET = do_POST = do_HEAD = do_DELETE = forward  # noqa: N815 (names of the library)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.uri = f"http://127.0.0.1:{self._server.server_port}/catalog"

    def __enter__(self) -> Recorder:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def test_spark_writes_reads_and_deletes(spark: SparkSession, signed: Signed, recorder: Recorder) -> None:
    for key, value in spark_settings(
        recorder.uri, signed.name, "signing", {HEADER: "remote-signing"}
    ).items():
        if key != "spark.sql.extensions":
            spark.conf.set(key, value)
    spark.sql("CREATE NAMESPACE signing.spark")
    spark.sql(
        "CREATE TABLE signing.spark.t USING iceberg PARTITIONED BY (p) "
        "TBLPROPERTIES ('format-version' = '3', 'write.merge.mode' = 'merge-on-read') "
        "AS SELECT id, IF(id % 2 = 0, 'a/../b', 'c d+%2F') AS p FROM range(6)"
    )
    spark.sql("DELETE FROM signing.spark.t WHERE id = 3")
    found = sorted(row[0] for row in spark.table("signing.spark.t").collect())
    assert found == [0, 1, 2, 4, 5]

    assert {status for _, _, status in recorder.signed} == {200}
    assert {request["method"] for _, request, _ in recorder.signed} == {"GET", "HEAD", "PUT"}
    paths = {path for path, _, _ in recorder.signed}
    assert all(path.startswith(f"/catalog/v1/signer/{signed.warehouse_id}/") for path in paths), paths
    assert any("/staged/" in path for path in paths)
    assert any("/tabular-id/" in path for path in paths)
    _delete_with_java(spark, recorder)


def _delete_with_java(spark: SparkSession, recorder: Recorder) -> None:
    """One object at a time is deleted; in bulk not on this store, which would take any body."""
    jvm: Any = spark._jvm
    table = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, "signing.spark.t")
    files = [row[0] for row in spark.sql("SELECT file_path FROM signing.spark.t.files").collect()]
    assert table.io().newInputFile(files[0]).exists()
    table.io().deleteFile(files[0])
    assert not table.io().newInputFile(files[0]).exists()
    recorder.signed.clear()
    doomed = jvm.java.util.ArrayList()
    doomed.add(files[1])
    with pytest.raises(Exception, match="BulkDeletionFailure"):
        table.io().deleteFiles(doomed)
    [(_, request, status)] = [entry for entry in recorder.signed if entry[1]["method"] == "POST"]
    key = files[1].removeprefix("s3://signed/")
    assert request["body"].count("<Key>") == 1
    assert key in request["body"]
    assert status == 403
    assert table.io().newInputFile(files[1]).exists()
