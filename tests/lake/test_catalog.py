"""Tables through Spark's JVM, and what goes wrong there in our words."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from tests.client.faulty import Fault, FaultyNetwork, Reply
from tests.lake.conftest import SCHEMA

from frazil.client import Client, ClientCredentials
from frazil.core.errors import (
    AlreadyExists,
    FrazilError,
    InvalidConfig,
    NoSuchTable,
    NotAllowed,
    Unauthenticated,
    Unavailable,
)
from frazil.core.partitioning import parse_partitioning
from frazil.core.schema import Field, ListType, Schema, parse_type
from frazil.devstack.frazil_server import FrazilServer
from frazil.lake.catalog import Lake
from frazil.lake.files import FileOptions
from frazil.lake.table import LakeTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECRET = "not-for-anybody-else"


@pytest.fixture
def network(frazil_sqlite: FrazilServer) -> Iterator[FaultyNetwork]:
    with FaultyNetwork(frazil_sqlite.port) as between:
        yield between


def refusal(status: int, kind: str) -> Reply:
    body = {"error": {"message": f"no: {kind}", "type": kind, "code": status}}
    return Reply(status, json.dumps(body).encode(), {"Content-Type": "application/json"})


def test_create_and_load(lake: Lake, client: Client) -> None:
    schema = Schema(
        (
            Field("id", "long", required=True, doc="the key"),
            Field("at", "timestamptz"),
            Field("tags", ListType("string")),
            Field("place", parse_type("struct<city: string, at: map<string, double>>")),
            Field("price", "decimal(10, 2)"),
        )
    )
    fields = parse_partitioning(["day(at)", "bucket(16, id)"])
    namespace = ("deep", "down", "below")
    created = lake.create(namespace, "t", schema, fields, {"owner": "me"}, format_version=3)
    loaded = lake.load(namespace, "t")
    for table in (created, loaded):
        assert table.schema == schema.with_fresh_ids()
        assert [(f.name, f.transform, f.source) for f in table.spec.fields] == [
            ("at_day", "day", "at"),
            ("id_bucket", "bucket[16]", "id"),
        ]
        assert table.properties["owner"] == "me"
        assert table.head is None
    metadata = client.tables.load(namespace, "t").metadata
    assert metadata["format-version"] == 3
    assert metadata["table-uuid"] == created.uuid == loaded.uuid
    assert metadata["location"] == created.location
    target = loaded.write_target(FileOptions(size=1))
    assert (target.location, target.options.size) == (f"{loaded.location}/data", 1)
    assert str(loaded) == "deep.down.below.t"


def test_what_cannot_be_made_or_found(lake: Lake, table: LakeTable) -> None:
    with pytest.raises(AlreadyExists, match=table.name):
        lake.create(table.namespace, table.name, SCHEMA)
    with pytest.raises(InvalidConfig, match="no column 'nothing'"):
        lake.create(table.namespace, "t", SCHEMA, parse_partitioning(["day(nothing)"]))
    for namespace, name in ((table.namespace, "nothing"), (("no", "where"), "t")):
        with pytest.raises(NoSuchTable) as raised:
            lake.load(namespace, name)
        assert "\n" not in raised.value.message


def test_a_table_tells_its_newest_state_after_a_refresh(lake: Lake, table: LakeTable) -> None:
    other = lake.load(table.namespace, table.name)
    types = lake.iceberg.types.Types
    other.java.updateSchema().addColumn("note", types.StringType.get()).commit()
    other.java.updateSpec().addField("note").commit()
    other.java.updateSchema().renameColumn("note", "remark").commit()
    other.java.updateProperties().set("owner", "you").commit()
    other.java.newAppend().commit()
    assert table.head is None
    table.refresh()
    assert [field.name for field in table.schema] == ["id", "word", "remark"]
    assert [field.source for field in table.spec.fields] == ["remark"]
    assert table.properties["owner"] == "you"
    assert table.head == other.java.currentSnapshot().snapshotId()
    assert [view.id for view in table.ancestry()] == [table.head] == [view.id for view in table.snapshots()]
    assert table.spec_ids() == {0, 1}
    assert table.snapshot(1) is None


@pytest.mark.parametrize(
    ("answer", "expected", "seconds"),
    [
        (refusal(401, "NotAuthorizedException"), Unauthenticated, 60),
        (refusal(403, "ForbiddenException"), NotAllowed, 60),
        (refusal(404, "NoSuchTableException"), NoSuchTable, 60),
        (refusal(500, "InternalServerError"), Unavailable, 60),
        (Reply(502, b"<html>"), Unavailable, 60),
        # What is answered is answered sooner than that.
        (Fault.STALL, Unavailable, 5),
    ],
    ids=["401", "403", "404", "500", "502", "no answer"],
)
def test_refusals(
    answer: Fault | Reply,
    expected: type[FrazilError],
    seconds: int,
    spark: SparkSession,
    network: FaultyNetwork,
    table: LakeTable,
) -> None:
    """Each is told in one line, by its class, and without the token."""
    with Client(network.uri, token=SECRET) as client:
        lake = Lake(spark, client, settings={"rest.client.socket-timeout-ms": f"{seconds}000"})
        far = lake.load(table.namespace, table.name)
        network.faults = [answer] * 2
        with pytest.raises(expected) as raised:
            far.refresh()
        lake.close()
    assert str(table) in raised.value.message
    assert "\n" not in raised.value.message
    assert SECRET not in f"{raised.value.message} {lake!r} {far!r} {client!r}"


def test_the_token_goes_to_the_catalog_only(spark: SparkSession, network: FaultyNetwork) -> None:
    with Client(network.uri, token=SECRET, warehouse=None, project=None) as client:
        Lake(spark, client).close()
    assert {seen.headers.get("authorization") for seen in network.seen} == {f"Bearer {SECRET}"}
    settings = spark.sparkContext.getConf().getAll()
    assert SECRET not in str(settings)
    assert SECRET not in str(spark.conf.getAll)


def test_client_credentials(spark: SparkSession, network: FaultyNetwork, table: LakeTable) -> None:
    """The JVM gets tokens of its own, where and as the client would."""
    issued = json.dumps({"access_token": "issued", "token_type": "bearer", "expires_in": 3600}).encode()
    network.faults = [Reply(200, issued, {"Content-Type": "application/json"})]
    oauth = ClientCredentials("me", SECRET, scope="lake")
    with Client(network.uri, oauth=oauth) as client:
        lake = Lake(spark, client)
        lake.load(table.namespace, table.name)
        lake.close()
    asked, *others = network.seen
    assert asked.path == "/catalog/v1/oauth/tokens"
    form = set(asked.body.decode().split("&"))
    assert {"grant_type=client_credentials", "client_id=me", f"client_secret={SECRET}", "scope=lake"} <= form
    assert {seen.headers.get("authorization") for seen in others} == {"Bearer issued"}


def test_the_properties_for_iceberg() -> None:
    elsewhere = ClientCredentials("me", SECRET, token_url="https://id.example/token")
    with Client("http://127.0.0.1:1", oauth=elsewhere, warehouse="w", project="p") as client:
        found = client.iceberg_properties()
        assert client.at("other").iceberg_properties()["warehouse"] == "other"
    assert found["oauth2-server-uri"] == "https://id.example/token"
    # Else Iceberg asks for the scope `catalog`, which most providers do not know.
    assert found["scope"] == ""
    assert (found["warehouse"], found["header.X-Project-Id"]) == ("w", "p")
    assert SECRET not in repr(client)


PROGRAM = """
import os, signal, sys
from frazil.client import Client
from frazil.core.errors import ServiceError
from frazil.lake.catalog import Lake
from frazil.lake.session import spark_session
uri, name = sys.argv[1:]
spark = spark_session({})
lake = Lake(spark, Client(uri))
table = lake.load(("lake",), name)
os.kill(int(spark._jvm.java.lang.ProcessHandle.current().pid()), signal.SIGKILL)
for call in (table.refresh, lambda: lake.load(("lake",), name)):
    try:
        call()
    except ServiceError as error:
        print("told:", error.message)
os._exit(0)
"""


@pytest.mark.slow
def test_a_jvm_that_was_killed(frazil_sqlite: FrazilServer, table: LakeTable) -> None:
    answer = subprocess.run(
        [sys.executable, "-c", PROGRAM, frazil_sqlite.uri, table.name],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert answer.stdout.count("Spark's JVM ended. Nothing is lost") == 2, answer.stdout + answer.stderr
