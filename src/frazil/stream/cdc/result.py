"""What all tasks of a round did for one lane."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

import pyarrow as pa

from frazil.core.stamp import Mark
from frazil.lake.files import DataFile
from frazil.stream.cdc.changes import Shape
from frazil.stream.cdc.order import raised
from frazil.stream.cdc.spread import unpacked
from frazil.stream.cdc.transactions import Tail
from frazil.stream.cdc.work import LaneReport
from frazil.stream.tasks import Failure, SliceReport


@dataclass
class LaneResult:
    """The reports of its tasks, put together."""

    slices: list[SliceReport] = field(default_factory=list)
    read: int = 0
    bad: int = 0
    upserted: int = 0
    deleted: int = 0
    truncated: bool = False
    floor: Mark | None = None
    marks: dict[int, Mark] = field(default_factory=dict)
    files: dict[str, list[DataFile]] = field(default_factory=lambda: defaultdict(list))
    keys: list[pa.Table] = field(default_factory=list)
    patches: list[pa.Table] = field(default_factory=list)
    holes: list[bytes | None] = field(default_factory=list)
    origins: list[pa.Table] = field(default_factory=list)
    key_values: list[pa.Int64Array] = field(default_factory=list)
    patch_values: list[pa.Int64Array] = field(default_factory=list)
    shape: Shape | None = None
    cut: tuple[str, int, int] | None = None
    alone: bool = False
    half: tuple[str, int, int] | None = None
    tails: dict[int, Tail] = field(default_factory=dict)
    failure: Failure | None = None

    @classmethod
    def of(cls, reports: Iterable[LaneReport]) -> LaneResult:
        made = cls()
        for report in reports:
            made.add(report)
        return made

    def add(self, report: LaneReport) -> None:
        self.slices += report.slices
        self.read += sum(part.records for part in report.slices)
        self.bad += sum(part.bad for part in report.slices)
        self.upserted += report.upserted
        self.deleted += report.deleted
        self.truncated |= report.truncated
        if report.floor is not None:
            self.floor = raised(self.floor, report.floor)
        self.marks |= report.marks
        for table, files in report.files.items():
            self.files[table] += files
        if report.keys is not None:
            self.keys.append(unpacked(report.keys))
        if report.patches is not None:
            self.patches.append(unpacked(report.patches))
            self.holes += report.holes
        if report.origins is not None:
            self.origins.append(unpacked(report.origins))
        if report.key_values is not None:
            self.key_values.append(report.key_values)
        if report.patch_values is not None:
            self.patch_values.append(report.patch_values)
        if report.shape is not None:
            self.shape = report.shape if self.shape is None else self.shape | report.shape
        self.cut = self.cut or report.cut
        self.alone |= report.alone
        self.half = self.half or report.half
        self.tails |= report.tails
        self.failure = self.failure or report.failure
