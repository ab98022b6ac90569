"""What is printed and kept: tables, RESULT lines, JSON, bench/RESULTS.md."""

from __future__ import annotations

import os
import platform
import sqlite3
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from bench.catalog.measurement import Measurement
from bench.results import Result, figures_json, figures_markdown, table_markdown
from frazil import __version__
from frazil.devstack.postgres import find_installation
from frazil.jvm.jars import RCK, jars
from frazil.jvm.java import find_java

#: Reference over ours in CPU; for `hot`, ours over the reference in commits per second.
GOALS = {"load": 3.0, "create": 3.0, "commit": 3.0, "hot": 2.0}
SCALE_GOAL = 1.2
#: A plain load over one with credentials, in CPU.
VENDED_GOAL = 0.5
MEMORY_GOAL = 200.0

_HEADER = (
    "server",
    "workload",
    "op/s",
    "CPU ms",
    "db CPU ms",
    "p50 ms",
    "p99 ms",
    "MB after",
    "client",
    "refused",
)


@dataclass
class Report:
    """Everything one run measured."""

    quick: bool = False
    measurements: list[Measurement] = field(default_factory=list)
    scale: dict[str, list[Measurement]] = field(default_factory=dict)
    #: Plain loads and vended ones, by database.
    vended: dict[str, tuple[Measurement, Measurement]] = field(default_factory=dict)
    #: Resident memory by server and database, just started.
    rest_mb: dict[tuple[str, str], float] = field(default_factory=dict)
    #: Before anything was started: how busy the machine was with other things.
    load_before: float = field(default_factory=lambda: os.getloadavg()[0])

    def results(self) -> list[Result]:
        found = []
        for database in ("postgres", "sqlite"):
            for workload, goal in GOALS.items():
                ours = self._find("frazil", database, workload)
                theirs = self._find("reference", database, workload)
                if ours is None or theirs is None:
                    continue
                if workload == "hot":
                    ratio = ours.per_second / max(theirs.per_second, 0.001)
                else:
                    ratio = theirs.cpu_ms / ours.cpu_ms
                found.append(Result(f"catalog.{workload}.{database}.ratio", ratio, ">=", goal))
        for database, (few, many, _) in self.scale.items():
            ratio = many.cpu_ms / few.cpu_ms
            found.append(Result(f"catalog.scale.{database}.ratio", ratio, "<=", SCALE_GOAL))
        if self.vended:
            worst = min(plain.cpu_ms / vended.cpu_ms for plain, vended in self.vended.values())
            found.append(Result("catalog.vended.ratio", worst, ">=", VENDED_GOAL))
        ours_at_rest = [mb for (server, _), mb in self.rest_mb.items() if server == "frazil"]
        if ours_at_rest:
            found.append(Result("catalog.memory.rest_mb", max(ours_at_rest), "<=", MEMORY_GOAL))
        return found

    def _find(self, server: str, database: str, workload: str) -> Measurement | None:
        for one in self.measurements:
            if (one.server, one.database, one.workload) == (server, database, workload):
                return one
        return None

    def table(self, database: str) -> list[Sequence[str]]:
        """The rows of one database kind, header first."""
        chosen = [m for m in self.measurements if m.database == database]
        chosen.sort(key=lambda m: list(GOALS).index(m.workload))
        more = (*self.scale.get(database, ()), *self.vended.get(database, ()))
        return [_HEADER, *map(_row, chosen), *map(_row, more)]

    def text(self) -> str:
        lines = []
        for database in ("postgres", "sqlite"):
            rows = self.table(database)
            if len(rows) > 1:
                lines += [f"\n{database}", *_aligned(rows)]
        for (server, database), mb in self.rest_mb.items():
            lines.append(f"memory at rest, {server} on {database}: {mb:.0f} MB")
        return "\n".join(lines)

    def as_json(self) -> dict[str, Any]:
        return {
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "quick": self.quick,
            "surroundings": surroundings(),
            "load_before": round(self.load_before, 2),
            "measurements": [m.as_json() for m in self.measurements],
            "scale": {database: [m.as_json() for m in found] for database, found in self.scale.items()},
            "vended": {database: [m.as_json() for m in found] for database, found in self.vended.items()},
            "rest_mb": {f"{server} {database}": mb for (server, database), mb in self.rest_mb.items()},
            "results": figures_json(self.results()),
        }

    def markdown(self) -> str:
        parts = [_INTRODUCTION, f"Measured on {datetime.now(UTC):%Y-%m-%d}.", ""]
        parts += [f"- {name}: {value}" for name, value in surroundings().items()]
        parts += [f"- load average before the run: {self.load_before:.1f}"]
        parts += figures_markdown(self.results())
        for database in ("postgres", "sqlite"):
            rows = self.table(database)
            if len(rows) > 1:
                parts += ["", f"### {database}", *table_markdown(rows, texts=2)]
                rest = [f"{s} {mb:.0f} MB" for (s, d), mb in self.rest_mb.items() if d == database]
                parts += ["", f"Memory at rest: {', '.join(rest)}."]
        return "\n".join([*parts, "", _NOTES])


def surroundings() -> dict[str, str]:
    """Versions and the shape of the machine."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    postgres = find_installation()
    version = subprocess.run(
        [str(postgres.bin / "postgres"), "--version"],
        capture_output=True,
        text=True,
        env=postgres.environment,
        check=False,
    ).stdout.split()
    core = next(jar.stem for jar in jars(RCK) if jar.name.startswith("iceberg-core"))
    return {
        "frazil": __version__,
        "reference": f"RESTCatalogServer of {core.removesuffix('-tests')}, Java {find_java().version}",
        "Python": platform.python_version(),
        "PostgreSQL": f"{version[2] if len(version) > 2 else '?'}, fsync on",
        "SQLite": sqlite3.sqlite_version,
        "machine": f"{os.cpu_count()} cores, {memory:.0f} GiB, {platform.system()}",
    }


def _row(m: Measurement) -> Sequence[str]:
    return (
        m.server,
        m.workload,
        f"{m.per_second:,.0f}",
        f"{m.cpu_ms:.3f}",
        f"{m.database_cpu_ms:.3f}",
        f"{m.p50:.1f}",
        f"{m.p99:.1f}",
        f"{m.memory_after_mb:.0f}",
        f"{100 * m.client_busy:.0f}%",
        f"{m.refused:,}",
    )


def _aligned(rows: list[Sequence[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for row in rows:
        left = [f"{cell:<{width}}" for cell, width in zip(row[:2], widths, strict=False)]
        right = [f"{cell:>{width}}" for cell, width in zip(row[2:], widths[2:], strict=True)]
        lines.append("  " + "  ".join(left + right))
    return lines


_INTRODUCTION = """\
## The catalog

The catalog server beside Iceberg's own reference server: same machine, same kind of database, a warehouse
on local disk, the same client with 8 connections, one server at a time, both warm. Every figure here was
measured by

    make bench-catalog ARGS="--results bench/RESULTS.md"

which also checks the answers: every load is the table asked for, every acknowledged create is listed, every
acknowledged commit is in its table, once. `make bench-catalog ARGS="--quick"` takes a few minutes and
is less exact."""

_NOTES = """\
- *load*: GET of one of 50 tables with 20 columns and 10 snapshots. *create*: POST of a table with 20 columns.
  *commit*: append a snapshot to a table that has 100 to 110 of them. *hot*: 8 writers load one table, append
  to it, and load it again when another was first; an operation is a commit that landed.
- *CPU ms* is the CPU time of all the server's processes for one operation, the median of the rounds;
  PostgreSQL's own is in *db CPU ms*; SQLite's is in the server's. *client* is the share of one core that the
  client used. *refused* are answers that were no success: in *hot*, commits that came second.
- frazil waits until the metadata file is on the disk before it commits; the reference server does not, which
  shows in operations per second, not in CPU.
- Ratios above 1 are in frazil's favour: CPU of the reference over frazil's; for *hot*, frazil's commits per
  second over the reference's. *scale* is frazil's CPU for loading 100 tables among 100,000 over that when
  there are no others (lower is better).
- *vended* is the CPU of a plain load over that of one that also answers with a credential, from a warm cache,
  of the same tables in a warehouse on an S3 store with STS (SeaweedFS); the worse one of both databases.
"""
