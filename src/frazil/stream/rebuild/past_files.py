"""Files read again: those of the ledger, in the order in which they were taken."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.core.stamp import Position, Stamp
from frazil.lake.authority import History
from frazil.stream.config.model import Limits
from frazil.stream.files.feed import STREAM, FileFeed
from frazil.stream.files.found import FoundFile
from frazil.stream.files.ledger import LEDGER_SCHEMA, read_ledger
from frazil.stream.files.plan import MOST_FILES, tasks_of
from frazil.stream.files.reader import FileReader
from frazil.stream.rebuild.past import BoundedFeed, Mask, listed
from frazil.stream.rounds import RoundPlan

if TYPE_CHECKING:
    from frazil.lake.catalog import Lake


class FilePast(BoundedFeed):
    """Each in the version that was taken."""

    def __init__(self, feed: FileFeed, ledger: tuple[tuple[str, ...], str], lake: Lake, end: Stamp) -> None:
        super().__init__(end)
        self._feed = feed
        self._ledger = ledger
        self._lake = lake
        self._files: list[FoundFile] = []

    def begin(self, history: History) -> Stamp:
        position = self.end.positions[STREAM]
        self._load()
        return self._begun({STREAM: Position(id=position.id, next=(0, *position.next[1:]))})

    def plan(self, stamp: Stamp, limits: Limits, parallelism: int) -> RoundPlan:
        first, end = stamp.positions[STREAM].next[0], self.end.positions[STREAM]
        if len(self._files) < end.next[0]:
            self._load()
        files: list[FoundFile] = []
        left = limits.bytes_per_round
        for file in self._files[first : end.next[0]]:
            if files and (file.size > left or len(files) >= min(MOST_FILES, limits.records_per_round)):
                break
            files.append(file)
            left -= file.size
        done = first + len(files)
        slices = [part for file in files for part in self._feed.slices(file)]
        position = Position(id=end.id, next=(done, *end.next[1:]))
        tasks = tasks_of(slices, parallelism) if slices else ()
        return RoundPlan(tasks, {STREAM: position}, len(files), {STREAM: (end.next[0] - done,)})

    def reader(self, stamp: Stamp) -> FileReader:
        return self._feed.reader(stamp)

    def covers(self, letters: pa.Table) -> Mask:
        """All: letters are of files that were taken."""
        return np.ones(len(letters), np.bool_)

    def _load(self) -> None:
        count = self.end.positions[STREAM].next[0]
        found: dict[int, tuple[int, FoundFile]] = {}
        for table in read_ledger(self._lake, *self._ledger, columns=LEDGER_SCHEMA.to_arrow().names):
            for number, epoch, file in _rows(table, self.end.pipeline):
                if number < count and epoch > found.get(number, (-1,))[0]:
                    found[number] = epoch, file
        if len(found) < count:
            raise self._lost(
                f"its ledger lacks {count - len(found)} of the {count} files that it took",
                "roll the ledger back to the pipeline's last commit",
            )
        self._files = [found[number][1] for number in range(count)]
        there = self._feed.versions()
        gone = [file.path for file in self._files if (file.path, file.version) not in there]
        if gone:
            raise self._lost(
                f"files that it took were removed or overwritten since: {listed(gone)}",
                "bring them back as they were",
            )


def _rows(table: pa.Table, pipeline: str) -> Iterable[tuple[int, int, FoundFile]]:
    mine = table.filter(pc.equal(table["pipeline"], pipeline))
    names = ("number", "epoch", "path", "version", "size")
    modified = mine["modified"].cast(pa.timestamp("us", "UTC")).cast(pa.int64()).to_pylist()
    for row, micros in zip(mine.select(names).to_pylist(), modified, strict=True):
        yield row["number"], row["epoch"], FoundFile(row["path"], row["version"], row["size"], micros)
