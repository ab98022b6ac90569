"""The hot table of `frazil demo`: a union read has what was just put, Iceberg after the next commit."""

from __future__ import annotations

import itertools
import json
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from frazil.cli.demo_engines import Facts, Say, code
from frazil.cli.demo_stream import WAREHOUSE, Stack, arguments, ended, frazil, require_running
from frazil.core.errors import ServiceError

if TYPE_CHECKING:
    from frazil.hot.write.put import Writer

_TABLE = "shop.stock"
_SQL = """\
CREATE TABLE shop.stock (item BIGINT, place STRING, quantity INT, PRIMARY KEY (item) NOT ENFORCED)
WITH ('table.datalake.enabled' = 'true', 'table.datalake.freshness' = '15s');
"""
_BURST = 1000
_LOOK_SECONDS = 1.0
#: For the commit that brings both together.
_LATEST_SECONDS = 120.0
_STOP_SECONDS = 60


def watch(say: Say, stack: Stack, *, to_stderr: bool) -> Facts:
    """Rows in bursts into a hot table while `frazil tier` is at work, both counts side by side."""
    file, config = stack.directory / "stock.sql", stack.directory / "hot.yaml"
    file.write_text(_SQL)
    catalog = {"uri": stack.server.uri, "warehouse": WAREHOUSE}
    kafka = {"bootstrap.servers": stack.kafka.bootstrap_servers}
    config.write_text(json.dumps({"catalog": catalog, "kafka": kafka}))
    say(code(_SQL))
    frazil(say, "hot", "create", str(file), "--config", str(config), to_stderr=to_stderr)
    command = arguments("tier", "--config", str(config), "--plain", "--log-table", "none")
    say(code(" ".join(["frazil", *command[3:]])))
    log = stack.directory / "tier.log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
    with ended(process):
        try:
            looks = _looks(say, stack, process)
            process.send_signal(signal.SIGINT)
            if process.wait(timeout=_STOP_SECONDS):
                raise ServiceError(f"frazil tier ended with {process.returncode}")
        except ServiceError as error:
            raise ServiceError(f"{error.message}\n{log.read_text(errors='replace')[-3000:]}") from None
    return {"looks": looks, "rows": looks[-1]["union"]}


def _looks(say: Say, stack: Stack, process: subprocess.Popen[bytes]) -> list[Facts]:
    from pyiceberg.catalog import load_catalog

    from frazil.client import Client
    from frazil.hot.read.arrow import read_arrow
    from frazil.hot.write.put import hot_writer

    looks: list[Facts] = []
    uri = stack.server.catalog_uri
    with (
        Client(stack.server.uri, warehouse=WAREHOUSE) as client,
        load_catalog("lake", type="rest", uri=uri, warehouse=WAREHOUSE) as catalog,
        hot_writer(_TABLE, client=client) as writer,
    ):

        def iceberg() -> int:
            return len(catalog.load_table(_TABLE).scan(selected_fields=("item",)).to_arrow())

        say(f"{'':<16} {'union read':>12} {'Iceberg only':>14}")
        for done, rows in _bursts(writer):
            require_running(process, "frazil tier")
            # Iceberg first: whatever is committed meanwhile is in the union read as well.
            behind, union = iceberg(), len(read_arrow(_TABLE, columns=["item"], catalog=client))
            look = {"done": done, "union": union, "iceberg": behind}
            if not done and looks[-1]["done"]:
                say("Iceberg has them with the next commit, which frazil tier makes as late as it may.")
            if done or look not in looks:
                say(f"{done:<16} {union:>12,} {behind:>14,}")
            looks.append(look)
            if union != rows:
                raise ServiceError(
                    f"a union read found {union} rows, there are {rows}: this is a bug, please report it"
                )
            if not done and behind == rows:
                break
    say("The commit came, and both are the same.")
    return looks


def _bursts(writer: Writer) -> Iterator[tuple[str, int]]:
    """What was just done, and how many rows there are; then nothing more is, until it takes too long."""
    steps: tuple[tuple[str, Callable[[], int], int], ...] = (
        (f"put {_BURST:,}", lambda: writer.put(_rows(0, 1)), _BURST),
        (f"put {_BURST:,}", lambda: writer.put(_rows(_BURST, 1)), 2 * _BURST),
        (f"replaced {_BURST:,}", lambda: writer.put(_rows(0, 2)), 2 * _BURST),
        (f"deleted {_BURST // 2:,}", lambda: writer.delete(list(range(_BURST // 2))), 3 * _BURST // 2),
    )
    for told, work, rows in steps:
        work()
        writer.flush()
        yield told, rows
        time.sleep(_LOOK_SECONDS)
    deadline = time.monotonic() + _LATEST_SECONDS
    for _ in itertools.takewhile(lambda _: time.monotonic() < deadline, itertools.count()):
        yield "", steps[-1][2]
        time.sleep(_LOOK_SECONDS)
    raise ServiceError(f"frazil tier did not commit everything in {_LATEST_SECONDS:g} s")


def _rows(first: int, quantity: int) -> list[dict[str, object]]:
    return [
        {"item": item, "place": f"shelf-{item % 40}", "quantity": quantity}
        for item in range(first, first + _BURST)
    ]
