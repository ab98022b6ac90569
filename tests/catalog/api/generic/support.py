"""The endpoints of generic tables, and warehouses of a test's own."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

from tests.catalog.api.client import Answer, Catalog, Client, identifier, segment

from frazil.devstack.frazil_server import FrazilServer

Levels = tuple[str, ...]
_numbers = itertools.count(1)


class Generic:
    """The generic tables of one warehouse, given by id or name."""

    def __init__(self, client: Client, warehouse: str) -> None:
        self.client = client
        self.root = f"/lakekeeper/v1/{segment(warehouse)}"

    def send(
        self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        return self.client.send(method, self.root + path, body, headers)

    def tables(self, levels: Sequence[str]) -> str:
        return f"/namespaces/{segment(*levels)}/generic-tables"

    def table(self, levels: Sequence[str], name: str) -> str:
        return f"{self.tables(levels)}/{segment(name)}"

    def create(
        self, levels: Sequence[str], name: str, headers: Mapping[str, str] | None = None, **more: Any
    ) -> Answer:
        body = {"name": name, "format": "lance", **{k.replace("_", "-"): v for k, v in more.items()}}
        return self.send("POST", self.tables(levels), body, headers)

    def load(self, levels: Sequence[str], name: str, headers: Mapping[str, str] | None = None) -> Answer:
        return self.send("GET", self.table(levels, name), None, headers)

    def names(self, levels: Sequence[str], query: str = "") -> list[str]:
        found = self.send("GET", self.tables(levels) + query).ok()
        return [entry["name"] for entry in found["identifiers"]]

    def drop(
        self, levels: Sequence[str], name: str, query: str = "", headers: Mapping[str, str] | None = None
    ) -> Answer:
        return self.send("DELETE", self.table(levels, name) + query, None, headers)

    def rename(
        self,
        source: tuple[Sequence[str], str],
        target: tuple[Sequence[str], str],
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        body = {"source": identifier(*source), "destination": identifier(*target)}
        return self.send("POST", "/generic-tables/rename", body, headers)


def local_warehouse(server: FrazilServer, client: Client, **more: Any) -> tuple[Catalog, Path]:
    """A warehouse on local disk with the namespace `ns`, and its folder."""
    name = f"generic{next(_numbers)}-{uuid4().hex[:6]}"
    folder = server.directory / "warehouses" / name
    profile = {"type": "local", "path": str(folder), **more.pop("profile", {})}
    body = {"warehouse-name": name, "storage-profile": profile, **more}
    created = client.send("POST", "/management/v1/warehouse", body).ok(201)
    catalog = Catalog(client, created["id"])
    catalog.create_namespace("ns").ok()
    return catalog, folder


def wait_until(done: Callable[[], bool], what: str, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline, f"waited {seconds:g} s for {what}"
        time.sleep(0.02)
