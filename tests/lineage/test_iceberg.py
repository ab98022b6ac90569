"""Iceberg catalogs as evidence: frazil's own server by its index, others by their snapshots."""

from __future__ import annotations

import http.server
import json
import threading
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from tests.catalog.api.client import Catalog, add_snapshot, connect, set_ref

from frazil.devstack.frazil_server import FrazilServer
from frazil.lineage.iceberg import Access, IcebergReader

JOB, OTHER = "b4183e79932aa5f9d301e1c409090bc4", "dc9e28ccd8ee7dc4cc65d4286f05d2fe"
APPLICATION = "0" * 32


def schema(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "struct", "schema-id": 0, "fields": list(fields), "identifier-field-ids": [1]}


def field(number: int, name: str, kind: Any, required: bool = False) -> dict[str, Any]:
    return {"id": number, "name": name, "type": kind, "required": required}


ADDRESS = {"type": "struct", "fields": [field(4, "city", "string"), field(5, "zip", "string")]}
TABLE = {
    "current-schema-id": 0,
    "schemas": [
        schema(field(1, "id", "long", True), field(2, "name", "string"), field(3, "address", ADDRESS))
    ],
}


class _Foreign(http.server.BaseHTTPRequestHandler):
    """A stand-in for a catalog that is not frazil's: no prefix, no nested namespaces, no index."""

    asked: list[str]

    def do_GET(self) -> None:
        self.asked.append(self.path)
        path = self.path.partition("?")[0]
        tables = {"orders": [JOB, JOB, OTHER], "customers": [OTHER, APPLICATION], "empty": []}
        name = path.rpartition("/")[2]
        if path == "/iceberg/v1/config":
            answer: Any = {"defaults": {}, "overrides": {}}
        elif path == "/iceberg/v1/namespaces":
            answer = {"namespaces": [["db"]]}
        elif path == "/iceberg/v1/namespaces/db/tables":
            answer = {"identifiers": [{"namespace": ["db"], "name": table} for table in tables]}
        elif path.startswith("/iceberg/v1/namespaces/db/tables/") and name in tables:
            snapshots = [
                {"snapshot-id": n, "summary": {"flink.job-id": job}} for n, job in enumerate(tables[name])
            ]
            answer = {"metadata": {**TABLE, "snapshots": snapshots}, "metadata-location": "x"}
        else:
            answer = None
        body = json.dumps(answer or {"error": {"message": "no", "type": "NoSuchTableException", "code": 404}})
        self.send_response(404 if answer is None else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""


@pytest.fixture
def foreign() -> Iterator[tuple[str, list[str]]]:
    asked: list[str] = []
    handler = type("Handler", (_Foreign,), {"asked": asked})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/iceberg", asked
    server.shutdown()
    thread.join()
    server.server_close()


def test_any_catalog_by_its_snapshots(foreign: tuple[str, list[str]]) -> None:
    uri, asked = foreign
    reader = IcebergReader(Access(uri, attempts=1))
    assert reader.written_by(JOB) == (("db", "orders"),)
    assert reader.written_by(OTHER) == (("db", "customers"), ("db", "orders"))
    assert reader.written_by("unknown") == ()
    assert reader.written_by(APPLICATION) == (), "it may be anybody's"
    assert reader.named("orders") == (("db", "orders"),)
    reader.close()
    assert sum(path.startswith("/iceberg/v1/namespaces/db/tables/orders") for path in asked) == 1
    assert not any("/frazil/" in path for path in asked)


def test_columns_with_those_inside_of_structs(foreign: tuple[str, list[str]]) -> None:
    reader = IcebergReader(Access(foreign[0], attempts=1))
    table = reader.table(("db", "orders"))
    assert table is not None
    assert [(column.name, column.type, column.nullable) for column in table.columns] == [
        ("id", "long", False),
        ("name", "string", True),
        ("address", "struct", True),
        ("address.city", "string", True),
        ("address.zip", "string", True),
    ]
    assert table.key == ("id",)
    assert reader.table(("db", "gone")) is None
    reader.close()


@pytest.fixture
def catalog(frazil_sqlite: FrazilServer) -> Iterator[Catalog]:
    found = connect(frazil_sqlite.port)
    yield found
    found.client.close()


def test_frazils_server_answers_from_its_index(frazil_sqlite: FrazilServer, catalog: Catalog) -> None:
    """Also of snapshots that are there no more; no table is loaded for it."""
    job, name = uuid.uuid4().hex, f"lineage{uuid.uuid4().hex[:8]}"
    catalog.create_namespace(name).ok()
    catalog.create_table((name,), "orders").ok()
    for number, summary in enumerate(({"flink.job-id": job}, {}), 1):
        added = add_snapshot(number, summary={"operation": "append", **summary})
        catalog.commit((name,), "orders", added, set_ref(number)).ok()
    catalog.commit((name,), "orders", {"action": "remove-snapshots", "snapshot-ids": [1]}).ok()
    reader = IcebergReader(Access(f"{frazil_sqlite.uri}/catalog"))
    assert reader.written_by(job) == ((name, "orders"),)
    assert reader.written_by(uuid.uuid4().hex) == ()
    table = reader.table((name, "orders"))
    assert table is not None
    assert table.columns
    reader.close()
