"""Profiles and credentials of Google and Azure as JSON."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from frazil.catalog.storage import (
    AdlsProfile,
    GcsProfile,
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

GCS = {"type": "gcs", "bucket": "lake", "key-prefix": "wh"}
ADLS = {"type": "adls", "account-name": "account", "filesystem": "lake", "key-prefix": "/wh/"}
KEY = {
    "type": "service_account",
    "project_id": "project",
    "private_key_id": "verysecret-id",
    "private_key": "-----BEGIN PRIVATE KEY-----\nverysecret\n-----END PRIVATE KEY-----\n",
    "client_email": "me@project.iam.gserviceaccount.com",
    "client_id": "1",
    "auth_uri": "https://accounts.google.com/o/oauth2/auth",
    "token_uri": "https://oauth2.googleapis.com/token",
    "auth_provider_x509_cert_url": "https://www.googleapis.com/oauth2/v1/certs",
    "client_x509_cert_url": "https://www.googleapis.com/robot/v1/metadata/x509/me",
    "universe_domain": "googleapis.com",
}
SERVICE_ACCOUNT = {"type": "gcs", "credential-type": "service-account-key", "key": KEY}
CLIENT = {
    "type": "az",
    "credential-type": "client-credentials",
    "client-id": "client",
    "tenant-id": "0b0b0b0b-0000-0000-0000-000000000000",
    "client-secret": "verysecret~.",
}
SHARED_KEY = {"type": "az", "credential-type": "shared-access-key", "key": "dmVyeXNlY3JldA=="}


def test_gcs_and_its_defaults() -> None:
    profile = parse_profile(GCS)
    assert isinstance(profile, GcsProfile)
    assert profile.base == "gs://lake/wh"
    document = profile_document(profile)
    assert document["type"] == "gcs"
    assert document["sts-enabled"] is True
    assert parse_profile(msgspec.json.decode(encode_profile(profile))) == profile
    assert parse_profile({"type": "gcs", "bucket": "a_b.c"}).base == "gs://a_b.c"


def test_adls_and_its_defaults() -> None:
    profile = parse_profile(
        {**ADLS, "host": None, "authority-host": None, "sas-token-validity-seconds": None}
    )
    assert isinstance(profile, AdlsProfile)
    assert profile.base == "abfss://lake@account.dfs.core.windows.net/wh"
    assert profile.blob_endpoint == "https://account.blob.core.windows.net"
    document = profile_document(profile)
    assert document["sas-enabled"] is True
    assert document["sas-token-validity-seconds"] == 3600
    assert document["allow-alternative-protocols"] is False
    assert document["host"] == "dfs.core.windows.net"
    assert parse_profile(msgspec.json.decode(encode_profile(profile))) == profile


@pytest.mark.parametrize(
    ("host", "blob"),
    [
        ("dfs.core.chinacloudapi.cn", "https://account.blob.core.chinacloudapi.cn"),
        ("z12.dfs.storage.azure.net", "https://account.z12.blob.storage.azure.net"),
    ],
)
def test_other_clouds_of_azure(host: str, blob: str) -> None:
    profile = parse_profile({**ADLS, "host": host, "authority-host": "https://login.chinacloudapi.cn/"})
    assert isinstance(profile, AdlsProfile)
    assert profile.base == f"abfss://lake@account.{host}/wh"
    assert profile.blob_endpoint == blob
    assert profile.authority_host == "https://login.chinacloudapi.cn"


@pytest.mark.parametrize(
    ("profile", "change", "field"),
    [
        (GCS, {"bucket": None}, "storage-profile.bucket: required"),
        (GCS, {"bucket": "Upper"}, "storage-profile.bucket"),
        (GCS, {"bucket": "google-x"}, "storage-profile.bucket"),
        (GCS, {"bucket": "1.2.3.4"}, "storage-profile.bucket"),
        (GCS, {"bucket": "a..b"}, "storage-profile.bucket"),
        (GCS, {"bucket": "a" * 64}, "storage-profile.bucket"),
        (GCS, {"bucket": "a'b"}, "storage-profile.bucket"),
        (GCS, {"key-prefix": "a/../b"}, "storage-profile.key-prefix"),
        (GCS, {"endpoint": "https://evil.example"}, "storage-profile.endpoint"),
        (GCS, {"endpoint": "https://evilgoogleapis.com"}, "storage-profile.endpoint"),
        (GCS, {"endpoint": "https://storage.googleapis.com.evil.example"}, "storage-profile.endpoint"),
        (GCS, {"endpoint": "https://storage.googleapis.com/path"}, "storage-profile.endpoint"),
        (GCS, {"endpoint": "https://x@storage.googleapis.com"}, "storage-profile.endpoint"),
        (GCS, {"sts-enabled": "yes"}, "storage-profile.sts-enabled"),
        (ADLS, {"account-name": "Account"}, "storage-profile.account-name"),
        (ADLS, {"account-name": "a.b"}, "storage-profile.account-name"),
        (ADLS, {"account-name": "abc\n"}, "storage-profile.account-name"),
        (ADLS, {"filesystem": "a--b"}, "storage-profile.filesystem"),
        (ADLS, {"filesystem": "ab"}, "storage-profile.filesystem"),
        (ADLS, {"filesystem": "abc\n"}, "storage-profile.filesystem"),
        (ADLS, {"filesystem": "a@bc"}, "storage-profile.filesystem"),
        (ADLS, {"host": "evil.example"}, "storage-profile.host"),
        (ADLS, {"host": "dfs.core.windows.net.evil.example"}, "storage-profile.host"),
        (ADLS, {"host": "z1.dfs.storage.azure.net/x"}, "storage-profile.host"),
        (ADLS, {"authority-host": "https://evil.example"}, "storage-profile.authority-host"),
        (ADLS, {"authority-host": "http://login.microsoftonline.com"}, "storage-profile.authority-host"),
        (ADLS, {"sas-token-validity-seconds": 59}, "storage-profile.sas-token-validity-seconds"),
        (ADLS, {"sas-token-validity-seconds": 604_801}, "storage-profile.sas-token-validity-seconds"),
        (ADLS, {"storage-layout": {"type": "x"}}, "storage-profile.storage-layout.type"),
    ],
)
def test_bad_profiles_name_the_field(profile: dict[str, Any], change: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_profile({**profile, **change})
    assert field in caught.value.message


@pytest.mark.parametrize(
    ("endpoint", "emulated"),
    [("https://storage.googleapis.com", False), ("https://x.p.googleapis.com", False), ("http://h:1/", True)],
)
def test_endpoints_of_google_and_of_emulators(endpoint: str, emulated: bool) -> None:
    profile = parse_profile({**GCS, "endpoint": endpoint})
    assert isinstance(profile, GcsProfile)
    assert profile.endpoint == endpoint.rstrip("/")
    assert profile.emulated is emulated


@pytest.mark.parametrize(
    ("old", "change"),
    [
        (GCS, {"bucket": "other"}),
        (GCS, {"key-prefix": "other"}),
        (ADLS, {"account-name": "other"}),
        (ADLS, {"filesystem": "other"}),
        (ADLS, {"host": "dfs.core.usgovcloudapi.net"}),
        (ADLS, {"key-prefix": None}),
    ],
)
def test_where_the_data_lies_cannot_change(old: dict[str, Any], change: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=f"storage-profile.{next(iter(change))}: cannot change"):
        check_update(parse_profile(old), parse_profile({**old, **change}))


@pytest.mark.parametrize("raw", [SERVICE_ACCOUNT, CLIENT, SHARED_KEY])
def test_credentials_are_read_back_and_do_not_print(raw: dict[str, Any]) -> None:
    credential = parse_credential(raw)
    assert parse_credential(msgspec.json.decode(encode_credential(credential))) == credential
    assert credential_type(credential) == {name: raw[name] for name in ("type", "credential-type")}
    secret = {"gcs": "verysecret", "az": raw.get("client-secret", raw.get("key"))}[raw["type"]]
    assert any(str(secret) in kept for kept in credential.secrets())
    assert str(secret) not in repr(credential) + str(credential)


@pytest.mark.parametrize(("kind", "name"), [("gcs", "gcp-system-identity"), ("az", "azure-system-identity")])
def test_system_identities(kind: str, name: str) -> None:
    raw = {"type": kind, "credential-type": name}
    assert credential_type(parse_credential(raw)) == raw


def with_key(**change: Any) -> dict[str, Any]:
    return {**SERVICE_ACCOUNT, "key": {**KEY, **change}}


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        ({**SERVICE_ACCOUNT, "key": None}, "storage-credential.key: required"),
        ({**SERVICE_ACCOUNT, "key": "verysecret"}, "storage-credential.key"),
        (with_key(type="authorized_user"), "storage-credential.key.type"),
        (with_key(private_key="verysecret"), "storage-credential.key.private_key"),
        (with_key(client_email="a b"), "storage-credential.key.client_email"),
        (with_key(token_uri="https://evil.example/token"), "storage-credential.key.token_uri"),
        (with_key(token_uri="http://169.254.169.254/latest"), "storage-credential.key.token_uri"),
        (with_key(token_uri="http://oauth2.googleapis.com/token"), "storage-credential.key.token_uri"),
        (with_key(universe_domain="evil.example"), "storage-credential.key.universe_domain"),
        ({**CLIENT, "tenant-id": "../x"}, "storage-credential.tenant-id"),
        ({**CLIENT, "tenant-id": "a/b"}, "storage-credential.tenant-id"),
        ({**CLIENT, "client-secret": None}, "storage-credential.client-secret: required"),
        ({**SHARED_KEY, "key": "verysecret!"}, "storage-credential.key"),
        ({"type": "az", "credential-type": "access-key"}, "Legal: azure-system-identity, client-credentials"),
    ],
)
def test_bad_credentials_name_the_field_and_not_the_value(raw: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_credential(raw)
    assert field in caught.value.message
    assert "verysecret" not in caught.value.message


def test_a_credential_must_go_with_its_profile() -> None:
    gcs, adls = parse_profile(GCS), parse_profile(ADLS)
    check_pair(gcs, parse_credential(SERVICE_ACCOUNT))
    check_pair(adls, parse_credential(CLIENT))
    check_pair(adls, parse_credential(SHARED_KEY))
    for profile, other in ((gcs, CLIENT), (adls, SERVICE_ACCOUNT)):
        with pytest.raises(InvalidInput, match=r"storage-credential\.type"):
            check_pair(profile, parse_credential(other))
        with pytest.raises(InvalidInput, match="storage-credential: required"):
            check_pair(profile, None)


def test_only_a_key_that_stays_here_goes_with_an_endpoint() -> None:
    profile = parse_profile({**ADLS, "endpoint": "https://private.example/account"})
    check_pair(profile, parse_credential(SHARED_KEY))
    for raw in (CLIENT, {"type": "az", "credential-type": "azure-system-identity"}):
        with pytest.raises(InvalidInput, match=r"storage-profile\.endpoint"):
            check_pair(profile, parse_credential(raw))
