"""Iceberg REST catalogs, any of them: which tables there are, their columns, and which job wrote them.

Engines put their job's id into the summary of each snapshot. frazil's server answers from an index which
survives the expiry of snapshots; of other catalogs, the snapshots of all tables are read, once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

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
from frazil.core.errors import FrazilError, InvalidInput, NotAllowed, NotFound, Unsupported
from frazil.lineage.tables import TableColumn

#: How frazil's server and Lakekeeper end the address of their catalog.
_CATALOG = "/catalog"
#: Applications with high availability have this id unless told otherwise: it says nothing.
_EVERY_APPLICATION = "0" * 32
_FLINK_JOB = "flink.job-id"
#: What reading metadata that is not as the specification has it can end in.
_MALFORMED = (AttributeError, IndexError, KeyError, TypeError, ValueError)

T = TypeVar("T")
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
            try:
                found = decoded((yield from self.send("GET", "/v1/config", query=query)), CatalogConfig)
            except (NotAllowed, NotFound) as error:
                # It is not what is asked for that is refused or not there, but all of the catalog.
                raise FrazilError(f"its /v1/config cannot be read: {error.message}") from None
            self._prefix = f"/{segment(found.prefix)}" if found.prefix else ""
        return self._prefix


class IcebergReader:
    """One catalog, read only. Threads may share it; what was read is kept for as long as it lives.

    A table that may not be read, or whose metadata cannot be, is given to `unread`, once, and is not known.
    All other failures are raised.
    """

    def __init__(self, access: Access, unread: Callable[[str], None] = lambda message: None) -> None:
        self.uri = access.uri
        self._unread = unread
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
        #: By job, when it last wrote each of its tables.
        self._walked: dict[str, dict[TableName, int]] | None = None
        self._names: dict[str, list[TableName]] | None = None
        self._loaded: dict[TableName, IcebergTable | None] = {}

    def written_by(self, job: str, since: int | None = None) -> tuple[TableName, ...]:
        """The tables that have a snapshot of this Flink job, one that is not older than `since`.

        An upgrade may keep the job's id: what the job wrote before it began is no evidence of what it writes.
        """
        if job == _EVERY_APPLICATION:
            return ()
        with self._lock:
            written = self._written(job).items()
        return tuple(sorted(name for name, last in written if since is None or last >= since))

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
                self._loaded[name] = self._load(name, "refs", _columns)
            return self._loaded[name]

    def namespaces(self) -> list[TableName]:
        """Those at the top: the least that a catalog has to answer."""
        with self._lock:
            return list(self._namespaces.list(None))

    def tables(self) -> Iterator[TableName]:
        """Every table of the catalog."""
        with self._lock:
            return iter(list(self._all()))

    def close(self) -> None:
        self._http.close()

    def _load(
        self, name: TableName, snapshots: Literal["all", "refs"], read: Callable[[dict[str, Any]], T]
    ) -> T | None:
        """What `read` makes of a table's metadata."""
        try:
            return read(self._tables.load(name[:-1], name[-1], snapshots=snapshots).metadata)
        except NotFound:
            return None
        except NotAllowed:
            reason = "may not be read (403); give the right to, for a job may read or write it"
        except _MALFORMED as error:
            reason = f"has metadata that cannot be read ({type(error).__name__}: {error})"
        except FrazilError as error:
            if error.kind != "UnreadableAnswer":
                raise
            reason = f"cannot be read: {error.message}"
        self._unread(f"the table {'.'.join(name)} {reason}")
        return None

    def _written(self, job: str) -> dict[TableName, int]:
        if self._jobs is not None:
            try:
                found = self._jobs.tables("flink", job)
                return {(*table.namespace, table.name): table.last_timestamp_ms for table in found}
            except (NotFound, Unsupported, InvalidInput, NotAllowed):
                # Not frazil's server, or an older one.
                self._jobs = None
        if self._walked is None:
            self._walked = self._walk()
        return self._walked.get(job, {})

    def _walk(self) -> dict[str, dict[TableName, int]]:
        """Only ids, names and times are kept: a table may have very many snapshots."""
        found: dict[str, dict[TableName, int]] = {}
        for name in self._all():
            if name in self._loaded and self._loaded[name] is None:
                continue
            loaded = self._load(name, "all", lambda metadata: (_columns(metadata), _last_writes(metadata)))
            self._loaded.setdefault(name, None if loaded is None else loaded[0])
            for job, last in ({} if loaded is None else loaded[1]).items():
                found.setdefault(job, {})[name] = last
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


def _last_writes(metadata: dict[str, Any]) -> dict[str, int]:
    """When each Flink job last wrote a table, of the snapshots that there still are."""
    found: dict[str, int] = {}
    for snapshot in metadata.get("snapshots") or ():
        if job := (snapshot.get("summary") or {}).get(_FLINK_JOB):
            found[job] = max(found.get(job, 0), int(snapshot["timestamp-ms"]))
    return found


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
