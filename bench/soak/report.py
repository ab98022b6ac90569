"""What is printed and kept: the table, RESULT lines, JSON, a section of bench/RESULTS.md."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from statistics import median
from typing import Any

from bench.results import Result, figures_json, figures_markdown, notes_markdown, table_markdown
from bench.soak.copies import FORMATS
from bench.soak.measure import Sample, Soak, State, growth
from bench.surroundings import surroundings

#: Of memory and of reads.
GROWTH_GOAL = 1.25
#: The run is told in so many parts, each by its medians.
_PARTS = 6
_HEADER = (
    "format",
    "until",
    "MB",
    "of which",
    "CPU-s/min",
    "read CPU-s",
    "read s",
    "behind",
    "data files",
    "delete files",
    "snapshots",
    "metadata kB",
)


@dataclass(frozen=True)
class Report:
    """Everything one run measured."""

    soak: Soak

    def results(self) -> list[Result]:
        ends = self.soak.ends.values()
        found = [
            Result("soak.rows_wrong", sum(end.wrong for end in ends), "<=", 0),
            Result("soak.sums_wrong", sum(end.sums_wrong for end in ends), "<=", 0),
        ]
        measured: dict[str, Callable[[State], float]] = {
            "memory": lambda state: state.mb,
            "read": lambda state: state.read_cpu,
        }
        if self.soak.samples:
            found += [
                Result(
                    f"soak.{name}_growth.v{version}", growth(self._each(version, value)), "<=", GROWTH_GOAL
                )
                for name, value in measured.items()
                for version in FORMATS
            ]
        return found

    def _each(self, version: int, value: Callable[[State], float]) -> list[float]:
        return [value(sample.copies[version]) for sample in self.soak.samples]

    def table(self) -> list[Sequence[str]]:
        samples = self.soak.samples
        size = -(-len(samples) // _PARTS)
        parts = [samples[start : start + size] for start in range(0, len(samples), size or 1)]
        return [_HEADER, *(_row(version, part, self.soak) for version in FORMATS for part in parts)]

    def text(self) -> str:
        rows = self.table()
        widths = [max(len(row[i]) for row in rows) for i in range(len(_HEADER))]
        lines = ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) for row in rows]
        return "\n".join(["", *lines, "", *self.notes()])

    def notes(self) -> list[str]:
        """What has no goal."""
        soak = self.soak
        lines = [f"{soak.per_second:.1f} transactions/s were made, {soak.settings.rate:g} were asked for"]
        for version, end in soak.ends.items():
            worst = max(self._each(version, lambda state: state.behind), default=0)
            lines.append(
                f"format {version}: {end.rows:,} rows in the end, at most {worst:,.0f} records behind"
            )
        unsent = max((sample.unsent for sample in soak.samples), default=0)
        lines.append(f"Debezium was at most {unsent:,} transactions behind")
        lines.append(
            f"the last change was in all tables {soak.drain_seconds:.1f} s after the traffic had ended"
        )
        return lines

    def as_json(self) -> dict[str, Any]:
        return {
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "surroundings": self._surroundings(),
            **asdict(self.soak),
            "results": figures_json(self.results()),
        }

    def markdown(self) -> str:
        settings = self.soak.settings
        parts = [_INTRODUCTION, f"Measured on {datetime.now(UTC):%Y-%m-%d}.", ""]
        parts += [f"- {name}: {value}" for name, value in self._surroundings().items()]
        parts += [f"- load average before the run: {self.soak.load_before:.1f}"]
        parts += [f"- {settings.minutes:g} minutes, a sample every {settings.every:g} s"]
        parts += [f"- {100_000 * settings.scale:,} accounts, freshness {settings.freshness}"]
        parts += figures_markdown(self.results())
        parts += table_markdown(self.table())
        parts += notes_markdown(self.notes())
        return "\n".join([*parts, _NOTES])

    def _surroundings(self) -> dict[str, str]:
        return surroundings(with_flink=False) | {"PostgreSQL": self.soak.postgres}


def progress(sample: Sample) -> str:
    """One line for each sample."""
    copies = [
        f"v{version} {state.mb:,.0f} MB, {sum(state.cpu.values()):.1f} CPU-s, {state.behind:,} behind, "
        f"{state.accounts.contents.data_files}+{state.accounts.contents.delete_files} files, "
        f"{state.accounts.contents.commits} snapshots, read {state.read_cpu:.2f} CPU-s"
        for version, state in sample.copies.items()
    ]
    return " | ".join([f"{sample.at:5.0f} s, load {sample.load:.1f}", *copies])


def _row(version: int, part: Sequence[Sample], soak: Soak) -> Sequence[str]:
    states = [sample.copies[version] for sample in part]

    def middle(value: Callable[[State], float]) -> float:
        return median(map(value, states))

    def counted(value: Callable[[State], int]) -> str:
        return f"{middle(value):,.0f}"

    kinds = sorted({kind for state in states for kind in state.mb_by_kind})
    split = {kind: median(state.mb_by_kind.get(kind, 0.0) for state in states) for kind in kinds}
    return (
        str(version),
        f"{part[-1].at:.0f} s",
        f"{middle(lambda state: state.mb):,.0f}",
        ", ".join(f"{kind} {mb:,.0f}" for kind, mb in split.items()),
        f"{middle(lambda state: sum(state.cpu.values())) * 60 / soak.settings.every:.1f}",
        f"{middle(lambda state: state.read_cpu):.2f}",
        f"{middle(lambda state: state.read_seconds):.2f}",
        counted(lambda state: state.behind),
        counted(lambda state: state.accounts.contents.data_files),
        counted(lambda state: state.accounts.contents.delete_files),
        counted(lambda state: state.accounts.contents.commits),
        f"{middle(lambda state: state.accounts.metadata_kb):,.0f}",
    )


_INTRODUCTION = """\
## Change data for half an hour

pgbench's tables and its TPC-B-like transactions (three updates, a select, an insert; of a hundred
transactions five give an account another number, by a delete and an insert) in a PostgreSQL, at a set rate.
Debezium brings the changes to Kafka (JSON without schemas); two `frazil run`, each with one pipeline, bring
them into Iceberg tables of format 2 and of format 3 on the local disk. Every figure here was measured by

    make soak-cdc ARGS="--results bench/RESULTS.md"

which in the end compares every row of the four tables with the database."""

_NOTES = """\
- *memory_growth* and *read_growth*: the median of the last third of the samples over that of the second
  sixth, of what all processes of a pipeline held (the median between two samples), and of the CPU-seconds of
  a read (the mean of six between two samples). *sums_wrong*: sums of balances of tellers, branches and the
  history that are not that of the accounts.
- A row of the table has the medians of a sixth of the run. *MB* is of all processes of one `frazil run`; *of
  which* at the time of the sample. *read* is PyIceberg's of all columns and rows of the accounts. *behind*
  are records of Kafka that are not in the tables. Files, snapshots and metadata are those of the accounts.
- Files are merged after 10 commits, and snapshots expire after 3 minutes. The JVMs have a young generation of
  a fixed size, so that their own changes of it are not taken for growth; all else is as users start it.
"""
