"""The catalog that a reader means, as a client of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

from frazil.client import Client
from frazil.client.access import DELEGATION
from frazil.hot.datalake import PREFIX, read_datalake
from frazil.stream.config.model import CatalogConfig
from frazil.stream.config.python import gather

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: An address, what stands under `catalog` in YAML, or a client that is there already.
CatalogLike: TypeAlias = str | Mapping[str, str] | CatalogConfig | Client
#: What `frazil.lake.session.spark_settings` calls the catalog.
_NAME = "frazil"
_WHO = ("uri", "warehouse", "token", "credential", "oauth2-server-uri", "scope")
_DELEGATION = f"header.{DELEGATION}".lower()


@contextmanager
def connected(catalog: CatalogLike | None, spark: SparkSession | None = None) -> Iterator[Client]:
    """A client; None: the catalog `frazil` of the Spark session, else as the environment says."""
    if isinstance(catalog, Client):
        yield catalog
        return
    session = _of_session(spark) if catalog is None and spark is not None else {}
    if session:
        made = client_of(session)
    else:
        config = gather((), catalog=catalog).catalog
        made = Client(config.uri, warehouse=config.warehouse, token=config.token)
    with made as client:
        yield client


def client_of(properties: Mapping[str, str]) -> Client:
    """By properties of Iceberg's REST catalog, such as `Client.iceberg_properties` gives."""
    known = read_datalake({f"{PREFIX}iceberg.{name}": value for name, value in properties.items()})
    return Client(
        known.catalog.uri,
        warehouse=known.catalog.warehouse,
        token=known.catalog.token,
        oauth=known.oauth,
        headers=known.headers,
    )


def _of_session(spark: SparkSession) -> dict[str, str]:
    """Where its catalog is and who asks; nothing if it has none."""
    prefix = f"spark.sql.catalog.{_NAME}."
    given = {
        name.removeprefix(prefix): value
        for name, value in spark.conf.getAll.items()
        if name.startswith(prefix)
    }
    if "uri" not in given:
        return {}
    # Keys of storage are asked for where files are read.
    return {
        name: value
        for name, value in given.items()
        if name in _WHO or (name.startswith("header.") and name.lower() != _DELEGATION)
    }
