"""`frazil key`: the key that seals stored credentials."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from frazil.catalog.settings import ServerSettings
from frazil.cli.options import resolved, settings_options
from frazil.core.errors import InvalidConfig

if TYPE_CHECKING:
    from frazil.catalog.secrets import SecretBox

_NEW = "FRAZIL_NEW_ENCRYPTION_KEY"
_TOKENS = (
    "Restart every server now. Access tokens that they issued end with that; their clients get new ones by "
    "themselves."
)


@click.group()
def key() -> None:
    """The key that seals stored credentials."""


@key.command()
@settings_options(ServerSettings, "data_dir", "database_url")
def rotate(config_file: Path | None, **flags: Any) -> None:
    """Seal all stored credentials with a new key.

    The present key is FRAZIL_ENCRYPTION_KEY or the key file in the data directory. The new one is
    FRAZIL_NEW_ENCRYPTION_KEY or, for a key file, made here; it takes the place of the old file once the
    database has it. After an interruption run it again.
    """
    settings = resolved(ServerSettings, config_file, flags).values
    given = os.environ.get(_NEW)
    if given is None and settings.encryption_key:
        raise InvalidConfig(
            f"the present key is in FRAZIL_ENCRYPTION_KEY: give the new one in {_NEW}, made with: "
            "openssl rand -hex 32"
        )
    asyncio.run(_to_given(settings, given) if given is not None else _to_file(settings))


async def _to_given(settings: ServerSettings, given: str) -> None:
    from frazil.catalog.secrets import SecretBox, parse_key

    new = SecretBox(parse_key(given, _NEW))
    count = await _reseal(settings, _present(settings), new)
    click.echo(f"{_said(count)} Set FRAZIL_ENCRYPTION_KEY to the new key ({new.fingerprint()}). {_TOKENS}")


async def _to_file(settings: ServerSettings) -> None:
    from frazil.catalog.secrets import SecretBox, load_or_create_key, replace_key, sole_rotation

    _require_key_file(settings)
    pending = settings.pending_key_file
    with sole_rotation(settings.key_file.parent):
        old = _present(settings)
        # From here on both keys are on disk until the database has settled for one.
        new = SecretBox(load_or_create_key(pending))
        count = await _reseal(settings, old, new)
        replace_key(settings.key_file, pending)
    click.echo(f"{_said(count)} {settings.key_file} holds the new key ({new.fingerprint()}). {_TOKENS}")


def _present(settings: ServerSettings) -> SecretBox:
    from frazil.catalog.secrets import SecretBox, load_key

    if settings.encryption_key:
        return SecretBox(bytes.fromhex(settings.encryption_key))
    _require_key_file(settings)
    return SecretBox(load_key(settings.key_file))


def _require_key_file(settings: ServerSettings) -> None:
    if not settings.key_file.exists():
        raise InvalidConfig(
            f"there is no key to rotate: {settings.key_file} does not exist and FRAZIL_ENCRYPTION_KEY is "
            "not set. Name the server's data directory with --data-dir"
        )


async def _reseal(settings: ServerSettings, old: SecretBox, new: SecretBox) -> int | None:
    from frazil.catalog.db import bring_up_to_date, connect
    from frazil.catalog.rotation import reseal

    database = await connect(settings.database)
    try:
        await bring_up_to_date(database)
        return await reseal(database, old, new)
    finally:
        await database.close()


def _said(count: int | None) -> str:
    if count is None:
        return "The new key was in force already."
    return f"Sealed {count} stored credential{'' if count == 1 else 's'} with the new key."
