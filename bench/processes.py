"""CPU time and memory of process trees, from /proc."""

from __future__ import annotations

import os
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")

# Fields of /proc/<pid>/stat after the command name, counted from the state.
_PPID = 1
_TIMES = slice(11, 15)  # utime, stime, and the same of children that have ended
_RSS = 21


@dataclass(frozen=True)
class Process:
    """One process as it is now."""

    pid: int
    parent: int
    #: Seconds, those of children that have ended included.
    cpu: float
    resident_mb: float

    @property
    def command(self) -> str:
        try:
            return Path(f"/proc/{self.pid}/cmdline").read_text().replace("\0", " ")
        except OSError:
            return ""

    @property
    def peak_mb(self) -> float:
        """The most it ever held, by the kernel's own mark."""
        try:
            status = Path(f"/proc/{self.pid}/status").read_text()
        except OSError:
            return 0.0
        return next((int(line.split()[1]) / 1024 for line in status.splitlines() if "VmHWM" in line), 0.0)


def cpu_seconds(root: int) -> float:
    """CPU time of a process, its descendants, and those of them that have ended."""
    return sum(process.cpu for process in tree(root))


def resident_mb(root: int) -> float:
    """Resident memory of a process and its descendants, in MiB."""
    return sum(process.resident_mb for process in tree(root))


def tree(root: int) -> list[Process]:
    """A process and its descendants; ProcessLookupError when it is gone."""
    processes = {}
    children: dict[int, list[int]] = defaultdict(list)
    for pid in (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()):
        if process := _read(pid):
            processes[pid] = process
            children[process.parent].append(pid)
    found, waiting = [], [root]
    while waiting:
        pid = waiting.pop()
        if pid in processes:
            found.append(processes[pid])
            waiting += children[pid]
    if not found:
        raise ProcessLookupError(f"process {root} is gone")
    return found


def _read(pid: int) -> Process | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The command name is in brackets and may hold anything.
    fields = text[text.rindex(")") + 2 :].split()
    cpu = sum(map(int, fields[_TIMES])) / _TICKS
    return Process(pid, int(fields[_PPID]), cpu, int(fields[_RSS]) * _PAGE / 2**20)
