"""Spark with `credential`: it logs in at our token endpoint, and so does what fetches its keys."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from pyspark.sql import SparkSession
from tests.catalog.api.generic.support import wait_until
from tests.cli.running import frazil

from frazil.client import Client
from frazil.devstack.frazil_server import FrazilServer
from frazil.devstack.seaweed import ObjectStore
from frazil.devstack.sts_proxy import StsProxy
from frazil.lake.session import spark_settings

pytestmark = [pytest.mark.services, pytest.mark.jvm, pytest.mark.slow]

WAREHOUSE = "guarded"
#: So short that Iceberg fetches keys anew whenever it needs some.
KEY_SECONDS = 60


@dataclass(frozen=True)
class Guarded:
    server: FrazilServer
    #: name:secret of a client.
    credential: str

    def callers(self, operation: str) -> set[tuple[str | None, int]]:
        """Who called an operation, by the server's log, and with which status."""
        # Lines are written some time after the answers.
        wait_until(lambda: bool(self._callers(operation)), f"a line on {operation}")
        return self._callers(operation)

    def _callers(self, operation: str) -> set[tuple[str | None, int]]:
        # The last line may be half written.
        lines = self.server.log.read_text().splitlines(keepends=True)
        entries = [json.loads(line) for line in lines if line.startswith("{") and line.endswith("\n")]
        return {
            (line["principal"], line["status"])
            for line in entries
            if (line.get("operation") or "").startswith(operation)
        }


@pytest.fixture(scope="module")
def guarded(object_store: ObjectStore) -> Iterator[Guarded]:
    token = secrets.token_hex(32)
    with (
        StsProxy(object_store, KEY_SECONDS) as sts,
        FrazilServer(environment={"FRAZIL_BOOTSTRAP_TOKEN": token}) as server,
    ):
        profile, credential = object_store.warehouse_storage(
            "identity", "warehouse", **{"sts-endpoint": sts.endpoint}
        )
        with Client(server.uri, token=token) as client:
            client.warehouses.create(WAREHOUSE, profile, credential)
        made = frazil("client", "create", "etl", "--json", "--data-dir", str(server.data_dir))
        assert made.returncode == 0, made.stderr
        yield Guarded(server, f"etl:{json.loads(made.stdout)['client-secret']}")


@pytest.mark.parametrize(
    ("delegation", "operation"),
    [("vended-credentials", "load_credentials"), ("remote-signing", "sign_for_")],
)
def test_spark_logs_in_by_credential(
    guarded: Guarded, spark: SparkSession, delegation: str, operation: str
) -> None:
    name = delegation.replace("-", "_")
    properties = {
        "credential": guarded.credential,
        "header.X-Iceberg-Access-Delegation": delegation,
        "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
    }
    settings = spark_settings(guarded.server.catalog_uri, WAREHOUSE, name, properties)
    for key, value in settings.items():
        if key.startswith(f"spark.sql.catalog.{name}"):
            spark.conf.set(key, value)
    spark.sql(f"CREATE NAMESPACE {name}.ns_{name}")
    spark.sql(f"CREATE TABLE {name}.ns_{name}.t AS SELECT 1 AS id")
    spark.sql(f"INSERT INTO {name}.ns_{name}.t VALUES (2)")
    assert spark.table(f"{name}.ns_{name}.t").count() == 2
    assert guarded.callers("get_token") == {("client~etl", 200)}
    assert guarded.callers(operation) == {("client~etl", 200)}
