"""Merging files and expiring snapshots of hot tables, when no deadline is near."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from frazil.hot.table import HotTable
from frazil.maintenance import Caretaker, Maintenance
from frazil.stream.cdc.lane import Lane

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from frazil.lake.catalog import Lake
    from frazil.lake.table import LakeTable

#: Commits after which a table is looked after, whether there is time or not: what piles up costs more.
_PATIENCE = 60
#: Seconds that are left for it to begin; what it took the last times counts if that was longer.
_LEAST_SECONDS = 3.0


#: Where the service's own table is among those of topics: none has no name.
_OWN = ""
_OWN_SETTINGS = Maintenance()


@dataclass
class _Kept:
    caretaker: Caretaker
    settings: tuple[bool, bool] = (True, True)
    #: As they were at the last commit.
    tables: Sequence[LakeTable] = ()
    #: Commits that the caretaker was not told of.
    commits: int = 0
    seconds: float = 0.0


class Care:
    """Of all tables. For the thread of the loop."""

    def __init__(self, spark: SparkSession, lake: Lake) -> None:
        self._spark = spark
        self._lake = lake
        self._tables: dict[str, _Kept] = {}

    def committed(self, lane: Lane, table: HotTable | None) -> None:
        """A round of it landed. Work comes later."""
        if table is None:
            return
        kept, settings = self._tables.get(lane.topic), (table.compaction, table.expiry)
        if kept is None or kept.settings != settings:
            config = lane.config
            maintenance = table.pipeline({}).maintenance
            caretaker = Caretaker(self._spark, self._lake, maintenance, file_size=config.table.files.size)
            kept = self._tables[lane.topic] = _Kept(caretaker, settings)
        kept.tables = lane.tables
        kept.commits += 1

    def wrote(self, table: LakeTable) -> None:
        """A commit to the service's own table, which asks nobody for its settings."""
        kept = self._tables.setdefault(_OWN, _Kept(Caretaker(self._spark, self._lake, _OWN_SETTINGS)))
        kept.tables = (table,)
        kept.commits += 1

    def forget(self, topic: str) -> None:
        self._tables.pop(topic, None)

    def work(self, seconds: float) -> None:
        """For one table, if that fits into the seconds until a round is due."""
        waiting = [one for one in self._tables.values() if one.commits]
        if not waiting:
            return
        one = max(waiting, key=lambda each: each.commits)
        if seconds < max(_LEAST_SECONDS, one.seconds * 1.5) and one.commits < _PATIENCE:
            return
        started = time.monotonic()
        for _ in range(one.commits):
            for kept in one.tables:
                one.caretaker.committed(kept)
        one.commits = 0
        one.seconds = max(one.seconds * 0.8, time.monotonic() - started)
