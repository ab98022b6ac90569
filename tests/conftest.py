"""Real services for the tests: each is started once, when the first test asks for it."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from frazil.devstack.azurite import Azurite
from frazil.devstack.connect import KafkaConnect
from frazil.devstack.frazil_server import FrazilServer
from frazil.devstack.gcs import GcsEmulator
from frazil.devstack.kafka import Kafka
from frazil.devstack.keycloak import Keycloak
from frazil.devstack.mariadb import MariaDb
from frazil.devstack.postgres import Postgres
from frazil.devstack.registry import SchemaRegistry
from frazil.devstack.seaweed import ObjectStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SERVICES = {
    "azurite",
    "connect",
    "gcs_emulator",
    "postgres",
    "postgres_url",
    "object_store",
    "frazil_sqlite",
    "frazil_postgres",
    "kafka",
    "keycloak",
    "logical",
    "mariadb",
    "postgres_source",
    "registry",
}
_JVM = {"connect", "kafka", "keycloak", "registry", "spark"}
_numbers = itertools.count(1)


def pytest_configure() -> None:
    os.environ.setdefault("SPARK_SUBMIT_OPTS", _short_lived())
    # A shell's background job is begun with it ignored, and pipelines are stopped by it.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _short_lived() -> str:
    """Options of a JVM that lives for seconds: compiling for speed would cost more than it saves.

    The archive, which `make test` writes, is of one Java and one Spark; others do as if it were not there.
    """
    archive = Path(sys.prefix) / "spark-classes.jsa"
    archived = f" -XX:SharedArchiveFile={archive} -Xlog:disable" if archive.is_file() else ""
    return f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC{archived}"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test that asks for a service is marked by that, so that none slips into `make test-fast`."""
    for item in items:
        wanted = set(getattr(item, "fixturenames", ()))
        if wanted & _SERVICES:
            item.add_marker(pytest.mark.services)
        if wanted & _JVM:
            item.add_marker(pytest.mark.jvm)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """One PostgreSQL server for the whole run; take a database of your own from `postgres_url`."""
    with Postgres(fsync=False) as server:
        yield server


@pytest.fixture
def postgres_url(postgres: Postgres) -> Iterator[Callable[[], str]]:
    """Makes a fresh, empty database at each call; all are dropped after the test."""
    names: list[str] = []

    def make() -> str:
        names.append(f"test_{os.getpid()}_{next(_numbers)}")
        return postgres.create_database(names[-1])

    yield make
    for name in names:
        postgres.drop_database(name)


@pytest.fixture(scope="session")
def object_store() -> Iterator[ObjectStore]:
    """One S3 store with STS; make a bucket of your own with `create_bucket`."""
    with ObjectStore() as store:
        yield store


def _need(*programs: str) -> None:
    missing = [name for name in programs if shutil.which(name) is None]
    if missing:
        pytest.skip(f"{' and '.join(missing)} not on this machine, which the emulator needs")


@pytest.fixture(scope="session")
def azurite() -> Iterator[Azurite]:
    """Azure's blob service, emulated; make a container of your own with `create_container`."""
    _need("node", "npm")
    with Azurite() as store:
        yield store


@pytest.fixture(scope="session")
def gcs_emulator() -> Iterator[GcsEmulator]:
    """Google Cloud Storage, emulated; make a bucket of your own with `create_bucket`."""
    _need("go")
    with GcsEmulator() as store:
        yield store


@pytest.fixture(scope="session")
def frazil_sqlite() -> Iterator[FrazilServer]:
    """A running server on SQLite with its default local warehouse."""
    with FrazilServer() as server:
        yield server


@pytest.fixture(scope="session")
def frazil_postgres(postgres: Postgres) -> Iterator[FrazilServer]:
    """A running server on PostgreSQL."""
    with FrazilServer(database_url=postgres.create_database("frazil_shared")) as server:
        yield server


@pytest.fixture(scope="session")
def kafka() -> Iterator[Kafka]:
    """A broker; make a topic of your own with `create_topic`."""
    with Kafka() as broker:
        yield broker


@pytest.fixture(scope="session")
def mariadb() -> Iterator[MariaDb]:
    """A MariaDB with the row binlog; make a database of your own with `create_database`."""
    with MariaDb(fsync=False) as server:
        yield server


@pytest.fixture(scope="session")
def postgres_source() -> Iterator[Postgres]:
    """A PostgreSQL whose changes can be decoded; make a database of your own with `create_database`."""
    with Postgres(fsync=False, logical=True) as server:
        yield server


@pytest.fixture(scope="session")
def connect(kafka: Kafka) -> Iterator[KafkaConnect]:
    """A worker with Debezium's connectors; it may be killed, if it is started again."""
    with KafkaConnect(kafka.bootstrap_servers) as worker:
        yield worker


@pytest.fixture(scope="session")
def keycloak() -> Iterator[Keycloak]:
    """An OpenID provider; make a realm of your own with `create_realm`. It takes a while to start."""
    with Keycloak() as provider:
        yield provider


@pytest.fixture(scope="session")
def registry() -> Iterator[SchemaRegistry]:
    """A schema registry; use subjects of your own with `register`."""
    with SchemaRegistry() as server:
        yield server


@pytest.fixture(scope="session")
def spark(frazil_sqlite: FrazilServer) -> Iterator[SparkSession]:
    """Spark with the catalog `frazil` on `frazil_sqlite`; others can be added with `spark.conf.set`."""
    from frazil.lake.session import spark_session, spark_settings

    session = spark_session(spark_settings(frazil_sqlite.catalog_uri), s3a=True)
    yield session
    session.stop()
