"""What the parts of a client share: address, warehouse, and how requests are sent."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from frazil.client.answers import CatalogConfig, decoded
from frazil.client.exchange import Authorizer, Retry, exchange
from frazil.client.failures import READS, sentence
from frazil.client.flow import Answer, Flow, Request
from frazil.client.naming import segment
from frazil.client.runners import Runner
from frazil.core.errors import FrazilError, NoSuchWarehouse, Unauthenticated
from frazil.core.names import is_uuid

CATALOG, GENERIC, MANAGEMENT, OWN = "/catalog/v1", "/lakekeeper/v1", "/management/v1", "/frazil/v1"

_LOG_IN = (
    "The client has no token: set TOKEN, or OAUTH_CLIENT_ID and OAUTH_CLIENT_SECRET, and OAUTH_TOKEN_URL if "
    "another server issues the tokens"
)

Query = Iterable[tuple[str, str]]


@dataclass
class Session:
    """One warehouse of one server, over connections that may be shared."""

    runner: Runner
    retry: Retry
    authorizer: Authorizer | None
    warehouse: str | None
    project: str | None = None
    #: Sent with every request besides its own.
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    _config: CatalogConfig | None = field(default=None, repr=False)

    def at(self, warehouse: str) -> Session:
        """The same server and connections, another warehouse."""
        return replace(self, warehouse=warehouse, _config=None)

    def send(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        query: Query = (),
        headers: Mapping[str, str] | None = None,
        repeatable: bool = False,
    ) -> Flow[Answer]:
        """A request to any part of the API; reads may be repeated, changes only if that is said."""
        sent = dict(headers or {})
        data = None
        if body is not None:
            data = msgspec.json.encode(body)
            sent["Content-Type"] = "application/json"
        safe = repeatable or method in READS
        request = Request(method, path, tuple(query), sent, data, safe)
        try:
            return (yield from exchange(request, self.retry, self.authorizer))
        except Unauthenticated as error:
            if self.authorizer is not None:
                raise
            raise Unauthenticated(f"{sentence(error.message)} {_LOG_IN}", kind=error.kind) from None

    def catalog(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        headers: Mapping[str, str] | None = None,
        **more: Any,
    ) -> Flow[Answer]:
        """A request to the Iceberg API of the warehouse.

        A change carries a key by which the server knows it again, where it knows such keys: then it may be
        repeated after an unknown outcome.
        """
        config = yield from self.config()
        sent = dict(headers or {})
        if method not in READS and config.idempotency_key_lifetime is not None:
            sent["Idempotency-Key"] = new_key()
            more["repeatable"] = True
        return (yield from self._scoped(CATALOG, method, path, body, headers=sent, **more))

    def generic(self, method: str, path: str, body: object = None, **more: Any) -> Flow[Answer]:
        """A request to the generic tables of the warehouse."""
        return self._scoped(GENERIC, method, path, body, **more)

    def own(self, method: str, path: str, body: object = None, **more: Any) -> Flow[Answer]:
        """A request to what only frazil's server has."""
        return self._scoped(OWN, method, path, body, **more)

    def _scoped(self, root: str, method: str, path: str, body: object, **more: Any) -> Flow[Answer]:
        config = yield from self.config()
        assert config.prefix is not None, "checked when it was fetched"
        try:
            return (yield from self.send(method, f"{root}/{segment(config.prefix)}{path}", body, **more))
        except NoSuchWarehouse:
            # It may be another one of this name by now.
            self._config = None
            raise

    def config(self) -> Flow[CatalogConfig]:
        """The catalog's settings for the warehouse, fetched once.

        The address that it may hold is not used: the one that was given works, and no token goes elsewhere.
        """
        if self._config is None:
            query = [] if self.warehouse is None else [("warehouse", self.warehouse)]
            try:
                answer = yield from self.send("GET", f"{CATALOG}/config", query=query)
                found = decoded(answer, CatalogConfig)
            except NoSuchWarehouse:
                # Lakekeeper finds warehouses by name only, but its prefix is the id.
                if self.warehouse is None or not is_uuid(self.warehouse):
                    raise
                found = CatalogConfig(defaults={"prefix": self.warehouse.lower()})
            if not found.prefix:
                raise FrazilError("the server names no prefix for the warehouse in its /v1/config")
            self._config = found
        return self._config


def new_key() -> str:
    """A UUID of version 7 (RFC 9562), which the spec wants as an idempotency key."""
    random = uuid.uuid4().int
    value = (time.time_ns() // 1_000_000) << 80 | random & (2**80 - 1)
    value = value & ~(0xF000 << 64) | 0x7000 << 64
    return str(uuid.UUID(int=value & ~(0xC000 << 48) | 0x8000 << 48))
