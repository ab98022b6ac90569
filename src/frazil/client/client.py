"""The clients: one that blocks, one for an event loop. They offer the same methods."""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from functools import cache
from types import TracebackType
from typing import Any, Generic, Self

import httpx

from frazil import __version__
from frazil.client.address import server_uri
from frazil.client.auth import ClientCredentials, authorizer_for
from frazil.client.catalog import CatalogApi, NamespacesApi, TablesApi, ViewsApi
from frazil.client.exchange import Retry
from frazil.client.flow import Async, M, Sync
from frazil.client.generic import GenericTablesApi
from frazil.client.jobs import JobsApi
from frazil.client.management import ProjectsApi, ServerApi, WarehousesApi
from frazil.client.runners import AsyncRunner, SyncRunner
from frazil.client.session import Session
from frazil.core.errors import InvalidConfig

#: Creating a warehouse tries its storage, which takes a while.
DEFAULT_TIMEOUT = 60.0
_CONNECT_TIMEOUT = 10.0
#: Variables that name other authorities than the usual.
_AUTHORITIES = ("SSL_CERT_FILE", "SSL_CERT_DIR")
#: The server closes connections that were idle for 5 s; a request must not meet that moment.
_LIMITS = httpx.Limits(max_connections=100, max_keepalive_connections=20, keepalive_expiry=3.0)


class _Parts(Generic[M]):
    """What both clients consist of."""

    def __init__(self, uri: str, session: Session) -> None:
        self.uri = uri
        self._session = session
        self.server: ServerApi[M] = ServerApi(session)
        self.projects: ProjectsApi[M] = ProjectsApi(session)
        self.warehouses: WarehousesApi[M] = WarehousesApi(session)
        self.catalog: CatalogApi[M] = CatalogApi(session)
        self.namespaces: NamespacesApi[M] = NamespacesApi(session)
        self.tables: TablesApi[M] = TablesApi(session)
        self.views: ViewsApi[M] = ViewsApi(session)
        self.generic_tables: GenericTablesApi[M] = GenericTablesApi(session)
        self.jobs: JobsApi[M] = JobsApi(session)

    @property
    def warehouse(self) -> str | None:
        """Name or id of the warehouse; None: the server's default one."""
        return self._session.warehouse

    def at(self, warehouse: str) -> WarehouseClient[M]:
        """The same server, over the same connections, with another warehouse."""
        return WarehouseClient(self.uri, self._session.at(warehouse))

    def iceberg_properties(self) -> dict[str, str]:
        """This warehouse for an Iceberg library in this process. It holds secrets: do not log or store it."""
        session = self._session
        found = {"uri": f"{self.uri}/catalog"}
        if session.warehouse is not None:
            found["warehouse"] = session.warehouse
        if session.project is not None:
            found["header.X-Project-Id"] = session.project
        found |= {f"header.{name}": value for name, value in session.headers.items()}
        return found | (session.authorizer.iceberg_properties() if session.authorizer is not None else {})

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.uri!r}, warehouse={self.warehouse!r})"


class Client(_Parts[Sync]):
    """A client of a frazil server, and of Lakekeeper where the API is the same. Threads may share one.

    `uri` is the server's address (else `LAKEKEEPER` or `FRAZIL_URI`, else http://localhost:8181), `warehouse`
    a name or id (else the server's default). The caller proves itself by `token` or `oauth`, else by `TOKEN`
    or, if that is not set, by `OAUTH_CLIENT_ID`, `OAUTH_CLIENT_SECRET`, `OAUTH_TOKEN_URL` and `OAUTH_SCOPE`.
    `headers` go with every request.

    >>> with Client("http://localhost:8181", warehouse="lake") as client:  # doctest: +SKIP
    ...     for namespace in client.namespaces.list():
    ...         print(namespace)
    """

    def __init__(
        self,
        uri: str | None = None,
        *,
        warehouse: str | None = None,
        project: str | None = None,
        token: str | None = None,
        oauth: ClientCredentials | None = None,
        timeout: float = DEFAULT_TIMEOUT,
        retry: Retry | None = None,
        verify: ssl.SSLContext | bool = True,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        address, retry = server_uri(uri), retry or Retry()
        authorizer = authorizer_for(token, oauth, os.environ, retry)
        self._http = httpx.Client(**_transport(address, project, timeout, verify, headers))
        runner = SyncRunner(self._http, authorizer)
        super().__init__(address, Session(runner, retry, authorizer, warehouse, project, dict(headers or {})))

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncClient(_Parts[Async]):
    """The same on an event loop: methods are awaited, listings are for `async for`."""

    def __init__(
        self,
        uri: str | None = None,
        *,
        warehouse: str | None = None,
        project: str | None = None,
        token: str | None = None,
        oauth: ClientCredentials | None = None,
        timeout: float = DEFAULT_TIMEOUT,
        retry: Retry | None = None,
        verify: ssl.SSLContext | bool = True,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        address, retry = server_uri(uri), retry or Retry()
        authorizer = authorizer_for(token, oauth, os.environ, retry)
        self._http = httpx.AsyncClient(**_transport(address, project, timeout, verify, headers))
        runner = AsyncRunner(self._http, authorizer)
        super().__init__(address, Session(runner, retry, authorizer, warehouse, project, dict(headers or {})))

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class WarehouseClient(_Parts[M]):
    """A client's view of another warehouse; it ends with that client."""


def _transport(
    uri: str,
    project: str | None,
    timeout: float,
    verify: ssl.SSLContext | bool,
    more: Mapping[str, str] | None,
) -> dict[str, Any]:
    """Redirects are not followed: a token must not travel to where an answer points."""
    headers = {"User-Agent": f"frazil/{__version__}", "Accept": "application/json"}
    for name, value in (more or {}).items():
        # The value may be a secret.
        if not (name.isascii() and name.isprintable() and value.isascii() and value.isprintable()):
            raise InvalidConfig(f"the header {name!r} is not legal. Legal: printable ASCII")
        headers[name] = value
    if project is not None:
        if not project.isascii() or not project.isprintable():
            raise InvalidConfig(f"project {project!r} is not legal. Legal: the id of a project, in ASCII")
        headers["X-Project-Id"] = project
    return {
        "base_url": uri,
        "headers": headers,
        "timeout": httpx.Timeout(timeout, connect=min(timeout, _CONNECT_TIMEOUT)),
        "limits": _LIMITS,
        "follow_redirects": False,
        "verify": _trusted(*map(os.environ.get, _AUTHORITIES)) if verify is True else verify,
    }


@cache
def _trusted(file: str | None, directory: str | None) -> ssl.SSLContext:
    """httpx's own, once: to read all authorities takes longer than many a request, and each client would.

    What it is given is what httpx looks at by itself.
    """
    return httpx.create_ssl_context()
