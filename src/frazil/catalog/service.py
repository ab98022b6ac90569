"""What every handler works with."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Coroutine, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

from frazil.catalog.db import Database
from frazil.catalog.documents import Document, DocumentCache
from frazil.catalog.identity import Guard
from frazil.catalog.metrics import RequestMetrics
from frazil.catalog.secrets import SecretBox
from frazil.catalog.settings import ServerSettings
from frazil.catalog.store import tabulars
from frazil.catalog.vending import VendedCache
from frazil.catalog.warehouses import Warehouse, Warehouses, checked_id
from frazil.core.errors import (
    CommitStateUnknown,
    NoSuchGenericTable,
    NoSuchTable,
    NoSuchView,
    NoSuchWarehouse,
    NotFound,
)
from frazil.core.names import check_name, name_key, namespace_key, show

Key = tuple[str, str, str]
_log = logging.getLogger(__name__)
_NO_SUCH: dict[tabulars.Kind, type[NotFound]] = {
    "table": NoSuchTable,
    "view": NoSuchView,
    "generic-table": NoSuchGenericTable,
}


@dataclass(frozen=True, slots=True)
class Loaded:
    """A table, view or generic table that exists, with its current document."""

    tabular_id: str
    namespace_id: str
    kind: tabulars.Kind
    location: str
    document: Document


@dataclass(frozen=True, slots=True)
class Place:
    """Where a name leads: its warehouse and, as far as they exist, namespace and tabular."""

    warehouse: Warehouse
    levels: tuple[str, ...]
    name: str
    namespace_id: str | None
    found: Loaded | None

    @property
    def key(self) -> Key:
        return (self.warehouse.warehouse_id, namespace_key(self.levels), name_key(self.name))


class Catalog:
    """The state of one server process. All of it can be lost: the database is the truth."""

    def __init__(
        self, settings: ServerSettings, database: Database, secrets: SecretBox, metrics: RequestMetrics
    ) -> None:
        self.settings = settings
        self.database = database
        self.secrets = secrets
        self.metrics = metrics
        self.warehouses = Warehouses(database, secrets)
        self.documents = DocumentCache(settings.metadata_cache_mb * 1024 * 1024)
        self.vended = VendedCache()
        self.purge_requested = asyncio.Event()
        #: Who is asking; set once the schema is there.
        self.guard: Guard
        #: What `/v1/config` and `/openapi.json` answer; set once the endpoints are known.
        self.endpoints: list[str] = []
        self.openapi = b""
        self._locks: WeakValueDictionary[Key, asyncio.Lock] = WeakValueDictionary()
        self._background: set[asyncio.Task[Any]] = set()

    async def find(self, prefix: str, levels: tuple[str, ...], name: str) -> Place:
        """Look a name up; the metadata document crosses the wire only if it is not held already."""
        warehouse_id = checked_id(prefix)
        key = (warehouse_id, namespace_key(levels), name_key(name))
        held = self.documents.get(key)
        row = await tabulars.find(self.database, *key, (held.tabular_id, held.revision) if held else ("", 0))
        if row is None:
            raise NoSuchWarehouse(f"Warehouse does not exist: {prefix}")
        warehouse = self.warehouses.held(warehouse_id)
        if warehouse is None or warehouse.version != row.warehouse_version:
            warehouse = await self.warehouses.get(prefix)
        if row.tabular_id is None:
            return Place(warehouse, levels, name, row.namespace_id, None)
        if row.metadata is not None:
            held = Document(row.tabular_id, row.revision, row.metadata_location, row.metadata)
            self.documents.put(key, held)
        assert held is not None
        assert row.namespace_id is not None
        loaded = Loaded(row.tabular_id, row.namespace_id, row.kind, row.location, held)
        return Place(warehouse, levels, name, row.namespace_id, loaded)

    async def load(
        self, prefix: str, levels: tuple[str, ...], name: str, kind: tabulars.Kind
    ) -> tuple[Warehouse, Loaded]:
        """The tabular of that name and kind; NoSuchTable, NoSuchView or NoSuchGenericTable."""
        place = await self.find(prefix, levels, name)
        if place.found is None or place.found.kind != kind:
            raise no_such(kind, levels, name)
        return place.warehouse, place.found

    async def load_again(self, prefix: str, tabular_id: str) -> tuple[Warehouse, Document]:
        """The present state of what an earlier request changed, whatever its name is now."""
        row = await tabulars.document(self.database, tabular_id)
        if row is None:
            # A 404 would say that it never happened, and clients then delete the files they committed.
            raise CommitStateUnknown("this request was carried out, but what it changed was dropped since")
        return await self.warehouses.get(prefix), Document(tabular_id, *row)

    @asynccontextmanager
    async def turn(self, keys: Iterable[Key]) -> AsyncIterator[None]:
        """Commits of this process on one name take turns instead of losing the swap to each other.

        Only an economy: processes do not see each other's locks, and the swap alone decides.
        """
        async with AsyncExitStack() as stack:
            for key in sorted(keys):
                lock = self._locks.get(key)
                if lock is None:
                    lock = self._locks[key] = asyncio.Lock()
                await stack.enter_async_context(lock)
            yield

    def background(self, work: Coroutine[Any, Any, Any]) -> None:
        """Start work that no answer waits for; `close` waits for it."""
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._finished)

    async def close(self) -> None:
        if self._background:
            await asyncio.wait(self._background, timeout=10)
        await self.vended.close()
        await self.warehouses.close()
        await self.database.close()

    def _finished(self, task: asyncio.Task[Any]) -> None:
        self._background.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _log.warning("background work failed", exc_info=task.exception())


def no_such(kind: tabulars.Kind, levels: tuple[str, ...], name: str) -> NotFound:
    what = tabulars.label(kind)
    check_name(name, f"{what.lower()} name")
    return _NO_SUCH[kind](f"{what} does not exist: {show(levels, name)}")


def now_ms() -> int:
    return time.time_ns() // 1_000_000
