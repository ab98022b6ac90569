"""What is drawn: boxes and arrows, free of how."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from frazil.lineage.model import Dataset, Derivation, Direction, JobLineage


class Shape(StrEnum):
    """What a box stands for."""

    DATASET = "dataset"
    JOB = "job"
    COLUMN = "column"


@dataclass(frozen=True, order=True)
class Box:
    """A box; two of the same shape and key are one."""

    shape: Shape
    key: str
    label: str


@dataclass(frozen=True, order=True)
class Arrow:
    """Data goes from one box to another."""

    source: Box
    target: Box
    label: str = ""


@dataclass(frozen=True)
class Picture:
    """Boxes in order of appearance, and the arrows between them."""

    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]

    def targets(self) -> dict[Box, list[Arrow]]:
        """The arrows that leave each box."""
        found: dict[Box, list[Arrow]] = {box: [] for box in self.boxes}
        for arrow in self.arrows:
            found[arrow.source].append(arrow)
        return found


def tables_picture(lineages: Sequence[JobLineage]) -> Picture:
    """Datasets and jobs."""
    boxes: dict[Box, None] = {}
    arrows: dict[Arrow, None] = {}
    for lineage in lineages:
        job = Box(Shape.JOB, f"{lineage.job.name}\0{lineage.job.id}", lineage.job.name)
        boxes[job] = None
        for use in lineage.uses:
            dataset = _dataset_box(use.dataset)
            boxes[dataset] = None
            read = use.direction is Direction.READ
            arrows[Arrow(dataset, job) if read else Arrow(job, dataset)] = None
    return Picture(tuple(boxes), tuple(arrows))


def columns_picture(lineages: Sequence[JobLineage]) -> Picture:
    """Columns, whatever jobs they went through."""
    edges = sorted({edge for lineage in lineages for edge in lineage.columns}, key=str)
    boxes: dict[Box, None] = {}
    # Jobs may make a column of another one in different ways: the strongest is drawn.
    strongest: dict[tuple[Box, Box], Derivation] = {}
    for edge in edges:
        source = _column_box(edge.upstream, edge.upstream_column)
        target = _column_box(edge.downstream, edge.downstream_column)
        boxes.update({source: None, target: None})
        known = strongest.get((source, target), edge.derivation)
        strongest[source, target] = max(known, edge.derivation)
    arrows = (
        Arrow(source, target, "" if derivation is Derivation.COPY else derivation.name.lower())
        for (source, target), derivation in strongest.items()
    )
    return Picture(tuple(boxes), tuple(arrows))


def _dataset_box(dataset: Dataset) -> Box:
    instance = f"{dataset.platform_instance or ''}\0{dataset.env}"
    return Box(Shape.DATASET, f"{dataset.platform}\0{dataset.name}\0{instance}", str(dataset))


def _column_box(dataset: Dataset, column: str) -> Box:
    return Box(Shape.COLUMN, f"{_dataset_box(dataset).key}\0{column}", f"{dataset}.{column}")
