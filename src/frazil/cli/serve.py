"""`frazil serve`: run the catalog server."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import click

from frazil import __version__
from frazil.catalog.db.connect import masked
from frazil.catalog.settings import ServerSettings
from frazil.cli.options import resolved, settings_options
from frazil.core.errors import ServiceError
from frazil.core.settings import Resolved

_READY = """\
frazil {version} is ready.

  Iceberg REST catalog   {url}/catalog      (warehouse {warehouse!r})
  Management API         {url}/management/v1
  Generic tables         {url}/lakekeeper/v1
  API page               {url}/docs
  Health, metrics        {url}/health  {url}/metrics
  Data                   {database}
  Authentication         {authentication}

  Spark (iceberg-spark-runtime-4.1_2.13:1.12.0)
    spark.sql.extensions=org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions
    spark.sql.catalog.lake=org.apache.iceberg.spark.SparkCatalog
    spark.sql.catalog.lake.type=rest
    spark.sql.catalog.lake.uri={url}/catalog
    spark.sql.catalog.lake.warehouse={warehouse}

  PyIceberg
    load_catalog("lake", type="rest", uri="{url}/catalog", warehouse="{warehouse}")

  frazil's own commands and frazil.client
    export FRAZIL_URI={url}
{login}
Press Ctrl-C to stop.
"""

_LOGIN = """
  All of them must say who they are, by NAME and SECRET of `frazil client create NAME`:
    Spark      spark.sql.catalog.lake.credential=NAME:SECRET
               spark.sql.catalog.lake.oauth2-server-uri={url}/catalog/v1/oauth/tokens
    PyIceberg  credential="NAME:SECRET", **{{"oauth2-server-uri": "{url}/catalog/v1/oauth/tokens"}}
    frazil     export OAUTH_CLIENT_ID=NAME OAUTH_CLIENT_SECRET=SECRET
  or by a token: spark.sql.catalog.lake.token=TOKEN, token="TOKEN", export TOKEN=TOKEN
"""
_NONE = "none; after `frazil client create NAME`, only with a token"


@click.command()
@settings_options(ServerSettings)
@click.option("--show-config", is_flag=True, help="Print the settings in force and their origins, and stop.")
def serve(config_file: Path | None, show_config: bool, **flags: Any) -> None:
    """Run the catalog server.

    Without options: a SQLite file and a warehouse on local disk in ~/.frazil, on http://127.0.0.1:8181.
    Each option can also be set as FRAZIL_<NAME> in the environment or in the --config file. A database URL
    holds a password: keep it out of the process list by using FRAZIL_DATABASE_URL.

    Two settings are secrets and have no option: FRAZIL_ENCRYPTION_KEY, the key that seals stored credentials
    (64 hex digits; without it, one is made in the data directory), and FRAZIL_BOOTSTRAP_TOKEN, a bearer token
    that is always accepted.
    """
    settings = resolved(ServerSettings, config_file, flags)
    if show_config:
        _show(settings)
        return
    if flags["database_url"] and masked(flags["database_url"]) != flags["database_url"]:
        click.echo(
            "frazil: the password in --database-url is in the process list; use FRAZIL_DATABASE_URL", err=True
        )
    from frazil.catalog.logs import configure_logging

    configure_logging(settings.values.log_level)
    with _listen(settings.values) as listener:
        _run(settings.values, listener)


def _run(settings: ServerSettings, listener: socket.socket) -> None:
    import uvloop

    uvloop.run(_serve(settings, listener))


async def _serve(settings: ServerSettings, listener: socket.socket) -> None:
    import uvicorn

    from frazil.catalog.server import running_catalog

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            _announce(settings, listener, app.authentication)

    async with running_catalog(settings) as app:
        config = uvicorn.Config(
            app,
            http="httptools",
            ws="none",
            lifespan="off",
            access_log=False,
            proxy_headers=False,
            log_config=None,
            log_level="warning",
            server_header=False,
            timeout_graceful_shutdown=10,
        )
        await Server(config).serve(sockets=[listener])


def _announce(settings: ServerSettings, listener: socket.socket, authentication: list[str]) -> None:
    """Say where to connect, now that connections are accepted."""
    host, port = listener.getsockname()[:2]
    url = settings.base_uri or f"http://{f'[{host}]' if ':' in host else host}:{port}"
    database = masked(settings.database)
    click.echo(
        _READY.format(
            version=__version__,
            url=url,
            warehouse=settings.default_warehouse,
            database=database,
            authentication=", ".join(authentication) or _NONE,
            login=_LOGIN.format(url=url) if authentication else "",
        )
    )


def _listen(settings: ServerSettings) -> socket.socket:
    """Bind before anything is opened, so that a taken port is the first thing said."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.host, settings.port))
    except OSError as error:
        listener.close()
        raise ServiceError(
            f"cannot listen on {settings.host}:{settings.port}: {error.strerror}; choose another with --port"
        ) from error
    listener.listen(1024)
    return listener


def _show(settings: Resolved[ServerSettings]) -> None:
    rows = settings.shown()
    widths = [max(len(row[column]) for row in rows) for column in range(2)]
    for name, value, origin in rows:
        click.echo(f"{name:<{widths[0]}}  {value:<{widths[1]}}  {origin}")
