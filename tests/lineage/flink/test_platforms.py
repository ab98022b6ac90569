from __future__ import annotations

import pytest
from datahub.ingestion.source.azure.abs_utils import make_abs_urn

from frazil.lineage.datahub.urns import dataset_urn
from frazil.lineage.flink.patterns import KNOWN
from frazil.lineage.flink.resolve.platforms import Named, Unclear, of_catalog, of_table
from frazil.lineage.model import Dataset

PATH = ("default_catalog", "default_database", "t")


@pytest.mark.parametrize(
    ("options", "dataset"),
    [
        ({"connector": "kafka", "topic": "orders"}, "kafka:orders"),
        ({"connector": "upsert-kafka", "topic": "orders"}, "kafka:orders"),
        (
            {"connector": "jdbc", "url": "jdbc:postgresql://h:5432/shop", "table-name": "users"},
            "postgres:shop.public.users",
        ),
        (
            {"connector": "jdbc", "url": "jdbc:postgresql://h/shop?currentSchema=inv", "table-name": "users"},
            "postgres:shop.inv.users",
        ),
        (
            {"connector": "jdbc", "url": "jdbc:postgresql://h/shop", "table-name": "inv.users"},
            "postgres:shop.inv.users",
        ),
        (
            {"connector": "jdbc", "url": "jdbc:postgresql://h/shop", "table-name": 'Inv."Users.x""y"'},
            'postgres:shop.inv.Users.x"y',
        ),
        (
            {"connector": "jdbc", "url": "jdbc:postgresql:Shop?currentSchema=Inv", "table-name": "USERS"},
            "postgres:Shop.inv.users",
        ),
        (
            {"connector": "jdbc", "url": "jdbc:postgresql://h/shop", "table-name": "shop.inv.users"},
            "postgres:shop.inv.users",
        ),
        (
            {"connector": "jdbc", "url": "jdbc:mysql://h/shop", "table-name": "Users"},
            "mysql:shop.Users",
        ),
        (
            {"connector": "jdbc", "url": "jdbc:mysql://h:3306/shop?useSSL=false", "table-name": "users"},
            "mysql:shop.users",
        ),
        ({"connector": "jdbc", "url": "jdbc:mariadb://h/shop", "table-name": "users"}, "mariadb:shop.users"),
        (
            {"connector": "jdbc", "url": "jdbc:mysql:loadbalance://h1,h2/shop/", "table-name": "users"},
            "mysql:shop.users",
        ),
        (
            {"connector": "jdbc", "url": "jdbc:mysql:replication://[h1:1,h2:2]/shop", "table-name": "users"},
            "mysql:shop.users",
        ),
        (
            {
                "connector": "jdbc",
                "url": "jdbc:sqlserver://h;databaseName=shop;encrypt=true",
                "table-name": "users",
            },
            "mssql:shop.dbo.users",
        ),
        (
            {"connector": "jdbc", "url": "jdbc:sqlserver://h:1433;database=shop", "table-name": "users"},
            "mssql:shop.dbo.users",
        ),
        (
            {
                "connector": "jdbc",
                "url": "jdbc:sqlserver://h;DataBaseName={my shop};password={;database=x};encrypt=true",
                "table-name": "inv.users",
            },
            "mssql:my shop.inv.users",
        ),
        (
            {
                "connector": "jdbc",
                "url": "jdbc:sqlserver://h;database=a;databaseName=a;database=b",
                "table-name": "users",
            },
            "mssql:b.dbo.users",
        ),
        (
            {"connector": "jdbc", "url": "jdbc:oracle:thin:@h:1521:orcl", "table-name": "SHOP.ORDERS"},
            "oracle:shop.orders",
        ),
        (
            {
                "connector": "jdbc",
                "url": "jdbc:oracle:thin:@//h:1521/orcl",
                "table-name": "orders",
                "username": "Shop",
            },
            "oracle:shop.orders",
        ),
        (
            {
                "connector": "oracle-cdc",
                "database-name": "ORCL",
                "schema-name": "SHOP",
                "table-name": "ORDERS",
            },
            "oracle:shop.orders",
        ),
        ({"connector": "filesystem", "path": "abfss://box@me.dfs.core.windows.net/a/b/"}, "abs:box/a/b"),
        ({"connector": "filesystem", "path": "wasbs://box@me.blob.core.windows.net/a"}, "abs:box/a"),
        ({"connector": "filesystem", "path": "s3a://bucket/a/b/"}, "s3:bucket/a/b"),
        ({"connector": "filesystem", "path": "hdfs://nn:8020/a/b"}, "hdfs:/a/b"),
        ({"connector": "filesystem", "path": "/a/b"}, "file:/a/b"),
        ({"connector": "iceberg", "catalog-database": "db", "catalog-table": "x"}, "iceberg:db.x"),
        ({"connector": "iceberg", "catalog-database": "db", "base-namespace": "a.b"}, "iceberg:a.b.db.t"),
        ({"connector": "elasticsearch-7", "index": "users"}, "elasticsearch:users"),
        ({"connector": "mongodb", "database": "d", "collection": "c"}, "mongodb:d.c"),
        (
            {"connector": "postgres-cdc", "database-name": "d", "schema-name": "s", "table-name": "t"},
            "postgres:d.s.t",
        ),
        (
            {"connector": "kinesis", "stream.arn": "arn:aws:kinesis:eu-west-1:1:stream/clicks"},
            "kinesis:clicks",
        ),
        ({"connector": "print"}, "print:default_database.t"),
        # Before 1.20, without a connector.
        ({"write.format.default": "parquet"}, "iceberg:default_database.t"),
        ({"path": "file:/w/default_database.db/t", "bucket": "1"}, "paimon:default_database.t"),
        (
            {"path": "file:/w/default_database.db/t", "commit.force-compact": "true"},
            "paimon:default_database.t",
        ),
        ({"commit.retry.num-retries": "9"}, "iceberg:default_database.t"),
    ],
)
def test_connectors(options: dict[str, str], dataset: str) -> None:
    platform, _, name = dataset.partition(":")
    assert of_table(options, PATH) == Named(platform, name)


@pytest.mark.parametrize(
    "options",
    [
        {"connector": "kafka", "topic": "a;b"},
        {"connector": "kafka", "topic-pattern": "a.*"},
        {"connector": "mysql-cdc", "database-name": "shop", "table-name": "orders_.*"},
        {"connector": "jdbc", "url": "jdbc:nuodb://h/d", "table-name": "t"},
        {"connector": "jdbc", "url": "jdbc:db2://h:50000/shop:user=me;", "table-name": "t"},
        {"connector": "jdbc", "url": "jdbc:postgresql://h/shop?currentSchema=a,b", "table-name": "t"},
        {"connector": "jdbc", "url": "jdbc:postgresql://h/d?options=-csearch_path%3Da", "table-name": "t"},
        {"connector": "jdbc", "url": "jdbc:postgresql://h:5432/", "table-name": "users"},
        {"connector": "jdbc", "url": "jdbc:mysql://h:3306", "table-name": "users"},
        {"connector": "jdbc", "url": "jdbc:snowflake://a.example/?db=shop", "table-name": "users"},
        {"connector": "jdbc", "url": "jdbc:postgresql://h/shop", "table-name": "(SELECT 1) AS t"},
        {"connector": "elasticsearch-7", "index": "users-{ts|yyyy-MM}"},
        {"connector": "of-my-own"},
        {"connector": "jdbc", "url": "jdbc:sqlserver://h:1433;encrypt=true", "table-name": "users"},
        {"connector": "jdbc", "url": "jdbc:oracle:thin:@h:1521:orcl", "table-name": "ORDERS"},
        {"connector": "oracle-cdc", "database-name": "ORCL", "table-name": "ORDERS"},
        {"connector": "filesystem", "path": "abfss://me.dfs.core.windows.net/a"},
    ],
)
def test_what_is_not_one_dataset_is_not_guessed(options: dict[str, str]) -> None:
    assert isinstance(of_table(options, PATH), Unclear)


def test_azures_names_are_those_of_datahubs_own_source() -> None:
    path = "box/lake/clicks"
    named = of_table({"connector": "filesystem", "path": f"abfss://{path.replace('/', '@me.d/', 1)}"}, PATH)
    assert isinstance(named, Named)
    assert make_abs_urn(f"https://account.blob.core.windows.net/{path}", "PROD") == str(
        dataset_urn(Dataset(named.platform, named.name))
    )


def test_no_connector_and_no_properties_that_tell() -> None:
    assert of_table({"comment": "x"}, PATH) is None
    assert of_table({"commit.force-compact": "true"}, PATH) is None, "it is Paimon's, but no path says so"


def test_catalogs() -> None:
    path = ("c", "mydb", "public.users")
    assert of_catalog("jdbc", {"base-url": "jdbc:postgresql://h:5432"}, path) == Named(
        "postgres", "mydb.public.users"
    )
    assert of_catalog("jdbc", {"base-url": "jdbc:mysql://h"}, ("c", "d", "t")) == Named("mysql", "d.t")
    assert of_catalog("iceberg", {}, ("c", "lake", "events")) == Named("iceberg", "lake.events")
    assert of_catalog("iceberg", {"base-namespace": "prod"}, ("c", "lake", "events")) == Named(
        "iceberg", "prod.lake.events"
    )
    assert of_catalog("paimon", {}, ("c", "lake", "events")) == Named("paimon", "lake.events")
    assert of_catalog("hive", {}, ("c", "lake", "events")) is None
    assert of_catalog("generic_in_memory", {}, ("c", "lake", "events")) is None


@pytest.mark.parametrize(
    ("operator", "found"),
    [
        ("Source: KafkaSource-my.topic", ("kafka", "my.topic")),
        ("KafkaSink-out: Writer", ("kafka", "out")),
        ("KafkaSink-out[3]: Writer", ("kafka", "out")),
        ("Source: KinesisStreamsSource-clicks", ("kinesis", "clicks")),
        ("KinesisStreamsSink-clicks: Writer", ("kinesis", "clicks")),
        ("KinesisSink-clicks[2]: Writer", ("kinesis", "clicks")),
        ("Source: FlinkKinesisConsumer-clicks -> Map", ("kinesis", "clicks")),
        ("Source: PulsarSource-persistent://t/n/topic", ("pulsar", "persistent://t/n/topic")),
        ("PulsarSink-persistent://t/n/topic: Writer", ("pulsar", "persistent://t/n/topic")),
        ("Sink: RMQSink-queue", ("rabbitmq", "queue")),
        ("Source: RMQSource-queue", ("rabbitmq", "queue")),
        ("Source: RabbitMQSource-my.queue", ("rabbitmq", "my.queue")),
        ("JdbcSink-postgres:shop.public.users: Writer", ("postgres", "shop.public.users")),
        ("Source: JdbcSource-mysql:shop.users", ("mysql", "shop.users")),
        ("FileSink-s3://bucket/a/b: Writer", ("s3", "bucket/a/b")),
        ("Source: FileSource-s3a://bucket/a/b", ("s3", "bucket/a/b")),
        ("Source: FileSource-hdfs://nn:8020/a", ("hdfs", "/a")),
        ("FileSink-hdfs:///a/b: Writer", ("hdfs", "/a/b")),
        ("Source: FileSource-gs://bucket/a/b", ("gcs", "bucket/a/b")),
        ("FileSink-gs://bucket/a/b: Writer", ("gcs", "bucket/a/b")),
        ("Source: FileSource-abfss://box@me.dfs.core.windows.net/a/b", ("abs", "box/a/b")),
        ("FileSink-abfs://box@me.dfs.core.windows.net/a/: Writer", ("abs", "box/a")),
        ("FileSink-abfss://box@me.dfs.core.windows.net: Writer", ("abs", "box")),
        ("FileSink-wasbs://box@me.blob.core.windows.net/a: Writer", ("abs", "box/a")),
        ("Source: FileSource-file:/data/in", ("file", "/data/in")),
        ("Source: FileSource-file:///data/in", ("file", "/data/in")),
        ("FileSink-file:/data/out: Writer", ("file", "/data/out")),
        ("FileSink-file:/data/out/: Writer", ("file", "/data/out")),
        ("FileSink-s3://bucket/a/: Writer", ("s3", "bucket/a")),
        ("Source: FileSource-gs://bucket/a/", ("gcs", "bucket/a")),
        ("Source: IcebergSource-db.t", ("iceberg", "db.t")),
        ("IcebergSink-db.t: Writer", ("iceberg", "db.t")),
        ("Sink: IcebergSink-db.t", ("iceberg", "db.t")),
        ("Source: my own source", None),
        ("JdbcSink-users: Writer", None),
    ],
)
def test_names_of_operators(operator: str, found: tuple[str, str] | None) -> None:
    hits = [hit for pattern in KNOWN if (hit := pattern.found(operator, "read")) is not None]
    assert hits == ([] if found is None else [found])
