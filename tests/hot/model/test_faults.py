"""A model that finds nothing wrong proves nothing: each of these faults, put in on purpose, is found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pytest
from tests.hot.model.conftest import MakeWorld
from tests.hot.model.services import Gate
from tests.hot.model.workload import Workload

from frazil.core.errors import SourceChanged
from frazil.hot.read import pins, tail
from frazil.lake.removals import Removed
from frazil.maintenance import Maintenance

#: At most: which step meets the fault is chance.
_CHAPTERS = 6
_last, _position = tail.last_of, pins._position


def _old_rows_stay(table: pa.Table, _key: Sequence[str], _gone: Any) -> pa.Table:
    return table


def _one_offset_later(*given: Any) -> tuple[int, ...]:
    return tuple(offset + 1 for offset in _position(*given))


def _first_change_wins(batches: Sequence[pa.RecordBatch], key: Sequence[str]) -> pa.Table:
    changes = pa.Table.from_batches(batches)
    return _last(changes.take(list(range(len(changes)))[::-1]).to_batches() or batches, key)


def _no_lookup(*_: Any) -> None:
    """Nothing in Iceberg is replaced."""


def _nothing_goes(*_: Any) -> Removed:
    return Removed((), (), ())


def _find(make_world: MakeWorld, gate: Gate, place: str, fault: Any, told: str) -> None:
    workload = Workload(make_world(None), gate, 8, 75, ["rounds"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(place, fault)
        # Behind the end of the log, reads refuse what a fault gives them.
        with pytest.raises((AssertionError, SourceChanged), match=told):
            workload.run(_CHAPTERS)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("place", "fault"),
    [
        ("frazil.hot.read.arrow.without", _old_rows_stay),
        ("frazil.hot.read.pins._position", _one_offset_later),
        ("frazil.hot.read.tail.last_of", _first_change_wins),
        ("frazil.lake.overlay._removed", _nothing_goes),
        ("frazil.stream.cdc.lane.Lane.lookup", _no_lookup),
    ],
)
def test_a_fault_is_found(make_world: MakeWorld, gate: Gate, place: str, fault: Callable[..., Any]) -> None:
    _find(make_world, gate, place, fault, "rows and not|now ends at .*: the log lost records")


@pytest.mark.exhaustive
def test_snapshots_that_go_too_early_are_found(make_world: MakeWorld, gate: Gate) -> None:
    """Reads fail and are not wrong: the age of what they pinned tells."""
    nothing_kept = property(lambda _: Maintenance())
    told = "its snapshot expired, within the keep window"
    _find(make_world, gate, "frazil.hot.table.HotTable.maintenance", nothing_kept, told)
