"""Puts the server together and runs it."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import msgspec

from frazil import __version__
from frazil.catalog.api import (
    commits,
    config,
    credentials,
    generic,
    jobs,
    management,
    namespaces,
    oauth,
    operations,
    reports,
    signing,
    tables,
    views,
)
from frazil.catalog.api.config import DEFAULT_PROJECT
from frazil.catalog.db import Database, bring_up_to_date, connect
from frazil.catalog.http import Endpoint, HttpApp, json_bytes, openapi_document
from frazil.catalog.identity.opening import open_guard
from frazil.catalog.logs import RequestLog
from frazil.catalog.metrics import RequestMetrics
from frazil.catalog.purging import Janitor
from frazil.catalog.rotation import key_in_force
from frazil.catalog.secrets import SecretBox, load_key, load_or_create_key
from frazil.catalog.service import Catalog, now_ms
from frazil.catalog.settings import ServerSettings
from frazil.catalog.storage import LocalProfile, encode_profile
from frazil.core.errors import InvalidConfig
from frazil.core.names import check_name, name_key

_log = logging.getLogger(__name__)


def endpoints() -> list[Endpoint]:
    """Every endpoint of the server."""
    modules = (
        config,
        namespaces,
        tables,
        credentials,
        signing,
        commits,
        views,
        reports,
        jobs,
        generic,
        oauth,
        management,
        operations,
    )
    return [endpoint for module in modules for endpoint in module.routes.endpoints]


@asynccontextmanager
async def running_catalog(settings: ServerSettings) -> AsyncIterator[HttpApp]:
    """The application, with its database open and its background work running."""
    try:
        settings.data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        keys = _keys(settings)
    except OSError as error:
        raise InvalidConfig(
            f"the data directory {settings.data_dir} cannot be used: {error.strerror}; "
            "choose another with --data-dir"
        ) from error
    database = await connect(settings.database)
    try:
        secrets = await prepare(database, settings, keys)
    except BaseException:
        await database.close()
        raise
    metrics = RequestMetrics()
    catalog = Catalog(settings, database, secrets, metrics)
    try:
        guard = catalog.guard = await open_guard(settings, database, secrets)
        every = endpoints()
        catalog.endpoints = _advertised(every)
        log = RequestLog(settings.access_log)
        _describe(catalog, every)
        tasks = [asyncio.create_task(Janitor(catalog).run()), asyncio.create_task(_watch(catalog, every))]
        try:
            yield HttpApp(
                every, state=catalog, log=log, metrics=metrics, hosts=settings.known_hosts, guard=guard
            )
        finally:
            log.flush()
            for task in tasks:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
            await guard.close()
    finally:
        await catalog.close()


async def _watch(catalog: Catalog, every: list[Endpoint]) -> None:
    """Authentication may come on while the server runs."""
    await catalog.guard.watch()
    _describe(catalog, every)


def _describe(catalog: Catalog, every: list[Endpoint]) -> None:
    document = openapi_document(every, title="frazil", version=__version__, authenticated=catalog.guard.on)
    catalog.openapi = json_bytes(document)


async def prepare(database: Database, settings: ServerSettings, keys: list[SecretBox]) -> SecretBox:
    """Bring the schema up to date and make sure that the first rows are there; the key of `keys` in force."""
    await bring_up_to_date(database)
    secrets = await _key_in_force(database, keys)
    await _first_rows(database, settings, secrets)
    return secrets


async def _first_rows(database: Database, settings: ServerSettings, secrets: SecretBox) -> None:
    """Server identity, default project and default warehouse; only ever made together and once."""
    fingerprint = secrets.fingerprint()
    async with database.transaction() as connection:
        first = await connection.execute(
            "INSERT INTO server (singleton, server_id, secret_key) VALUES (1, $1, $2) ON CONFLICT DO NOTHING",
            str(uuid.uuid4()),
            fingerprint,
        )
        if first:
            await connection.execute(
                "INSERT INTO project (project_id, name, created_at) VALUES ($1, $2, $3)",
                DEFAULT_PROJECT,
                "Default Project",
                now_ms(),
            )
            await connection.execute(
                "INSERT INTO warehouse (warehouse_id, project_id, name, name_key, status, storage_profile, "
                "delete_profile, allowed_format_versions, created_at) "
                "VALUES ($1, $2, $3, $4, 'active', $5, $6, '[1,2,3]', $7)",
                str(uuid.uuid4()),
                DEFAULT_PROJECT,
                check_name(settings.default_warehouse, "default-warehouse"),
                name_key(settings.default_warehouse),
                encode_profile(LocalProfile(path=str(_default_warehouse_dir(settings)))).decode(),
                msgspec.json.encode({"type": "hard"}).decode(),
                now_ms(),
            )
    row = await database.fetchrow("SELECT secret_key FROM server")
    if row is None or row[0] != fingerprint:
        raise InvalidConfig(
            "the credentials in this database are sealed with another key: set FRAZIL_ENCRYPTION_KEY to it, "
            f"or bring the file {settings.key_file} of the first server"
        )


def _default_warehouse_dir(settings: ServerSettings) -> Path:
    directory = settings.data_dir / "warehouse"
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def _keys(settings: ServerSettings) -> list[SecretBox]:
    """The key, and while a rotation is not finished the one that may be in force already."""
    if settings.encryption_key:
        return [SecretBox(bytes.fromhex(settings.encryption_key))]
    keys = [SecretBox(load_or_create_key(settings.key_file))]
    if settings.pending_key_file.exists():
        keys.append(SecretBox(load_key(settings.pending_key_file)))
    return keys


async def _key_in_force(database: Database, keys: list[SecretBox]) -> SecretBox:
    present = await key_in_force(database)
    if len(keys) > 1:
        _log.warning("a key rotation was interrupted; run `frazil key rotate` again to finish it")
    return next((key for key in keys if key.fingerprint() == present), keys[0])


def _advertised(every: list[Endpoint]) -> list[str]:
    """The endpoints of the Iceberg REST spec, in the form in which clients compare them."""
    prefix = "/catalog"
    return [
        f"{endpoint.method} {endpoint.path.removeprefix(prefix)}"
        for endpoint in every
        if endpoint.path.startswith(prefix + "/v1/{prefix}")
    ]
