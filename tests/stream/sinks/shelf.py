"""The files of a dataset as somebody else sees them, on a disk or in a bucket."""

from __future__ import annotations

import csv
import io
import itertools
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pyarrow.parquet as pq

from frazil.client import Client
from frazil.devstack.frazil_server import FrazilServer
from frazil.devstack.seaweed import ObjectStore

_numbers = itertools.count(1)


def fresh(stem: str) -> str:
    return f"{stem}-{os.getpid()}-{next(_numbers)}"


@dataclass(frozen=True)
class Shelf:
    """A warehouse; in a bucket if there is a store."""

    server: FrazilServer
    warehouse: str = "default"
    store: ObjectStore | None = None

    def location(self, dataset: str) -> str:
        with Client(self.server.uri, warehouse=self.warehouse) as client:
            return client.generic_tables.load(*dataset.split(".")).location

    def files(self, dataset: str) -> dict[str, bytes]:
        """By name, in the order of names; those that engines do not see are left out."""
        where = self.location(dataset)
        if self.store is None:
            paths = [path for path in Path(where.removeprefix("file://")).iterdir() if path.is_file()]
            return {path.name: path.read_bytes() for path in sorted(paths)}
        bucket, _, prefix = where.removeprefix("s3://").partition("/")
        client = s3(self.store)
        pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=f"{prefix}/")
        keys = [item["Key"] for page in pages for item in page.get("Contents", ())]
        names = {key: key.removeprefix(f"{prefix}/") for key in keys}
        return {
            name: client.get_object(Bucket=bucket, Key=key)["Body"].read()
            for key, name in names.items()
            if "/" not in name
        }

    def rows(self, dataset: str) -> list[list[dict[str, Any]]]:
        """By file."""
        return [parsed(name, data) for name, data in self.files(dataset).items()]


def s3(store: ObjectStore) -> Any:
    return boto3.client(
        "s3",
        endpoint_url=store.endpoint,
        region_name=store.region,
        aws_access_key_id=store.admin.access,
        aws_secret_access_key=store.admin.secret,
    )


def parsed(name: str, data: bytes) -> list[dict[str, Any]]:
    match name.rpartition(".")[2]:
        case "json":
            found = json.loads(data)
        case "jsonl":
            found = [json.loads(line) for line in data.splitlines()]
        case "csv":
            found = list(csv.DictReader(io.StringIO(data.decode(), newline="")))
        case _:
            found = pq.read_table(io.BytesIO(data)).to_pylist()
    assert isinstance(found, list)
    return found


def bucket_shelf(server: FrazilServer, store: ObjectStore, **profile: Any) -> Shelf:
    """A warehouse that vends keys."""
    name = fresh("datasets")
    place, credential = store.warehouse_storage("datasets", name, **profile)
    with Client(server.uri) as client:
        client.warehouses.create(name, place, credential)
    return Shelf(server, name, store)
