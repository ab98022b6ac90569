"""A union read against a plain one of the same snapshot, while the tail grows."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Literal

import numpy as np

from bench.cdc.changes import ABSENT, PARTITIONS, Workload
from bench.cdc.place import write_base, wrong_rows
from bench.cdc.rows import SCHEMA, STATUSES, Values, table_of
from bench.driver_process import DriverProcess, serve
from bench.hot import reader
from bench.hot.place import NAMESPACE, Place
from bench.hot.reader import Groups
from bench.meter import Meter, Usage, spark_processes
from bench.numbers import Ids
from frazil.core.schema import Field, Schema
from frazil.hot.write.put import Writer

SIDES: tuple[Literal["plain"], Literal["union"]] = ("plain", "union")
_TABLE = "orders"
_COLUMNS = Schema(tuple(Field(name, kind) for name, kind in SCHEMA.items()))
#: For each tail: keys of files are remembered from the second read on, and Java's compiler has work for
#: some more reads of large files.
_WARM = 10
#: The table of the first reads.
_FIRST_ROWS, _FIRST_TAIL = 20_000, 2_000
_CHUNK = 500_000


@dataclass
class Tail:
    """Reads with a tail of some size, by both sides in turns."""

    changes: int
    used: dict[str, list[Usage]] = field(default_factory=lambda: {side: [] for side in SIDES})
    wrong: int = 0
    load: float = 0.0

    @property
    def name(self) -> str:
        for size, letter in ((1_000_000, "m"), (1000, "k")):
            if self.changes and self.changes % size == 0:
                return f"{self.changes // size}{letter}"
        return str(self.changes)

    def cpu(self, side: str) -> float:
        """CPU-seconds of the middle read."""
        return median(usage.cpu_seconds for usage in self.used[side])

    @property
    def overhead(self) -> float:
        """What the union read uses more, as a share of the plain one."""
        return self.cpu("union") / self.cpu("plain") - 1


def measure(
    place: Place, rows: int, tails: Sequence[int], first: int, repeat: int, say: Callable[[str], None]
) -> list[Tail]:
    """`tails`: changes that are in the log only, each more than the one before.

    `first`: reads of each side that do not count, of a small table: Java's compiler has to have seen how it
    is done, or most of what is measured is its work.
    """
    with closing(DriverProcess(serve, reader.start, place.server.uri)) as spark:
        say(f"{first} reads of a small table by each side, which do not count …")
        with _table(place, spark, _FIRST_ROWS) as (reads, workload, writer):
            _change(workload, _FIRST_TAIL, writer)
            reads.measure(Tail(_FIRST_TAIL), groups_of(workload), first)
        say(f"{rows:,} rows …")
        found: list[Tail] = []
        with _table(place, spark, rows) as (reads, workload, writer):
            for changes in tails:
                say(f"a tail of {changes:,} changes …")
                _change(workload, changes - (found[-1].changes if found else 0), writer)
                tail = Tail(changes)
                reads.measure(tail, groups_of(workload), repeat)
                tail.wrong += reads.wrong_rows(workload)
                found.append(tail)
                say(f"{tail.name}: {tail.overhead:+.1%} CPU, {tail.wrong} wrong")
    return found


@contextmanager
def _table(place: Place, spark: DriverProcess, rows: int) -> Iterator[tuple[_Reads, Workload, Writer]]:
    """A hot table whose rows are in Iceberg, and what reads and changes it; it is dropped in the end."""
    table = place.create(_TABLE, _COLUMNS, keyed=True, buckets=PARTITIONS)
    workload = Workload(rows, 0, "random")
    with tempfile.TemporaryDirectory(dir=place.directory) as scratch:
        # Not by tiering: that would have no tail left, and whoever wrote the snapshot makes no difference.
        spark.call(("load", str(table), str(write_base(Path(scratch, "base"), rows))))
    with Writer(table) as writer:
        yield _Reads(place, spark, str(table), groups_of(workload)), workload, writer
    place.drop(table)


def groups_of(workload: Workload) -> Groups:
    """What the query finds in a table that is as it should be."""
    counts, sums = np.zeros((2, len(STATUSES)), np.int64)
    alive: Ids = workload.alive
    for start in range(0, len(alive), _CHUNK):
        ids = alive[start : start + _CHUNK]
        values = Values.of(ids, workload.versions[ids])
        counts += np.bincount(values.status, minlength=len(STATUSES))
        sums += np.bincount(values.status, values.quantity, len(STATUSES)).astype(np.int64)
    pairs = zip(counts.tolist(), sums.tolist(), strict=True)
    return {status: pair for status, pair in zip(STATUSES, pairs, strict=True) if pair[0]}


def _change(workload: Workload, changes: int, writer: Writer) -> None:
    if not changes:
        return
    workload.size = changes
    for part in workload.batch():
        stays = part.after != ABSENT
        writer.put(table_of(part.ids[stays], part.after[stays]))
        # No key of these is changed a second time: they may come last.
        writer.delete(part.ids[~stays].tolist())
    writer.flush()


@dataclass
class _Reads:
    place: Place
    spark: DriverProcess
    table: str
    #: What the snapshot has.
    base: Groups

    def __post_init__(self) -> None:
        metadata = self.place.client.tables.load((NAMESPACE,), _TABLE).metadata
        self._snapshot = str(metadata["current-snapshot-id"])

    def measure(self, tail: Tail, united: Groups, repeat: int) -> None:
        for number in range(_WARM + repeat):
            # Each is the first one as often as the other.
            for side in SIDES if number % 2 else SIDES[::-1]:
                with Meter(lambda: spark_processes(self.spark.pid)) as meter:
                    groups = self._read(side)
                tail.wrong += int(groups != (self.base if side == "plain" else united))
                if number >= _WARM:
                    tail.used[side].append(meter.usage)
        tail.load = os.getloadavg()[0]

    def wrong_rows(self, workload: Workload) -> int:
        """All columns of all rows of a union read."""
        with tempfile.TemporaryDirectory(dir=self.place.directory) as scratch:
            self.spark.call(("export", self.table, self.place.server.uri, f"{scratch}/rows"))
            return wrong_rows(Path(scratch, "rows"), workload)

    def _read(self, side: Literal["plain", "union"]) -> Groups:
        where = self._snapshot if side == "plain" else self.place.server.uri
        found: Groups = self.spark.call((side, self.table, where))
        return found
