"""Who asks the catalog is the same everywhere: in Spark's session, and in the process that plans a stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.hot.read.world import HotWorld, row

import frazil
from frazil.client import Client, ClientCredentials
from frazil.hot.read import streaming
from frazil.hot.read.connect import client_of, connected
from frazil.hot.read.stream_plan import Following

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SECRET = "s3cr3t"
_OAUTH = ClientCredentials("reader", f"{_SECRET}:with:colons", "https://idp.example/token", "lake")
_PROJECT = "00000000-0000-0000-0000-000000000000"


def _client(**options: Any) -> Client:
    return Client("http://127.0.0.1:1", warehouse="w", headers={"X-Tenant": _SECRET}, **options)


@pytest.mark.parametrize("options", [{"oauth": _OAUTH, "project": _PROJECT}, {"token": _SECRET}, {}])
def test_a_client_by_its_properties(options: dict[str, Any]) -> None:
    with _client(**options) as client, client_of(client.iceberg_properties()) as again:
        assert again.iceberg_properties() == client.iceberg_properties()
        following = Following("a.b", client.iceberg_properties(), {}, 0, 1, 1)
    assert _SECRET not in repr(following)


def test_the_catalog_of_a_session(spark: SparkSession) -> None:
    session = spark.newSession()
    with _client(oauth=_OAUTH) as client:
        wanted = client.iceberg_properties()
    # What Iceberg alone has a use for is left to it.
    others = {"header.X-Iceberg-Access-Delegation": "remote-signing", "s3.endpoint": "http://127.0.0.1:2"}
    for name, value in (wanted | others).items():
        session.conf.set(f"spark.sql.catalog.frazil.{name}", value)
    with connected(None, session) as found:
        assert found.iceberg_properties() == wanted


def test_a_stream_asks_as_its_maker_does(hot: HotWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    table = hot.table().put(row(1)).tier()
    planned: list[Following] = []
    real = streaming._source

    def source(name: str, following: Following, ddl: str) -> Any:
        planned.append(following)
        return real(name, following, ddl)

    monkeypatch.setattr(streaming, "_source", source)
    headers = {"X-Tenant": _SECRET}
    with Client(hot.server.uri, warehouse=hot.warehouse, headers=headers) as client:
        frame = frazil.read_stream(hot.spark, table.name, catalog=client)
        with planned[0].client() as again:
            assert again.iceberg_properties() == client.iceberg_properties()
    plan = frame._jdf.queryExecution().toString()
    assert _SECRET not in plan
