"""What is asked for of all lineage: the ways to and from a table or a column."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from frazil.core.errors import NotFound
from frazil.lineage.model import ColumnEdge, Dataset, DatasetEdge, Direction, JobLineage

_SHOWN = 10

_Place = TypeVar("_Place")
_Column = tuple[Dataset, str]


def select(
    lineages: Sequence[JobLineage],
    *,
    table: str | None = None,
    column: str | None = None,
    columns: bool = False,
) -> list[JobLineage]:
    """Only what the table or column came from and what came from it.

    Columns are followed if one is named or `columns` is true, tables else. Jobs that have no part in it are
    left out; what is unresolved in a job stays with it.
    """
    if columns or column is not None:
        return _with_columns(lineages, table, column)
    return list(lineages) if table is None else _with_table(lineages, table)


@dataclass(frozen=True)
class _Around(Generic[_Place]):
    """What reaches the wanted places and what they reach; they are in both."""

    up: set[_Place]
    down: set[_Place]

    def holds(self, source: _Place, target: _Place) -> bool:
        """Whether a step lies on a way to or from a wanted place, not merely between two such ways."""
        return target in self.up or source in self.down


def _with_table(lineages: Sequence[JobLineage], table: str) -> list[JobLineage]:
    datasets = {use.dataset for lineage in lineages for use in lineage.uses}
    steps = [step for lineage in lineages for step in _steps(lineage)]
    around = _around(steps, set(_matching(datasets, table)))
    found = (_on_the_way(lineage, around) for lineage in lineages)
    return [lineage for lineage in found if lineage.uses]


def _steps(lineage: JobLineage) -> list[tuple[Dataset, Dataset]]:
    """From what a job reads to what it writes; everywhere if no edge tells which feeds which."""
    # A plan that leaves open which tables feed a sink may still tell of its columns.
    edges: tuple[DatasetEdge | ColumnEdge, ...] = (*lineage.edges, *lineage.columns)
    if edges:
        return [(edge.upstream, edge.downstream) for edge in edges]
    written = lineage.datasets(Direction.WRITE)
    return [(source, target) for source in lineage.datasets(Direction.READ) for target in written]


def _on_the_way(lineage: JobLineage, around: _Around[Dataset]) -> JobLineage:
    kept = {step for step in _steps(lineage) if around.holds(*step)}
    # A dataset whose other side is not resolved has no step, and still a job that reads or writes it.
    return _only(lineage, kept, reads=around.down, writes=around.up)


def _with_columns(lineages: Sequence[JobLineage], table: str | None, column: str | None) -> list[JobLineage]:
    steps = [_column_step(edge) for lineage in lineages for edge in lineage.columns]
    around = _around(steps, _wanted({place for step in steps for place in step}, table, column))
    found = (_of_columns(lineage, around) for lineage in lineages)
    return [lineage for lineage in found if lineage.columns]


def _wanted(every: set[_Column], table: str | None, column: str | None) -> set[_Column]:
    datasets = {dataset for dataset, _ in every}
    of_table = (
        datasets if table is None else set(_matching(datasets, table, "no lineage of columns is known of"))
    )
    wanted = {(dataset, name) for dataset, name in every if dataset in of_table and column in (None, name)}
    if column is not None and not wanted:
        names = sorted({name for dataset, name in every if dataset in of_table})
        raise NotFound(f"no lineage of a column {column!r}; columns with lineage: {_some(names)}")
    return wanted


def _of_columns(lineage: JobLineage, around: _Around[_Column]) -> JobLineage:
    kept = tuple(edge for edge in lineage.columns if around.holds(*_column_step(edge)))
    return _only(replace(lineage, columns=kept), {(edge.upstream, edge.downstream) for edge in kept})


def _column_step(edge: ColumnEdge) -> tuple[_Column, _Column]:
    return (edge.upstream, edge.upstream_column), (edge.downstream, edge.downstream_column)


def _only(
    lineage: JobLineage,
    steps: set[tuple[Dataset, Dataset]],
    reads: Iterable[Dataset] = (),
    writes: Iterable[Dataset] = (),
) -> JobLineage:
    """A job with these steps alone, and with these datasets where it reads or writes them."""
    used = {
        Direction.READ: {source for source, _ in steps}.union(reads),
        Direction.WRITE: {target for _, target in steps}.union(writes),
    }
    return replace(
        lineage,
        uses=tuple(use for use in lineage.uses if use.dataset in used[use.direction]),
        edges=tuple(edge for edge in lineage.edges if (edge.upstream, edge.downstream) in steps),
        columns=tuple(edge for edge in lineage.columns if (edge.upstream, edge.downstream) in steps),
    )


def _matching(
    datasets: Iterable[Dataset], table: str, lacking: str = "no job reads or writes"
) -> Sequence[Dataset]:
    """Datasets of that name, or whose name ends with it behind a dot or a slash."""
    every = list(datasets)
    exact = [dataset for dataset in every if table in (dataset.name, str(dataset))]
    found = exact or [dataset for dataset in every if dataset.name.endswith((f".{table}", f"/{table}"))]
    if not found:
        names = sorted({str(dataset) for dataset in every})
        raise NotFound(f"{lacking} {table!r}; datasets with lineage: {_some(names)}")
    return found


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more if names else "none"


def _around(steps: Iterable[tuple[_Place, _Place]], wanted: set[_Place]) -> _Around[_Place]:
    forward: dict[_Place, list[_Place]] = {}
    backward: dict[_Place, list[_Place]] = {}
    for source, target in steps:
        forward.setdefault(source, []).append(target)
        backward.setdefault(target, []).append(source)
    return _Around(up=_reached(wanted, backward), down=_reached(wanted, forward))


def _reached(start: set[_Place], following: Mapping[_Place, Sequence[_Place]]) -> set[_Place]:
    seen, waiting = set(start), list(start)
    while waiting:
        for place in following.get(waiting.pop(), ()):
            if place not in seen:
                seen.add(place)
                waiting.append(place)
    return seen
