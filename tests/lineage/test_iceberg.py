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
from frazil.lineage.flink.config import flink_config
from frazil.lineage.flink.resolve.snapshots import IcebergCatalogs
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
    #: Answers in the place of others, by path.
    instead: dict[str, tuple[int, Any]]

    def do_GET(self) -> None:
        self.asked.append(self.path)
        path = self.path.partition("?")[0]
        tables = {"orders": [JOB, JOB, OTHER], "customers": [OTHER, APPLICATION], "empty": []}
        name = path.rpartition("/")[2]
        if (told := self.instead.get(path.removeprefix("/iceberg/v1/"))) is not None:
            self._send(*told)
            return
        if path == "/iceberg/v1/config":
            answer: Any = {"defaults": {}, "overrides": {}}
        elif path == "/iceberg/v1/namespaces":
            answer = {"namespaces": [["db"]]}
        elif path == "/iceberg/v1/namespaces/db/tables":
            answer = {"identifiers": [{"namespace": ["db"], "name": table} for table in tables]}
        elif path.startswith("/iceberg/v1/namespaces/db/tables/") and name in tables:
            snapshots = [
                {"snapshot-id": n, "timestamp-ms": 1000 + n, "summary": {"flink.job-id": job}}
                for n, job in enumerate(tables[name])
            ]
            answer = {"metadata": {**TABLE, "snapshots": snapshots}, "metadata-location": "x"}
        else:
            answer = None
        nothing = {"error": {"message": "no", "type": "NoSuchTableException", "code": 404}}
        self._send(404 if answer is None else 200, answer or nothing)

    def _send(self, status: int, answer: Any) -> None:
        body = json.dumps(answer)
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""


@pytest.fixture
def instead() -> dict[str, tuple[int, Any]]:
    return {}


@pytest.fixture
def foreign(instead: dict[str, tuple[int, Any]]) -> Iterator[tuple[str, list[str]]]:
    asked: list[str] = []
    handler = type("Handler", (_Foreign,), {"asked": asked, "instead": instead})
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


def test_what_a_job_of_that_id_wrote_before_it_began_does_not_count(foreign: tuple[str, list[str]]) -> None:
    """The id may be that of the version before."""
    reader = IcebergReader(Access(foreign[0], attempts=1))
    assert reader.written_by(OTHER, 1000) == (("db", "customers"), ("db", "orders"))
    assert reader.written_by(OTHER, 1002) == (("db", "orders"),)
    assert reader.written_by(OTHER, 1003) == ()
    reader.close()


FORBIDDEN = (403, {"error": {"message": "no", "type": "ForbiddenException", "code": 403}})
UNREAD = {
    "forbidden": (FORBIDDEN, "may not be read (403)"),
    "no name": ((200, {"metadata": {"schemas": [schema({"id": 1, "type": "long"})]}}), "KeyError: 'name'"),
    "no time": (
        (200, {"metadata": {**TABLE, "snapshots": [{"summary": {"flink.job-id": JOB}}]}}),
        "KeyError: 'timestamp-ms'",
    ),
    "no metadata": ((200, {"metadata": []}), "cannot be read"),
}


def catalogs_at(uri: str, told: list[str]) -> IcebergCatalogs:
    settings = {"connection": {"rest_api_url": "http://h"}, "iceberg_catalogs": {"ice": {"uri": uri}}}
    config = flink_config(settings)
    return IcebergCatalogs(config.iceberg_catalogs, config.connection, told.append)


@pytest.mark.parametrize(("answer", "says"), UNREAD.values(), ids=UNREAD)
def test_a_table_that_cannot_be_read_is_told_once_and_the_others_are_read(
    foreign: tuple[str, list[str]], instead: dict[str, tuple[int, Any]], answer: tuple[int, Any], says: str
) -> None:
    instead["namespaces/db/tables/customers"] = answer
    told: list[str] = []
    catalogs = catalogs_at(foreign[0], told)
    assert [found.named.name for found in catalogs.written_by(OTHER, None)] == ["db.orders"]
    assert catalogs.at(("ice", "db", "customers")) is None
    orders = catalogs.at(("ice", "db", "orders"))
    assert orders is not None
    assert orders.columns == ("id", "name", "address")
    catalogs.close()
    (message,) = told
    assert message.startswith("iceberg_catalogs.ice: the table db.customers ")
    assert says in message


def test_a_table_that_may_not_be_read_is_not_asked_for_again(
    foreign: tuple[str, list[str]], instead: dict[str, tuple[int, Any]]
) -> None:
    instead["namespaces/db/tables/customers"] = FORBIDDEN
    told: list[str] = []
    catalogs = catalogs_at(foreign[0], told)
    for _ in range(2):
        assert catalogs.at(("ice", "db", "customers")) is None
        assert [found.named.name for found in catalogs.written_by(OTHER, None)] == ["db.orders"]
    catalogs.close()
    assert len(told) == 1
    assert sum(path.partition("?")[0].endswith("/customers") for path in foreign[1]) == 1


@pytest.mark.parametrize("path", ["config", "namespaces", "namespaces/db/tables"])
def test_a_catalog_that_may_not_be_read_is_told_once(
    foreign: tuple[str, list[str]], instead: dict[str, tuple[int, Any]], path: str
) -> None:
    instead[path] = FORBIDDEN
    told: list[str] = []
    catalogs = catalogs_at(foreign[0], told)
    for _ in range(2):
        by_name = catalogs.at(("ice", "db", "orders"))
        assert catalogs.written_by(JOB, None) == []
        assert by_name is None or path != "config", "of a catalog that answers nothing, nothing is known"
    assert catalogs.at(("ice", "db", "orders")) is None
    catalogs.close()
    (message,) = told
    assert message.startswith(f"iceberg_catalogs.ice at {foreign[0]}: ")


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
    assert reader.written_by(job, 2**53) == (), "it was all before that"
    assert reader.written_by(uuid.uuid4().hex) == ()
    table = reader.table((name, "orders"))
    assert table is not None
    assert table.columns
    reader.close()
