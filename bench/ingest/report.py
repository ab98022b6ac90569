"""What is printed and kept: the table, RESULT lines, JSON, a section of bench/RESULTS.md."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from statistics import median
from typing import Any

from bench.ingest.latency import Latency
from bench.ingest.place import Landed
from bench.meter import Usage
from bench.results import Result, figures_json, figures_markdown, notes_markdown, table_markdown
from bench.surroundings import surroundings

#: Rows per CPU-second of the first over those of the second.
GOALS = {("fused", "flink"): 1.5, ("fused", "spark"): 2.5, ("sparkpath", "spark"): 1.0}
#: The sides that are the fused path, by what they read.
FORMATS = {"fused": "JSON", "avro": "Avro", "protobuf": "Protobuf"}
#: Their rows per CPU-second over those with JSON.
FORMAT_GOALS = {"avro": 1.0, "protobuf": 1.0}

_HEADER = (
    "side",
    "rows/s",
    "rows/CPU-s",
    "CPU-s/M",
    "of which",
    "catalog",
    "MB",
    "files",
    "commits",
    "load",
    "wrong",
)


@dataclass(frozen=True)
class Measurement:
    """One run of one side over the whole topic."""

    side: str
    label: str
    rows: int
    usage: Usage
    catalog_cpu: float
    landed: Landed
    #: The machine's load average when it ended; far above 2, others were at work as well.
    load: float

    @property
    def per_cpu_second(self) -> float:
        return self.rows / self.usage.cpu_seconds

    @property
    def per_second(self) -> float:
        return self.rows / self.usage.seconds


@dataclass(frozen=True)
class Worker:
    """The largest Python worker after a backlog of some size."""

    rows: int
    peak_mb: float


@dataclass
class Report:
    """Everything one run measured."""

    rows: int
    warm: int
    measurements: list[Measurement] = field(default_factory=list)
    workers: list[Worker] = field(default_factory=list)
    latency: Latency | None = None
    #: CPU-seconds a million rows of the fused path by stage, without Spark.
    stages: dict[str, float] = field(default_factory=dict)
    #: CPU-seconds a million rows of its decoders, by format.
    decoding: dict[str, float] = field(default_factory=dict)
    #: Before anything was started: how busy the machine was with other things.
    load_before: float = field(default_factory=lambda: os.getloadavg()[0])

    def results(self) -> list[Result]:
        found = []
        for (ours, theirs), goal in GOALS.items():
            a, b = self._efficiency(ours), self._efficiency(theirs)
            if a and b:
                found.append(Result(f"ingest.{ours}.vs_{theirs}", a / b, ">=", goal))
        json = self._efficiency("fused")
        for side, goal in FORMAT_GOALS.items():
            reached = self._efficiency(side)
            if reached and json:
                name = f"ingest.{side}.rows_per_cpu_s"
                found.append(Result(name, round(reached), ">=", round(goal * json)))
                found.append(Result(f"ingest.{side}.vs_json", reached / json, ">=", goal))
        if self.measurements or self.latency:
            wrong = sum(m.landed.wrong for m in self.measurements)
            wrong += self.latency.wrong if self.latency else 0
            found.append(Result("ingest.rows_wrong", wrong, "<=", 0))
        return found

    def _efficiency(self, side: str) -> float:
        found = [m.per_cpu_second for m in self.measurements if m.side == side]
        return median(found) if found else 0.0

    def notes(self) -> list[str]:
        """What has no goal."""
        lines = []
        formats = {label: self._efficiency(side) for side, label in FORMATS.items()}
        if any(formats.values()):
            shown = ", ".join(f"{label} {per:,.0f}" for label, per in formats.items() if per)
            lines.append(f"rows per CPU-second of the fused path by format: {shown}")
        if self.latency is not None:
            found = self.latency
            lines.append(
                f"event to queryable at freshness 1 s under {found.rate:,} rows/s: p50 {found.p50:.2f} s, "
                f"p99 {found.p99:.2f} s, longest {found.longest:.2f} s over {found.rows:,} rows in "
                f"{found.commits} commits; all processes of the side together used {found.busy:.2f} of a core"
            )
        if self.workers:
            sizes = ", ".join(f"{w.peak_mb:.0f} MB after {w.rows:,} rows" for w in self.workers)
            lines.append(f"largest Python worker of the fused path: {sizes}")
        if self.stages:
            shares = ", ".join(f"{name} {cpu:.2f}" for name, cpu in self.stages.items())
            lines.append(
                "where the fused path's CPU goes, its stages one by one in a process without Spark, "
                f"CPU-s/M: {shares}"
            )
        if self.decoding:
            shares = ", ".join(f"{name} {cpu:.3f}" for name, cpu in self.decoding.items())
            lines.append(f"decoding alone, the same rows from memory, CPU-s/M: {shares}")
        return lines

    def table(self) -> list[Sequence[str]]:
        return [_HEADER, *map(_row, self.measurements)]

    def text(self) -> str:
        rows = self.table()
        widths = [max(len(row[i]) for row in rows) for i in range(len(_HEADER))]
        lines = ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) for row in rows]
        return "\n".join(["", *lines, "", *self.notes()])

    def as_json(self) -> dict[str, Any]:
        return {
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "rows": self.rows,
            "warm": self.warm,
            "surroundings": surroundings(),
            "load_before": round(self.load_before, 2),
            "measurements": [asdict(m) for m in self.measurements],
            "workers": [asdict(w) for w in self.workers],
            "latency": asdict(self.latency) if self.latency else None,
            "stages": {name: round(cpu, 3) for name, cpu in self.stages.items()},
            "decoding": {name: round(cpu, 3) for name, cpu in self.decoding.items()},
            "results": figures_json(self.results()),
        }

    def markdown(self) -> str:
        parts = [_INTRODUCTION, f"Measured on {datetime.now(UTC):%Y-%m-%d}.", ""]
        parts += [f"- {name}: {value}" for name, value in surroundings().items()]
        parts += [f"- load average before the run: {self.load_before:.1f}"]
        parts += [f"- messages: {self.rows:,}, after a warm-up of {self.warm:,}"]
        parts += figures_markdown(self.results())
        parts += table_markdown(self.table())
        parts += notes_markdown(self.notes())
        return "\n".join([*parts, _NOTES])


def _row(m: Measurement) -> Sequence[str]:
    millions = m.rows / 1e6
    split = ", ".join(f"{kind} {cpu / millions:.2f}" for kind, cpu in sorted(m.usage.cpu.items()))
    return (
        m.label,
        f"{m.per_second:,.0f}",
        f"{m.per_cpu_second:,.0f}",
        f"{m.usage.cpu_seconds / millions:.2f}",
        split,
        f"{m.catalog_cpu / millions:.3f}",
        f"{m.usage.peak_mb:,.0f}",
        f"{m.landed.files}",
        f"{m.landed.snapshots}",
        f"{m.load:.1f}",
        f"{m.landed.wrong}",
    )


_INTRODUCTION = """\
## Kafka into Iceberg

One topic of JSON messages of about 130 bytes in 2 partitions, landed in an Iceberg table (not partitioned,
zstd) by each side in turn: same broker, same frazil catalog, same local disk, parallelism 2, each side warmed
in the same session. The fused path also lands the same rows from a topic in Avro (about 50 bytes each) and
from one in Protobuf (about 65), both with a schema registry. Every figure here was measured by

    make bench-ingest ARGS="--results bench/RESULTS.md"

which also compares every row of every table with what was produced. With `--quick` it takes a few minutes,
and says whether everything works, not how well."""

_NOTES = """\
- *Spark toTable* is Structured Streaming with Spark's Kafka source, `from_json` and the trigger *available
  now*, the way its manual shows it. *Flink Iceberg sink* is Flink SQL with the v2 sink, a bounded Kafka
  source and a checkpoint every 10 s, at Flink's defaults otherwise; its older sink, the default, was seen to
  lose rows at the end of a bounded input in an earlier trial. *SQL transform* is `SELECT * FROM source`.
- *CPU-s/M* is CPU-seconds a million rows of every process of the side (driver, JVM, Python workers and those
  of them that ended; JobManager, TaskManager, SQL gateway), not of the broker; the catalog's are beside it.
  Ratios are our rows per CPU-second over theirs. *MB* is the most that all processes of the side held
  together, pages that they share counted for each. *commits* counts snapshots, our claim among them.
- *Avro* and *Protobuf* messages have Confluent's header, and Protobuf's the index of its message; their
  schemas are in a registry, which is no part of the side and is asked once by each Python worker. The goal of
  their rows per CPU-second is what JSON reached in the same run.
- *load* is the load average when the run ended. Where it is far above the parallelism, or differs much
  between sides, rows/s cannot be compared and CPU-seconds may be inflated.
- Event to queryable is from the produce call until a reader that polls the catalog every 20 ms sees a
  snapshot whose stamp covers the record.
"""
