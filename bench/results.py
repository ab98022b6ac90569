"""What every benchmark ends with: its report, the RESULT lines, and the file that keeps the last reports."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

_TITLE = "# Benchmark results\n"


@dataclass(frozen=True)
class Result:
    """One figure beside its goal, if it has one."""

    name: str
    value: float
    sense: Literal[">=", "<="] = "<="
    goal: float | None = None

    @property
    def wanted(self) -> str:
        return "-" if self.goal is None else f"{self.sense}{self.goal:.10g}"

    @property
    def verdict(self) -> str:
        if self.goal is None:
            return "-"
        reached = self.value >= self.goal if self.sense == ">=" else self.value <= self.goal
        return "ok" if reached else "short"

    def line(self) -> str:
        return f"RESULT {self.name} {self.value:.2f} {self.wanted} {self.verdict}"


class Reported(Protocol):
    """What a benchmark has to say."""

    def text(self) -> str: ...
    def as_json(self) -> dict[str, Any]: ...
    def markdown(self) -> str: ...
    def results(self) -> Sequence[Result]: ...


def output_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything measured to FILE")
    parser.add_argument("--results", type=Path, metavar="FILE", help="put a section into FILE (RESULTS.md)")


def publish(report: Reported, name: str, options: argparse.Namespace) -> None:
    """Print it, write what was asked for (`output_options`), end with the RESULT lines."""
    print(report.text())
    if options.json:
        options.json.write_text(json.dumps(report.as_json(), indent=1) + "\n")
    if options.results:
        keep(options.results, name, report.markdown())
    print()
    for result in report.results():
        print(result.line())


def figures_json(results: Iterable[Result]) -> list[dict[str, Any]]:
    return [
        {"name": r.name, "value": round(r.value, 3), "goal": r.wanted, "verdict": r.verdict} for r in results
    ]


def figures_markdown(results: Iterable[Result]) -> list[str]:
    found = [f"| `{r.name}` | {r.value:.2f} | {r.wanted} | {r.verdict} |" for r in results]
    return ["", "| figure | value | goal | |", "|---|---:|---:|---|", *found]


def table_markdown(rows: Sequence[Sequence[str]], texts: int = 1) -> list[str]:
    """`rows`: the header first; `texts`: how many columns are no numbers."""
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    ruler = "|" + "---|" * texts + "---:|" * (len(rows[0]) - texts)
    return ["", lines[0], ruler, *lines[1:]]


def notes_markdown(notes: Iterable[str]) -> list[str]:
    return ["", *(f"- {note[0].upper()}{note[1:]}." for note in notes)]


def keep(file: Path, name: str, report: str) -> None:
    """Put the report of one benchmark into the file, in the place of its last one; others stay."""
    text = file.read_text() if file.is_file() else _TITLE
    title, *sections = re.split(r"^(?=<!-- \w+ -->$)", text, flags=re.MULTILINE)
    mark = f"<!-- {name} -->\n"
    fresh = f"{mark}{report}"
    found = [fresh if section.startswith(mark) else section for section in sections]
    if fresh not in found:
        found.append(fresh)
    file.write_text("\n\n".join(part.strip() for part in (title, *found)) + "\n")
