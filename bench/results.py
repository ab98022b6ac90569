"""The lines that every benchmark ends with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


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
        return f"{self.sense}{self.goal:g}"

    @property
    def verdict(self) -> str:
        return "ok" if self.reached else "short"

    def line(self) -> str:
        return f"RESULT {self.name} {self.value:.2f} {self.wanted} {self.verdict}"
