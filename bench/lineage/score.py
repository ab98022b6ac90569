"""What a reader of lineage says of the jobs, counted against the truth."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from bench.lineage.jobs import DATASETS, JOBS, Job

#: Dataset and column that is read, dataset and column that is written, how: `*`, `+` or nothing.
ColumnEdge = tuple[str, str, str, str, str]


@dataclass(frozen=True)
class Said:
    """Datasets as `platform:name`, and edges between columns, of one job."""

    reads: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()
    columns: frozenset[ColumnEdge] = frozenset()


@dataclass
class Score:
    """Right answers of how many, and those that are none."""

    sources: int = 0
    of_sources: int = 0
    sinks: int = 0
    of_sinks: int = 0
    columns: int = 0
    of_columns: int = 0
    wrong: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


def dataset(name: str) -> str:
    """A table of the truth as `platform:name`."""
    return DATASETS.get(name) or f"iceberg:{name}"


def truth(job: Job) -> Said:
    columns = frozenset(_edges(job))
    return Said(
        frozenset(edge[0] for edge in columns), frozenset(dataset(sink) for sink in job.writes), columns
    )


def flows(job: Job) -> frozenset[tuple[str, str]]:
    """Which table is made from which."""
    return frozenset((edge[0], edge[2]) for edge in _edges(job))


def score(said: Mapping[str, Said], *, derivations: bool = True) -> Score:
    """Of all jobs; one that the reader does not know counts as nothing said.

    Without `derivations`, edges of columns are compared but not how the one was made of the other.
    """
    found = Score()
    for job in JOBS:
        right, answer = truth(job), said.get(job.name, Said())
        expected, given = right.columns, answer.columns
        if not derivations:
            expected, given = _plain(expected), _plain(given)
        found.sources += len(right.reads & answer.reads)
        found.of_sources += len(right.reads)
        found.sinks += len(right.writes & answer.writes)
        found.of_sinks += len(right.writes)
        found.columns += len(expected & given)
        found.of_columns += len(expected)
        found.wrong += [f"{job.name} reads {name}" for name in sorted(answer.reads - right.reads)]
        found.wrong += [f"{job.name} writes {name}" for name in sorted(answer.writes - right.writes)]
        found.wrong += [f"{job.name}: {_shown(edge)}" for edge in sorted(given - expected)]
        found.missing += [f"{job.name} reads {name}" for name in sorted(right.reads - answer.reads)]
        found.missing += [f"{job.name} writes {name}" for name in sorted(right.writes - answer.writes)]
        found.missing += [f"{job.name}: {_shown(edge)}" for edge in sorted(expected - given)]
    return found


def _edges(job: Job) -> Iterator[ColumnEdge]:
    for sink, columns in job.writes.items():
        for column, inputs in columns.items():
            for item in inputs.split():
                name = item.rstrip("*+")
                source, _, read = name.rpartition(".")
                yield dataset(source), read, dataset(sink), column, item[len(name) :]


def _plain(edges: frozenset[ColumnEdge]) -> frozenset[ColumnEdge]:
    return frozenset((*edge[:4], "") for edge in edges)


def _shown(edge: ColumnEdge) -> str:
    return f"{edge[0]}.{edge[1]}{edge[4]} -> {edge[2]}.{edge[3]}"
