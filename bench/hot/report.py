"""What is printed and kept: the tables, RESULT lines, JSON, a section of bench/RESULTS.md."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from statistics import median
from typing import Any

from bench.hot.many import Kept
from bench.hot.union import SIDES, Tail
from bench.hot.visible import Visible
from bench.results import Result, figures_json, figures_markdown, notes_markdown, table_markdown
from bench.surroundings import surroundings

#: By tail, what a union read may use more than a plain one. Of the longest one it is only told.
OVERHEAD_GOALS = {"10k": 0.3, "100k": 0.3}

_LABELS = {"plain": "plain Iceberg", "union": "union"}
_HEADER = ("tail", "read", "CPU-s", "lowest", "highest", "of which", "seconds", "overhead", "MB", "load")


@dataclass
class Report:
    """Everything one run measured."""

    rows: int
    tails: list[Tail] = field(default_factory=list)
    visible: Visible | None = None
    kept: Kept | None = None
    #: Before anything was started: how busy the machine was with other things.
    load_before: float = field(default_factory=lambda: os.getloadavg()[0])

    def results(self) -> list[Result]:
        found = [
            Result(f"hot.union_overhead.{tail.name}", tail.overhead, "<=", OVERHEAD_GOALS.get(tail.name))
            for tail in self.tails
            if tail.changes
        ]
        if self.visible is not None:
            found += [Result(f"hot.visible_seconds.p{p}", getattr(self.visible, f"p{p}")) for p in (50, 99)]
        if self.kept is not None:
            found.append(Result(f"hot.breaches.{self.kept.settings.tables}", self.kept.breaches, "<=", 0))
        return [*found, Result("hot.rows_wrong", self.wrong, "<=", 0)]

    @property
    def wrong(self) -> int:
        others = [part.wrong for part in (self.visible, self.kept) if part is not None]
        return sum(tail.wrong for tail in self.tails) + sum(others)

    def table(self) -> list[Sequence[str]]:
        return [_HEADER, *(_row(tail, side) for tail in self.tails for side in SIDES)]

    def text(self) -> str:
        rows = self.table()
        widths = [max(len(row[i]) for row in rows) for i in range(len(_HEADER))]
        lines = ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) for row in rows]
        return "\n".join(["", *(lines if self.tails else ()), "", *self.notes()])

    def notes(self) -> list[str]:
        """What has no goal, and how it came about."""
        return [*([] if self.visible is None else [_seen(self.visible)]), *self._promises()]

    def _promises(self) -> list[str]:
        if self.kept is None:
            return []
        kept, settings = self.kept, self.kept.settings
        found = Counter(one.cause for one in kept.broken)
        causes = ", ".join(f"{count} by {cause}" for cause, count in found.items()) or "none"
        if kept.broken:
            causes += f", the worst after {max(one.lag for one in kept.broken):.1f} s"
        return [
            (
                f"{settings.tables} tables at freshness {settings.freshness}, {settings.rate:,.0f} records/s "
                f"in all for {settings.minutes:g} minutes behind a warm-up of {settings.warm_seconds:g} s: "
                f"broken promises by the service's report {causes} ({kept.broken_before} of the warm-up),"
                f" by the snapshots {kept.late} ({kept.late_before})"
            ),
            (
                f"oldest record of a commit: usually {kept.usual:.1f} s, at most {kept.oldest:.1f} s, over "
                f"{kept.commits:,} commits; the service used {kept.busy:.2f} of a core (load {kept.load:.1f})"
            ),
        ]

    def as_json(self) -> dict[str, Any]:
        return {
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "rows": self.rows,
            "surroundings": surroundings(with_flink=False),
            "load_before": round(self.load_before, 2),
            "tails": [asdict(tail) for tail in self.tails],
            "visible": asdict(self.visible) if self.visible else None,
            "kept": asdict(self.kept) if self.kept else None,
            "results": figures_json(self.results()),
        }

    def markdown(self) -> str:
        parts = [_INTRODUCTION, f"Measured on {datetime.now(UTC):%Y-%m-%d}.", ""]
        parts += [f"- {name}: {value}" for name, value in surroundings(with_flink=False).items()]
        parts += [f"- load average before the run: {self.load_before:.1f}"]
        parts += [f"- rows of the table that is read: {self.rows:,}"]
        parts += figures_markdown(self.results())
        if self.tails:
            parts += table_markdown(self.table(), texts=2)
        parts += notes_markdown(self.notes())
        return "\n".join([*parts, _NOTES])


def _row(tail: Tail, side: str) -> Sequence[str]:
    used = tail.used[side]
    kinds = sorted({kind for usage in used for kind in usage.cpu})
    split = {kind: median(usage.cpu.get(kind, 0.0) for usage in used) for kind in kinds}
    cpu = [usage.cpu_seconds for usage in used]
    return (
        tail.name,
        _LABELS[side],
        f"{tail.cpu(side):.2f}",
        f"{min(cpu):.2f}",
        f"{max(cpu):.2f}",
        ", ".join(f"{kind} {each:.2f}" for kind, each in split.items()),
        f"{median(usage.seconds for usage in used):.2f}",
        f"{tail.overhead:+.0%}" if side == "union" else "",
        f"{max(usage.peak_mb for usage in used):,.0f}",
        f"{tail.load:.1f}",
    )


def _seen(found: Visible) -> str:
    return (
        f"event to visible through the reader without Spark at {found.rate:,} events/s: p50 {found.p50:.3f} "
        f"s, p99 {found.p99:.3f} s, longest {found.longest:.2f} s over {found.events:,} events in "
        f"{found.batches:,} batches; the reader used {found.busy:.2f} of a core (load {found.load:.1f})"
    )


_INTRODUCTION = """\
## Hot tables

A keyed hot table of 9 columns whose rows are in Iceberg (format 2, not partitioned), with a tail of changes
that are in its log only (two partitions; random keys of all the table, 95 % updates, 2 % deletes, 2 % new
rows, 1 % of keys twice), read by `frazil.read` and, as a plain Iceberg table, by the same Spark session at
the same snapshot, in turns. Every figure here was measured by

    make bench-hot ARGS="--results bench/RESULTS.md"

which also compares all columns of all rows of a union read with what the changes leave. With `--quick` it
says whether everything works, not how well."""

_NOTES = """\
- The query counts rows and sums a column by another one (`SELECT status, count(*), sum(quantity) … GROUP BY
  status`). A union read is all of it: pins, the tail, and the query. *CPU-s* is of the middle one of several
  reads and of every process of the reader (driver, JVM, Python workers), not of broker and catalog;
  *overhead* is what the union read uses more, as a share of the plain one (`hot.union_overhead`, where 0.3 is
  30 %). The tail of 0 changes says how far equal reads differ. Both sides read a small table many times
  first: Java compiles what runs often, and its compiler would be a good part of what the first dozens of
  reads use. Ten reads of each tail come before those that count: from the second on, keys of files are
  remembered (one whole number, as here); text and composite keys are read again each time.
- *Event to visible* is from the produce call to the row that `follow` gives, of a keyed table of 100,000 keys
  under upserts and deletes, while tiering commits it; what the changelog leaves is compared.
- The tiering service is `frazil tier` as users start it; every other table has a key. Broken promises are
  counted from its own report and, apart from that, from the snapshots: the time of each commit minus the time
  at which its oldest record was handed to the producer. The larger number counts. All rows are compared in
  the end, as PyIceberg reads them.
- *load* is the load average. Where it is far above the number of cores, other work was going on: times cannot
  be compared, and CPU-seconds may be inflated.
"""
