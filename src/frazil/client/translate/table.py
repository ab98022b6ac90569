"""The one table: Iceberg's name for a storage setting, and each consumer's name for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any
from urllib.parse import urlsplit

from frazil.client.credentials import VendedCredentials
from frazil.core.errors import InvalidInput, Unsupported

#: Hadoop's words for S3 are beside the store's own.
S3_SCHEMES = ("s3", "s3a", "s3n")


class Column(StrEnum):
    """A consumer."""

    HADOOP = "Hadoop"
    PYARROW = "pyarrow"
    FSSPEC = "fsspec"
    BOTO3 = "boto3"
    DUCKDB = "DuckDB"
    ENVIRONMENT = "environment"


@dataclass(frozen=True)
class Cell:
    """A consumer's name for a setting, and the form in which it wants the value."""

    name: str
    convert: Callable[[str], Any] = str


@dataclass(frozen=True)
class Row:
    """One setting. Of several Iceberg names, the first that is there counts."""

    meaning: str
    keys: tuple[str, ...]
    cells: Mapping[Column, tuple[Cell, ...]]
    required: bool = False
    #: What is converted when no key is there.
    default: str | None = field(default=None)


def one(name: str, convert: Callable[[str], Any] = str) -> tuple[Cell, ...]:
    return (Cell(name, convert),)


def is_true(text: str) -> bool:
    return text.strip().lower() == "true"


def authority(url: str) -> str:
    """Host and port of an endpoint, for those who take the scheme apart."""
    return urlsplit(url).netloc if "://" in url else url.rstrip("/")


def scheme(url: str) -> str:
    return urlsplit(url).scheme if "://" in url else "https"


def is_https(url: str) -> bool:
    return scheme(url) == "https"


def _bare(url: str) -> str:
    return url.rstrip("/")


def _words(truth: bool) -> str:
    return "true" if truth else "false"


def _moment(text: str) -> datetime:
    return datetime.fromtimestamp(int(text) / 1000, UTC)


_S3A_ENCRYPTION = {"kms": "SSE-KMS", "dsse-kms": "DSSE-KMS", "s3": "AES256"}
_AWS_ENCRYPTION = {"kms": "aws:kms", "dsse-kms": "aws:kms:dsse", "s3": "AES256"}
H, A, F, B, D, E = (
    Column.HADOOP,
    Column.PYARROW,
    Column.FSSPEC,
    Column.BOTO3,
    Column.DUCKDB,
    Column.ENVIRONMENT,
)

#: Hadoop's names are below `fs.s3a.bucket.<bucket>.`; a slash leads into a nested dictionary.
S3: tuple[Row, ...] = (
    Row(
        "access key",
        ("s3.access-key-id",),
        {
            H: one("access.key"),
            A: one("access_key"),
            F: one("key"),
            B: one("aws_access_key_id"),
            D: one("KEY_ID"),
            E: one("AWS_ACCESS_KEY_ID"),
        },
        required=True,
    ),
    Row(
        "secret key",
        ("s3.secret-access-key",),
        {
            H: one("secret.key"),
            A: one("secret_key"),
            F: one("secret"),
            B: one("aws_secret_access_key"),
            D: one("SECRET"),
            E: one("AWS_SECRET_ACCESS_KEY"),
        },
        required=True,
    ),
    Row(
        "session token",
        ("s3.session-token",),
        {
            H: one("session.token"),
            A: one("session_token"),
            F: one("token"),
            B: one("aws_session_token"),
            D: one("SESSION_TOKEN"),
            E: one("AWS_SESSION_TOKEN"),
        },
    ),
    Row(
        "endpoint",
        ("s3.endpoint", "client.endpoint"),
        {
            H: (
                Cell("endpoint", _bare),
                Cell("connection.ssl.enabled", lambda url: _words(is_https(url))),
            ),
            A: (Cell("endpoint_override", authority), Cell("scheme", scheme)),
            F: one("endpoint_url", _bare),
            B: one("endpoint_url", _bare),
            D: (Cell("ENDPOINT", authority), Cell("USE_SSL", is_https)),
            E: one("AWS_ENDPOINT_URL_S3", _bare),
        },
    ),
    Row(
        "region",
        ("s3.region", "client.region", "region"),
        {
            H: one("endpoint.region"),
            A: one("region"),
            F: one("client_kwargs/region_name"),
            B: one("region_name"),
            D: one("REGION"),
            E: one("AWS_REGION"),
        },
    ),
    Row(
        "path style",
        ("s3.path-style-access",),
        {
            H: one("path.style.access", lambda text: _words(is_true(text))),
            A: one("force_virtual_addressing", lambda text: not is_true(text)),
            F: one("config_kwargs/s3/addressing_style", lambda text: "path" if is_true(text) else "virtual"),
            B: one("config/s3/addressing_style", lambda text: "path" if is_true(text) else "virtual"),
            D: one("URL_STYLE", lambda text: "path" if is_true(text) else "vhost"),
        },
        default="false",
    ),
    Row(
        "encryption",
        ("s3.sse.type",),
        {
            H: one("encryption.algorithm", _S3A_ENCRYPTION.__getitem__),
            F: one("s3_additional_kwargs/ServerSideEncryption", _AWS_ENCRYPTION.__getitem__),
        },
    ),
    Row(
        "encryption key",
        ("s3.sse.key",),
        {
            H: one("encryption.key"),
            F: one("s3_additional_kwargs/SSEKMSKeyId"),
            D: one("KMS_KEY_ID"),
        },
    ),
)

#: Google's connector has no provider for a given token, so a class must be named that reads these.
GCS: tuple[Row, ...] = (
    Row(
        "access token",
        ("gcs.oauth2.token",),
        {
            H: one("fs.gs.auth.access.token"),
            A: one("access_token"),
            F: one("token"),
            D: one("BEARER_TOKEN"),
        },
        required=True,
    ),
    Row(
        "expiry",
        ("gcs.oauth2.token-expires-at", "expiration-time"),
        {
            H: one("fs.gs.auth.access.token.expiration.ms"),
            A: one("credential_token_expiration", _moment),
        },
    ),
    Row(
        "project",
        ("gcs.project-id",),
        {H: one("fs.gs.project.id"), A: one("project_id"), F: one("project")},
    ),
    Row(
        "endpoint",
        ("gcs.service.host",),
        {
            H: one("fs.gs.storage.root.url", lambda url: f"{_bare(url)}/"),
            A: (Cell("endpoint_override", authority), Cell("scheme", scheme)),
            F: one("endpoint_url", _bare),
        },
    ),
)

#: `<host>` is the account's, such as `lake.dfs.core.windows.net`.
ADLS: tuple[Row, ...] = (
    Row(
        "SAS token",
        ("adls.sas-token.<host>", "adls.sas-token.<account>"),
        {
            H: one("fs.azure.sas.fixed.token.<host>"),
            A: one("sas_token"),
            F: one("sas_token"),
            D: one("SharedAccessSignature"),
        },
        required=True,
    ),
)


def translated(
    rows: tuple[Row, ...], column: Column, credentials: VendedCredentials, **names: str
) -> dict[str, Any]:
    """The settings of one consumer. `names` stand for what is in angle brackets in the table."""
    credentials.require_valid()
    found: dict[str, Any] = {}
    for row in rows:
        value = _value(row, credentials, names)
        if value is None:
            continue
        for cell in row.cells.get(column, ()):
            try:
                _put(found, _named(cell.name, names).split("/"), cell.convert(value))
            except (ValueError, KeyError):
                # The value may be a secret, so it is not repeated.
                raise InvalidInput(
                    f"the vended {row.meaning} for {credentials.prefix} is malformed"
                ) from None
    return found


def require_scheme(credentials: VendedCredentials, consumer: str, *schemes: str) -> None:
    """Refuse keys of another store."""
    if credentials.scheme not in schemes:
        legal = ", ".join(f"{name}://" for name in schemes)
        raise Unsupported(
            f"{consumer} cannot use keys for {credentials.prefix}. It can use keys for: {legal}"
        )


def _value(row: Row, credentials: VendedCredentials, names: Mapping[str, str]) -> str | None:
    keys = [_named(key, names) for key in row.keys]
    for key in keys:
        if credentials.config.get(key):
            return credentials.config[key]
    if row.required:
        given = ", ".join(sorted(credentials.config)) or "nothing"
        raise InvalidInput(
            f"the vended keys for {credentials.prefix} hold no {keys[0]} ({row.meaning}), only: {given}"
        )
    return row.default


def _named(text: str, names: Mapping[str, str]) -> str:
    for name, value in names.items():
        text = text.replace(f"<{name}>", value)
    return text


def _put(target: dict[str, Any], path: list[str], value: Any) -> None:
    for step in path[:-1]:
        target = target.setdefault(step, {})
    target[path[-1]] = value
