"""What is printed and kept: the table, RESULT lines, JSON, a section of bench/RESULTS.md."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from bench.lineage.jobs import JOBS
from bench.lineage.score import Score
from bench.results import Result, figures_json, figures_markdown, notes_markdown, table_markdown
from bench.surroundings import surroundings

OURS, THEIRS = "frazil", "DataHub's own"
_HEADER = ("source", "told", "sources", "sinks", "columns", "wrong")


@dataclass(frozen=True)
class Run:
    """One source with one set of settings."""

    side: str
    told: str
    score: Score
    #: With everything that can be told, so that nothing need stay unknown.
    whole: bool = False

    def row(self) -> Sequence[str]:
        found = self.score
        return (
            self.side,
            self.told,
            f"{found.sources} of {found.of_sources}",
            f"{found.sinks} of {found.of_sinks}",
            f"{found.columns} of {found.of_columns}",
            str(len(found.wrong)),
        )


@dataclass
class Report:
    """Everything one run measured."""

    runs: list[Run] = field(default_factory=list)
    #: Seconds for how many jobs of the stand-in.
    many: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    #: The most memory that ours took, in MiB, by the number of jobs.
    peaks: dict[int, float] = field(default_factory=dict)
    #: Before anything was started: how busy the machine was with other things.
    load_before: float = field(default_factory=lambda: os.getloadavg()[0])

    def results(self) -> list[Result]:
        whole = [run.score for run in self.runs if run.whole]
        wrong = sum(len(run.score.wrong) for run in self.runs if run.side == OURS)
        found = []
        if whole:
            shares = {
                "sinks_resolved": [one.sinks / one.of_sinks for one in whole],
                "sources_resolved": [one.sources / one.of_sources for one in whole],
                "columns_right": [one.columns / one.of_columns for one in whole],
            }
            found = [Result(f"lineage.{name}", min(values), ">=", 1) for name, values in shares.items()]
            found.append(Result("lineage.wrong_edges", wrong, "<=", 0))
        if OURS in self.seconds:
            found.append(Result("lineage.thousand_jobs_s", self.seconds[OURS], "<=", 60))
        if self.many in self.peaks:
            found.append(Result("lineage.thousand_jobs_mb", self.peaks[self.many]))
        return found

    def table(self) -> list[Sequence[str]]:
        return [_HEADER, *(run.row() for run in self.runs)]

    def text(self) -> str:
        rows = self.table()
        widths = [max(len(row[i]) for row in rows) for i in range(len(_HEADER))]
        lines = ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) for row in rows]
        wrong = [f"{run.side}, {run.told}: wrong: {edge}" for run in self.runs for edge in run.score.wrong]
        return "\n".join(["", *lines, "", *self.notes(), *wrong])

    def notes(self) -> list[str]:
        found = [
            f"{self.many:,} jobs of the stand-in, 10 workers: {side} {seconds:.1f} s"
            for side, seconds in self.seconds.items()
        ]
        found += [
            f"{jobs:,} jobs that wait for another's plan, 2,000 metrics a vertex: {OURS} up to {peak:.0f} MiB"
            for jobs, peak in self.peaks.items()
        ]
        whole = [run for run in self.runs if run.whole]
        missing = [
            f"missing by {run.side}, {run.told}: {item}" for run in whole for item in run.score.missing
        ]
        return [*found, *missing]

    def as_json(self) -> dict[str, Any]:
        return {
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "surroundings": _surroundings(),
            "load_before": round(self.load_before, 2),
            "runs": [asdict(run) for run in self.runs],
            "many": self.many,
            "seconds": self.seconds,
            "peaks_mb": self.peaks,
            "results": figures_json(self.results()),
        }

    def markdown(self) -> str:
        parts = [_INTRODUCTION, f"Measured on {datetime.now(UTC):%Y-%m-%d}.", ""]
        parts += [f"- {name}: {value}" for name, value in _surroundings().items()]
        parts += [f"- load average before the run: {self.load_before:.1f}", f"- jobs: {len(JOBS)}"]
        parts += figures_markdown(self.results())
        parts += table_markdown(self.table(), texts=2)
        parts += notes_markdown(self.notes())
        return "\n".join([*parts, _NOTES])


def _surroundings() -> dict[str, str]:
    wanted = ("frazil", "Flink", "Python", "machine")
    found = {name: value for name, value in surroundings().items() if name in wanted}
    return {**found, "DataHub": f"acryl-datahub {version('acryl-datahub')}"}


_INTRODUCTION = """\
## Lineage of Flink jobs

Jobs on one real Flink cluster, which read and write Kafka, PostgreSQL and, through frazil's catalog, Iceberg:
appends and upserts by both of Iceberg's sinks, joins, windows, a union, a lookup join, a statement set,
temporary tables, chained sinks, one that failed, one that was canceled and one that still runs. Both sources
for DataHub read them, by `datahub ingest` into a file. Every figure here was measured by

    make bench-lineage ARGS="--results bench/RESULTS.md"

against a truth that was written by hand (`bench/lineage/jobs.py`)."""

_NOTES = """\
- *sources* and *sinks* are tables and topics, counted for each job; *columns* are edges from a column that is
  read to one that is written; *wrong* is what was said and is not so, of tables or of columns. Names of
  tables count as right with more in front, such as the name of their catalog.
- *gateway*: the SQL Gateway, whose sessions see the Iceberg and the JDBC catalog, but not the Kafka tables,
  which exist in the session of the jobs. *DDL*: the statements that made those tables, as a file
  (`ddl_file`). *catalog*: `iceberg_catalogs`. DataHub's own source has neither of the last two.
- Some Kafka tables are called what an Iceberg table is called, and one is a temporary table inside of the
  Iceberg catalog: who goes by names alone says something wrong.
- The jobs of `lineage.thousand_jobs_s` are copies of five captured ones, of a stand-in for JobManager and
  gateway that replays what a real cluster answered, in the same process as the source.
  By a profile, most of ours goes into DataHub's own pipeline, which writes what a source gives: with columns
  and schemas that is more.
- `lineage.thousand_jobs_mb` is the peak of a process of its own, with DataHub's libraries, that reads jobs of
  which all but the last can only be resolved once the last one is read: it keeps them all until then.
"""
