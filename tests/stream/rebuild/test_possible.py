"""What comes before the log in a rebuild, as the pipeline's stamps and its settings tell."""

from __future__ import annotations

from typing import Any

import pytest

import frazil
from frazil.client.naming import identifier
from frazil.core.errors import InvalidInput
from frazil.core.names import show
from frazil.core.stamp import Position, Stamp, stamp_key
from frazil.lake.authority import MetadataHistory
from frazil.stream.bootstrap.place import Place
from frazil.stream.config import PipelineConfig
from frazil.stream.config.model import History
from frazil.stream.rebuild.past import begun_at
from frazil.stream.rebuild.possible import wanted_history

TABLE = "paths.raw"
#: What the pipeline began with, and that a reset told it to begin with.
FIRST, SECOND = (Place(TABLE, "u", snapshot, 20) for snapshot in (7, 8))


def pipeline(history: Any = None) -> PipelineConfig:
    settings = {} if history is None else {"history": history}
    return frazil.Pipeline("p", table="paths.p", topics="t", schema={"id": "long"}, **settings)


def given(offset: int, table: str = TABLE) -> dict[str, Any]:
    return {"table": table, "offsets": {"t": [offset]}}


def stamp(epoch: int, round_: int, next_: int, place: Place | None = None, taken: int = 20) -> Stamp:
    positions = {"t": Position(id="t", next=(next_,))}
    if place is not None:
        positions[place.topic] = Position(id=place.position().id, next=(taken,))
    return Stamp(pipeline="p", epoch=epoch, round=round_, token="", source="kafka:x", positions=positions)


def story(*stamps: Stamp) -> MetadataHistory:
    """A table with these commits, the oldest first; what came before them expired."""
    rows = [
        {"snapshot-id": at, "parent-snapshot-id": at - 1, "summary": {stamp_key("p"): one.encode()}}
        for at, one in enumerate(stamps, 1)
    ]
    return MetadataHistory({"snapshots": rows, "current-snapshot-id": len(rows)})


def wanted(history: Any, *stamps: Stamp, table: str | None = None) -> History | None:
    return wanted_history(pipeline(history), stamps[-1], story(*stamps), table)


CLAIM, TAKEN, LATER = stamp(1, 0, 20, FIRST, 0), stamp(1, 3, 20, FIRST), stamp(2, 5, 30, FIRST)


def test_given_offsets_count_where_nobody_knows_better() -> None:
    known = History(("paths",), "raw")
    assert wanted(given(25), CLAIM, TAKEN, LATER) == known
    # In the middle of the history, nothing of the log was taken yet.
    assert wanted(given(25), stamp(1, 1, 20, FIRST, 7), TAKEN, LATER) == known
    assert wanted(given(25), TAKEN, LATER) == History(("paths",), "raw", offsets={"t": (25,)}, snapshot=7)
    # Another table's are not of those rows.
    assert wanted(given(25, "paths.other"), TAKEN, LATER) == known


def test_a_reset_to_other_rows() -> None:
    stamps = (CLAIM, LATER, stamp(3, 0, 28, SECOND, 0), stamp(3, 1, 30, SECOND))
    assert wanted(given(25), *stamps) == History(("paths",), "raw")
    found = begun_at(SECOND, story(*stamps), "p")
    assert found is not None
    assert found.positions["t"].next == (28,)
    forgotten = wanted(given(25), CLAIM, LATER, stamp(3, 1, 30, SECOND))
    assert forgotten == History(("paths",), "raw", offsets={"t": (25,)}, snapshot=8)


def test_a_history_that_came_after_the_beginning() -> None:
    """Its rows are none that the pipeline read, unless somebody says so."""
    began, now = stamp(1, 0, 0), stamp(1, 1, 30)
    assert wanted(given(25), began, now) is None
    assert wanted(TABLE, began, now) is None
    assert wanted(given(25), began, now, table=TABLE) == History(("paths",), "raw")
    # Where it began is not known any more.
    assert wanted(given(25), now) == History(("paths",), "raw", offsets={"t": (25,)})
    assert wanted(None, now) is None


@pytest.mark.parametrize("table", [r"sales\.eu.orders", r"sales.eu\.orders", "sales.eu.orders"])
def test_dots_in_names(table: str) -> None:
    """A stamp does not tell them from those between names."""
    place = Place(show(*identifier(table)), "u", 7, 20)
    stamps = (stamp(1, 0, 20, place, 0), stamp(1, 1, 20, place))
    expected = History(*identifier(table))
    assert wanted(table, *stamps) == expected
    assert wanted(None, *stamps, table=table) == expected
    assert wanted(None, *stamps) == History(("sales", "eu"), "orders")
    with pytest.raises(InvalidInput, match=r"began with the rows of sales\.eu\.orders"):
        wanted(None, *stamps, table="sales.orders")
