"""`frazil client`: programs that log in with a secret of their own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from frazil.catalog.db.connect import masked
from frazil.catalog.settings import ServerSettings
from frazil.cli.options import resolved, settings_options
from frazil.cli.remote import confirm, print_table, yes_option
from frazil.core.errors import Conflict

if TYPE_CHECKING:
    from frazil.catalog.db import Connection, Database
    from frazil.catalog.identity.clients import NewSecret
    from frazil.catalog.store.clients import ClientRow

T = TypeVar("T")
_MADE = """\
client   {client_id}
secret   {secret}
known in {database}

The secret is shown this once and stored nowhere. Programs give it as
  frazil, frazil.client   OAUTH_CLIENT_ID={client_id} OAUTH_CLIENT_SECRET=<secret>
  Iceberg's clients       credential={client_id}:<secret>
                          oauth2-server-uri=<server>/catalog/v1/oauth/tokens
"""

_database_options = settings_options(ServerSettings, "data_dir", "database_url")
_as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group()
def client() -> None:
    """Programs that log in with a secret of their own.

    They are for installations with no identity provider. The commands work on the server's database, also
    while the server runs. Once there is a client, the server asks everybody for an access token, which
    clients get at /catalog/v1/oauth/tokens.
    """


@client.command()
@click.argument("name")
@_as_json
@_database_options
def create(name: str, as_json: bool, config_file: Path | None, **flags: Any) -> None:
    """Create a client and print its secret."""
    from frazil.catalog.identity.clients import create_client
    from frazil.catalog.service import now_ms

    settings = resolved(ServerSettings, config_file, flags).values
    _show(_run(settings, lambda database: create_client(database, name, now_ms())), settings, as_json)


@client.command()
@click.argument("name")
@_as_json
@_database_options
def rotate(name: str, as_json: bool, config_file: Path | None, **flags: Any) -> None:
    """Give a client a new secret.

    The old secret ends at once; tokens that were got with it within 5 seconds.
    """
    from frazil.catalog.identity.clients import rotate_client
    from frazil.catalog.service import now_ms

    settings = resolved(ServerSettings, config_file, flags).values
    _show(_run(settings, lambda database: rotate_client(database, name, now_ms())), settings, as_json)


@client.command()
@click.argument("name")
@click.option("--last", is_flag=True, help="Delete it even if no other client is left.")
@yes_option
@_database_options
def delete(name: str, last: bool, yes: bool, config_file: Path | None, **flags: Any) -> None:
    """Delete a client; its tokens end within 5 seconds."""
    settings = resolved(ServerSettings, config_file, flags).values
    confirm(f"Delete the client {name}?", yes)
    _run(settings, lambda database: _delete(database, name, last))
    click.echo(f"deleted client {name}")


@client.command("list")
@_as_json
@_database_options
def list_clients(as_json: bool, config_file: Path | None, **flags: Any) -> None:
    """List the clients."""
    from frazil.catalog.store import clients

    settings = resolved(ServerSettings, config_file, flags).values
    rows = _run(settings, clients.list_all)
    if as_json:
        click.echo(json.dumps([_described(row) for row in rows], indent=2))
    elif rows:
        print_table(
            ("client", "created", "secret changed"),
            [(row.client_id, _time(row.created_at), _optional_time(row.rotated_at)) for row in rows],
        )
    else:
        click.echo(f"none in {masked(settings.database)}", err=True)


async def _delete(database: Database, name: str, last: bool) -> None:
    from frazil.catalog.store import clients

    async with database.transaction() as connection:
        await clients.delete(connection, name)
        if not last:
            await _refuse_the_last(connection, name)


async def _refuse_the_last(connection: Connection, name: str) -> None:
    from frazil.catalog.store import clients

    if not await clients.any_exists(connection):
        raise Conflict(
            f"{name} is the last client: without any, a server with no identity provider and no bootstrap "
            "token asks nobody who they are after its next start. For a new secret: frazil client rotate "
            f"{name}. To delete it all the same, say --last"
        )


def _run(settings: ServerSettings, work: Callable[[Database], Awaitable[T]]) -> T:
    return asyncio.run(_on_database(settings, work))


async def _on_database(settings: ServerSettings, work: Callable[[Database], Awaitable[T]]) -> T:
    from frazil.catalog import db

    database = await db.connect(settings.database)
    try:
        await db.bring_up_to_date(database)
        return await work(database)
    finally:
        await database.close()


def _show(made: NewSecret, settings: ServerSettings, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({"client-id": made.client_id, "client-secret": made.secret}, indent=2))
        return
    # The database is said because another --data-dir is another one, which the server does not look at.
    database = masked(settings.database)
    click.echo(_MADE.format(client_id=made.client_id, secret=made.secret, database=database), nl=False)


def _described(row: ClientRow) -> dict[str, str | None]:
    return {
        "client-id": row.client_id,
        "created-at": _time(row.created_at),
        "rotated-at": _optional_time(row.rotated_at),
    }


def _time(milliseconds: int) -> str:
    return (
        datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    )


def _optional_time(milliseconds: int | None) -> str | None:
    return _time(milliseconds) if milliseconds else None
