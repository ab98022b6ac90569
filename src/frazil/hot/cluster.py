"""Where hot tables live: Kafka, the catalog and Spark, from `hot.yaml` or from a `server.yaml` of Fluss."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from frazil.client import Client, ClientCredentials, Retry
from frazil.core.errors import InvalidConfig, InvalidInput
from frazil.hot.datalake import PREFIX, Datalake, read_datalake
from frazil.hot.declared.declaration import Declaration
from frazil.hot.declared.keys import FILE
from frazil.hot.declared.yaml_tables import table_of
from frazil.stream.config import build
from frazil.stream.config.build_source import plain
from frazil.stream.config.model import CatalogConfig, SparkConfig
from frazil.stream.config.nodes import Node, Place, Problems, Table
from frazil.stream.config.shapes import WRONG, Found, Setting
from frazil.stream.config.yaml import parse

BROKERS = "bootstrap.servers"
#: The brokers, for whoever has no file.
KAFKA_VARIABLE = "FRAZIL_KAFKA"
#: Of Fluss's own servers, which there are none of here: pasted with the rest, they mean nothing.
_OF_SERVERS = (
    "acl.",
    "advertised.",
    "allow.",
    "authorizer.",
    "auto-partition.",
    "azure.",
    "bind.",
    "client.",
    "config.",
    "coordinator.",
    "data.",
    "default.",
    "env.",
    "fluss.hadoop.",
    "fs.",
    "gs.",
    "internal.",
    # Not all of `kafka.`: who writes `kafka.bootstrap.servers` means our `kafka`.
    "kafka.connection.",
    "kafka.database",
    "kafka.enabled",
    "kafka.listener.",
    "kv.",
    "lake.",
    "log.",
    "max.",
    "metrics.",
    "netty.",
    "obs.",
    "oss.",
    "plugin.",
    "remote.",
    "s3.",
    "s3a.",
    "security.",
    "server.",
    "super.",
    "tablet-server.",
    "zookeeper.",
)


@dataclass(frozen=True)
class Cluster:
    """One configuration. Nothing that could be a secret is in its `repr`."""

    catalog: CatalogConfig = field(default_factory=CatalogConfig)
    #: Client settings of librdkafka.
    kafka: Mapping[str, str] = field(default_factory=dict, repr=False)
    spark: SparkConfig = field(default_factory=SparkConfig)
    tables: tuple[Declaration, ...] = ()
    oauth: ClientCredentials | None = None
    #: Sent with every request to the catalog.
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    #: More properties of Iceberg's catalog in Spark: its clients know them.
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    #: Keys of a `server.yaml` that mean nothing here.
    ignored: tuple[str, ...] = ()

    def client(self, *, retry: Retry | None = None) -> Client:
        """A client of the catalog; the caller closes it."""
        return _ClusterClient(self, retry)

    def require_brokers(self) -> Mapping[str, str]:
        """Kafka's settings; InvalidConfig if they name no broker."""
        if not self.kafka.get(BROKERS):
            raise InvalidConfig(
                f"it is not known where Kafka is: write '{BROKERS}' under 'kafka' in hot.yaml, set "
                f"{KAFKA_VARIABLE}, or give --kafka host:port"
            )
        return self.kafka


class _ClusterClient(Client):
    """Whoever opens the warehouse in Spark has it from a client, whatever command that is of."""

    def __init__(self, cluster: Cluster, retry: Retry | None) -> None:
        catalog = cluster.catalog
        super().__init__(
            catalog.uri,
            warehouse=catalog.warehouse,
            token=catalog.token,
            oauth=cluster.oauth,
            headers=cluster.headers,
            retry=retry,
        )
        self._settings = cluster.settings

    def iceberg_properties(self) -> dict[str, str]:
        return {**self._settings, **super().iceberg_properties()}


def load_cluster(
    path: str | Path | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    datalake: Mapping[str, str] | None = None,
) -> Cluster:
    """The configuration of a file, of the environment where there is none.

    `datalake`: flat keys (`datalake.iceberg.uri`) that count before those of the file.
    """
    environment = os.environ if environment is None else environment
    if path is None:
        return parse_cluster("", "the command line", environment, datalake=datalake)
    file = Path(path)
    try:
        text = file.read_text("utf-8-sig")
    except OSError as error:
        raise InvalidConfig(f"cannot read {file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InvalidConfig(f"{file} is not UTF-8 text") from None
    return parse_cluster(text, str(path), environment, datalake=datalake)


def parse_cluster(
    text: str,
    name: str = "hot.yaml",
    environment: Mapping[str, str] | None = None,
    *,
    datalake: Mapping[str, str] | None = None,
) -> Cluster:
    """The same of text, which messages call `name`."""
    problems = Problems()
    environment = os.environ if environment is None else environment
    root = parse(text, name, environment, problems)
    if root is None:
        root = Table({}, Place(name))
    own, lake, ignored = _sorted(root)
    found = FILE.read(own, problems, "the file")
    if not isinstance(found, Found):
        problems.check()
        raise AssertionError("what is no mapping is a problem")
    catalog = found.get("catalog")
    connected = _datalake(lake, datalake or {}, catalog, problems)
    tables = _tables(found.get("tables"), problems)
    problems.check()
    kafka = {BROKERS: environment[KAFKA_VARIABLE]} if environment.get(KAFKA_VARIABLE) else {}
    cluster = Cluster(
        build.catalog(catalog, environment),
        kafka | plain(found.get("kafka")),
        build.spark(found.get("spark")),
        tables,
        ignored=ignored,
    )
    if connected is None:
        return cluster
    return replace(
        cluster,
        catalog=_over(connected, cluster.catalog),
        oauth=connected.oauth,
        headers=connected.headers,
        settings=connected.settings,
    )


def _over(given: Datalake, catalog: CatalogConfig) -> CatalogConfig:
    """What flags do not say is as it would be without them."""
    own = given.catalog
    return replace(
        catalog,
        uri=own.uri or catalog.uri,
        warehouse=own.warehouse or catalog.warehouse,
        token=own.token if given.oauth is not None else own.token or catalog.token,
    )


def _sorted(root: Node) -> tuple[Node, dict[str, tuple[Place, Node]], tuple[str, ...]]:
    """Our own keys, those of `datalake.`, and the names of those that nobody needs."""
    if not isinstance(root, Table):
        return root, {}, ()
    own: dict[str, tuple[Place, Node]] = {}
    lake: dict[str, tuple[Place, Node]] = {}
    ignored = []
    for key, (place, node) in root.entries.items():
        if key == PREFIX.rstrip(".") and isinstance(node, Table):
            lake |= _flat(key, node)
        elif key.startswith(PREFIX):
            lake[key] = place, node
        elif key.startswith(_OF_SERVERS):
            ignored.append(key)
        else:
            own[key] = place, node
    return Table(own, root.place), lake, tuple(ignored)


def _flat(prefix: str, table: Table) -> dict[str, tuple[Place, Node]]:
    """`datalake: {iceberg: {uri: …}}`"""
    found: dict[str, tuple[Place, Node]] = {}
    for key, (place, node) in table.entries.items():
        name = f"{prefix}.{key}"
        found |= _flat(name, node) if isinstance(node, Table) else {name: (place, node)}
    return found


def _datalake(
    written: Mapping[str, tuple[Place, Node]],
    given: Mapping[str, str],
    catalog: Any,
    problems: Problems,
) -> Datalake | None:
    if not written and not given:
        return None
    values: dict[str, str] = {}
    for name, (place, node) in written.items():
        value = Setting().read(node, problems, name)
        if value is WRONG:
            return None
        values[name] = value
        if catalog is not None:
            problems.add(
                place, f"'{name}' and 'catalog' both say where the tables are; leave one of them out"
            )
    try:
        return read_datalake({**values, **given})
    except InvalidInput as error:
        wrong = error.message.partition(":")[0]
        place = written[wrong][0] if wrong in written and wrong not in given else Place("the command line")
        problems.add(place, error.message)
        return None


def _tables(found: Found | None, problems: Problems) -> tuple[Declaration, ...]:
    made = []
    for name, table in ({} if found is None else found.values).items():
        declared = table_of(name, table, problems)
        made += [] if declared is None else [declared]
    return tuple(made)
