"""Keys that a real server vends, used at a real store by the real consumers."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import boto3
import duckdb
import fsspec
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset as ds
import pytest
from botocore.exceptions import ClientError
from tests.catalog.api.client import connect, schema
from tests.clients.support import duckdb_extensions

from frazil.client import (
    AsyncClient,
    AsyncRenewing,
    Client,
    GenericTable,
    Renewing,
    Sync,
    VendedCredentials,
    WarehouseClient,
)
from frazil.devstack.frazil_server import FrazilServer
from frazil.devstack.gcs import GcsEmulator

DENIED = r"(?i)access.denied|forbidden"
ROWS = pa.table({"id": [1, 2, 3], "reading": [0.5, 1.5, 2.5]})


@pytest.fixture
def warehouse(client: Client, lake: str) -> WarehouseClient[Sync]:
    return client.at(lake)


@pytest.fixture
def table(warehouse: WarehouseClient[Sync]) -> GenericTable:
    """A generic table with one CSV file, written with its vended keys."""
    made = warehouse.generic_tables.create("sensors", f"raw_{uuid.uuid4().hex[:10]}", "csv", vended=True)
    keys = made.credentials()
    with keys.to_pyarrow().open_output_stream(f"{keys.path}/one.csv") as file:
        pa.csv.write_csv(ROWS, file)
    return made


@pytest.fixture
def keys(warehouse: WarehouseClient[Sync], table: GenericTable) -> VendedCredentials:
    return warehouse.generic_tables.credentials("sensors", table.name)


@pytest.fixture
def neighbour(warehouse: WarehouseClient[Sync], table: GenericTable) -> str:
    """A table beside it whose location begins with the same letters."""
    made = warehouse.generic_tables.create(
        "sensors", f"{table.name}_0", "csv", base_location=f"{table.location}0", vended=True
    )
    other = made.credentials()
    with other.to_pyarrow().open_output_stream(f"{other.path}/one.csv") as file:
        pa.csv.write_csv(ROWS, file)
    return other.path


def read_only(warehouse: WarehouseClient[Sync], table: GenericTable) -> VendedCredentials:
    return warehouse.generic_tables.credentials("sensors", table.name, read_only=True)


def test_keys_come_in_three_ways(
    warehouse: WarehouseClient[Sync], table: GenericTable, keys: VendedCredentials
) -> None:
    loaded = warehouse.generic_tables.load("sensors", table.name, vended=True).credentials()
    for found in (table.credentials(), loaded, keys):
        assert found.prefix == table.location
        assert found.expires_at is not None
        assert not found.expires_soon()
        assert found.config["s3.session-token"]


def test_keys_that_nobody_asked_for_are_not_sent(
    warehouse: WarehouseClient[Sync], table: GenericTable
) -> None:
    loaded = warehouse.generic_tables.load("sensors", table.name)
    assert not loaded.storage_credentials
    assert "s3.secret-access-key" not in (loaded.config or {})


def test_pyarrow(
    warehouse: WarehouseClient[Sync], table: GenericTable, keys: VendedCredentials, neighbour: str
) -> None:
    files = keys.to_pyarrow()
    assert ds.dataset(keys.path, filesystem=files, format="csv").to_table() == ROWS
    with pytest.raises(OSError, match=DENIED):
        files.open_input_file(f"{neighbour}/one.csv").read()
    reader = read_only(warehouse, table)
    assert ds.dataset(reader.path, filesystem=reader.to_pyarrow(), format="csv").to_table() == ROWS
    with pytest.raises(OSError, match=DENIED):  # noqa: SIM117
        with reader.to_pyarrow().open_output_stream(f"{reader.path}/two.csv") as file:
            file.write(b"no")


def test_fsspec(
    warehouse: WarehouseClient[Sync], table: GenericTable, keys: VendedCredentials, neighbour: str
) -> None:
    files = fsspec.filesystem("s3", **keys.to_fsspec(), skip_instance_cache=True)
    assert files.cat_file(f"{keys.path}/one.csv").startswith(b'"id","reading"')
    files.pipe_file(f"{keys.path}/two.csv", b"x")
    assert {name.rpartition("/")[2] for name in files.ls(keys.path)} == {"one.csv", "two.csv"}
    with pytest.raises(PermissionError):
        files.cat_file(f"{neighbour}/one.csv")
    reader = fsspec.filesystem("s3", **read_only(warehouse, table).to_fsspec(), skip_instance_cache=True)
    with pytest.raises(PermissionError):
        reader.pipe_file(f"{keys.path}/three.csv", b"x")


def test_boto3(keys: VendedCredentials, neighbour: str) -> None:
    bucket, _, prefix = keys.path.partition("/")
    store = boto3.client("s3", **keys.to_boto3())
    with contextlib.closing(store):
        assert store.get_object(Bucket=bucket, Key=f"{prefix}/one.csv")["Body"].read().startswith(b'"id"')
        with pytest.raises(ClientError, match="AccessDenied"):
            store.get_object(Bucket=bucket, Key=f"{neighbour.partition('/')[2]}/one.csv")


@pytest.fixture
def duck() -> Iterator[duckdb.DuckDBPyConnection]:
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    connection.execute(f"LOAD '{duckdb_extensions(['httpfs'])[0]}'")
    yield connection
    connection.close()


def test_duckdb(keys: VendedCredentials, neighbour: str, duck: duckdb.DuckDBPyConnection) -> None:
    duck.execute(keys.to_duckdb())
    total = duck.execute(f"SELECT sum(reading) FROM '{keys.prefix}/*.csv'").fetchone()
    assert total == (4.5,)
    duck.execute(f"COPY (SELECT 7 AS id) TO '{keys.prefix}/two.parquet'")
    assert duck.execute(f"SELECT id FROM '{keys.prefix}/two.parquet'").fetchall() == [(7,)]
    # The scope ends in a slash, so the keys are not even tried next door.
    with pytest.raises(duckdb.Error):
        duck.execute(f"SELECT * FROM 's3://{neighbour}/one.csv'").fetchall()
    name = "SELECT name FROM which_secret('{}', 's3')"
    assert duck.execute(name.format(f"{keys.prefix}/x")).fetchall() == [("frazil",)]
    assert duck.execute(name.format(f"s3://{neighbour}/x")).fetchall() == []


def test_aws_tools_by_environment_and_by_process(
    frazil_sqlite: FrazilServer,
    lake: str,
    table: GenericTable,
    keys: VendedCredentials,
    tmp_path: Path,
) -> None:
    """A program that knows nothing of frazil gets its keys from the command, again and again if it must."""
    bucket, _, prefix = keys.path.partition("/")
    command = f"{sys.executable} -m frazil.cli credentials get sensors.{table.name} -w {lake}"
    command += f" --uri {frazil_sqlite.uri} --format aws-process"
    config = tmp_path / "config"
    config.write_text(f"[default]\nregion = us-east-1\ncredential_process = {command}\n")
    code = (
        "import boto3, json; from botocore.config import Config\n"
        "style = Config(s3={'addressing_style': 'path'})\n"
        f"store = boto3.client('s3', endpoint_url={keys.config['s3.endpoint']!r}, config=style)\n"
        f"found = store.get_object(Bucket={bucket!r}, Key={prefix + '/one.csv'!r})\n"
        "print(json.dumps(found['Body'].read().decode()))"
    )
    clean = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    for environment in (clean | {"AWS_CONFIG_FILE": str(config)}, clean | keys.to_environment()):
        shown = subprocess.run(
            [sys.executable, "-c", code],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert shown.returncode == 0, shown.stderr
        assert json.loads(shown.stdout).startswith('"id"')


def test_iceberg_tables(warehouse: WarehouseClient[Sync], frazil_sqlite: FrazilServer, lake: str) -> None:
    name = f"orders_{uuid.uuid4().hex[:8]}"
    connect(frazil_sqlite.port, lake).create_table(["sensors"], name, schema=schema()).ok()
    loaded = warehouse.tables.load("sensors", name, vended=True)
    keys = warehouse.tables.credentials("sensors", name, read_only=True)
    assert loaded.credentials().prefix == keys.prefix == loaded.location
    assert loaded.metadata_location is not None
    path = loaded.metadata_location.removeprefix("s3://")
    with keys.to_pyarrow().open_input_stream(path, compression=None) as file:
        assert file.read(2)
    with pytest.raises(OSError, match=DENIED):  # noqa: SIM117
        with keys.to_pyarrow().open_output_stream(f"{keys.path}/x") as file:
            file.write(b"no")


def test_google_through_pyarrow(gcs_emulator: GcsEmulator) -> None:
    """An emulator takes any token, but it sees which one comes."""
    bucket = gcs_emulator.create_bucket("client-google")
    token = f"token-{uuid.uuid4().hex}"
    config = {"gcs.oauth2.token": token, "gcs.oauth2.token-expires-at": "4102444800000"}
    keys = VendedCredentials(f"gs://{bucket}/t1", config | {"gcs.service.host": gcs_emulator.endpoint})
    files = keys.to_pyarrow()
    with files.open_output_stream(f"{keys.path}/one.csv") as file:
        file.write(b"id\n1\n")
    with files.open_input_stream(f"{keys.path}/one.csv") as file:
        assert file.read() == b"id\n1\n"
    assert f"Bearer {token}" in gcs_emulator.authorizations


def test_renewing_asks_once(warehouse: WarehouseClient[Sync], table: GenericTable) -> None:
    renewing = Renewing(lambda: warehouse.generic_tables.credentials("sensors", table.name))
    assert renewing.current() is renewing.current()


async def test_async(frazil_sqlite: FrazilServer, lake: str, table: GenericTable) -> None:
    async with AsyncClient(frazil_sqlite.uri, warehouse=lake) as client:
        renewing = AsyncRenewing(lambda: client.generic_tables.credentials("sensors", table.name))
        found = await renewing.current()
        assert found.prefix == table.location
        assert found is await renewing.current()
