"""Merging files and expiring snapshots of hot tables, when no deadline is near."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from frazil.hot.table import HotTable
from frazil.maintenance import Caretaker, Done, Maintenance
from frazil.stream.cdc.lane import Lane

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from frazil.lake.catalog import Lake
    from frazil.lake.table import LakeTable

#: Commits after which a table is looked after, whether there is time or not: what piles up costs more.
_PATIENCE = 60
#: Seconds that are left for it to begin. What it will take, as far as can be told, or took the last times
#: counts, if that is longer, with a margin.
_LEAST_SECONDS, _MARGIN = 3.0, 1.5

#: Where the service's own table is among those of topics: none has no name.
_OWN = ""
_OWN_SETTINGS = Maintenance()


@dataclass
class _Kept:
    caretaker: Caretaker
    settings: Maintenance
    #: As they were at the last commit.
    tables: Sequence[LakeTable] = ()
    #: Commits that the caretaker was not told of, or not for all tables.
    commits: int = 0
    #: Of how many tables it was told for the first of them.
    told: int = 0
    seconds: float = 0.0

    def fits(self, seconds: float) -> bool:
        return self.commits >= _PATIENCE or seconds >= max(_LEAST_SECONDS, self.seconds * _MARGIN)

    def tell(self, within: float) -> Done | None:
        """The caretaker of these commits, one by one, until it did something or would need longer."""
        while self.commits:
            for table in self.tables[self.told :]:
                done = self.caretaker.committed(table, within=within)
                if done is not None and done.needs is not None:
                    return done
                self.told += 1
                if done is not None:
                    return done
            self.commits, self.told = self.commits - 1, 0
        return None


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
        kept, settings = self._tables.get(lane.topic), table.maintenance
        if kept is None or kept.settings != settings:
            size = lane.config.table.files.size
            caretaker = Caretaker(self._spark, self._lake, settings, file_size=size)
            kept = self._tables[lane.topic] = _Kept(caretaker, settings)
        kept.tables = lane.tables
        kept.commits += 1

    def wrote(self, table: LakeTable) -> None:
        """A commit to the service's own table, which asks nobody for its settings."""
        caretaker = Caretaker(self._spark, self._lake, _OWN_SETTINGS)
        kept = self._tables.setdefault(_OWN, _Kept(caretaker, _OWN_SETTINGS))
        kept.tables = (table,)
        kept.commits += 1

    def forget(self, topic: str) -> None:
        self._tables.pop(topic, None)

    def work(self, seconds: float) -> None:
        """One run for one table, if that fits into the seconds until a round is due."""
        fitting = [one for one in self._tables.values() if one.commits and one.fits(seconds)]
        if not fitting:
            return
        one = max(fitting, key=lambda each: each.commits)
        started = time.monotonic()
        done = one.tell(math.inf if one.commits >= _PATIENCE else seconds / _MARGIN)
        if done is not None and done.needs is not None:
            one.seconds = max(one.seconds, done.needs)
        else:
            one.seconds = max(one.seconds * 0.8, time.monotonic() - started)
