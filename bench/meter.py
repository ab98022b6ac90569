"""What a side uses while it works: CPU by kind of process, and memory."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from bench.processes import Process, tree

_SAMPLE_SECONDS = 0.25

#: The processes of a side now, each with its kind.
Look = Callable[[], Mapping[Process, str]]


@dataclass
class Usage:
    """One stretch of work of one side."""

    seconds: float = 0.0
    #: CPU-seconds by kind of process.
    cpu: dict[str, float] = field(default_factory=dict)
    #: The most that all processes held at one time.
    peak_mb: float = 0.0
    #: The most that one process of a kind ever held.
    largest_mb: dict[str, float] = field(default_factory=dict)

    @property
    def cpu_seconds(self) -> float:
        return sum(self.cpu.values())


class Meter:
    """A context: what was used between its two ends."""

    def __init__(self, look: Look) -> None:
        self._look = look
        self.usage = Usage()
        self._end = threading.Event()
        self._sampler = threading.Thread(target=self._sample, name="meter", daemon=True)

    def __enter__(self) -> Self:
        self._before = cpu_by_kind(self._look())
        self._started = time.monotonic()
        self._sampler.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.usage.seconds = time.monotonic() - self._started
        self._end.set()
        self._sampler.join()
        if kind is None:
            after = cpu_by_kind(self._look())
            self.usage.cpu = {name: cpu - self._before.get(name, 0.0) for name, cpu in after.items()}

    def _sample(self) -> None:
        while not self._end.is_set():
            found = self._look()
            self.usage.peak_mb = max(self.usage.peak_mb, sum(p.resident_mb for p in found))
            for process, kind in found.items():
                self.usage.largest_mb[kind] = max(self.usage.largest_mb.get(kind, 0.0), process.peak_mb)
            self._end.wait(_SAMPLE_SECONDS)


def spark_processes(driver: int) -> dict[Process, str]:
    """A PySpark driver, its JVM, and the Python workers with the daemon that forks them."""
    return {process: _spark_kind(process) for process in tree(driver)}


def _spark_kind(process: Process) -> str:
    command = process.command
    if "pyspark.daemon" in command or "pyspark/daemon" in command:
        return "workers"
    return "jvm" if "java" in command.partition(" ")[0] else "driver"


def cpu_by_kind(found: Mapping[Process, str]) -> dict[str, float]:
    cpu: dict[str, float] = defaultdict(float)
    for process, kind in found.items():
        cpu[kind] += process.cpu
    return dict(cpu)


def mb_by_kind(found: Mapping[Process, str]) -> dict[str, float]:
    resident: dict[str, float] = defaultdict(float)
    for process, kind in found.items():
        resident[kind] += process.resident_mb
    return dict(resident)
