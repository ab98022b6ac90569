"""With the vended keys of `t1`, everything inside works and the store refuses everything else."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError
from tests.catalog.vending.conftest import OTHER_BUCKET, Lake
from tests.catalog.vending.support import DELEGATION, aws, s3_of, status_of

from frazil.devstack.sts_proxy import resign

READ = {"X-Frazil-Access": "read"}
MIB = 1024 * 1024


def refused(attempt: Callable[..., Any], **arguments: Any) -> None:
    with pytest.raises(ClientError) as caught:
        attempt(**arguments)
    assert status_of(caught.value) == 403, (arguments, caught.value)


def upload(s3: Any, bucket: str, key: str) -> None:
    """A multipart upload in two parts."""
    upload_id = s3.create_multipart_upload(Bucket=bucket, Key=key)["UploadId"]
    parts = []
    for number, body in ((1, b"x" * 5 * MIB), (2, b"tail")):
        part = s3.upload_part(Bucket=bucket, Key=key, UploadId=upload_id, PartNumber=number, Body=body)
        parts.append({"PartNumber": number, "ETag": part["ETag"]})
    assert len(s3.list_parts(Bucket=bucket, Key=key, UploadId=upload_id)["Parts"]) == 2
    s3.complete_multipart_upload(Bucket=bucket, Key=key, UploadId=upload_id, MultipartUpload={"Parts": parts})


def test_inside_everything_works(lake: Lake) -> None:
    s3, bucket, table = s3_of(lake.store, lake.keys()), lake.bucket, lake.inside
    for key in (f"{table}/a", f"{table}/data/d=1 2/é+&%.parquet"):
        s3.put_object(Bucket=bucket, Key=key, Body=b"x")
        assert s3.get_object(Bucket=bucket, Key=key)["Body"].read() == b"x"
        assert s3.head_object(Bucket=bucket, Key=key)["ContentLength"] == 1
    s3.copy_object(Bucket=bucket, Key=f"{table}/b", CopySource={"Bucket": bucket, "Key": f"{table}/a"})
    listed = s3.list_objects_v2(Bucket=bucket, Prefix=f"{table}/")["Contents"]
    assert {f"{table}/a", f"{table}/b"} <= {entry["Key"] for entry in listed}
    assert s3.list_objects_v2(Bucket=bucket, Prefix=f"{table}/data/", Delimiter="/")["KeyCount"] > 0
    s3.delete_object(Bucket=bucket, Key=f"{table}/a")
    deleted = s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": f"{table}/b"}]})
    assert [entry["Key"] for entry in deleted["Deleted"]] == [f"{table}/b"]
    s3.get_bucket_location(Bucket=bucket)


def test_inside_multipart_uploads_work(lake: Lake) -> None:
    s3, bucket, key = s3_of(lake.store, lake.keys()), lake.bucket, f"{lake.inside}/large"
    upload(s3, bucket, key)
    assert s3.head_object(Bucket=bucket, Key=key)["ContentLength"] == 5 * MIB + 4
    upload_id = s3.create_multipart_upload(Bucket=bucket, Key=key)["UploadId"]
    s3.upload_part_copy(
        Bucket=bucket,
        Key=key,
        UploadId=upload_id,
        PartNumber=1,
        CopySource={"Bucket": bucket, "Key": f"{lake.inside}/data/file"},
    )
    under_way = s3.list_multipart_uploads(Bucket=bucket, Prefix=f"{lake.inside}/").get("Uploads", [])
    assert upload_id in {entry["UploadId"] for entry in under_way}
    s3.abort_multipart_upload(Bucket=bucket, Key=key, UploadId=upload_id)


def test_outside_objects_are_refused(lake: Lake) -> None:
    s3 = s3_of(lake.store, lake.keys())
    source = {"Bucket": lake.bucket, "Key": f"{lake.inside}/data/file"}
    for bucket, key in lake.outside:
        at = {"Bucket": bucket, "Key": key}
        refused(s3.get_object, **at)
        refused(s3.head_object, **at)
        refused(s3.put_object, **at, Body=b"x")
        refused(s3.delete_object, **at)
        refused(s3.copy_object, **at, CopySource=source)
        refused(s3.create_multipart_upload, **at)
    for bucket, key in lake.outside:
        assert lake.admin().get_object(Bucket=bucket, Key=key)["Body"].read() == b"secret"


def test_outside_objects_cannot_be_copied_in(lake: Lake) -> None:
    s3, bucket, key = s3_of(lake.store, lake.keys()), lake.bucket, f"{lake.inside}/stolen"
    upload_id = s3.create_multipart_upload(Bucket=bucket, Key=key)["UploadId"]
    for source_bucket, source_key in lake.outside:
        source = {"Bucket": source_bucket, "Key": source_key}
        refused(s3.copy_object, Bucket=bucket, Key=key, CopySource=source)
        refused(
            s3.upload_part_copy, Bucket=bucket, Key=key, UploadId=upload_id, PartNumber=1, CopySource=source
        )


def test_a_bulk_delete_spares_what_is_outside(lake: Lake) -> None:
    s3, admin, bucket = s3_of(lake.store, lake.keys()), lake.admin(), lake.bucket
    admin.put_object(Bucket=bucket, Key=f"{lake.inside}/mine", Body=b"x")
    outside = [key for where, key in lake.outside if where == bucket]
    objects = [{"Key": key} for key in [f"{lake.inside}/mine", *outside]]
    answer = s3.delete_objects(Bucket=bucket, Delete={"Objects": objects})
    assert [entry["Key"] for entry in answer.get("Deleted", [])] == [f"{lake.inside}/mine"]
    assert {entry["Key"] for entry in answer["Errors"]} == set(outside)
    for key in outside:
        admin.head_object(Bucket=bucket, Key=key)


def test_outside_listings_are_refused(lake: Lake) -> None:
    s3, bucket = s3_of(lake.store, lake.keys()), lake.bucket
    # Without the slash a listing of t1 would show t10.
    prefixes = ["", lake.inside, f"{lake.parent}/", f"{lake.parent}/t10/", f"{lake.parent}/t2/", "secret"]
    for prefix in prefixes:
        refused(s3.list_objects_v2, Bucket=bucket, Prefix=prefix)
        refused(s3.list_objects, Bucket=bucket, Prefix=prefix)
        refused(s3.list_multipart_uploads, Bucket=bucket, Prefix=prefix)
    refused(s3.list_objects_v2, Bucket=bucket)
    refused(s3.list_objects_v2, Bucket=OTHER_BUCKET, Prefix=f"{lake.inside}/")
    refused(s3.put_bucket_policy, Bucket=bucket, Policy='{"Version":"2012-10-17","Statement":[]}')
    refused(s3.create_bucket, Bucket="vending-tests-new")


@pytest.mark.parametrize(
    "detour", ["/../t2/secret", "/./../t2/secret", "//../t2/secret", "/%2e%2e/t2/secret", "/..%2Ft2/secret"]
)
def test_no_detour_leads_outside(lake: Lake, detour: str) -> None:
    s3 = s3_of(lake.store, lake.keys())
    with pytest.raises(ClientError) as caught:
        s3.get_object(Bucket=lake.bucket, Key=lake.inside + detour)
    assert status_of(caught.value) in (400, 403, 404)


def test_a_session_for_reading_does_not_write(lake: Lake) -> None:
    s3, bucket = s3_of(lake.store, lake.keys(READ)), lake.bucket
    key = f"{lake.inside}/data/file"
    assert s3.get_object(Bucket=bucket, Key=key)["Body"].read() == b"data"
    assert s3.list_objects_v2(Bucket=bucket, Prefix=f"{lake.inside}/data/")["KeyCount"] > 0
    source = {"Bucket": bucket, "Key": key}
    refused(s3.put_object, Bucket=bucket, Key=f"{lake.inside}/new", Body=b"x")
    refused(s3.put_object, Bucket=bucket, Key=key, Body=b"x")
    refused(s3.delete_object, Bucket=bucket, Key=key)
    refused(s3.copy_object, Bucket=bucket, Key=f"{lake.inside}/new", CopySource=source)
    refused(s3.create_multipart_upload, Bucket=bucket, Key=f"{lake.inside}/new")
    answer = s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": key}]})
    assert [entry["Key"] for entry in answer["Errors"]] == [key]
    assert lake.admin().get_object(Bucket=bucket, Key=key)["Body"].read() == b"data"


def test_a_session_cannot_assume_the_role_again(lake: Lake) -> None:
    sts = aws("sts", lake.store, lake.keys())
    everything = {"Effect": "Allow", "Action": "s3:*", "Resource": "*"}
    wider = json.dumps({"Version": "2012-10-17", "Statement": [everything]})
    refused(sts.assume_role, RoleArn=lake.store.role_arn, RoleSessionName="again")
    refused(sts.assume_role, RoleArn=lake.store.role_arn, RoleSessionName="again", Policy=wider)


def test_an_expired_session_is_refused(lake: Lake) -> None:
    keys = lake.keys({DELEGATION: "vended-credentials"})
    at = {"Bucket": lake.bucket, "Key": f"{lake.inside}/data/file"}
    now = int(time.time())
    for expiry, works in ((now + 60, True), (now - 1, False)):
        token = resign(keys["s3.session-token"], lake.store.signing_key, expiry)
        s3 = s3_of(lake.store, keys, aws_session_token=token)
        if works:
            assert s3.get_object(**at)["Body"].read() == b"data"
        else:
            refused(s3.get_object, **at)


def test_keys_without_their_own_token_are_refused(lake: Lake) -> None:
    keys, at = lake.keys(), {"Bucket": lake.bucket, "Key": f"{lake.inside}/data/file"}
    other = lake.catalog.load(("ns",), "t2").ok()["storage-credentials"][0]["config"]
    refused(s3_of(lake.store, keys, aws_session_token=other["s3.session-token"]).get_object, **at)
    token = keys["s3.session-token"]
    tampered = token[:-6] + ("AAAAAA" if token[-6:] != "AAAAAA" else "BBBBBB")
    refused(s3_of(lake.store, keys, aws_session_token=tampered).get_object, **at)
