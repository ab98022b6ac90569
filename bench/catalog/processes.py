"""CPU time and memory of process trees, from /proc."""

from __future__ import annotations

import os
from collections import defaultdict
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")

# Fields of /proc/<pid>/stat after the command name, counted from the state.
_PPID = 1
_TIMES = slice(11, 15)  # utime, stime, and the same of children that have ended
_RSS = 21


def cpu_seconds(root: int) -> float:
    """CPU time of a process, its descendants, and those of them that have ended."""
    return sum(sum(map(int, fields[_TIMES])) for fields in _tree(root)) / _TICKS


def resident_mb(root: int) -> float:
    """Resident memory of a process and its descendants, in MiB."""
    return sum(int(fields[_RSS]) for fields in _tree(root)) * _PAGE / 2**20


def _tree(root: int) -> list[list[str]]:
    stats = {}
    children: dict[int, list[int]] = defaultdict(list)
    for pid in (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()):
        if fields := _stat(pid):
            stats[pid] = fields
            children[int(fields[_PPID])].append(pid)
    found, waiting = [], [root]
    while waiting:
        pid = waiting.pop()
        if pid in stats:
            found.append(stats[pid])
            waiting += children[pid]
    if not found:
        raise ProcessLookupError(f"process {root} is gone")
    return found


def _stat(pid: int) -> list[str] | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The command name is in brackets and may hold anything.
    return text[text.rindex(")") + 2 :].split()
