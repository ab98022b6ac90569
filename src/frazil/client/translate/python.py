"""Python libraries: pyarrow, fsspec's file systems, boto3; and the variables that AWS tools read."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from frazil.client.credentials import VendedCredentials
from frazil.client.translate.azure import account_of
from frazil.client.translate.table import ADLS, GCS, S3, S3_SCHEMES, Column, require_scheme, translated
from frazil.core.errors import InvalidInput, ServiceError

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

_ALL = (*S3_SCHEMES, "gs", "abfss", "abfs")
_PUBLIC_AZURE = "core.windows.net"


def pyarrow_filesystem(credentials: VendedCredentials) -> FileSystem:
    """A file system of `pyarrow.fs`."""
    kind, arguments = pyarrow_arguments(credentials)
    try:
        from pyarrow import fs
    except ImportError:
        raise _missing("pyarrow") from None
    return getattr(fs, kind)(**arguments)


def pyarrow_arguments(credentials: VendedCredentials) -> tuple[str, dict[str, Any]]:
    """Class name and arguments of the file system."""
    require_scheme(credentials, "pyarrow", *_ALL)
    if credentials.scheme in S3_SCHEMES:
        return "S3FileSystem", translated(S3, Column.PYARROW, credentials)
    if credentials.scheme == "gs":
        found = translated(GCS, Column.PYARROW, credentials)
        if "credential_token_expiration" not in found:
            raise InvalidInput(f"pyarrow needs the expiry of the token for {credentials.prefix}")
        return "GcsFileSystem", found
    account = account_of(credentials, "pyarrow")
    found = translated(ADLS, Column.PYARROW, credentials, host=account.host, account=account.name)
    if account.suffix != _PUBLIC_AZURE:
        found["dfs_storage_authority"] = f".{account.domain}"
        found["blob_storage_authority"] = f".blob.{account.suffix}"
    return "AzureFileSystem", {"account_name": account.name, **found}


def fsspec_options(credentials: VendedCredentials) -> dict[str, Any]:
    """What s3fs, gcsfs or adlfs take, also as `storage_options` of pandas, polars' fsspec path and Dask."""
    require_scheme(credentials, "fsspec", *_ALL)
    if credentials.scheme in S3_SCHEMES:
        return translated(S3, Column.FSSPEC, credentials)
    if credentials.scheme == "gs":
        found = translated(GCS, Column.FSSPEC, credentials)
        return found | {"token": _google(found["token"], credentials)}
    account = account_of(credentials, "fsspec")
    found = translated(ADLS, Column.FSSPEC, credentials, host=account.host, account=account.name)
    if account.suffix != _PUBLIC_AZURE:
        found["account_host"] = f"{account.name}.blob.{account.suffix}"
    return {"account_name": account.name, **found}


def boto3_arguments(credentials: VendedCredentials) -> dict[str, Any]:
    """Arguments of `boto3.client("s3", …)`."""
    require_scheme(credentials, "boto3", *S3_SCHEMES)
    found = translated(S3, Column.BOTO3, credentials)
    try:
        from botocore.config import Config
    except ImportError:
        raise _missing("boto3") from None
    return found | {"config": Config(**found["config"])}


def environment(credentials: VendedCredentials) -> dict[str, str]:
    """Variables of the AWS command line and of every AWS SDK. They have none for the path style."""
    require_scheme(credentials, "the AWS environment", *S3_SCHEMES)
    return translated(S3, Column.ENVIRONMENT, credentials)


def _google(token: str, credentials: VendedCredentials) -> object:
    """gcsfs takes a text for the name of a file, so it gets the object that Google's library makes of it."""
    try:
        google = importlib.import_module("google.oauth2.credentials")
    except ImportError:
        raise _missing("google-auth, which comes with gcsfs,") from None
    expiry = credentials.expires_at
    found: object = google.Credentials(
        token=token, expiry=None if expiry is None else expiry.replace(tzinfo=None)
    )
    return found


def _missing(what: str) -> ServiceError:
    return ServiceError(f"{what} is not installed; install it with pip")
