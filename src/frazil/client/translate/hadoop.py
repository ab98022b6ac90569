"""Hadoop's connectors: S3A, ABFS and Google's."""

from __future__ import annotations

from collections.abc import Iterable

from frazil.client.credentials import VendedCredentials
from frazil.client.translate.azure import account_of
from frazil.client.translate.table import ADLS, GCS, S3, S3_SCHEMES, Column, require_scheme, translated
from frazil.core.errors import InvalidInput

_S3A = "org.apache.hadoop.fs.s3a."
_SCHEMES = {
    "s3": "S3A",
    "s3a": "S3A",
    "s3n": "S3A",
    "gs": "Google's connector",
    "abfs": "ABFS",
    "abfss": "ABFS",
}


def s3a(credentials: VendedCredentials) -> dict[str, str]:
    """S3A, for one bucket: other buckets of the job keep their own keys.

    Directory markers are kept because deleting them would reach above the prefix.
    """
    require_scheme(credentials, "S3A", *S3_SCHEMES)
    found = translated(S3, Column.HADOOP, credentials)
    kind = "TemporaryAWSCredentialsProvider" if "session.token" in found else "SimpleAWSCredentialsProvider"
    found["aws.credentials.provider"] = _S3A + kind
    found["directory.marker.retention"] = "keep"
    bucket = credentials.path.partition("/")[0]
    return {f"fs.s3a.bucket.{bucket}.{name}": str(value) for name, value in found.items()}


def abfs(credentials: VendedCredentials) -> dict[str, str]:
    """ABFS of Hadoop 3.4.1 or newer, for one account: a fixed SAS token.

    That the account has a hierarchical namespace is said, because finding out would need the root.
    """
    account = account_of(credentials, "ABFS")
    found = translated(ADLS, Column.HADOOP, credentials, host=account.host, account=account.name)
    return {
        f"fs.azure.account.auth.type.{account.host}": "SAS",
        f"fs.azure.account.hns.enabled.{account.host}": "true",
        **found,
    }


def gcs_connector(credentials: VendedCredentials, provider: str) -> dict[str, str]:
    """Google's connector, 3.x and (by `.impl`) 2.x. `provider` is an `AccessTokenProvider` on the class path.

    The connector has none for a token that is given to it: name one that reads `fs.gs.auth.access.token`
    and `fs.gs.auth.access.token.expiration.ms`.
    """
    require_scheme(credentials, "Google's connector", "gs")
    return {
        "fs.gs.auth.type": "ACCESS_TOKEN_PROVIDER",
        "fs.gs.auth.access.token.provider": provider,
        "fs.gs.auth.access.token.provider.impl": provider,
        **translated(GCS, Column.HADOOP, credentials),
    }


def configuration(credentials: VendedCredentials, gcs_provider: str | None = None) -> dict[str, str]:
    """The configuration of whichever connector the prefix needs."""
    require_scheme(credentials, "Hadoop", *_SCHEMES)
    match _SCHEMES[credentials.scheme]:
        case "S3A":
            return s3a(credentials)
        case "ABFS":
            return abfs(credentials)
    if gcs_provider is None:
        raise InvalidInput(
            "Google's connector takes a token only from a class: name one on your class path as gcs_provider"
        )
    return gcs_connector(credentials, gcs_provider)


def hadoop_configuration(
    many: Iterable[VendedCredentials], gcs_provider: str | None = None
) -> dict[str, str]:
    """One configuration for a job with several prefixes, if the connectors can hold their keys apart."""
    found: dict[str, str] = {}
    taken: dict[str, str] = {}
    for credentials in many:
        settings = configuration(credentials, gcs_provider)
        place, rule = _place(credentials)
        other = taken.setdefault(place, credentials.prefix)
        if other != credentials.prefix:
            raise InvalidInput(
                f"{rule}, and {other} and {credentials.prefix} need two: run them in two jobs, or use "
                "Iceberg's S3FileIO or pyarrow, which keep keys per prefix"
            )
        found |= settings
    return found


def _place(credentials: VendedCredentials) -> tuple[str, str]:
    """What a connector knows one key for."""
    match _SCHEMES[credentials.scheme]:
        case "S3A":
            bucket = credentials.path.partition("/")[0]
            return f"s3a {bucket}", f"S3A knows one key per bucket ({bucket})"
        case "ABFS":
            host = account_of(credentials, "ABFS").host
            return f"abfs {host}", f"ABFS knows one token per account ({host})"
    return "gs", "Google's connector knows one token per job"
