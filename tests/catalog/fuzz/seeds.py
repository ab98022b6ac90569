"""Real names for a fuzzer: without them almost every request would end at a 404."""

from __future__ import annotations

import itertools
import uuid
from typing import Any

from tests.catalog.api.client import Catalog, Client, add_snapshot, connect, set_ref

from frazil.devstack.frazil_server import FrazilServer

NS = ("fuzz",)
DEEP = ("fuzz", "Ünter Level")
JOB = "0a1b2c3d4e5f60718293a4b5c6d7e8f9"
DEFAULT_PROJECT = "00000000-0000-0000-0000-000000000000"
# Nothing listens there: a storage profile that points at it fails at once.
NOWHERE = "http://127.0.0.1:9"
# Ids that exist in every table of the seeds.
REAL: dict[str, Any] = {
    "snapshot-id": 1,
    "parent-snapshot-id": None,
    "schema-id": 0,
    "version-id": 1,
    "spec-id": 0,
    "source-id": 1,
    "source-ids": None,
    "transform": "identity",
    "timestamp-ms": 1,
    "identifier-field-ids": None,
    "last-column-id": None,
    "allowed-format-versions": [2, 3],
    "default-format-version": 2,
}


class Seeds:
    """Keeps a little of everything in existence, however much the fuzzer destroys."""

    def __init__(self, server: FrazilServer) -> None:
        self.server = server
        self.catalog: Catalog = connect(server.port)
        self.client: Client = self.catalog.client
        self.warehouse_id = ""
        self.project_id = ""
        self.spare_location = ""
        self.ensure()

    def ensure(self) -> None:
        """Make again what is gone."""
        catalog = self.catalog
        for levels in (NS, DEEP):
            catalog.create_namespace(*levels)
            for name in ("t1", "t2"):
                if catalog.create_table(levels, name).status == 200:
                    summary = {"operation": "append", "flink.job-id": JOB}
                    catalog.commit(levels, name, add_snapshot(1, summary=summary), set_ref(1))
            catalog.create_view(levels, "v1")
            self._create_generic(levels, "g1")
        if not self.spare_location:
            created = catalog.create_table(NS, "spare").ok()
            catalog.send("DELETE", catalog.table_path(NS, "spare")).ok(204)
            self.spare_location = created["metadata-location"]
        self._ensure_warehouse()
        self._ensure_project()

    def parameters(self, names: tuple[str, ...], turn: int) -> dict[str, str]:
        """Path parameters of things that exist; `turn` chooses among them."""
        real = {
            "prefix": [self.catalog.prefix],
            "namespace": ["\x1f".join(NS), "\x1f".join(DEEP)],
            "table": ["g1", "G1"] if "warehouse" in names else ["t1", "T2"],
            "warehouse": [self.catalog.prefix, "default"],
            "view": ["v1"],
            "warehouse_id": [self.warehouse_id],
            "project_id": [self.project_id, DEFAULT_PROJECT],
            "asset": ["swagger-ui.css"],
            "kind": ["flink", "spark"],
            "job": [JOB, "none"],
        }
        return {name: real[name][turn % len(real[name])] for name in names if name in real}

    def deepened(self, body: Any, name: str = "t1") -> Any:
        """The body with names, ids and locations that lead further than the first check.

        `name` is what identifiers name, so a rename is one to itself.
        """
        if isinstance(body, list):
            return [self.deepened(item, name) for item in body]
        if not isinstance(body, dict):
            return body
        if set(body) >= {"namespace", "name"} and isinstance(body["namespace"], list):
            return {**body, "namespace": list(NS), "name": name}
        result = {k: REAL[k] if k in REAL else self.deepened(v, name) for k, v in body.items()}
        if isinstance(result.get("updates"), list):
            # Of several random updates, one is always wrong.
            result |= {"updates": result["updates"][:1], "requirements": []}
        if isinstance(result.get("representations"), list):
            result["representations"] = result["representations"][:1]
        if "metadata-location" in result:
            result |= {"metadata-location": self.spare_location, "name": f"new {uuid.uuid4()}"}
        if isinstance(result.get("schema"), dict):
            result["schema"] = _repaired(result["schema"])
        if "format" in result or {"name", "schema"} <= set(result):
            # Version 3 has all types; a random location or property would end the request early.
            result |= {"name": f"new {uuid.uuid4()}", "properties": {"format-version": "3"}}
            result |= {"location": None, "base-location": None}
        if isinstance(result.get("namespace"), list):
            result["namespace"] = [*NS, f"new {uuid.uuid4()}"]
        if isinstance(result.get("table-changes"), list):
            changes = [c for c in result["table-changes"] if isinstance(c, dict)][:2]
            both = zip(changes, ("t1", "t2"), strict=False)
            result["table-changes"] = [
                c | {"identifier": {"namespace": list(NS), "name": n}} for c, n in both
            ]
        if "warehouse-name" in result:
            result |= {"warehouse-name": f"new {uuid.uuid4()}", "project-id": None}
            result |= {"storage-profile": self._local_profile(), "storage-credential": None}
        return result

    def _create_generic(self, levels: tuple[str, ...], name: str) -> None:
        path = f"/lakekeeper/v1/{self.catalog.prefix}{self.catalog.namespace_path(levels, 'generic-tables')}"
        self.client.send("POST", path, {"name": name, "format": "lance"})

    def _local_profile(self) -> dict[str, str]:
        folder = self.server.data_dir / f"fuzz-{uuid.uuid4()}"
        folder.mkdir(parents=True)
        return {"type": "local", "path": str(folder)}

    def harmless(self, body: Any) -> Any:
        """No request of the fuzzer makes the server call out to the world or write outside its folder."""
        if isinstance(body, list):
            return [self.harmless(item) for item in body]
        if not isinstance(body, dict):
            return body
        result = {k: self.harmless(v) for k, v in body.items()}
        if "bucket" in result:
            result["endpoint"] = NOWHERE
            result["sts-endpoint"] = NOWHERE
        return result

    def _ensure_warehouse(self) -> None:
        path = f"/management/v1/warehouse/{self.warehouse_id or uuid.uuid4()}"
        found = self.client.send("GET", path)
        if found.status == 404:
            body = {"warehouse-name": f"fuzz {uuid.uuid4()}", "storage-profile": self._local_profile()}
            self.warehouse_id = self.client.send("POST", "/management/v1/warehouse", body).ok(201)["id"]
        elif found.ok()["status"] != "active":
            self.client.send("POST", f"{path}/activate").ok()

    def _ensure_project(self) -> None:
        if (
            self.project_id
            and self.client.send("GET", f"/management/v1/project/{self.project_id}").status == 200
        ):
            return
        body = {"project-name": "fuzz", "project-id": str(uuid.uuid4())}
        self.project_id = self.client.send("POST", "/management/v1/project", body).ok(201)["project-id"]


def _repaired(schema: dict[str, Any]) -> dict[str, Any]:
    """The generated schema with ids and names that are all different, and a first column that sorts."""
    ids = itertools.count(1)

    def renumbered(node: Any) -> Any:
        if isinstance(node, list):
            return [renumbered(item) for item in node]
        if not isinstance(node, dict):
            return node
        result: dict[str, Any] = {
            k: next(ids) if k in ("id", "element-id", "key-id", "value-id") else v for k, v in node.items()
        }
        if "id" in result and isinstance(result.get("name"), str):
            result["name"] = f"c{result['id']} {result['name'].replace(chr(0), '')}"
        return {k: renumbered(v) if isinstance(v, (dict, list)) else v for k, v in result.items()}

    first = {"id": next(ids), "name": "first", "type": "long", "required": False}
    fields = schema.get("fields")
    rest = renumbered(fields) if isinstance(fields, list) else []
    return {**schema, "fields": [first, *rest], "identifier-field-ids": None}
