"""DuckDB's secrets."""

from __future__ import annotations

from frazil.client.credentials import VendedCredentials
from frazil.client.translate.azure import account_of
from frazil.client.translate.table import ADLS, GCS, S3, Column, require_scheme, translated

_TYPES = {"s3": "s3", "s3a": "s3", "s3n": "s3", "gs": "gcs", "abfss": "azure", "abfs": "azure"}


def secret_statement(credentials: VendedCredentials, name: str = "frazil") -> str:
    """`CREATE OR REPLACE SECRET …`, in memory only and for the prefix only.

    The scope ends in a slash: DuckDB compares letters, and `t10` must not be taken for a part of `t1`.
    """
    require_scheme(credentials, "DuckDB", *_TYPES)
    kind = _TYPES[credentials.scheme]
    settings: dict[str, object] = {
        "s3": _s3,
        "gcs": lambda found: translated(GCS, Column.DUCKDB, found),
        "azure": _azure,
    }[kind](credentials)
    parts = [f"TYPE {kind}", *(f"{key} {_literal(value)}" for key, value in settings.items())]
    parts.append(f"SCOPE {_literal(credentials.prefix + '/')}")
    return f"CREATE OR REPLACE TEMPORARY SECRET {_quoted(name)} ({', '.join(parts)})"


def _s3(credentials: VendedCredentials) -> dict[str, object]:
    return translated(S3, Column.DUCKDB, credentials)


def _azure(credentials: VendedCredentials) -> dict[str, object]:
    account = account_of(credentials, "DuckDB")
    found = translated(ADLS, Column.DUCKDB, credentials, host=account.host, account=account.name)
    parts = {"DefaultEndpointsProtocol": "https", "AccountName": account.name}
    parts |= {"EndpointSuffix": account.suffix, **found}
    return {"CONNECTION_STRING": ";".join(f"{key}={value}" for key, value in parts.items())}


def _literal(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "'" + str(value).replace("'", "''") + "'"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
