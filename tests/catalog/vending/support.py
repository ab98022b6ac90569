"""Warehouses with vended credentials, and boto3 as their user."""

from __future__ import annotations

import itertools
from typing import Any
from uuid import uuid4

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError
from tests.catalog.api.client import Catalog, Client, connect

from frazil.devstack.seaweed import ObjectStore

Json = dict[str, Any]
DELEGATION = "X-Iceberg-Access-Delegation"
BUCKET = "vending-tests"
_numbers = itertools.count(1)
_CONFIG = Config(s3={"addressing_style": "path"}, retries={"total_max_attempts": 1})


def warehouse_body(store: ObjectStore, **profile: Any) -> Json:
    """A create request for a warehouse of its own prefix that vends credentials."""
    storage, credential = store.warehouse_storage(BUCKET, f"wh-{uuid4().hex[:8]}", **profile)
    name = f"vending-{next(_numbers)}-{uuid4().hex[:6]}"
    return {"warehouse-name": name, "storage-profile": storage, "storage-credential": credential}


def create_warehouse(port: int, body: Json) -> Catalog:
    """Create a warehouse with the namespace `ns`."""
    Client(port).send("POST", "/management/v1/warehouse", body).ok(201)
    catalog = connect(port, body["warehouse-name"])
    catalog.create_namespace("ns").ok()
    return catalog


def keys_of(answer: Json) -> Json:
    """The one storage credential of an answer."""
    (entry,) = answer["storage-credentials"]
    config: Json = entry["config"]
    return config


def s3_of(store: ObjectStore, config: Json, **changed: str) -> Any:
    """S3 as the holder of vended keys sees it."""
    return aws("s3", store, config, **changed)


def aws(service: str, store: ObjectStore, config: Json, **changed: str) -> Any:
    given = {
        "aws_access_key_id": config["s3.access-key-id"],
        "aws_secret_access_key": config["s3.secret-access-key"],
        "aws_session_token": config["s3.session-token"],
        **changed,
    }
    return boto3.client(
        service, endpoint_url=store.endpoint, region_name=store.region, config=_CONFIG, **given
    )


def admin(store: ObjectStore) -> Any:
    return boto3.client(
        "s3",
        endpoint_url=store.endpoint,
        region_name=store.region,
        config=_CONFIG,
        aws_access_key_id=store.admin.access,
        aws_secret_access_key=store.admin.secret,
    )


def status_of(error: ClientError) -> int:
    status: int = error.response["ResponseMetadata"]["HTTPStatusCode"]
    return status
