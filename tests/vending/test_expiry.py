"""Keys that have ended: the store refuses them, and the client says so before it is asked."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import boto3
import duckdb
import fsspec
import pyarrow.parquet as pq
import pytest
from botocore.exceptions import ClientError
from tests.vending.support import BUCKET, Lake, rows

from frazil.client import VendedCredentials
from frazil.core.errors import Unauthenticated
from frazil.devstack.sts_proxy import StsProxy

#: Long enough for every client to be used once in time.
SECONDS = 15
Attempt = tuple[type[Exception], str, Callable[[], object]]


def reading(keys: VendedCredentials, duck: Any) -> list[Attempt]:
    """Every client with these keys and a file to read, and how it complains when they have ended."""
    file = f"{keys.path}/a.parquet"
    arrow, s3 = keys.to_pyarrow(), boto3.client("s3", **keys.to_boto3())
    s3fs = fsspec.filesystem("s3", skip_instance_cache=True, **keys.to_fsspec())
    duck.execute(keys.to_duckdb())
    pq.write_table(rows(1), file, filesystem=arrow)
    return [
        (OSError, "INVALID_ACCESS_KEY_ID|ACCESS_DENIED", lambda: pq.read_table(file, filesystem=arrow)),
        (ClientError, "InvalidAccessKeyId", lambda: s3.get_object(Bucket=BUCKET, Key=file.partition("/")[2])),
        (PermissionError, "(?i)forbidden|access key", lambda: s3fs.cat_file(file)),
        (duckdb.Error, "403", lambda: duck.sql(f"FROM 's3://{file}'").fetchall()),
    ]


def test_expired_keys_are_refused(lake: Lake, duck: Any, fresh: Callable[[str], str]) -> None:
    # Clients load much when they are first used: the seconds of the brief keys are not spent on that.
    for _, _, attempt in reading(lake.generic(fresh("g1")), duck):
        attempt()
    with StsProxy(lake.store, SECONDS) as sts, lake.new_client() as client:
        profile, credential = lake.store.warehouse_storage(BUCKET, "brief", **{"sts-endpoint": sts.endpoint})
        brief = client.at(client.warehouses.create("brief", profile, credential).name)
        brief.namespaces.create("ns")
        brief.generic_tables.create("ns", "t", "parquet")
        keys = brief.generic_tables.credentials("ns", "t")
    attempts = reading(keys, duck)
    for _, _, attempt in attempts:
        attempt()
    assert keys.expires_at is not None
    time.sleep(max(0.0, keys.expires_at.timestamp() - time.time()) + 1)
    for kind, text, attempt in attempts:
        with pytest.raises(kind, match=text):
            attempt()
    with pytest.raises(Unauthenticated, match="expired at"):
        keys.to_pyarrow()
