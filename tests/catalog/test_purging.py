"""Whoever asks for a purge is not kept waiting, also while the janitor is at work."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from frazil.catalog import purging
from frazil.catalog.db import connect
from frazil.catalog.metrics import RequestMetrics
from frazil.catalog.secrets import SecretBox
from frazil.catalog.server import prepare
from frazil.catalog.service import Catalog
from frazil.catalog.settings import ServerSettings


class Janitor(purging.Janitor):
    """Is asked for a purge at the end of its first round, when it has looked already."""

    def __init__(self, catalog: Catalog) -> None:
        super().__init__(catalog)
        self._asked = catalog.purge_requested
        self._rounds = 0
        self.second_round = asyncio.Event()

    async def _work_off(self) -> None:
        await super()._work_off()
        self._rounds += 1
        if self._rounds == 1:
            self._asked.set()
        else:
            self.second_round.set()


async def test_a_request_that_comes_while_it_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(purging, "_POLL_SECONDS", 3600.0)
    settings = ServerSettings(data_dir=tmp_path)
    database = await connect(settings.database)
    try:
        secrets = await prepare(database, settings, [SecretBox(bytes(32))])
        janitor = Janitor(Catalog(settings, database, secrets, RequestMetrics()))
        work = asyncio.create_task(janitor.run())
        try:
            await asyncio.wait_for(janitor.second_round.wait(), 60)
        finally:
            work.cancel()
            with suppress(asyncio.CancelledError):
                await work
    finally:
        await database.close()
