"""Keys of the tables that one pipeline writes to, for its tasks."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import TYPE_CHECKING

from frazil.client import Renewing

if TYPE_CHECKING:
    from pyspark import Broadcast, SparkContext

    from frazil.client import VendedCredentials
    from frazil.lake.table import LakeTable
    from frazil.stream.outlets import Keys

#: Keys in the hands of a task last at least this long, or half of their life.
_MARGIN = 600.0


class TableKeys:
    """Sent by broadcast, renewed between jobs. One pipeline runs one job at a time."""

    def __init__(self, context: SparkContext) -> None:
        self._context = context
        self._renewing: dict[str, Renewing] = {}
        self._sent: tuple[dict[str, VendedCredentials], Broadcast[Keys]] | None = None

    def add(self, table: LakeTable) -> None:
        """Local places need none."""
        keys = table.renewing_keys(_MARGIN)
        if keys is not None:
            self._renewing[str(table)] = keys

    def drop(self, table: str) -> None:
        """Nothing is written to it any more."""
        self._renewing.pop(table, None)

    def end(self, tables: Collection[str] | None = None) -> datetime | None:
        """When the first of them ends."""
        ends = [keys.expires_at for keys in self.current(tables).values() if keys.expires_at is not None]
        return min(ends, default=None)

    def broadcast(self) -> Broadcast[Keys]:
        """The keys of now, for the job that is about to start."""
        current = self.current()
        if self._sent is None or self._sent[0] != current:
            if self._sent is not None:
                self._sent[1].destroy()
            self._sent = current, self._context.broadcast(current)
        return self._sent[1]

    def current(self, tables: Collection[str] | None = None) -> dict[str, VendedCredentials]:
        """Those of now, by table; None: of all."""
        return {
            name: keys.current() for name, keys in self._renewing.items() if tables is None or name in tables
        }
