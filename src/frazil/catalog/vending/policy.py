"""The session policy of a vended S3 credential: one prefix of one bucket and nothing else.

A session may do what both its role and this policy allow. There is one template for each flavour of S3:
`aws` knows more actions and can escape wildcards, `s3-compat` is what MinIO, SeaweedFS, Ceph and others
have in common.
"""

from __future__ import annotations

import json
from typing import Any

from frazil.catalog.aws import partition_of
from frazil.catalog.storage import S3Profile
from frazil.catalog.vending.base import Access
from frazil.core.errors import InvalidInput

#: STS takes no longer one.
POLICY_LIMIT = 2048

_READ = ("s3:GetObject", "s3:GetObjectVersion")
_WRITE = ("s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload", "s3:ListMultipartUploadParts")
_LIST = ("s3:ListBucket",)
# AWS has no condition on the prefix for this one, so there it could only be allowed for the whole bucket.
_LIST_UPLOADS = ("s3:ListBucketMultipartUploads",)
_KMS_READ = ("kms:Decrypt",)
_KMS_WRITE = ("kms:GenerateDataKey",)


def session_policy(profile: S3Profile, location: str, access: Access) -> str:
    """The policy document for everything below `location`, which lies in the profile's bucket."""
    aws = profile.flavor == "aws"
    writes = access is Access.READ_WRITE
    key = _literal(_key(profile, location), location, aws=aws)
    below = f"{key}/*"
    partition = partition_of(profile.region).arn if aws else "aws"
    bucket = f"arn:{partition}:s3:::{profile.bucket}"
    lists = _LIST + (_LIST_UPLOADS if writes and not aws else ())
    statements = [
        _allow(_READ + (_WRITE if writes else ()), f"{bucket}/{below}"),
        # The slash in the pattern keeps a listing of `t1` from showing `t10`.
        {**_allow(lists, bucket), "Condition": {"StringLike": {"s3:prefix": below}}},
        _allow(("s3:GetBucketLocation",), bucket),
        # Hadoop's S3A asks whether the location is a file before it takes it for a directory. No other
        # table can own an object of this name.
        _allow(("s3:GetObject",), f"{bucket}/{key}"),
    ]
    if profile.aws_kms_key_arn:
        statements.append(_allow(_KMS_READ + (_KMS_WRITE if writes else ()), profile.aws_kms_key_arn))
    # ASCII, because STS takes no character beyond Latin-1.
    policy = json.dumps({"Version": "2012-10-17", "Statement": statements}, separators=(",", ":"))
    if len(policy) > POLICY_LIMIT:
        raise InvalidInput(
            f"location: {location[:200]!a} is too long for a session policy, which would have {len(policy)} "
            f"characters of at most {POLICY_LIMIT}; use a shorter location or client-managed access"
        )
    return policy


def _allow(actions: tuple[str, ...], resource: str) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": actions if len(actions) > 1 else actions[0], "Resource": resource}


def _key(profile: S3Profile, location: str) -> str:
    bucket = f"s3://{profile.bucket}/"
    key = location.removeprefix(bucket).rstrip("/")
    if not location.startswith(bucket) or not key:
        raise InvalidInput(f"location: {location[:200]!a} is not below {bucket}")
    return key


def _literal(key: str, location: str, *, aws: bool) -> str:
    """A key as a pattern that matches only itself."""
    if aws:
        return "".join(f"${{{c}}}" if c in "*?$" else c for c in key)
    # Other stores read the escapes differently, some as a wildcard: that would open other prefixes.
    if "*" in key or "?" in key or "${" in key:
        raise InvalidInput(
            f"location: {location[:200]!a} holds '*', '?' or '${{', for which this store cannot be given a "
            "session policy; use another location or client-managed access"
        )
    # SeaweedFS ignores case, that of all alphabets. The catalog keeps tables apart whose locations differ
    # only in the case of ASCII letters.
    if any(not c.isascii() and c.lower() != c.upper() for c in key):
        raise InvalidInput(
            f"location: {location[:200]!a} holds letters beyond ASCII that have an upper case, which this "
            "store may confuse in a session policy; use another location or client-managed access"
        )
    return key
