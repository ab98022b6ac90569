"""The rows of a history by their numbers, and where batches of it may end."""

from __future__ import annotations

import pytest

from frazil.core.errors import InvalidInput
from frazil.core.schema import Field, Schema
from frazil.core.stamp import Position
from frazil.lake.changelog_rows import Shape
from frazil.lake.live import Target
from frazil.lake.manifests import DATA, ContentFile
from frazil.stream.bootstrap.files import HistoryFiles
from frazil.stream.bootstrap.place import Place, history_of, of_log, pending
from frazil.stream.source import Slice

_SHAPE = Shape(Schema((Field("at", "timestamptz", id=1),)), Schema(()), {})
_SECOND = 1_000_000


def _files(*bounds: tuple[int, int] | None, rows: int = 10) -> HistoryFiles:
    """By their lowest and highest time in seconds; None: there is none."""

    def file(number: int, known: tuple[int, int] | None) -> ContentFile:
        low, high = ({}, {}) if known is None else ({1: _bytes(known[0])}, {1: _bytes(known[1])})
        nulls = {1: 0} if known is None else {}
        return ContentFile(f"f{number}", "parquet", DATA, rows, 1, 0, {}, 1, low, high, nulls)

    targets = tuple(Target(file(number, known)) for number, known in enumerate(bounds))
    return HistoryFiles(targets, tuple(range(0, rows * len(bounds) + 1, rows)), _SHAPE, 0, 1)


def _bytes(seconds: int) -> bytes:
    return (seconds * _SECOND).to_bytes(8, "little", signed=True)


@pytest.mark.parametrize(
    ("bounds", "lateness", "expected"),
    [
        (((0, 9), (10, 19), (20, 29)), 0, (10, 20, 30)),
        # Two that overlap are one batch, unless the watermark waits for long enough.
        (((0, 12), (10, 19), (20, 29)), 0, (20, 30)),
        (((0, 12), (10, 19), (20, 29)), 2, (20, 30)),
        (((0, 12), (10, 19), (20, 29)), 3, (10, 20, 30)),
        # A row at the watermark is late.
        (((0, 10), (10, 19)), 0, (20,)),
        # One that spans them all.
        (((0, 99), (10, 19), (20, 29)), 5, (30,)),
        # Nobody knows what is in it.
        (((0, 9), None, (20, 29)), 5, (30,)),
    ],
)
def test_no_batch_makes_rows_of_a_later_one_late(
    bounds: tuple[tuple[int, int] | None, ...], lateness: float, expected: tuple[int, ...]
) -> None:
    assert _files(*bounds).cuts(lateness) == expected


def test_without_a_column_of_times_there_is_one_batch() -> None:
    found = _files((0, 1), (2, 3))
    assert HistoryFiles(found.targets, found.starts, _SHAPE, 0).cuts(60) == (20,)


def test_rounds_of_a_history() -> None:
    place = Place("a.b", "u", 7, 30)
    assert place.next(12) == Slice("a.b/history", 0, 0, 12)
    assert Place("a.b", "u", 7, 30, taken=24).next(12) == Slice("a.b/history", 0, 24, 30)
    # Up to the last cut that fits; where none does, to the first one.
    assert place.next(12, (10, 20, 30)).end == 10
    assert place.next(25, (10, 20, 30)).end == 20
    assert place.next(5, (20, 30)).end == 20
    assert Place("a.b", "u", 7, 30, taken=20).next(5, (20, 30)).end == 30


def test_a_place_in_a_stamp() -> None:
    place = Place("a.b", "u-1", 7, 30, 4, 12)
    positions = {"t": Position(id="T", next=(1,)), place.topic: place.position()}
    assert history_of(positions) == pending(positions) == place
    assert of_log(positions) == {"t": Position(id="T", next=(1,))}
    done = Place("a.b", "u-1", 7, 30, 4, 30)
    assert pending({place.topic: done.position()}) is None
    # Stateful queries compare places by these.
    assert done.position().id == place.position().id
    with pytest.raises(InvalidInput, match="a damaged stamp"):
        history_of({"a.b/history": Position(id="u", next=(1,))})
