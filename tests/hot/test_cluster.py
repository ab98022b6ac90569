"""`hot.yaml`, and a `server.yaml` of Fluss in its place."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from frazil.cli.main import cli
from frazil.client import Client
from frazil.core.errors import FrazilError, InvalidConfig
from frazil.devstack.frazil_server import FrazilServer
from frazil.hot import declare
from frazil.hot.cluster import load_cluster, parse_cluster
from frazil.hot.datalake import read_datalake
from frazil.hot.declared.ddl import parse_ddl
from frazil.hot.tiering.service import Tiering
from frazil.lake.session import is_secret, use_catalog
from frazil.stream.events import Event

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SERVER = """\
zookeeper.address: localhost:2181
bind.listeners: FLUSS://localhost:9123
datalake.format: iceberg
datalake.iceberg.type: rest
datalake.iceberg.uri: http://lakekeeper:8181/catalog
datalake.iceberg.warehouse: lake
# Optional: pass additional REST catalog properties
datalake.iceberg.header.Authorization: Bearer very-secret-token
datalake.iceberg.header.X-Tenant: other-secret
datalake.iceberg.io-impl: org.apache.iceberg.aws.s3.S3FileIO
datalake.iceberg.s3.secret-access-key: third-secret
"""
#: One of each kind that Fluss's page on its configuration and those on file systems have.
OF_SERVERS = [
    "acl.notification.expiration-time",
    "advertised.listeners",
    "allow.create.kv.tables",
    "allow.create.log.tables",
    "authorizer.enabled",
    "auto-partition.check.interval",
    "azure.account.key",
    "bind.listeners",
    "client.writer.kv-backpressure.max-throttle",
    "config.providers",
    "coordinator.io-pool.size",
    "data.dir",
    "default.bucket.number",
    "env.java.home",
    "env.java.opts.all",
    "env.java.opts.tablet-server",
    "env.pid.dir",
    "fluss.hadoop.dfs.nameservices",
    "fs.azure.account.key",
    "fs.cosn.userinfo.secretKey",
    "fs.gs.auth.service.account.json.keyfile",
    "fs.obs.secret.key",
    "fs.oss.accessKeySecret",
    "fs.s3a.secret.key",
    "gs.auth.type",
    "internal.listener.name",
    "kafka.connection.max-idle-time",
    "kafka.database",
    "kafka.enabled",
    "kafka.listener.names",
    "kv.rocksdb.thread.num",
    "lake.tiering.auto-expire-snapshot",
    "log.segment.file-size",
    "max.bucket.num",
    "max.partition.num",
    "metrics.reporters",
    "netty.server.num-network-threads",
    "obs.secret.key",
    "oss.accessKeySecret",
    "plugin.classloader.parent-first-patterns.additional",
    "remote.data.dir",
    "s3.access-key",
    "s3.endpoint",
    "s3.path-style-access",
    "s3.secret-key",
    "s3a.secret.key",
    "security.sasl.enabled.mechanisms",
    "server.io-pool.size",
    "super.users",
    "tablet-server.id",
    "zookeeper.address",
]
HOT = """\
kafka: {bootstrap.servers: "broker:9092", sasl.password: "${SASL}"}
catalog: {uri: "http://localhost:8181/catalog", warehouse: lake, token: "${TOKEN}"}
spark: {master: "local[2]"}
tables:
  shop.orders:
    columns:
      order_id: long
      customer_id: int required
      total_price: decimal(15, 2)
      order_date: date
      status: {type: string, doc: of the order}
    key: order_id
    freshness: 30s
    enabled: yes
    buckets: 4
    partitioning: [day(order_date)]
"""
SECRETS = {"SASL": "hush-hush", "TOKEN": "tok-en-tok-en"}


def test_a_server_yaml_can_be_pasted() -> None:
    cluster = parse_cluster(SERVER, environment={})
    assert (cluster.catalog.uri, cluster.catalog.warehouse) == ("http://lakekeeper:8181", "lake")
    assert cluster.catalog.token == "very-secret-token"
    assert cluster.headers == {"X-Tenant": "other-secret"}
    assert cluster.settings == {
        "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        "s3.secret-access-key": "third-secret",
    }
    assert cluster.ignored == ("zookeeper.address", "bind.listeners")
    assert "secret" not in repr(cluster)
    with cluster.client() as client:
        assert client.iceberg_properties()["header.X-Tenant"] == "other-secret"
        assert client.iceberg_properties()["io-impl"] == "org.apache.iceberg.aws.s3.S3FileIO"
        assert "secret" not in repr(client)


def test_keys_of_stores_are_shown_nowhere() -> None:
    """They go into settings of a session."""
    names = (
        "s3.secret-access-key",
        "s3.session-token",
        "gcs.oauth2.token",
        "adls.sas-token.me",
        "adls.auth.shared-key.account.key",
        "adls.connection-string.me",
    )
    assert [name for name in names if not is_secret(f"spark.sql.catalog.lake.{name}")] == []


def test_keys_of_fluss_servers_change_nothing() -> None:
    pasted = "".join(f"{name}: hidden\n" for name in OF_SERVERS)
    cluster = parse_cluster(f"{pasted}kafka: {{bootstrap.servers: 'broker:9092'}}", environment={})
    assert cluster.ignored == tuple(OF_SERVERS)
    assert cluster.kafka == {"bootstrap.servers": "broker:9092"}
    assert "hidden" not in repr(cluster)


def test_nested_and_given_keys() -> None:
    nested = parse_cluster(
        "datalake: {format: iceberg, iceberg: {uri: 'http://a:1', type: rest}}", environment={}
    )
    assert nested.catalog.uri == "http://a:1"
    given = parse_cluster(SERVER, environment={}, datalake={"datalake.iceberg.uri": "http://b:2/catalog"})
    assert (given.catalog.uri, given.catalog.warehouse) == ("http://b:2", "lake")
    flags = load_cluster(
        environment={"FRAZIL_KAFKA": "k:9", "FRAZIL_WAREHOUSE": "w"},
        datalake={"datalake.iceberg.uri": "http://b:2"},
    )
    assert (flags.catalog.warehouse, flags.require_brokers()) == ("w", {"bootstrap.servers": "k:9"})


def test_what_flags_do_not_say_is_as_in_the_file() -> None:
    file = "catalog: {uri: 'http://a:1', warehouse: prod, token: tok, name: ours}"
    for given, expected in (
        ({"datalake.format": "iceberg"}, ("http://a:1", "prod", "tok")),
        ({"datalake.iceberg.uri": "http://b:2/catalog"}, ("http://b:2", "prod", "tok")),
        ({"datalake.iceberg.warehouse": "test"}, ("http://a:1", "test", "tok")),
        ({"datalake.iceberg.token": "other"}, ("http://a:1", "prod", "other")),
        ({"datalake.iceberg.credential": "me:hidden"}, ("http://a:1", "prod", None)),
    ):
        catalog = parse_cluster(file, environment={}, datalake=given).catalog
        assert (catalog.uri, catalog.warehouse, catalog.token) == expected
        assert catalog.name == "ours"


def test_client_credentials_and_their_secret() -> None:
    found = read_datalake(
        {
            "datalake.iceberg.credential": "me:hidden",
            "datalake.iceberg.oauth2-server-uri": "https://id/token",
            "datalake.iceberg.scope": "lake",
        }
    )
    assert found.oauth is not None
    assert (found.oauth.client_id, found.oauth.client_secret, found.oauth.scope) == ("me", "hidden", "lake")
    assert (found.settings, "hidden" in repr(found)) == ({}, False)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("datalake.format: paimon", "hot.yaml:1:1: datalake.format: 'paimon' is not legal; legal: iceberg"),
        (
            "datalake.iceberg.type: hive",
            "hot.yaml:1:1: datalake.iceberg.type: 'hive' is not legal; legal: rest",
        ),
        ("datalake.iceberg.catalog-impl: a.B", "RESTCatalog alone"),
        ("datalake.iceberg.uri: localhost", "datalake.iceberg.uri: the server's URI"),
        ("datalake.paimon.metastore: hive", "datalake.paimon.metastore: unknown"),
        ("datalake.iceberg.header.Authorization: Basic aGlkZGVu", "legal is 'Bearer' and a token"),
        ("datalake.iceberg.credential: aGlkZGVu", "legal is id:secret"),
        ("datalake.iceberg.uri: http://a\ncatalog: {}", "both say where the tables are"),
        ("datalake.iceberg.uri: [http://a]", "datalake.iceberg.uri is a list"),
        ("kafkas: {}", "unknown key 'kafkas' in the file; did you mean 'kafka'?"),
        ("kafka.bootstrap.servers: a:1", "unknown key 'kafka.bootstrap.servers' in the file"),
        ("bootstrap.servers: a:1", "unknown key 'bootstrap.servers' in the file"),
        ("catalog.uri: http://a", "unknown key 'catalog.uri' in the file"),
        ("kafka: {acks: 1}", "no row may be lost"),
        ("kafka: {group.id: x}", "the Kafka setting 'group.id' is frazil's own"),
        ("tables: {orders: {columns: {a: int}}}", "write namespace.name"),
        ("tables: {a.b: {columns: {a: int}, keys: a}}", "did you mean 'key'?"),
        ("tables: {a.b: {key: a}}", "table 'a.b' lacks 'columns'"),
        (
            "tables: {a.b: {columns: {a: int}, key: b}}",
            "hot.yaml:1:15: table 'a.b': the primary key: there is no",
        ),
        ("tables: {a.b: {columns: {a: number}}}", "'number' is no type"),
        ("tables: {a.b: {columns: {a: time}}}", "Spark cannot open a table with a time of day"),
        ("tables: {a.b: {columns: {a: 'map<int, int>'}}}", "the keys of a map are strings"),
        ("tables: {a.b: {columns: {a: int}, freshness: soon}}", "'soon' is no duration"),
        ("tables: {a.b: {columns: {a: int}, dead_letters: a.b}}", "is the table itself"),
        ("tables: {a.b: {columns: {a: int}, properties: {frazil.hot: x}}}", "setting of its own"),
        ("tables: {a.b: {columns: {}}}", "there are no columns"),
    ],
)
def test_what_is_refused(line: str, message: str) -> None:
    with pytest.raises(InvalidConfig) as refused:
        parse_cluster(line, environment={})
    assert message in refused.value.message
    assert "aGlkZGVu" not in refused.value.message


def test_a_file_with_tables(tmp_path: Path) -> None:
    file = tmp_path / "hot.yaml"
    file.write_text(HOT)
    cluster = load_cluster(file, environment=SECRETS)
    assert cluster.kafka == {"bootstrap.servers": "broker:9092", "sasl.password": "hush-hush"}
    assert not any(secret in repr(cluster) for secret in SECRETS.values())
    (orders,) = cluster.tables
    assert (str(orders), orders.key, orders.buckets) == ("shop.orders", ("order_id",), 4)
    assert orders.options == {
        "table.datalake.freshness": "30s",
        "table.datalake.enabled": "true",
        "bucket.num": "4",
    }
    assert [one.name for one in orders.columns if one.required] == ["order_id", "customer_id"]
    assert [one.transform for one in orders.partitioning] == ["day"]


def test_sql_yaml_and_python_are_one_form() -> None:
    sql = """CREATE TABLE shop.orders (order_id BIGINT, customer_id INT NOT NULL, total_price DECIMAL(15, 2),
    order_date DATE, status STRING COMMENT 'of the order', PRIMARY KEY (order_id) NOT ENFORCED)
    WITH ('table.datalake.freshness' = '30s', 'table.datalake.enabled' = 'true', 'bucket.num' = '4')"""
    (statement,) = parse_ddl(sql).tables
    (yaml,) = parse_cluster(
        HOT.replace("    partitioning: [day(order_date)]\n", ""), environment=SECRETS
    ).tables
    python = declare(
        "shop.orders",
        columns={
            "order_id": "long",
            "customer_id": {"type": "int", "required": True},
            "total_price": "decimal(15, 2)",
            "order_date": "date",
            "status": {"type": "string", "doc": "of the order"},
        },
        key=["order_id"],
        freshness="30s",
        enabled=True,
        buckets=4,
    )
    assert statement.table == yaml == python


def test_python_says_what_is_wrong() -> None:
    with pytest.raises(InvalidConfig, match=r"declare\('shop.t'\).*there is no column 'b'; there are: a"):
        declare("shop.t", columns={"a": "int"}, key="b")
    with pytest.raises(InvalidConfig, match="unknown key 'bucket'"):
        declare("shop.t", columns={"a": "int"}, bucket=3)  # type: ignore[call-arg]


def test_no_brokers() -> None:
    with pytest.raises(InvalidConfig, match="FRAZIL_KAFKA, or give --kafka host:port"):
        load_cluster(environment={}).require_brokers()


class Quiet:
    def notify(self, event: Event) -> None:
        """Nobody listens."""


def _tiered(file: Path, spark: SparkSession) -> None:
    for error in Tiering(load_cluster(file), spark, observer=Quiet(), once=True).run().values():
        raise error


def _command(*arguments: str) -> Callable[[Path, SparkSession], None]:
    def run(file: Path, spark: SparkSession) -> None:
        given = [*arguments, "--config", str(file)]
        CliRunner().invoke(cli, given, catch_exceptions=False, standalone_mode=False)

    return run


WORKS = {
    "sql": _command("sql", "SELECT * FROM pasted.t", "--engine", "spark"),
    "correct": _command("correct", "pasted.t", "--where", "id = 1", "--sql", "SELECT 1 AS id"),
    "tier": _tiered,
}


@pytest.mark.parametrize("work", WORKS.values(), ids=WORKS)
def test_other_settings_of_icebergs_catalog_reach_it(
    work: Callable[[Path, SparkSession], None],
    spark: SparkSession,
    frazil_sqlite: FrazilServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Iceberg alone knows this one, and what it takes."""
    with Client(frazil_sqlite.uri) as client:
        use_catalog(spark, "pasted", client)
    spark.sql("CREATE NAMESPACE IF NOT EXISTS pasted.pasted")
    spark.sql("CREATE OR REPLACE TABLE pasted.pasted.t AS SELECT 1 AS id")
    monkeypatch.setattr("frazil.cli.clusters.quiet_spark", lambda _config: nullcontext(spark))
    file = tmp_path / "server.yaml"
    file.write_text(
        f"datalake.iceberg.uri: {frazil_sqlite.catalog_uri}\n"
        "datalake.iceberg.rest.client.socket-timeout-ms: soon\n"
        "kafka: {bootstrap.servers: '127.0.0.1:1'}\n"
    )
    with pytest.raises((FrazilError, _java_error()), match='For input string: "soon"'):
        work(file, spark)


def _java_error() -> type[Exception]:
    from pyspark.errors import PySparkException

    return PySparkException
