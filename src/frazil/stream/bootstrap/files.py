"""The data files of a pinned snapshot in the order in which their rows are numbered."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from frazil.core.schema import Schema
from frazil.lake.changelog import identifier_fields, shape_of, specs_of
from frazil.lake.changelog_rows import Shape
from frazil.lake.history import TableSnapshot
from frazil.lake.live import LiveFiles, Target
from frazil.lake.manifests import ContentFile, Manifests
from frazil.lake.storage import Inputs

_LOWEST, _HIGHEST = -(2**63), 2**63 - 1
_MILLION = 1_000_000


@dataclass(frozen=True)
class HistoryFiles:
    """Where the rows are. The same snapshot gives the same numbers, whoever asks and when."""

    targets: tuple[Target, ...]
    #: The number of the first row of each, and behind the last one the number of all.
    starts: tuple[int, ...]
    shape: Shape
    #: When the snapshot was committed, milliseconds since 1970.
    millis: int
    ordered_by: int = 0
    #: The columns that the table says its rows are known by.
    key: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        return self.starts[-1]

    def cuts(self, lateness: float) -> tuple[int, ...]:
        """Where a batch may end, so that no row behind it is late by what is before it.

        A watermark follows the highest time of a batch, less the lateness. Only bounds of whole files are
        known, so a batch is whole files: up to where those that follow have nothing at or below that.
        """
        if not self.ordered_by:
            return (self.total,)
        bounds = [_bounds(target.file, self.ordered_by) for target in self.targets]
        before = accumulate((high for _, high in bounds), max)
        # Files are in the order of their lowest values, but for those that have none.
        behind = [*accumulate((low for low, _ in reversed(bounds)), min)][::-1][1:]
        delay = int(lateness * _MILLION)
        found = [
            end
            for end, high, low in zip(self.starts[1:], before, [*behind, _HIGHEST], strict=True)
            if high - delay < low
        ]
        return tuple(sorted({*found, self.total}))


def history_files(
    storage: Inputs, metadata: Mapping[str, Any], table: str, snapshot: TableSnapshot, ordered_by: int
) -> HistoryFiles:
    """`ordered_by`: the id of a column of times, whose lowest value in each file orders them; 0: none."""
    shape = shape_of(metadata, table, snapshot.schema_id)
    manifests = Manifests([ordered_by] if ordered_by else [])
    assert snapshot.manifest_list is not None, "looked at before it is pinned"
    live = LiveFiles(manifests.live(storage, snapshot.manifest_list), specs_of(metadata, shape.schema))
    targets = tuple(live.target(file) for file in _ordered(live.data, ordered_by))
    starts = tuple(accumulate((target.file.records for target in targets), initial=0))
    key = identifier_fields(metadata, table, snapshot.schema_id)
    return HistoryFiles(targets, starts, shape, snapshot.millis, ordered_by, key)


def time_column(schema: Schema, name: str | None) -> int:
    """The id of a column by which files can be ordered; 0: there is none."""
    kinds = ("timestamp", "timestamptz")
    return next((field.id for field in schema if field.name == name and field.type in kinds), 0)


def _ordered(files: Iterable[ContentFile], ordered_by: int) -> Sequence[ContentFile]:
    """The path makes it the same order each time."""
    return sorted(files, key=lambda file: (_bounds(file, ordered_by)[0], file.path))


def _bounds(file: ContentFile, column: int) -> tuple[int, int]:
    """The lowest and highest time, microseconds since 1970; the widest where the table does not tell."""
    if column and file.nulls.get(column) == file.records:
        # No row of it has a time: it moves no watermark, and none is late.
        return _HIGHEST, _LOWEST
    low, high = file.lower.get(column), file.upper.get(column)
    return _LOWEST if low is None else _micros(low), _HIGHEST if high is None else _micros(high)


def _micros(bound: bytes) -> int:
    return int.from_bytes(bound, "little", signed=True)
