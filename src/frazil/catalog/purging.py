"""Deletes the files of purged tables and generic tables, in the background, until every one is gone."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from frazil.catalog.db import Database
from frazil.catalog.service import Catalog, now_ms
from frazil.catalog.storage import PurgeReport, purge_files, purge_location
from frazil.catalog.store import idempotency, locations, purges
from frazil.core.errors import FrazilError

_log = logging.getLogger(__name__)

_POLL_SECONDS = 5.0
_RENEW_SECONDS = purges.LEASE_MS / 3000
_MAX_WAIT_MS = 3_600_000


class _Lease:
    """A purge that is ours for a while, as the database has it: clocks of servers may differ."""

    def __init__(self, database: Database, purge_id: str, until: int) -> None:
        self._database = database
        self._purge_id = purge_id
        self._turn = asyncio.Lock()
        self.until = until

    async def renew(self) -> bool:
        """Hold it longer; False when another process has it."""
        async with self._turn:
            until = await purges.renew(self._database, self._purge_id, self.until, now_ms())
            if until is None:
                return False
            self.until = until
            return True


class Janitor:
    """Works off purges and forgets old idempotency keys. Any number of processes may run one."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    async def run(self) -> None:
        # Nobody else works on a SQLite file, so the leases there are of a process that died.
        inherited = self._catalog.database.dialect == "sqlite"
        while True:
            # Before the work, not after it: whoever asks meanwhile is not to wait for the next look.
            self._catalog.purge_requested.clear()
            try:
                if inherited:
                    await purges.release_all(self._catalog.database)
                    inherited = False
                await self._work_off()
                await idempotency.forget_old(self._catalog.database, now_ms())
            except FrazilError as error:
                _log.warning("purging paused: %s", error)
            except Exception:  # noqa: BLE001 (the next line says why)
                # Nobody would start the janitor again, so nothing may end it.
                _log.exception("purging failed; it will be tried again")
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._catalog.purge_requested.wait(), _POLL_SECONDS)

    async def _work_off(self) -> None:
        database = self._catalog.database
        while (purge := await purges.next_due(database, now_ms())) is not None:
            until = await purges.claim(database, purge, now_ms())
            if until is not None:
                await self._purge(purge, _Lease(database, purge.purge_id, until))
        self._catalog.metrics.purges_waiting.set(await purges.waiting(database))

    async def _purge(self, purge: purges.Purge, lease: _Lease) -> None:
        database = self._catalog.database
        work = asyncio.create_task(self._delete_files(purge, lease))
        try:
            while not (await asyncio.wait([work], timeout=_RENEW_SECONDS))[0]:
                if not await lease.renew():
                    _log.warning("purge of %s was taken over by another server", purge.name)
                    return
            error = work.result()
        finally:
            work.cancel()
        if error is None:
            await purges.finish(database, purge.purge_id, lease.until)
            return
        wait = min(1000 * 2**purge.attempts, _MAX_WAIT_MS)
        _log.warning("purge of %s will be tried again in %d s: %s", purge.name, wait // 1000, error)
        await purges.postpone(database, purge.purge_id, lease.until, error, now_ms() + wait)

    async def _delete_files(self, purge: purges.Purge, lease: _Lease) -> str | None:
        """None when done, else what went wrong."""
        try:
            report = await self._report(purge, lease)
        except FrazilError as error:
            return str(error)
        except Exception as error:  # noqa: BLE001 (the next line says why)
            # A purge that cannot be done must wait its turn, not stop the others.
            _log.exception("purge of %s", purge.name)
            return f"{type(error).__name__}: {error}"
        self._catalog.metrics.purged_files.inc(report.deleted)
        for skipped in report.skips:
            _log.warning("purge of %s leaves %s alone: %s", purge.name, skipped.location, skipped.reason)
        if not report.complete:
            location, reason = report.failures[0]
            return f"{report.failed} files could not be deleted, the first {location}: {reason}"
        _log.info("purged %s: %d files", purge.name, report.deleted)
        return None

    async def _report(self, purge: purges.Purge, lease: _Lease) -> PurgeReport:
        warehouse = await self._catalog.warehouses.get(purge.warehouse_id)
        if purge.kind == "generic-table":
            return await purge_location(warehouse.storage, purge.location, lease.renew)
        storage, database = warehouse.storage, self._catalog.database

        async def foreign(files: Sequence[str]) -> set[str]:
            return await locations.in_others(
                database, purge.warehouse_id, storage.base, files, purge.location
            )

        metadata = msgspec.json.decode(purge.metadata)
        return await purge_files(storage, metadata, purge.metadata_location, foreign)
