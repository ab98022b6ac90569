"""The lines that every benchmark ends with, and the file that keeps the last reports."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

_TITLE = "# Benchmark results\n"


@dataclass(frozen=True)
class Result:
    """One figure beside its goal."""

    name: str
    value: float
    sense: Literal[">=", "<="]
    goal: float

    @property
    def reached(self) -> bool:
        return self.value >= self.goal if self.sense == ">=" else self.value <= self.goal

    @property
    def wanted(self) -> str:
        return f"{self.sense}{self.goal:.10g}"

    @property
    def verdict(self) -> str:
        return "ok" if self.reached else "short"

    def line(self) -> str:
        return f"RESULT {self.name} {self.value:.2f} {self.wanted} {self.verdict}"


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
