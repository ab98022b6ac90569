"""Rows of a history, read in tasks."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from frazil.lake.changelog_rows import UnitReader
from frazil.lake.changelog_units import Unit
from frazil.lake.places import KeyedPlace, PlacedFiles
from frazil.stream.bootstrap.files import HistoryFiles
from frazil.stream.bootstrap.place import is_history
from frazil.stream.source import RawBatch, Reader, Slice


@dataclass(frozen=True)
class HistoryReader:
    """A `Reader` of slices of a history."""

    places: tuple[KeyedPlace, ...]
    files: HistoryFiles

    def read(self, slices: Sequence[Slice]) -> Iterator[RawBatch]:
        storage, files = PlacedFiles(self.places), self.files
        parts = [(part, self._numbers(part)) for part in slices]
        units = {number: Unit(None, files.targets[number]) for _, several in parts for number in several}
        reader = UnitReader(files.shape, storage, list(units.values()))
        for part, numbers in parts:
            for number in numbers:
                first = files.starts[number]
                inside = replace(part, start=max(part.start - first, 0), end=part.end - first)
                for rows in reader.read(units[number], inside.start, inside.end):
                    yield self._raw(part, rows.positions + first, rows.rows)

    def only(self, slices: Sequence[Slice]) -> HistoryReader:
        """The same for these slices alone: other files are not named."""
        numbers = [number for part in slices for number in self._numbers(part)]
        first, end, files = min(numbers), max(numbers) + 1, self.files
        return HistoryReader(
            self.places,
            replace(files, targets=files.targets[first:end], starts=files.starts[first : end + 1]),
        )

    def _numbers(self, part: Slice) -> range:
        """The files that have rows of it."""
        starts = self.files.starts
        return range(bisect_right(starts, part.start) - 1, bisect_right(starts, part.end - 1))

    def _raw(self, part: Slice, offsets: np.ndarray, rows: pa.RecordBatch) -> RawBatch:
        count = len(rows)
        return RawBatch(
            part.topic,
            part.partition,
            pa.nulls(count, pa.binary()),
            pa.array(offsets.astype(np.int64)),
            pa.array(np.full(count, self.files.millis, np.int64)),
            rows=rows,
            slice_start=part.start,
        )


@dataclass(frozen=True)
class BothReader:
    """A `Reader` of a history and of the log behind it."""

    history: HistoryReader
    log: Reader

    def read(self, slices: Sequence[Slice]) -> Iterator[RawBatch]:
        history = [part for part in slices if is_history(part.topic)]
        yield from self.history.read(history)
        yield from self.log.read([part for part in slices if not is_history(part.topic)])
