"""What a workload measures."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median
from typing import Any


@dataclass(frozen=True)
class Round:
    """One stretch of a measured run; CPU in seconds."""

    operations: int
    seconds: float
    server_cpu: float
    database_cpu: float
    client_cpu: float


@dataclass
class Measurement:
    """A workload on one server. Figures are medians over the rounds."""

    server: str
    database: str
    workload: str
    rounds: list[Round] = field(default_factory=list)
    #: Milliseconds.
    p50: float = 0.0
    p99: float = 0.0
    statuses: dict[int, int] = field(default_factory=dict)
    memory_before_mb: float = 0.0
    memory_after_mb: float = 0.0
    #: What was verified afterwards.
    verified: str = ""

    @property
    def operations(self) -> int:
        return sum(r.operations for r in self.rounds)

    @property
    def per_second(self) -> float:
        return median(r.operations / r.seconds for r in self.rounds)

    @property
    def cpu_ms(self) -> float:
        """CPU of the server's processes for one operation."""
        return median(1000 * r.server_cpu / max(1, r.operations) for r in self.rounds)

    @property
    def database_cpu_ms(self) -> float:
        return median(1000 * r.database_cpu / max(1, r.operations) for r in self.rounds)

    @property
    def client_busy(self) -> float:
        """How much of one core the client used; near 1 it would be the bottleneck."""
        return median(r.client_cpu / r.seconds for r in self.rounds)

    @property
    def refused(self) -> int:
        """Answers that were no success."""
        return sum(count for status, count in self.statuses.items() if status >= 300)

    def as_json(self) -> dict[str, Any]:
        return {
            "server": self.server,
            "database": self.database,
            "workload": self.workload,
            "operations": self.operations,
            "operations_per_second": round(self.per_second, 1),
            "cpu_ms": round(self.cpu_ms, 4),
            "cpu_ms_rounds": [round(1000 * r.server_cpu / max(1, r.operations), 4) for r in self.rounds],
            "database_cpu_ms": round(self.database_cpu_ms, 4),
            "client_busy": round(self.client_busy, 3),
            "p50_ms": round(self.p50, 3),
            "p99_ms": round(self.p99, 3),
            "statuses": {str(status): count for status, count in sorted(self.statuses.items())},
            "memory_before_mb": round(self.memory_before_mb, 1),
            "memory_after_mb": round(self.memory_after_mb, 1),
            "verified": self.verified,
        }
