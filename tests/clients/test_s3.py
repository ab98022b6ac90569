"""A warehouse on a real S3 store: made through the management API, used with the clients' own keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import obstore
import pyarrow as pa
import pytest
from obstore.store import S3Store
from pyiceberg.catalog import load_catalog
from tests.clients.support import STRANGER, call, wait_until

from frazil.devstack.frazil_server import FrazilServer
from frazil.devstack.seaweed import ObjectStore
from frazil.lake.session import spark_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Fresh = Callable[[], str]
BUCKET = "examples"
PREFIX = "initial-warehouse"


def documented_example(store: ObjectStore) -> dict[str, Any]:
    """Lakekeeper's example for MinIO, with this store's address and keys; `sts-enabled` is left out."""
    return {
        "warehouse-name": "on-s3",
        "project-id": "00000000-0000-0000-0000-000000000000",
        "storage-profile": {
            "type": "s3",
            "bucket": BUCKET,
            "key-prefix": PREFIX,
            "assume-role-arn": None,
            "endpoint": store.endpoint,
            "region": store.region,
            "path-style-access": True,
            "flavor": "minio",
        },
        "storage-credential": {
            "type": "s3",
            "credential-type": "access-key",
            "aws-access-key-id": store.catalog.access,
            "aws-secret-access-key": store.catalog.secret,
        },
    }


@pytest.fixture(scope="module")
def warehouse(object_store: ObjectStore, frazil_sqlite: FrazilServer) -> str:
    object_store.create_bucket(BUCKET)
    body = documented_example(object_store)
    status, answer = call("POST", f"{frazil_sqlite.management_uri}/warehouse", body)
    assert status == 201, answer
    assert answer["status"] == "active"
    assert object_store.catalog.secret not in str(answer)
    name: str = answer["name"]
    return name


@pytest.fixture(scope="module")
def keys(object_store: ObjectStore) -> dict[str, str]:
    """All that a client must be told: endpoint, region and path style come from the server."""
    return {
        "s3.access-key-id": object_store.catalog.access,
        "s3.secret-access-key": object_store.catalog.secret,
    }


@pytest.fixture(scope="module")
def bucket(object_store: ObjectStore, warehouse: str) -> S3Store:
    return S3Store(
        BUCKET,
        endpoint=object_store.endpoint,
        region=object_store.region,
        access_key_id=object_store.admin.access,
        secret_access_key=object_store.admin.secret,
        virtual_hosted_style_request=False,
        client_options={"allow_http": True},
    )


def objects_below(bucket: S3Store, location: str) -> set[str]:
    prefix = location.removeprefix(f"s3://{BUCKET}/")
    return {entry["path"] for batch in obstore.list(bucket, prefix) for entry in batch}


def plant(bucket: S3Store, location: str) -> str:
    key = f"{location.removeprefix(f's3://{BUCKET}/')}/data/{STRANGER}"
    obstore.put(bucket, key, b"mine")
    return key


def test_pyiceberg_writes_reads_and_has_the_server_purge(
    frazil_sqlite: FrazilServer, warehouse: str, keys: dict[str, str], bucket: S3Store, fresh: Fresh
) -> None:
    with load_catalog(
        "s3", type="rest", uri=frazil_sqlite.catalog_uri, warehouse=warehouse, **keys
    ) as catalog:
        namespace = fresh()
        catalog.create_namespace(namespace)
        rows = pa.table({"id": [1, 2, 3]})
        table = catalog.create_table((namespace, "t"), schema=rows.schema)
        assert table.location().startswith(f"s3://{BUCKET}/{PREFIX}/")
        table.append(rows)
        table.delete("id = 2")
        assert sorted(catalog.load_table(table.name()).scan().to_arrow()["id"].to_pylist()) == [1, 3]
        stranger = plant(bucket, table.location())
        assert len(objects_below(bucket, table.location())) > 6
        catalog.purge_table(table.name())
        wait_until(lambda: objects_below(bucket, table.location()) == {stranger}, "objects are left")


def test_spark_writes_and_reads_and_the_server_purges(
    spark: SparkSession,
    duck: Any,
    object_store: ObjectStore,
    frazil_sqlite: FrazilServer,
    warehouse: str,
    keys: dict[str, str],
    bucket: S3Store,
    fresh: Fresh,
) -> None:
    settings = spark_settings(
        frazil_sqlite.catalog_uri, warehouse, "on_s3", {**keys, "rest-catalog-purge": "true"}
    )
    for key, value in settings.items():
        if key != "spark.sql.extensions":
            spark.conf.set(key, value)
    name = fresh()
    spark.sql(f"CREATE NAMESPACE on_s3.{name}")
    spark.sql(
        f"CREATE TABLE on_s3.{name}.t USING iceberg TBLPROPERTIES ('format-version' = '3', "
        "'write.merge.mode' = 'merge-on-read') AS SELECT id, 'old' AS v FROM range(5)"
    )
    spark.sql(
        f"MERGE INTO on_s3.{name}.t USING (SELECT 2L AS id UNION ALL SELECT 7L) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET v = 'new' WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, 'new')"
    )
    expected = [(0, "old"), (1, "old"), (2, "new"), (3, "old"), (4, "old"), (7, "new")]
    assert [tuple(row) for row in spark.table(f"on_s3.{name}.t").orderBy("id").collect()] == expected
    assert _read_by_duckdb(duck, object_store, frazil_sqlite, warehouse, f"{name}.t") == expected

    described = spark.sql(f"DESCRIBE TABLE EXTENDED on_s3.{name}.t").collect()
    location = next(row[1] for row in described if row[0] == "Location")
    stranger = plant(bucket, location)
    spark.sql(f"DROP TABLE on_s3.{name}.t PURGE")
    wait_until(lambda: objects_below(bucket, location) == {stranger}, "objects are left")


def _read_by_duckdb(
    duck: Any, store: ObjectStore, server: FrazilServer, warehouse: str, table: str
) -> list[tuple[Any, ...]]:
    duck.execute(
        f"CREATE SECRET (TYPE s3, KEY_ID '{store.catalog.access}', SECRET '{store.catalog.secret}', "
        f"ENDPOINT '{store.endpoint.removeprefix('http://')}', REGION '{store.region}', "
        "URL_STYLE 'path', USE_SSL false)"
    )
    duck.execute(
        f"ATTACH '{warehouse}' AS lake (TYPE iceberg, ENDPOINT '{server.catalog_uri}', "
        "AUTHORIZATION_TYPE 'none', ACCESS_DELEGATION_MODE 'none')"
    )
    rows: list[tuple[Any, ...]] = duck.sql(f"SELECT * FROM lake.{table} ORDER BY id").fetchall()
    return rows
