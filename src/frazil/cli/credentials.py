"""`frazil credentials`: short-lived keys for the files of one table."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from frazil.cli.remote import Remote, remote
from frazil.core.errors import NoSuchGenericTable, NoSuchTable

if TYPE_CHECKING:
    from frazil.client import Client, VendedCredentials


@click.group()
def credentials() -> None:
    """Short-lived keys for the files of one table.

    \b
    frazil credentials show sensors.raw
    eval "$(frazil credentials get sensors.raw --format env)"
    frazil credentials get sensors.raw --read-only --format duckdb | duckdb ...
    """


_read_only = click.option("--read-only", is_flag=True, help="Keys that can only read.")


@credentials.command()
@click.argument("name")
@_read_only
@remote()
def show(server: Remote, name: str, read_only: bool) -> None:
    """Say what the keys of a table reach and until when."""
    found = _fetch(server.client, name, read_only)
    until = None if found.expires_at is None else found.expires_at.isoformat(timespec="seconds")
    facts = {"prefix": found.prefix, "expires-at": until, "keys": sorted(found.config)}
    server.describe(facts, {**facts, "keys": "\n".join(sorted(found.config))})


@credentials.command()
@click.argument("name")
@click.option(
    "--format",
    "kind",
    type=click.Choice(["env", "json", "hadoop", "fsspec", "duckdb", "aws-process"]),
    default="json",
    show_default=True,
    help="For whom the keys are.",
)
@_read_only
@remote(json_flag=False)
def get(server: Remote, name: str, kind: str, read_only: bool) -> None:
    """Print the keys of a table, to be read by a program.

    \b
    env          export lines for a shell and the AWS tools
    json         Iceberg's names
    hadoop       lines for S3A or ABFS, set for the bucket or account only
    fsspec       storage_options for s3fs, pandas, Dask
    duckdb       a CREATE SECRET statement
    aws-process  what credential_process in ~/.aws/config wants: boto3 and
                 every AWS tool then renew the keys by themselves
    """
    click.echo(_FORMATS[kind](_fetch(server.client, name, read_only)))


def _fetch(client: Client, name: str, read_only: bool) -> VendedCredentials:
    """Tables of both kinds share one name space, so at most one of the two is there."""
    from frazil.client.naming import identifier

    levels, table = identifier(name)
    try:
        return client.generic_tables.credentials(levels, table, read_only=read_only)
    except NoSuchGenericTable:
        try:
            return client.tables.credentials(levels, table, read_only=read_only)
        except NoSuchTable:
            raise NoSuchTable(f"there is no table and no generic table {name}") from None


def _env(found: VendedCredentials) -> str:
    return "\n".join(f"export {key}={shlex.quote(value)}" for key, value in found.to_environment().items())


def _json(found: VendedCredentials) -> str:
    found.require_valid()
    until = None if found.expires_at is None else found.expires_at.isoformat()
    return json.dumps({"prefix": found.prefix, "expires-at": until, "config": dict(found.config)}, indent=2)


def _hadoop(found: VendedCredentials) -> str:
    return "\n".join(f"{key}={value}" for key, value in found.to_hadoop().items())


def _fsspec(found: VendedCredentials) -> str:
    return json.dumps(found.to_fsspec(), indent=2)


def _duckdb(found: VendedCredentials) -> str:
    return f"{found.to_duckdb()};"


def _aws_process(found: VendedCredentials) -> str:
    variables = found.to_environment()
    document = {
        "Version": 1,
        "AccessKeyId": variables["AWS_ACCESS_KEY_ID"],
        "SecretAccessKey": variables["AWS_SECRET_ACCESS_KEY"],
        "SessionToken": variables.get("AWS_SESSION_TOKEN"),
        "Expiration": None if found.expires_at is None else found.expires_at.isoformat(timespec="seconds"),
    }
    return json.dumps({key: value for key, value in document.items() if value is not None}, indent=2)


_FORMATS: dict[str, Callable[[VendedCredentials], str]] = {
    "env": _env,
    "json": _json,
    "hadoop": _hadoop,
    "fsspec": _fsspec,
    "duckdb": _duckdb,
    "aws-process": _aws_process,
}
