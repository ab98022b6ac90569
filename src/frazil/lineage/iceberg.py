"""Iceberg REST catalogs, any of them: which tables there are, their columns, and which job wrote them.

Engines put their job's id into the summary of each snapshot. frazil's server answers from an index which
survives the expiry of snapshots; of other catalogs, the snapshots of all tables are read, once.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx

from frazil.client.answers import CatalogConfig, decoded
from frazil.client.auth import ClientCredentials, OAuthTokens, StaticToken
from frazil.client.catalog import NamespacesApi, TablesApi
from frazil.client.exchange import Authorizer, Retry
from frazil.client.flow import Answer, Flow, Sync
from frazil.client.jobs import JobsApi
from frazil.client.naming import segment
from frazil.client.runners import SyncRunner
from frazil.client.session import OWN, Session
from frazil.core.errors import InvalidInput, NotAllowed, NotFound, Unsupported
from frazil.lineage.tables import TableColumn

#: How frazil's server and Lakekeeper end the address of their catalog.
_CATALOG = "/catalog"
#: Applications with high availability have this id unless told otherwise: it says nothing.
_EVERY_APPLICATION = "0" * 32
_FLINK_JOB = "flink.job-id"

TableName = tuple[str, ...]


@dataclass(frozen=True)
class Access:
    """Where a catalog is, and who is asking."""

    uri: str
    warehouse: str | None = None
    token: str | None = field(default=None, repr=False)
    credentials: ClientCredentials | None = field(default=None, repr=False)
    verify: bool = True
    timeout: float = 30.0
    attempts: int = 3


@dataclass(frozen=True)
class IcebergTable:
    """A table's present columns, those of structs among them, and its key."""

    columns: tuple[TableColumn, ...]
    key: tuple[str, ...] = ()


class _AnySession(Session):
    """A catalog at the address that was given; a prefix is used if the catalog names one."""

    def __init__(
        self, access: Access, runner: SyncRunner, retry: Retry, authorizer: Authorizer | None
    ) -> None:
        super().__init__(runner, retry, authorizer, access.warehouse)
        self._server = access.uri.removesuffix(_CATALOG)
        self._prefix: str | None = None

    def catalog(self, method: str, path: str, body: object = None, **more: Any) -> Flow[Answer]:
        prefix = yield from self._prefixed()
        return (yield from self.send(method, f"/v1{prefix}{path}", body, **more))

    def own(self, method: str, path: str, body: object = None, **more: Any) -> Flow[Answer]:
        prefix = yield from self._prefixed()
        return (yield from self.send(method, f"{self._server}{OWN}{prefix}{path}", body, **more))

    def _prefixed(self) -> Flow[str]:
        if self._prefix is None:
            query = [] if self.warehouse is None else [("warehouse", self.warehouse)]
            found = decoded((yield from self.send("GET", "/v1/config", query=query)), CatalogConfig)
            self._prefix = f"/{segment(found.prefix)}" if found.prefix else ""
        return self._prefix


class IcebergReader:
    """One catalog, read only. Threads may share it; what was read is kept for as long as it lives."""

    def __init__(self, access: Access) -> None:
        self.uri = access.uri
        retry = Retry(attempts=max(1, access.attempts), first=0.5)
        authorizer: Authorizer | None = None
        if access.token is not None:
            authorizer = StaticToken(access.token, "iceberg_catalogs")
        elif access.credentials is not None:
            authorizer = OAuthTokens(access.credentials, retry)
        self._http = httpx.Client(
            base_url=access.uri, timeout=access.timeout, verify=access.verify, follow_redirects=False
        )
        session = _AnySession(access, SyncRunner(self._http, authorizer), retry, authorizer)
        self._jobs: JobsApi[Sync] | None = JobsApi(session) if access.uri.endswith(_CATALOG) else None
        self._namespaces: NamespacesApi[Sync] = NamespacesApi(session)
        self._tables: TablesApi[Sync] = TablesApi(session)
        self._lock = threading.Lock()
        self._walked: dict[str, set[TableName]] | None = None
        self._names: dict[str, list[TableName]] | None = None
        self._loaded: dict[TableName, IcebergTable | None] = {}

    def written_by(self, job: str) -> tuple[TableName, ...]:
        """The tables that have a snapshot of this Flink job."""
        if job == _EVERY_APPLICATION:
            return ()
        with self._lock:
            if self._jobs is not None:
                try:
                    found = self._jobs.tables("flink", job)
                    return tuple(sorted((*table.namespace, table.name) for table in found))
                except (NotFound, Unsupported, InvalidInput, NotAllowed):
                    # Not frazil's server, or an older one.
                    self._jobs = None
            if self._walked is None:
                self._walked = self._walk()
            return tuple(sorted(self._walked.get(job, ())))

    def named(self, table: str) -> tuple[TableName, ...]:
        """The tables of that name in all namespaces."""
        with self._lock:
            if self._names is None:
                self._names = {}
                for name in self._all():
                    self._names.setdefault(name[-1], []).append(name)
            return tuple(self._names.get(table, ()))

    def table(self, name: TableName) -> IcebergTable | None:
        """A table's columns; None if there is no such table."""
        with self._lock:
            if name not in self._loaded:
                try:
                    loaded = self._tables.load(name[:-1], name[-1], snapshots="refs")
                    self._loaded[name] = _columns(loaded.metadata)
                except NotFound:
                    self._loaded[name] = None
            return self._loaded[name]

    def tables(self) -> Iterator[TableName]:
        """Every table of the catalog."""
        with self._lock:
            return iter(list(self._all()))

    def close(self) -> None:
        self._http.close()

    def _walk(self) -> dict[str, set[TableName]]:
        """Only ids and names are kept: a table may have very many snapshots."""
        found: dict[str, set[TableName]] = {}
        for name in self._all():
            try:
                metadata = self._tables.load(name[:-1], name[-1], snapshots="all").metadata
            except NotFound:
                continue
            self._loaded.setdefault(name, _columns(metadata))
            for snapshot in metadata.get("snapshots") or ():
                if job := snapshot.get("summary", {}).get(_FLINK_JOB):
                    found.setdefault(job, set()).add(name)
        return found

    def _all(self, parent: TableName = ()) -> Iterator[TableName]:
        try:
            children = list(self._namespaces.list(parent or None))
        except (NotFound, InvalidInput, Unsupported):
            if not parent:
                raise
            # A catalog without nested namespaces.
            return
        for namespace in children:
            # One that does not know `parent` lists the top again.
            if namespace[: len(parent)] != parent or len(namespace) <= len(parent):
                continue
            for table in self._tables.list(namespace):
                yield (*table.namespace, table.name)
            yield from self._all(namespace)


def _columns(metadata: dict[str, Any]) -> IcebergTable:
    current = metadata.get("current-schema-id")
    schemas = metadata.get("schemas") or [metadata.get("schema") or {}]
    schema = next((one for one in schemas if one.get("schema-id") == current), schemas[-1])
    ids = set(schema.get("identifier-field-ids") or ())
    fields = schema.get("fields") or []
    key = tuple(one["name"] for one in fields if one["id"] in ids)
    return IcebergTable(tuple(_flattened(fields, "")), key)


def _flattened(fields: list[dict[str, Any]], before: str) -> Iterator[TableColumn]:
    for one in fields:
        kind = one["type"]
        nested = isinstance(kind, dict)
        name = f"{before}{one['name']}"
        yield TableColumn(name, kind["type"] if nested else kind, not one.get("required", False))
        if nested and kind["type"] == "struct":
            yield from _flattened(kind["fields"], f"{name}.")
