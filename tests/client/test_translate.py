"""Vended keys in each consumer's words. What the consumers make of them: `test_vended.py`."""

from __future__ import annotations

import json
import pickle
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from frazil.client import StorageCredential, Table, VendedCredentials, hadoop_configuration
from frazil.client.answers import decoded
from frazil.client.flow import Answer
from frazil.client.translate import ADLS, GCS, S3
from frazil.client.translate.python import pyarrow_arguments
from frazil.client.translate.table import Row, translated
from frazil.core.errors import FrazilError, InvalidInput, Unauthenticated, Unsupported

# Long after any run of these tests: it is reckoned when they are collected.
LATER = str(int((datetime.now(UTC) + timedelta(days=1)).timestamp() * 1000))
PAST = str(int((datetime.now(UTC) - timedelta(seconds=1)).timestamp() * 1000))
PREFIX = "s3://lake/wh/t1"
SECRETS = ("SECRET-ACCESS", "SESSION-TOKEN", "OAUTH-TOKEN", "SAS-SIGNATURE")
KEYS = {
    "s3.access-key-id": "AKIA",
    "s3.secret-access-key": "SECRET-ACCESS",
    "s3.session-token": "SESSION-TOKEN",
    "s3.session-token-expires-at-ms": LATER,
    "s3.endpoint": "http://127.0.0.1:9000/",
    "s3.region": "us-east-1",
    "s3.path-style-access": "true",
}
ON_AWS = {key: value for key, value in KEYS.items() if "endpoint" not in key and "path" not in key}
HOST = "lake.dfs.core.windows.net"
SAS = "sv=2024-11-04&sr=d&sig=SAS-SIGNATURE%3D"
AZURE = VendedCredentials(
    f"abfss://data@{HOST}/wh/t1",
    {f"adls.sas-token.{HOST}": SAS, f"adls.sas-token-expires-at-ms.{HOST}": LATER},
)
GOOGLE = VendedCredentials(
    "gs://lake/wh/t1",
    {"gcs.oauth2.token": "OAUTH-TOKEN", "gcs.oauth2.token-expires-at": LATER, "gcs.project-id": "p1"},
)


def keys(prefix: str = PREFIX, **changes: str | None) -> VendedCredentials:
    changed = {**KEYS, **{name.replace("_", "."): value for name, value in changes.items()}}
    return VendedCredentials(prefix, {name: value for name, value in changed.items() if value is not None})


def without(*names: str, of: dict[str, str] = KEYS) -> VendedCredentials:
    return VendedCredentials(PREFIX, {key: value for key, value in of.items() if key not in names})


def test_s3a() -> None:
    root = "fs.s3a.bucket.lake"
    assert keys().to_s3a() == {
        f"{root}.access.key": "AKIA",
        f"{root}.secret.key": "SECRET-ACCESS",
        f"{root}.session.token": "SESSION-TOKEN",
        f"{root}.endpoint": "http://127.0.0.1:9000",
        f"{root}.connection.ssl.enabled": "false",
        f"{root}.endpoint.region": "us-east-1",
        f"{root}.path.style.access": "true",
        f"{root}.aws.credentials.provider": "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider",
        f"{root}.directory.marker.retention": "keep",
    }


def test_encryption_with_a_key_of_the_customer() -> None:
    found = VendedCredentials(PREFIX, KEYS | {"s3.sse.type": "kms", "s3.sse.key": "arn:aws:kms:eu:1:key/k"})
    conf = found.to_s3a()
    assert conf["fs.s3a.bucket.lake.encryption.algorithm"] == "SSE-KMS"
    assert conf["fs.s3a.bucket.lake.encryption.key"] == "arn:aws:kms:eu:1:key/k"
    assert found.to_fsspec()["s3_additional_kwargs"] == {
        "ServerSideEncryption": "aws:kms",
        "SSEKMSKeyId": "arn:aws:kms:eu:1:key/k",
    }
    assert "KMS_KEY_ID 'arn:aws:kms:eu:1:key/k'" in found.to_duckdb()
    with pytest.raises(InvalidInput, match="encryption"):
        VendedCredentials(PREFIX, KEYS | {"s3.sse.type": "rot13"}).to_s3a()


def test_s3a_on_aws_and_without_a_session() -> None:
    found = VendedCredentials(PREFIX, ON_AWS).to_s3a()
    assert not any("endpoint" in key and "region" not in key for key in found)
    assert not any("ssl" in key for key in found)
    assert found["fs.s3a.bucket.lake.path.style.access"] == "false"
    static = without("s3.session-token").to_s3a()
    assert static["fs.s3a.bucket.lake.aws.credentials.provider"].endswith(".SimpleAWSCredentialsProvider")
    assert "fs.s3a.bucket.lake.session.token" not in static


@pytest.mark.parametrize(
    ("given", "setting", "expected"),
    [
        ({"s3.endpoint": "https://s3.example"}, "connection.ssl.enabled", "true"),
        ({"client.endpoint": "https://other.example"}, "endpoint", "https://other.example"),
        ({"client.endpoint": "https://x", "s3.endpoint": "https://y"}, "endpoint", "https://y"),
        ({"s3.endpoint": "minio.example:9000"}, "connection.ssl.enabled", "true"),
        ({"client.region": "eu-1", "s3.region": ""}, "endpoint.region", "eu-1"),
        ({"region": "eu-2", "s3.region": ""}, "endpoint.region", "eu-2"),
        ({"s3.path-style-access": "TRUE"}, "path.style.access", "true"),
    ],
)
def test_one_setting_under_several_names(given: dict[str, str], setting: str, expected: str) -> None:
    base = {key: value for key, value in KEYS.items() if key != "s3.endpoint"}
    found = VendedCredentials(PREFIX, base | given).to_s3a()
    assert found[f"fs.s3a.bucket.lake.{setting}"] == expected


def test_s3a_knows_one_key_per_bucket() -> None:
    first, second = keys("s3://lake/wh/t1"), keys("s3://lake/wh/t2")
    with pytest.raises(InvalidInput) as caught:
        hadoop_configuration([first, second])
    for word in ("one key per bucket", "S3FileIO", "pyarrow", first.prefix, second.prefix):
        assert word in caught.value.message
    other = keys("s3://pond/wh/t2")
    both = hadoop_configuration([first, other, first])
    assert both == first.to_s3a() | other.to_s3a()


def test_abfs_knows_one_token_per_account() -> None:
    other = VendedCredentials(f"abfss://data@{HOST}/wh/t2", AZURE.config)
    with pytest.raises(InvalidInput, match="one token per account"):
        hadoop_configuration([AZURE, other])
    assert hadoop_configuration([AZURE, keys()]) == AZURE.to_abfs() | keys().to_s3a()


def test_googles_connector_knows_one_token() -> None:
    other = VendedCredentials("gs://pond/wh/t2", GOOGLE.config)
    with pytest.raises(InvalidInput, match="one token per job"):
        hadoop_configuration([GOOGLE, other], gcs_provider="org.example.Provider")
    with pytest.raises(InvalidInput, match="gcs_provider"):
        hadoop_configuration([GOOGLE])


def test_abfs() -> None:
    assert (
        AZURE.to_abfs()
        == AZURE.to_hadoop()
        == {
            f"fs.azure.account.auth.type.{HOST}": "SAS",
            f"fs.azure.account.hns.enabled.{HOST}": "true",
            f"fs.azure.sas.fixed.token.{HOST}": SAS,
        }
    )


def test_googles_connector() -> None:
    assert GOOGLE.to_gcs_connector("org.example.Provider") == {
        "fs.gs.auth.type": "ACCESS_TOKEN_PROVIDER",
        "fs.gs.auth.access.token.provider": "org.example.Provider",
        "fs.gs.auth.access.token.provider.impl": "org.example.Provider",
        "fs.gs.auth.access.token": "OAUTH-TOKEN",
        "fs.gs.auth.access.token.expiration.ms": LATER,
        "fs.gs.project.id": "p1",
    }


def test_pyarrow() -> None:
    assert pyarrow_arguments(keys()) == (
        "S3FileSystem",
        {
            "access_key": "AKIA",
            "secret_key": "SECRET-ACCESS",
            "session_token": "SESSION-TOKEN",
            "endpoint_override": "127.0.0.1:9000",
            "scheme": "http",
            "region": "us-east-1",
            "force_virtual_addressing": False,
        },
    )
    kind, arguments = pyarrow_arguments(GOOGLE)
    assert kind == "GcsFileSystem"
    assert arguments == {
        "access_token": "OAUTH-TOKEN",
        "credential_token_expiration": GOOGLE.expires_at,
        "project_id": "p1",
    }
    assert pyarrow_arguments(AZURE) == ("AzureFileSystem", {"account_name": "lake", "sas_token": SAS})


def test_pyarrow_takes_what_it_is_given() -> None:
    for found in (keys(), GOOGLE, AZURE):
        assert type(found.to_pyarrow()).__name__ == pyarrow_arguments(found)[0]


def test_other_clouds_of_azure() -> None:
    host = "lake.dfs.core.usgovcloudapi.net"
    found = VendedCredentials(f"abfss://data@{host}/t", {f"adls.sas-token.{host}": SAS})
    _, arguments = pyarrow_arguments(found)
    assert arguments["dfs_storage_authority"] == ".dfs.core.usgovcloudapi.net"
    assert arguments["blob_storage_authority"] == ".blob.core.usgovcloudapi.net"
    assert found.to_fsspec()["account_host"] == "lake.blob.core.usgovcloudapi.net"
    assert "EndpointSuffix=core.usgovcloudapi.net" in found.to_duckdb()


def test_a_token_named_by_its_account() -> None:
    short = VendedCredentials(f"abfss://data@{HOST}/t", {"adls.sas-token.lake": SAS})
    assert short.to_abfs()[f"fs.azure.sas.fixed.token.{HOST}"] == SAS
    foreign = VendedCredentials(f"abfss://data@{HOST}/t", {"adls.sas-token.pond": SAS})
    with pytest.raises(InvalidInput, match=r"no adls\.sas-token\.lake\.dfs"):
        foreign.to_abfs()


def test_fsspec() -> None:
    assert keys().to_fsspec() == {
        "key": "AKIA",
        "secret": "SECRET-ACCESS",
        "token": "SESSION-TOKEN",
        "endpoint_url": "http://127.0.0.1:9000",
        "client_kwargs": {"region_name": "us-east-1"},
        "config_kwargs": {"s3": {"addressing_style": "path"}},
    }
    assert AZURE.to_fsspec() == {"account_name": "lake", "sas_token": SAS}


def test_boto3() -> None:
    found = keys().to_boto3()
    assert found.pop("config").s3 == {"addressing_style": "path"}
    assert found == {
        "aws_access_key_id": "AKIA",
        "aws_secret_access_key": "SECRET-ACCESS",
        "aws_session_token": "SESSION-TOKEN",
        "endpoint_url": "http://127.0.0.1:9000",
        "region_name": "us-east-1",
    }


def test_the_environment() -> None:
    assert keys().to_environment() == {
        "AWS_ACCESS_KEY_ID": "AKIA",
        "AWS_SECRET_ACCESS_KEY": "SECRET-ACCESS",
        "AWS_SESSION_TOKEN": "SESSION-TOKEN",
        "AWS_ENDPOINT_URL_S3": "http://127.0.0.1:9000",
        "AWS_REGION": "us-east-1",
    }


def test_duckdb() -> None:
    assert keys().to_duckdb() == (
        'CREATE OR REPLACE TEMPORARY SECRET "frazil" (TYPE s3, '
        "KEY_ID 'AKIA', SECRET 'SECRET-ACCESS', SESSION_TOKEN 'SESSION-TOKEN', ENDPOINT '127.0.0.1:9000', "
        "USE_SSL false, REGION 'us-east-1', URL_STYLE 'path', SCOPE 's3://lake/wh/t1/')"
    )
    assert "BEARER_TOKEN 'OAUTH-TOKEN', SCOPE 'gs://lake/wh/t1/'" in GOOGLE.to_duckdb()
    assert (
        f"AccountName=lake;EndpointSuffix=core.windows.net;SharedAccessSignature={SAS}" in AZURE.to_duckdb()
    )


def test_duckdb_quotes_what_it_is_given() -> None:
    evil = VendedCredentials("s3://lake/t'1", KEYS | {"s3.session-token": "a'); DROP TABLE x; --"})
    statement = evil.to_duckdb('my "secret"')
    assert """SECRET "my ""secret""" in statement
    assert "SESSION_TOKEN 'a''); DROP TABLE x; --'" in statement
    assert "SCOPE 's3://lake/t''1/'" in statement


@pytest.mark.parametrize(
    ("found", "consumer"),
    [
        (GOOGLE, "to_s3a"),
        (AZURE, "to_s3a"),
        (keys(), "to_abfs"),
        (GOOGLE, "to_boto3"),
        (AZURE, "to_environment"),
        (VendedCredentials("file:///x", {}), "to_pyarrow"),
        (VendedCredentials("oss://x", {}), "to_duckdb"),
        (VendedCredentials("file:///x", {}), "to_hadoop"),
        (VendedCredentials("hdfs://x", {}), "to_fsspec"),
    ],
)
def test_keys_of_another_store(found: VendedCredentials, consumer: str) -> None:
    with pytest.raises(Unsupported, match="It can use keys for"):
        getattr(found, consumer)()


@pytest.mark.parametrize("missing", ["s3.access-key-id", "s3.secret-access-key"])
def test_a_missing_key_is_named(missing: str) -> None:
    for consumer in ("to_s3a", "to_pyarrow", "to_fsspec", "to_boto3", "to_duckdb", "to_environment"):
        with pytest.raises(InvalidInput, match=f"no {missing}") as caught:
            getattr(without(missing), consumer)()
        assert not any(secret in caught.value.message for secret in SECRETS)


def test_a_place_that_is_none() -> None:
    with pytest.raises(InvalidInput, match="abfss://container@account"):
        VendedCredentials("abfss://lake/x", AZURE.config).to_abfs()


@pytest.mark.parametrize("key", ["s3.session-token-expires-at-ms", "expiration-time"])
def test_expired_keys_are_not_translated(key: str) -> None:
    old = VendedCredentials(PREFIX, KEYS | {key: PAST})
    assert old.expires_soon(0)
    for consumer in ("to_s3a", "to_pyarrow", "to_fsspec", "to_boto3", "to_duckdb", "to_environment"):
        with pytest.raises(Unauthenticated, match=r"expired at .*new ones"):
            getattr(old, consumer)()


def test_how_long_keys_last() -> None:
    found = keys()
    assert found.expires_at is not None
    assert not found.expires_soon()
    assert not found.expires_soon(timedelta(hours=20))
    assert found.expires_soon(timedelta(hours=25))
    assert found.expires_soon(25 * 3600)
    lasting = without("s3.session-token-expires-at-ms")
    assert lasting.expires_at is None
    assert not lasting.expires_soon(10**9)
    with pytest.raises(InvalidInput, match="milliseconds"):
        VendedCredentials(PREFIX, {"expiration-time": "soon"})


def answer(kind: type[Any], document: object) -> Any:
    return decoded(Answer(200, {}, json.dumps(document).encode()), kind)


def test_the_credential_with_the_longest_prefix_counts() -> None:
    table = answer(
        Table,
        {
            "metadata": {"location": "s3://lake/wh/t1"},
            "config": {"s3.endpoint": "http://beside"},
            "storage-credentials": [
                {"prefix": "s3://lake/wh", "config": KEYS | {"s3.access-key-id": "wide"}},
                {"prefix": "s3://lake/wh/t1/", "config": ON_AWS | {"s3.access-key-id": "exact"}},
                {"prefix": "s3://lake/wh/t1/data", "config": KEYS | {"s3.access-key-id": "below"}},
                {"prefix": "s3://lake/wh/t", "config": KEYS | {"s3.access-key-id": "sibling"}},
            ],
        },
    )
    assert table.credentials().config["s3.access-key-id"] == "exact"
    assert table.credentials().config["s3.endpoint"] == "http://beside"


def test_a_neighbour_of_the_same_beginning_is_not_reached() -> None:
    entry = {"prefix": "s3://lake/wh/t1", "config": KEYS}
    table = answer(Table, {"metadata": {"location": "s3://lake/wh/t10"}, "storage-credentials": [entry]})
    with pytest.raises(InvalidInput, match="reaches s3://lake/wh/t10"):
        table.credentials()


def test_nothing_prints_a_secret() -> None:
    table = answer(
        Table,
        {
            "metadata": {"location": PREFIX},
            "config": KEYS,
            "storage-credentials": [{"prefix": PREFIX, "config": KEYS}],
        },
    )
    shown = [repr(table), str(table), f"{table}", repr(table.storage_credentials), repr(table.config)]
    shown += [repr(keys()), str(GOOGLE), f"{AZURE!r}", str(list(table.__rich_repr__()))]
    assert not any(secret in text for text in shown for secret in SECRETS)
    assert PREFIX in repr(keys())


def test_an_answer_that_cannot_be_read_is_not_repeated() -> None:
    with pytest.raises(FrazilError) as caught:
        answer(StorageCredential, {"prefix": PREFIX, "config": "SECRET-ACCESS"})
    assert "SECRET-ACCESS" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_keys_can_be_broadcast() -> None:
    copy = pickle.loads(pickle.dumps(keys()))
    assert copy == keys()
    assert hash(copy) == hash(keys())
    assert copy.expires_at == keys().expires_at
    assert copy.to_s3a() == keys().to_s3a()


def test_keys_cannot_be_changed() -> None:
    """Sets and caches hold them by their value."""
    with pytest.raises(AttributeError):
        keys().prefix = "s3://lake/other"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("rows", "found"), [(S3, keys()), (GCS, GOOGLE), (ADLS, AZURE)], ids=["S3", "GCS", "ADLS"]
)
def test_every_cell_of_the_table_counts(rows: tuple[Row, ...], found: VendedCredentials) -> None:
    """Without a setting, everybody who has a word for it gets another translation, or none."""
    names = {"host": HOST, "account": "lake"}
    config = dict(found.config) | {"gcs.service.host": "http://gcs.example"}
    config |= {"s3.sse.type": "kms", "s3.sse.key": "arn:aws:kms:eu:1:key/k"}
    for row in rows:
        poorer = {key: value for key, value in config.items() if key not in _named(row, names)}
        assert len(poorer) < len(config), row.meaning
        for column in row.cells:
            before = translated(rows, column, VendedCredentials(found.prefix, config), **names)
            try:
                after = translated(rows, column, VendedCredentials(found.prefix, poorer), **names)
            except InvalidInput:
                assert row.required
            else:
                assert after != before, f"{row.meaning}, {column}"


def _named(row: Row, names: dict[str, str]) -> set[str]:
    found = set(row.keys)
    for name, value in names.items():
        found |= {key.replace(f"<{name}>", value) for key in row.keys}
    return found
