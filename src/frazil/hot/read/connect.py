"""The catalog that a reader means, as a client of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

from frazil.client import Client
from frazil.stream.config.model import CatalogConfig
from frazil.stream.config.python import gather

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: An address, what stands under `catalog` in YAML, or a client that is there already.
CatalogLike: TypeAlias = str | Mapping[str, str] | CatalogConfig | Client
#: What `frazil.lake.session.spark_settings` calls the catalog.
_NAME = "frazil"


@contextmanager
def connected(catalog: CatalogLike | None, spark: SparkSession | None = None) -> Iterator[Client]:
    """A client; None: the catalog `frazil` of the Spark session, else as the environment says."""
    if isinstance(catalog, Client):
        yield catalog
        return
    if catalog is None and spark is not None:
        catalog = _of_session(spark)
    config = gather((), catalog=catalog).catalog
    with Client(config.uri, warehouse=config.warehouse, token=config.token) as client:
        yield client


def _of_session(spark: SparkSession) -> CatalogConfig | None:
    prefix = f"spark.sql.catalog.{_NAME}"
    uri = spark.conf.get(f"{prefix}.uri", None)
    if uri is None:
        return None
    address = uri.rstrip("/").removesuffix("/catalog")
    return CatalogConfig(
        address, spark.conf.get(f"{prefix}.warehouse", None), spark.conf.get(f"{prefix}.token", None)
    )
