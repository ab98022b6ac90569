"""Storage profiles and credentials as JSON."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from frazil.catalog.storage import (
    LocalProfile,
    S3AccessKey,
    S3Profile,
    check_pair,
    check_update,
    credential_type,
    encode_credential,
    encode_profile,
    parse_credential,
    parse_profile,
    profile_document,
)
from frazil.core.errors import InvalidInput

DOCUMENTED = {
    "type": "s3",
    "bucket": "examples",
    "key-prefix": "wh",
    "region": "local-01",
    "endpoint": "http://minio:9000",
    "flavor": "minio",
    "path-style-access": True,
    "sts-token-validity-seconds": 3600,
    "assume-role-arn": None,
}
KEYS = {
    "type": "s3",
    "credential-type": "access-key",
    "access-key-id": "AKID",
    "secret-access-key": "verysecret",
}


def test_the_documented_example_and_its_defaults() -> None:
    profile = parse_profile(DOCUMENTED)
    assert isinstance(profile, S3Profile)
    assert profile.base == "s3://examples/wh"
    document = profile_document(profile)
    assert document["flavor"] == "s3-compat"
    assert document["sts-enabled"] is False
    assert document["remote-signing-enabled"] is True
    assert document["push-s3-delete-disabled"] is True
    assert document["remote-signing-url-style"] == "auto"
    assert document["type"] == "s3"
    assert parse_profile(msgspec.json.decode(encode_profile(profile))) == profile


def test_least_s3_profile() -> None:
    profile = parse_profile({"type": "s3", "bucket": "abc", "region": "eu-west-1"})
    assert profile.base == "s3://abc"
    assert profile_document(profile)["flavor"] == "aws"


@pytest.mark.parametrize("prefix", ["", "/", None])
def test_no_prefix(prefix: str | None) -> None:
    assert parse_profile({**DOCUMENTED, "key-prefix": prefix}).base == "s3://examples"


def test_slashes_around_a_prefix_are_dropped() -> None:
    assert parse_profile({**DOCUMENTED, "key-prefix": "/a/b/"}).base == "s3://examples/a/b"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"type": "ftp"}, "storage-profile.type: 'ftp' is unknown. Legal: s3, gcs, adls, local"),
        ({"type": None}, "storage-profile.type: missing. Legal: s3, gcs, adls, local"),
        ({"type": ["s3"]}, "storage-profile.type"),
        ({"bucket": None}, "storage-profile.bucket: required"),
        ({"bucket": 5}, "storage-profile.bucket: Expected"),
        ({"bucket": "UPPER"}, "storage-profile.bucket"),
        ({"bucket": "ab"}, "storage-profile.bucket"),
        ({"bucket": "a..b"}, "storage-profile.bucket"),
        ({"bucket": "a/b"}, "storage-profile.bucket"),
        ({"bucket": "1.2.3.4"}, "storage-profile.bucket"),
        ({"bucket": "abc\n"}, "storage-profile.bucket"),
        ({"region": None}, "storage-profile.region: required"),
        ({"region": "eu west"}, "storage-profile.region"),
        ({"key-prefix": "a//b"}, "storage-profile.key-prefix"),
        ({"key-prefix": "../b"}, "storage-profile.key-prefix"),
        ({"key-prefix": "a/./b"}, "storage-profile.key-prefix"),
        ({"key-prefix": "a%2Fb"}, "storage-profile.key-prefix"),
        ({"key-prefix": "a?b"}, "storage-profile.key-prefix"),
        ({"key-prefix": "x" * 600}, "storage-profile.key-prefix"),
        ({"endpoint": "ftp://x"}, "storage-profile.endpoint"),
        ({"endpoint": "minio:9000"}, "storage-profile.endpoint"),
        ({"endpoint": "http://"}, "storage-profile.endpoint"),
        ({"endpoint": "http://h:99999"}, "storage-profile.endpoint"),
        ({"endpoint": "http://[::1"}, "storage-profile.endpoint"),
        ({"endpoint": "http://h/?a=1"}, "storage-profile.endpoint"),
        ({"sts-endpoint": "nope"}, "storage-profile.sts-endpoint"),
        ({"flavor": "ceph"}, "storage-profile.flavor: 'ceph' is not legal. Legal: aws, s3-compat"),
        ({"remote-signing-url-style": "x"}, "Legal: path, virtual_host, auto"),
        ({"path-style-access": "yes"}, "storage-profile.path-style-access"),
        ({"sts-token-validity-seconds": 0}, "storage-profile.sts-token-validity-seconds"),
        ({"sts-enabled": True, "flavor": "aws"}, "storage-profile.sts-role-arn: required"),
        ({"sts-session-tags": {"a": 1}}, "storage-profile.sts-session-tags"),
        (
            {"storage-layout": {"type": "x"}},
            "storage-profile.storage-layout.type: 'x' is unknown. Legal: default",
        ),
        ({"storage-layout": {}}, "storage-profile.storage-layout.type"),
        ({"storage-layout": 5}, "storage-profile.storage-layout"),
        ({"storage-layout": {"type": "tabular-only"}}, "storage-profile.storage-layout.tabular: required"),
        (
            {"storage-layout": {"type": "tabular-only", "tabular": "a/b"}},
            "storage-profile.storage-layout.tabular",
        ),
    ],
)
def test_bad_profiles_name_the_field(change: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_profile({**DOCUMENTED, **change})
    assert field in caught.value.message


@pytest.mark.parametrize("raw", [None, [], "s3", 5])
def test_a_profile_is_an_object(raw: object) -> None:
    with pytest.raises(InvalidInput, match="storage-profile: expected an object"):
        parse_profile(raw)


def test_an_endpoint_with_a_password_is_refused_without_repeating_it() -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_profile({**DOCUMENTED, "endpoint": "http://user:hunter2@host"})
    assert "hunter2" not in caught.value.message


def test_local() -> None:
    profile = parse_profile({"type": "local", "path": "/data/wh/", "storage-layout": {"type": "default"}})
    assert isinstance(profile, LocalProfile)
    assert profile.base == "file:///data/wh"
    assert parse_profile(msgspec.json.decode(encode_profile(profile))) == profile


@pytest.mark.parametrize(
    "path", ["", "/", "//", "data", "./x", "/a/../b", "/a//b", "/a/.", "/a%2e", "/a\nb", "/a?b"]
)
def test_bad_local_paths(path: str) -> None:
    with pytest.raises(InvalidInput, match=r"storage-profile\.path"):
        parse_profile({"type": "local", "path": path})


def test_where_the_data_lies_cannot_change() -> None:
    old = parse_profile(DOCUMENTED)
    assert check_update(old, parse_profile({**DOCUMENTED, "region": "other"})) != old
    with pytest.raises(InvalidInput, match=r"storage-profile\.bucket"):
        check_update(old, parse_profile({**DOCUMENTED, "bucket": "other"}))
    with pytest.raises(InvalidInput, match=r"storage-profile\.key-prefix"):
        check_update(old, parse_profile({**DOCUMENTED, "key-prefix": "other"}))
    local = parse_profile({"type": "local", "path": "/a"})
    with pytest.raises(InvalidInput, match=r"storage-profile\.type"):
        check_update(old, local)
    with pytest.raises(InvalidInput, match=r"storage-profile\.path"):
        check_update(local, parse_profile({"type": "local", "path": "/b"}))


@pytest.mark.parametrize(
    "raw",
    [
        KEYS,
        {
            "type": "s3",
            "credential-type": "access-key",
            "aws-access-key-id": "AKID",
            "aws-secret-access-key": "verysecret",
        },
        {**KEYS, "aws-access-key-id": "AKID", "external-id": None},
    ],
)
def test_access_keys_and_their_aliases(raw: dict[str, Any]) -> None:
    credential = parse_credential(raw)
    assert isinstance(credential, S3AccessKey)
    assert (credential.access_key_id, credential.secret_access_key) == ("AKID", "verysecret")
    assert parse_credential(msgspec.json.decode(encode_credential(credential))) == credential
    assert credential_type(credential) == {"type": "s3", "credential-type": "access-key"}
    assert "verysecret" not in repr(credential) + str(credential) + f"{credential!r}"


def test_system_identity() -> None:
    credential = parse_credential(
        {"type": "s3", "credential-type": "aws-system-identity", "external-id": "eid"}
    )
    assert credential_type(credential) == {"type": "s3", "credential-type": "aws-system-identity"}
    assert "eid" not in repr(credential)


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        (None, "storage-credential: expected an object, got null"),
        ({}, "storage-credential.type: a missing value is unknown. Legal: az, gcs, s3"),
        ({"type": "ftp"}, "storage-credential.type: 'ftp' is unknown. Legal: az, gcs, s3"),
        ({"type": "s3"}, "storage-credential.credential-type"),
        ({"type": "s3", "credential-type": "cloudflare-r2"}, "Legal: access-key, aws-system-identity"),
        ({"type": "s3", "credential-type": {}}, "storage-credential.credential-type"),
        ({**KEYS, "access-key-id": None}, "storage-credential.access-key-id: required"),
        ({**KEYS, "secret-access-key": 5}, "storage-credential.secret-access-key"),
        ({**KEYS, "secret-access-key": ""}, "storage-credential.secret-access-key"),
        ({**KEYS, "secret-access-key": "verysecret\n"}, "storage-credential.secret-access-key"),
        ({**KEYS, "aws-access-key-id": "other"}, "storage-credential.access-key-id: given twice"),
    ],
)
def test_bad_credentials_name_the_field_and_not_the_value(raw: object, field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_credential(raw)
    assert field in caught.value.message
    assert "verysecret" not in caught.value.message


def test_a_credential_must_go_with_its_profile() -> None:
    s3, local = parse_profile(DOCUMENTED), parse_profile({"type": "local", "path": "/a"})
    check_pair(s3, parse_credential(KEYS))
    check_pair(local, None)
    with pytest.raises(InvalidInput, match="storage-credential: required"):
        check_pair(s3, None)
    with pytest.raises(InvalidInput, match="takes none"):
        check_pair(local, parse_credential(KEYS))
