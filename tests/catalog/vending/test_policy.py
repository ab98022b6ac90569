"""The session policy as a document; `test_scope` has a store enforce it."""

from __future__ import annotations

import fnmatch
import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.catalog.storage import S3Profile
from frazil.catalog.vending import Access
from frazil.catalog.vending.policy import POLICY_LIMIT, session_policy
from frazil.core.errors import InvalidInput

_COMPAT = S3Profile(bucket="lake", region="local", flavor="s3-compat", endpoint="http://store:9000")
_AWS = S3Profile(bucket="lake", region="eu-central-1", flavor="aws")


def policy(profile: S3Profile, location: str, access: Access = Access.READ_WRITE) -> Any:
    return json.loads(session_policy(profile, location, access))


def test_reading_and_writing_one_prefix() -> None:
    assert policy(_COMPAT, "s3://lake/wh/t1") == {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Action": [
                    "s3:GetObject",
                    "s3:GetObjectVersion",
                    "s3:PutObject",
                    "s3:DeleteObject",
                    "s3:AbortMultipartUpload",
                    "s3:ListMultipartUploadParts",
                ],
                "Resource": "arn:aws:s3:::lake/wh/t1/*",
            },
            {
                "Effect": "Allow",
                "Action": ["s3:ListBucket", "s3:ListBucketMultipartUploads"],
                "Resource": "arn:aws:s3:::lake",
                "Condition": {"StringLike": {"s3:prefix": "wh/t1/*"}},
            },
            {"Effect": "Allow", "Action": "s3:GetBucketLocation", "Resource": "arn:aws:s3:::lake"},
            {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::lake/wh/t1"},
        ],
    }


def test_reading_one_prefix() -> None:
    statements = policy(_AWS, "s3://lake/wh/t1", Access.READ)["Statement"]
    actions = [
        action
        for s in statements
        for action in ([s["Action"]] if isinstance(s["Action"], str) else s["Action"])
    ]
    assert actions[:4] == ["s3:GetObject", "s3:GetObjectVersion", "s3:ListBucket", "s3:GetBucketLocation"]
    assert actions[4:] == ["s3:GetObject"]


def test_uploads_are_not_listed_where_that_cannot_be_bound_to_a_prefix() -> None:
    assert "ListBucketMultipartUploads" not in session_policy(_AWS, "s3://lake/t", Access.READ_WRITE)


@pytest.mark.parametrize(
    ("region", "arn"),
    [("eu-west-1", "arn:aws:"), ("cn-north-1", "arn:aws-cn:"), ("us-gov-west-1", "arn:aws-us-gov:")],
)
def test_the_partition_is_that_of_the_region(region: str, arn: str) -> None:
    statements = policy(S3Profile(bucket="lake", region=region), "s3://lake/t")["Statement"]
    assert all(statement["Resource"].startswith(f"{arn}s3:::lake") for statement in statements)


def test_an_encryption_key_may_be_used() -> None:
    key = "arn:aws:kms:eu-central-1:1:key/k"
    profile = S3Profile(bucket="lake", region="eu-central-1", aws_kms_key_arn=key)
    writes = policy(profile, "s3://lake/t")["Statement"][-1]
    assert writes == {"Effect": "Allow", "Action": ["kms:Decrypt", "kms:GenerateDataKey"], "Resource": key}
    reads = policy(profile, "s3://lake/t", Access.READ)["Statement"][-1]
    assert reads["Action"] == "kms:Decrypt"


def test_wildcards_in_a_key_are_literal_on_aws() -> None:
    statements = policy(_AWS, "s3://lake/a*b?c${aws:username}")["Statement"]
    assert statements[0]["Resource"] == "arn:aws:s3:::lake/a${*}b${?}c${$}{aws:username}/*"
    assert statements[1]["Condition"]["StringLike"]["s3:prefix"] == "a${*}b${?}c${$}{aws:username}/*"


@pytest.mark.parametrize("key", ["a*b", "a?b", "${aws:username}"])
def test_wildcards_in_a_key_are_refused_where_they_have_no_escape(key: str) -> None:
    with pytest.raises(InvalidInput, match="session policy"):
        session_policy(_COMPAT, f"s3://lake/{key}", Access.READ)


@pytest.mark.parametrize("key", ["é", "Ж", "\u017fales", "\u212a"])
def test_letters_whose_case_a_store_may_ignore_are_refused(key: str) -> None:
    """The catalog itself sees to those of ASCII; the last two are an s and a k to who ignores case."""
    with pytest.raises(InvalidInput, match="beyond ASCII"):
        session_policy(_COMPAT, f"s3://lake/{key}", Access.READ)
    assert session_policy(_AWS, f"s3://lake/{key}", Access.READ)
    assert session_policy(_COMPAT, "s3://lake/氷/Frazil", Access.READ)


@pytest.mark.parametrize(
    "location", ["s3://lake", "s3://lake/", "s3://other/t", "s3://lakes/t", "gs://lake/t"]
)
def test_a_location_outside_the_bucket_is_refused(location: str) -> None:
    with pytest.raises(InvalidInput, match="not below"):
        session_policy(_COMPAT, location, Access.READ)


def test_a_policy_that_is_too_long_is_refused() -> None:
    with pytest.raises(InvalidInput, match=f"at most {POLICY_LIMIT}"):
        session_policy(_AWS, "s3://lake/" + "é" * 200, Access.READ)
    assert len(session_policy(_AWS, "s3://lake/" + "k" * 500, Access.READ_WRITE)) <= POLICY_LIMIT


_KEYS = (
    st.text(st.sampled_from("ab1*?${}/é"), min_size=1, max_size=8)
    .map(lambda key: key.strip("/"))
    .filter(bool)
)


@given(table=_KEYS, other=_KEYS)
def test_no_key_outside_the_prefix_matches(table: str, other: str) -> None:
    """Read as IAM reads it: `${*}` is a star, a bare star is anything."""
    resource = policy(_AWS, f"s3://lake/{table}")["Statement"][0]["Resource"].removeprefix(
        "arn:aws:s3:::lake/"
    )
    parts = re.split(r"\$\{(.)\}", resource)
    pattern = "".join(
        re.escape(part) if index % 2 else fnmatch.translate(part)[4:-3] for index, part in enumerate(parts)
    )
    inside = other.startswith(f"{table}/")
    assert (re.fullmatch(pattern, other, re.DOTALL) is not None) == inside
    assert re.fullmatch(pattern, f"{table}/x", re.DOTALL) is not None
