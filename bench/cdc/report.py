"""What is printed and kept: the tables, RESULT lines, JSON, a section of bench/RESULTS.md."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from statistics import median
from typing import Any

from bench.cdc.measure import Measurement
from bench.cdc.sides import MERGES, OURS
from bench.results import Result, figures_json, figures_markdown, notes_markdown, table_markdown
from bench.surroundings import surroundings

#: Of MERGE's CPU over ours, by table.
MERGE_GOALS = {"2m": 3.0, "20m": 10.0}
FLINK_GOAL, READ_GOAL = 1.0, 2.0

_HEADER = (
    "table",
    "side",
    "CPU-s/batch",
    "first",
    "last",
    "of which",
    "catalog",
    "changes/s",
    "read CPU-s",
    "compacted",
    "data files",
    "delete files",
    "commits",
    "MB",
    "load",
    "wrong",
)


@dataclass
class Report:
    """Everything one run measured."""

    size: int
    measurements: list[Measurement] = field(default_factory=list)
    #: Before anything was started: how busy the machine was with other things.
    load_before: float = field(default_factory=lambda: os.getloadavg()[0])

    @property
    def ours(self) -> str | None:
        """The format of ours that the goals are of: the one whose writes and read cost least."""
        costs = {side: cost for side in OURS if (cost := self._cost(side)) is not None}
        if not costs:
            costs = {m.side: m.batch_cpu for m in self.measurements if m.side in OURS}
        return min(costs, key=lambda side: costs[side], default=None)

    def results(self) -> list[Result]:
        """Those of the format that counts under the names of the goals, of the other one with its number."""
        others = [side for side in OURS if side != self.ours]
        found = [] if self.ours is None else self._ratios(self.ours, "")
        found += [result for side in others for result in self._ratios(side, f".v{side[-1]}")]
        if self.measurements:
            found.append(Result("cdc.rows_wrong", sum(m.wrong for m in self.measurements), "<=", 0))
        return found

    def _ratios(self, side: str, suffix: str) -> list[Result]:
        found = [
            Result(f"cdc.merge_ratio.{name}{suffix}", ratio, ">=", MERGE_GOALS.get(name, 1.0))
            for name in dict.fromkeys(m.scenario.name for m in self.measurements)
            if (ratio := self._merge_ratio(name, side)) is not None
        ]
        ours, theirs = self._cost(side), self._cost("flink")
        if ours is not None and theirs is not None:
            found.append(Result(f"cdc.flink_ratio{suffix}", theirs / ours, ">=", FLINK_GOAL))
        reads = [
            m.read_cpu / m.compacted_cpu
            for m in self.measurements
            if m.side == side and m.read_cpu is not None and m.compacted_cpu
        ]
        if reads:
            found.append(Result(f"cdc.read_ratio{suffix}", median(reads), "<=", READ_GOAL))
        return found

    def _merge_ratio(self, scenario: str, side: str) -> float | None:
        """Theirs is the better of both formats."""
        theirs = [cpu for merge in MERGES if (cpu := self._batch_cpu(scenario, merge)) is not None]
        ours = self._batch_cpu(scenario, side)
        return min(theirs) / ours if theirs and ours else None

    def _batch_cpu(self, scenario: str, side: str) -> float | None:
        found = [m.batch_cpu for m in self.measurements if (m.scenario.name, m.side) == (scenario, side)]
        return median(found) if found else None

    def _cost(self, side: str) -> float | None:
        """All batches and one read."""
        found = [m.write_cpu + m.read_cpu for m in self.measurements if m.side == side and m.read_cpu]
        return median(found) if found else None

    def table(self) -> list[Sequence[str]]:
        return [_HEADER, *map(_row, self.measurements)]

    def text(self) -> str:
        rows = self.table()
        widths = [max(len(row[i]) for row in rows) for i in range(len(_HEADER))]
        lines = ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) for row in rows]
        return "\n".join(["", *lines, "", *self.notes()])

    def notes(self) -> list[str]:
        """What has no goal."""
        lines = []
        if self.ours is not None:
            lines.append(
                f"of ours, format {self.ours[-1]} counts, figures of the other one have its number; of MERGE "
                "the better format of each table"
            )
        for name in dict.fromkeys(m.scenario.name for m in self.measurements):
            batches = {m.scenario.batches for m in self.measurements if m.scenario.name == name}
            lines.append(f"tables {name}: {max(batches)} batches")
        for side in (*OURS, *MERGES, "flink"):
            if (cost := self._cost(side)) is not None:
                label = next(m.label for m in self.measurements if m.side == side)
                lines.append(f"{label}: all batches and one read took {cost:.1f} CPU-s")
        return [*lines, *self._writes_alone()]

    def _writes_alone(self) -> list[str]:
        """Beside a ratio that has a read in it."""
        found = [m for m in self.measurements if m.side in (*OURS, "flink") and m.read_cpu]
        if "flink" not in {m.side for m in found}:
            return []
        each = "; ".join(f"{m.label} {m.batch_cpu:.2f}" for m in found)
        return [f"`cdc.flink_ratio` is of all batches and one read. A batch alone, in CPU-s: {each}"]

    def as_json(self) -> dict[str, Any]:
        return {
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "size": self.size,
            "surroundings": surroundings(),
            "load_before": round(self.load_before, 2),
            "measurements": [asdict(m) for m in self.measurements],
            "results": figures_json(self.results()),
        }

    def markdown(self) -> str:
        parts = [_INTRODUCTION, f"Measured on {datetime.now(UTC):%Y-%m-%d}.", ""]
        parts += [f"- {name}: {value}" for name, value in surroundings().items()]
        parts += [f"- load average before the run: {self.load_before:.1f}"]
        parts += [f"- changes of a batch: {self.size:,}"]
        parts += figures_markdown(self.results())
        parts += table_markdown(self.table(), texts=2)
        parts += notes_markdown(self.notes())
        return "\n".join([*parts, _NOTES])


def _row(m: Measurement) -> Sequence[str]:
    kinds = sorted({kind for step in m.steps for kind in step.cpu})
    batches = m.scenario.batches
    split = {kind: sum(step.cpu.get(kind, 0.0) for step in m.steps) / batches for kind in kinds}
    first, last = m.edges
    return (
        m.scenario.name,
        m.label,
        f"{m.batch_cpu:.2f}",
        f"{first:.2f}",
        f"{last:.2f}",
        ", ".join(f"{kind} {cpu:.2f}" for kind, cpu in split.items()),
        f"{m.catalog_cpu / batches:.3f}",
        f"{m.per_second:,.0f}",
        "" if m.read_cpu is None else f"{m.read_cpu:.2f}",
        "" if m.compacted_cpu is None else f"{m.compacted_cpu:.2f}",
        f"{m.contents.data_files}",
        f"{m.contents.delete_files}",
        f"{m.contents.commits}",
        f"{max(step.peak_mb for step in m.steps):,.0f}",
        f"{m.load:.1f}",
        f"{m.wrong}",
    )


_INTRODUCTION = """\
## Change data into Iceberg

Debezium's envelopes (JSON without schemas, REPLICA IDENTITY FULL, about 740 bytes, a topic of 2 partitions)
brought into Iceberg tables of 9 columns that have a 64-bit key and are not partitioned, by each side in turn:
same broker, same frazil catalog, same local disk, parallelism 2. Every side begins with the same rows in the
same files, written by Spark, and is warmed by a few batches. A batch has changes of random keys of the whole
table (95 % updates, 2 % deletes, 2 % inserts, 1 % of keys twice), in tables *append* 95 % inserts and 5 %
updates of young keys, and becomes one commit. Every figure here was measured by

    make bench-cdc ARGS="--results bench/RESULTS.md"

which also compares every row of every table with what the changes leave, as Spark reads it. With `--quick`
it says whether everything works, not how well."""

_NOTES = """\
- *frazil* is a pipeline of the format debezium that is at work all the time and finds a backlog, which its
  limit of records a round cuts into batches. *Spark MERGE* is a batch read of Spark's Kafka source by
  offsets, `from_json`, the last change of each key by `row_number`, and `MERGE INTO` with merge-on-read.
  *Flink upsert* is Flink SQL with the format debezium-json and Iceberg's v2 sink in upsert mode; it gets the
  next batch when the last one is committed, and a checkpoint one second after each: changes/s of that
  cannot be compared.
- *CPU-s/batch* is of every process of the side (driver, JVM, Python workers; JobManager, TaskManager, SQL
  gateway), not of the broker; the catalog's are beside it. *first* and *last* are of the first and the last
  ten batches.
- *read CPU-s* is of a Spark that belongs to no side, warm (by 20 such reads, or 60 CPU-s of them), for sums
  over all columns of all rows after the last batch, checked; *compacted* the same after `rewrite_data_files`
  of all files.
- *load* is the load average when the last batch ended. Where it is far above the parallelism, or differs much
  between sides, changes/s cannot be compared and CPU-seconds may be inflated.
"""
