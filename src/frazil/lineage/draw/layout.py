"""Where boxes stand and which ways arrows take: columns from left to right, and gaps for long arrows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

from frazil.lineage.draw.graph import Arrow, Box, Picture

HEIGHT, COLUMN_GAP, MARGIN = 30, 90, 20
_ROW_GAP = 18
_SWEEPS = 4


@dataclass(frozen=True)
class Stop:
    """The gap in a column that an arrow to a further column goes through."""

    arrow: Arrow
    column: int


Slot = Box | Stop
_Links = Mapping[Slot, Sequence[Slot]]
Point = tuple[float, float]


@dataclass(frozen=True)
class Layout:
    """Left, middle and width of each box; the points of each arrow; those that lead back, in a circle."""

    boxes: Mapping[Box, tuple[float, float, float]]
    #: From the right of one box to the left of the other, by the two ends of every gap between them.
    ways: Mapping[Arrow, Sequence[Point]]
    #: Arrows that lead back go below everything; each has a height of its own there.
    below: Mapping[Arrow, float]
    width: float
    height: float


def lay_out(picture: Picture, width_of: Callable[[Box], float]) -> Layout:
    """The places of a picture's boxes and arrows."""
    depth = _depths(picture)
    ahead = [arrow for arrow in picture.arrows if depth[arrow.source] < depth[arrow.target]]
    columns: list[list[Slot]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for box in picture.boxes:
        columns[depth[box]].append(box)
    ways: dict[Arrow, list[Slot]] = {}
    for arrow in ahead:
        stops = [Stop(arrow, column) for column in range(depth[arrow.source] + 1, depth[arrow.target])]
        ways[arrow] = [arrow.source, *stops, arrow.target]
        for stop in stops:
            columns[stop.column].append(stop)
    into, out_of = _links(columns, ways.values())
    _straighten(columns, into, out_of)
    return _measured(picture, columns, ways, _middles(columns, into), width_of)


def _depths(picture: Picture) -> dict[Box, int]:
    """The column of each box, so that arrows point right, except where there is a circle."""
    depth: dict[Box, int] = {}
    sources: dict[Box, list[Box]] = {box: [] for box in picture.boxes}
    for arrow in picture.arrows:
        sources[arrow.target].append(arrow.source)
    waiting = list(picture.boxes)
    while waiting:
        ready = [box for box in waiting if all(source in depth for source in sources[box])]
        # In a circle nothing is ready: the box that was first begins.
        for box in ready or waiting[:1]:
            depth[box] = max((depth[source] + 1 for source in sources[box] if source in depth), default=0)
        waiting = [box for box in waiting if box not in depth]
    for box, arrows in picture.targets().items():
        if arrows and not sources[box]:
            # What begins here stands beside what takes it first.
            depth[box] = max(0, min(depth[arrow.target] for arrow in arrows) - 1)
    return depth


def _links(columns: Sequence[Sequence[Slot]], ways: Iterable[Sequence[Slot]]) -> tuple[_Links, _Links]:
    """What leads into each slot from the column before it, and out of it into the next."""
    into: dict[Slot, list[Slot]] = {slot: [] for column in columns for slot in column}
    out_of: dict[Slot, list[Slot]] = {slot: [] for slot in into}
    for way in ways:
        for source, target in pairwise(way):
            into[target].append(source)
            out_of[source].append(target)
    return into, out_of


def _straighten(columns: Sequence[list[Slot]], into: _Links, out_of: _Links) -> None:
    """Put each slot beside what it is linked with, from both sides in turn, so that fewer arrows cross."""
    place = {slot: index for column in columns for index, slot in enumerate(column)}
    for sweep in range(_SWEEPS + 1):
        linked = out_of if sweep % 2 else into
        for column in reversed(columns) if sweep % 2 else columns:
            beside = {
                slot: fmean(place[other] for other in linked[slot]) if linked[slot] else float(place[slot])
                for slot in column
            }
            column.sort(key=beside.__getitem__)
            place.update({slot: index for index, slot in enumerate(column)})


def _middles(columns: Sequence[Sequence[Slot]], into: _Links) -> dict[Slot, float]:
    """The height of each slot's middle: that of what leads into it, as far as there is room."""
    middles: dict[Slot, float] = {}
    for column in columns:
        end = 0.0
        placed: dict[Slot, float] = {}
        moved: list[float] = []
        for slot in column:
            half = _half(slot)
            wanted = fmean(middles[source] for source in into[slot]) if into[slot] else None
            placed[slot] = end + half if wanted is None else max(end + half, wanted)
            if wanted is not None:
                moved.append(placed[slot] - wanted)
            end = placed[slot] + half + _ROW_GAP
        # What had to give way did so downwards; half of the column may as well go up.
        shift = fmean(moved) if moved else 0.0
        middles.update({slot: middle - shift for slot, middle in placed.items()})
    top = min((middle - _half(slot) for slot, middle in middles.items()), default=0.0)
    return {slot: middle - top + MARGIN for slot, middle in middles.items()}


def _half(slot: Slot) -> float:
    """Half of its height; an arrow has none."""
    return HEIGHT / 2 if isinstance(slot, Box) else 0.0


def _measured(
    picture: Picture,
    columns: Sequence[Sequence[Slot]],
    ways: Mapping[Arrow, Sequence[Slot]],
    middles: Mapping[Slot, float],
    width_of: Callable[[Box], float],
) -> Layout:
    spans: dict[Slot, tuple[float, float]] = {}
    left = float(MARGIN)
    for column in columns:
        width = max(width_of(slot) for slot in column if isinstance(slot, Box))
        spans.update(dict.fromkeys(column, (left, left + width)))
        left += width + COLUMN_GAP
    routes: dict[Arrow, list[Point]] = {}
    for arrow, way in ways.items():
        ends = [(side, middles[slot]) for slot in way for side in spans[slot]]
        routes[arrow] = ends[1:-1]
    bottom = max((middle + _half(slot) for slot, middle in middles.items()), default=0.0)
    back = [arrow for arrow in picture.arrows if arrow not in ways]
    below = {arrow: bottom + _ROW_GAP * number for number, arrow in enumerate(back, 1)}
    boxes = {box: (spans[box][0], middles[box], spans[box][1] - spans[box][0]) for box in picture.boxes}
    right = left - COLUMN_GAP if columns else left
    return Layout(boxes, routes, below, right + MARGIN, max(below.values(), default=bottom) + MARGIN)
