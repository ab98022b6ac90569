"""A real OpenID provider: its tokens, its keys, and the engines that log in there."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import UnauthorizedError
from pyspark.sql import SparkSession
from tests.catalog.identity.world import ask

from frazil.devstack.frazil_server import FrazilServer
from frazil.devstack.keycloak import Keycloak, Realm
from frazil.lake.session import spark_settings

pytestmark = [pytest.mark.services, pytest.mark.jvm, pytest.mark.slow]


@dataclass(frozen=True)
class Trusting:
    """A server that trusts one realm, and the secret of that realm's client `etl`."""

    keycloak: Keycloak
    server: FrazilServer
    realm: Realm
    secret: str

    def token(self) -> str:
        return self.keycloak.token(self.realm, "etl", self.secret)


@pytest.fixture(scope="module")
def trusting(keycloak: Keycloak) -> Iterator[Trusting]:
    realm = keycloak.create_realm("lake")
    secret = keycloak.create_client(realm, "etl", audience="frazil")
    environment = {"FRAZIL_OPENID_PROVIDER_URI": realm.issuer, "FRAZIL_OPENID_AUDIENCE": "frazil"}
    with FrazilServer(environment=environment) as server:
        yield Trusting(keycloak, server, realm, secret)


def test_a_real_token_passes(trusting: Trusting) -> None:
    who = ask(trusting.server, trusting.token()).ok()
    assert who["id"].startswith("oidc~")
    assert (who["name"], who["user-type"]) == ("service-account-etl", "application")
    ask(trusting.server, None).refused(401)


def test_a_token_for_another_audience_is_refused(trusting: Trusting) -> None:
    secret = trusting.keycloak.create_client(trusting.realm, "reader", audience="wiki")
    token = trusting.keycloak.token(trusting.realm, "reader", secret)
    ask(trusting.server, token).refused(401)


def test_a_token_of_another_realm_is_refused(trusting: Trusting) -> None:
    other = trusting.keycloak.create_realm("pond")
    secret = trusting.keycloak.create_client(other, "etl", audience="frazil")
    ask(trusting.server, trusting.keycloak.token(other, "etl", secret)).refused(401)


def test_a_changed_key_is_followed(trusting: Trusting) -> None:
    old = trusting.token()
    ask(trusting.server, old).ok()
    trusting.keycloak.rotate_keys(trusting.realm)
    new = trusting.token()
    # A server that has just fetched keys waits a little before it does so again.
    deadline = time.monotonic() + 120
    while ask(trusting.server, new).status != 200:
        assert time.monotonic() < deadline
        time.sleep(0.5)
    ask(trusting.server, old).refused(401)


def test_pyiceberg_logs_in_at_the_provider(trusting: Trusting) -> None:
    uri = trusting.server.catalog_uri
    login = {"oauth2-server-uri": trusting.realm.token_url, "scope": "profile"}
    credential = f"etl:{trusting.secret}"
    with load_catalog("a", type="rest", uri=uri, credential=credential, **login) as catalog:
        catalog.create_namespace("by_keycloak")
        assert ("by_keycloak",) in catalog.list_namespaces()
    with pytest.raises(UnauthorizedError):
        load_catalog("b", type="rest", uri=uri, token="wrong", **login)


def test_spark_logs_in_at_the_provider(trusting: Trusting, spark: SparkSession) -> None:
    properties = {
        "credential": f"etl:{trusting.secret}",
        "oauth2-server-uri": trusting.realm.token_url,
        "scope": "profile",
    }
    settings = spark_settings(trusting.server.catalog_uri, name="guarded", properties=properties)
    for name, value in settings.items():
        if name.startswith("spark.sql.catalog.guarded"):
            spark.conf.set(name, value)
    spark.sql("CREATE NAMESPACE guarded.by_spark")
    spark.sql("CREATE TABLE guarded.by_spark.t AS SELECT 1 AS id")
    assert spark.table("guarded.by_spark.t").count() == 1
