"""A warehouse that vends, with neighbours whose files its keys must not reach."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import boto3
import pyarrow as pa
from botocore.config import Config
from pyarrow.fs import FileSystem, S3FileSystem

from frazil.client import Client, VendedCredentials, WarehouseClient
from frazil.client.flow import Sync
from frazil.devstack.frazil_server import FrazilServer
from frazil.devstack.seaweed import ObjectStore

BUCKET = "engines"
OTHER_BUCKET = "engines-not-yours"
PREFIX = "wh"
NAMESPACE = "ns"
DELEGATION = "header.X-Iceberg-Access-Delegation"
VENDED = {DELEGATION: "vended-credentials"}
READ_ONLY = {**VENDED, "header.X-Frazil-Access": "read"}


def location(name: str) -> str:
    """Where a table of the namespace lies: `t1` beside `t10`, and not at names that nobody can guess."""
    return f"s3://{BUCKET}/{PREFIX}/{NAMESPACE}/{name}"


@dataclass(frozen=True)
class Lake:
    """One server and one store for all engines."""

    store: ObjectStore
    server: FrazilServer
    client: WarehouseClient[Sync]
    warehouse: str
    #: URIs of objects that are there, none of them the tables' that the tests use.
    foreign: dict[str, str] = field(default_factory=dict)

    def generic(self, name: str) -> VendedCredentials:
        """A generic table called `name`, as keys for it."""
        self.client.generic_tables.create(NAMESPACE, name, "dataset", base_location=location(name))
        return self.client.generic_tables.credentials(NAMESPACE, name)

    def new_client(self) -> Client:
        return Client(self.server.uri)

    def admin(self) -> Any:
        """The store as its owner sees it."""
        keys = self.store.admin
        return boto3.client(
            "s3",
            endpoint_url=self.store.endpoint,
            region_name=self.store.region,
            aws_access_key_id=keys.access,
            aws_secret_access_key=keys.secret,
            config=Config(s3={"addressing_style": "path"}),
        )

    def owner_files(self) -> FileSystem:
        """The same for pyarrow: a reader that has nothing to do with vending."""
        keys, endpoint = self.store.admin, self.store.endpoint.removeprefix("http://")
        return S3FileSystem(
            access_key=keys.access,
            secret_key=keys.secret,
            endpoint_override=endpoint,
            scheme="http",
            region=self.store.region,
        )

    def plant(self, uri: str, body: bytes = b'{"id": 1}\n') -> str:
        bucket, _, key = uri.removeprefix("s3://").partition("/")
        self.admin().put_object(Bucket=self.store.create_bucket(bucket), Key=key, Body=body)
        return uri

    def objects(self, prefix: str = "", bucket: str = BUCKET) -> set[str]:
        pages = self.admin().get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        return {entry["Key"] for page in pages for entry in page.get("Contents", ())}

    def foreign_objects(self) -> dict[str, bytes]:
        """What is outside, to be compared before and after."""
        found = {}
        for uri in self.foreign.values():
            bucket, _, key = uri.removeprefix("s3://").partition("/")
            found[uri] = self.admin().get_object(Bucket=bucket, Key=key)["Body"].read()
        return found


def elsewhere(keys: VendedCredentials, uri: str) -> VendedCredentials:
    """The same keys, pretended to be for another place: clients that look at the prefix must not help."""
    return VendedCredentials(uri.rpartition("/")[0], keys.config)


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})
