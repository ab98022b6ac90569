"""What one round takes of the files that are new, and how it is shared among tasks."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Sequence

from frazil.stream.config.model import Limits
from frazil.stream.files.found import FoundFile
from frazil.stream.source import Slice

MB = 1024 * 1024
#: One commit does not grow without bound when there are very many small files.
MOST_FILES = 10_000
#: Larger files are cut where that is possible.
PART_BYTES = 256 * MB
#: What opening a file costs, in bytes that could be read instead.
_OPENING = MB // 4
#: A task gets at least this much, so that small rounds make few data files.
_TASK_BYTES = 16 * MB


def chosen(files: Sequence[FoundFile], limits: Limits) -> list[FoundFile]:
    """The oldest that fit into a round; at least one, however large."""
    taken: list[FoundFile] = []
    left = limits.bytes_per_round
    for file in sorted(files, key=lambda each: (each.modified, each.path)):
        if taken and (file.size > left or len(taken) >= min(MOST_FILES, limits.records_per_round)):
            break
        taken.append(file)
        left -= file.size
    return taken


def slices_of(file: FoundFile, *, split: bool) -> list[Slice]:
    """The whole file, or parts of nearly equal size; parts are counted as partitions."""
    parts = -(-file.size // PART_BYTES) if split else 1
    bounds = [number * file.size // parts for number in range(parts + 1)]
    return [
        Slice(file.path, number, start, end, file.version)
        for number, (start, end) in enumerate(itertools.pairwise(bounds))
    ]


def tasks_of(slices: Sequence[Slice], parallelism: int) -> tuple[tuple[Slice, ...], ...]:
    """Slices by task, so that each has about as many bytes to read; in the order they came within one."""
    weights = [len(part) + _OPENING for part in slices]
    count = max(1, min(parallelism, len(slices), -(-sum(weights) // _TASK_BYTES)))
    heap = [(0, task) for task in range(count)]
    members: list[list[int]] = [[] for _ in range(count)]
    for index in sorted(range(len(slices)), key=lambda each: -weights[each]):
        load, task = heapq.heappop(heap)
        members[task].append(index)
        heapq.heappush(heap, (load + weights[index], task))
    return tuple(tuple(slices[index] for index in sorted(indices)) for indices in members if indices)
