"""What the client tests share: looking at files, waiting for a purge, talking to the management API."""

from __future__ import annotations

import importlib.util
import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from frazil.devstack.frazil_server import FrazilServer

PURGE_SECONDS = 120.0
STRANGER = "not-of-this-table.parquet"


def local(location: str) -> Path:
    """The path of a `file:` location."""
    return Path("/" + location.removeprefix("file:").lstrip("/"))


def files_below(location: str) -> set[Path]:
    # Hadoop's local file system leaves checksum files beside some of Spark's. Unlike `rglob`, `walk` does not
    # mind that a purge removes folders meanwhile.
    found = (Path(folder, name) for folder, _, names in os.walk(local(location)) for name in names)
    return {path for path in found if path.suffix != ".crc"}


def plant(location: str) -> Path:
    """A file beside the table's own that nothing refers to: a purge must not touch it."""
    stranger = local(location) / "data" / STRANGER
    stranger.parent.mkdir(parents=True, exist_ok=True)
    stranger.write_bytes(b"mine")
    return stranger


def wait_until(true: Callable[[], bool], what: str, seconds: float = PURGE_SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"after {seconds:g} s: {what}"
        time.sleep(0.05)


def metric(server: FrazilServer, name: str) -> float:
    """The value of an unlabelled metric."""
    with urllib.request.urlopen(f"{server.uri}/metrics", timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(f"{name} "))


def call(method: str, url: str, body: object = None) -> tuple[int, Any]:
    """Status and decoded answer of a JSON request."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"content-type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            status, text = answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            status, text = error.code, error.read()
    return status, json.loads(text) if text else None


def duckdb_extensions(names: Iterable[str] = ("httpfs", "avro", "iceberg")) -> list[Path]:
    """The extension files inside the wheels, in the order in which they must be loaded."""
    found = []
    for name in names:
        spec = importlib.util.find_spec(f"duckdb_extension_{name}")
        assert spec is not None, f"duckdb-extension-{name} is not installed"
        folder = Path((spec.submodule_search_locations or [""])[0])
        found.append(next(folder.rglob(f"{name}.duckdb_extension")))
    return found
