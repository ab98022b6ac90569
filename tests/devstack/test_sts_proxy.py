from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from frazil.devstack.s3 import Keys
from frazil.devstack.seaweed import ObjectStore
from frazil.devstack.sts_proxy import StsProxy


def test_what_it_gives_is_refused_by_the_store_when_it_says_so(object_store: ObjectStore) -> None:
    bucket = object_store.create_bucket("short-lived")
    # boto3 reads large files for its first client: the seconds of the keys are not spent on that.
    _s3(object_store, {"AccessKeyId": "x", "SecretAccessKey": "x", "SessionToken": "x"})
    with StsProxy(object_store, seconds=8) as proxy:
        answer = _sts(proxy.endpoint, object_store.catalog).assume_role(
            RoleArn=object_store.role_arn, RoleSessionName="test", DurationSeconds=900
        )
    session = answer["Credentials"]
    expiry = session["Expiration"].timestamp()
    [given] = proxy.given
    assert (given.access, given.expires_at) == (session["AccessKeyId"], expiry)
    assert given.secret not in repr(given)
    assert given.token == session["SessionToken"] not in repr(given)
    assert expiry - time.time() <= 8
    s3 = _s3(object_store, session)
    s3.put_object(Bucket=bucket, Key="k", Body=b"in time")
    time.sleep(max(0, expiry - time.time()) + 1)
    with pytest.raises(ClientError, match="InvalidAccessKeyId"):
        s3.get_object(Bucket=bucket, Key="k")


def test_a_refusal_passes_through(object_store: ObjectStore) -> None:
    with StsProxy(object_store, seconds=3) as proxy, pytest.raises(ClientError) as refused:
        _sts(proxy.endpoint, Keys(object_store.catalog.access, "wrong")).assume_role(
            RoleArn=object_store.role_arn, RoleSessionName="test"
        )
    assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 403
    assert proxy.given == []


def _s3(store: ObjectStore, session: Mapping[str, Any]) -> boto3.client:
    return boto3.client(
        "s3",
        endpoint_url=store.endpoint,
        region_name=store.region,
        aws_access_key_id=session["AccessKeyId"],
        aws_secret_access_key=session["SecretAccessKey"],
        aws_session_token=session["SessionToken"],
    )


def _sts(endpoint: str, keys: Keys) -> boto3.client:
    return boto3.client(
        "sts",
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id=keys.access,
        aws_secret_access_key=keys.secret,
    )
