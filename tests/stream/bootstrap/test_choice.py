"""Whether the log goes on where the rows of a history end."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from frazil.core.errors import InvalidConfig, SourceChanged
from frazil.core.stamp import Position, Stamp, stamp_key
from frazil.stream.bootstrap.choice import choose
from frazil.stream.config.model import History
from frazil.stream.kafka.log import LogView, Topic

_HISTORY = History(("a",), "b")


def _table(*following: int) -> dict[str, Any]:
    """One snapshot, with a stamp of the topic at these offsets."""
    at = {"t": Position(id="T", next=following)}
    stamp = Stamp(pipeline="p", epoch=1, round=1, token="x", source="kafka:K", positions=at)
    summary = {"operation": "append", stamp_key("p"): stamp.encode()}
    row = {"snapshot-id": 7, "timestamp-ms": 0, "summary": summary}
    return {"snapshots": [row], "current-snapshot-id": 7}


def _log(*bounds: tuple[int, int]) -> LogView:
    """Beginning and end of each partition."""
    firsts, ends = zip(*bounds, strict=True)
    return LogView("kafka:K", {"t": Topic("t", "T", len(bounds))}, (), {"t": firsts}, {"t": ends})


@pytest.mark.parametrize("bounds", [((0, 9), (0, 9)), ((5, 5), (3, 3)), ((2, 5), (3, 8), (0, 4))])
def test_a_log_that_goes_on(bounds: tuple[tuple[int, int], ...]) -> None:
    found = choose(_HISTORY, _table(5, 3), _log(*bounds))
    assert (found.snapshot.id, found.positions["t"].next) == (7, (5, 3))


@pytest.mark.parametrize(
    ("bounds", "told"),
    [
        (((6, 9), (0, 9)), "ends at offset 5 of t-0, and the log was trimmed up to 6"),
        # All of it.
        (((0, 9), (9, 9)), "ends at offset 3 of t-1, and the log was trimmed up to 9"),
        # A partition that came after the snapshot begins with its first record, which must be there.
        (((0, 9), (0, 9), (2, 9)), "ends at offset 0 of t-2, and the log was trimmed up to 2"),
        (((0, 4), (0, 9)), "offset 5 of t-0, and the log ends at 4: the log lost records"),
    ],
)
def test_a_log_that_lost_records_is_refused(bounds: tuple[tuple[int, int], ...], told: str) -> None:
    with pytest.raises(SourceChanged, match=told):
        choose(_HISTORY, _table(5, 3), _log(*bounds))


def test_a_snapshot_that_main_was_moved_to_later() -> None:
    """It is older than that: the table did not have its rows then."""
    table = _table(5, 3)
    made = {
        "snapshot-id": 8,
        "parent-snapshot-id": 7,
        "timestamp-ms": 1000,
        "summary": {"operation": "overwrite"},
    }
    table |= {"snapshots": [*table["snapshots"], made], "current-snapshot-id": 8}
    log = [{"timestamp-ms": at, "snapshot-id": number} for at, number in ((0, 7), (5000, 8))]
    wanted = replace(_HISTORY, until=datetime.fromtimestamp(3, UTC))
    assert choose(wanted, table | {"snapshot-log": log}, _log((0, 9), (0, 9))).snapshot.id == 7
    later = replace(_HISTORY, until=datetime.fromtimestamp(5, UTC))
    assert choose(later, table | {"snapshot-log": log}, _log((0, 9), (0, 9))).snapshot.id == 8
    # The log of main loses its beginning as snapshots expire.
    with pytest.raises(InvalidConfig, match=r"not known any more: its log goes back to .*later time"):
        choose(wanted, table | {"snapshot-log": log[1:]}, _log((0, 9), (0, 9)))


def test_offsets_that_the_log_does_not_have() -> None:
    wanted = History(("a",), "b", offsets={"t": (5, 3)})
    with pytest.raises(InvalidConfig, match=r"offset 5 of t-0, and the log ends at 4.*Give `offsets`"):
        choose(wanted, _table(5, 3), _log((0, 4), (0, 9)))
    with pytest.raises(SourceChanged, match="trimmed up to 6"):
        choose(wanted, _table(5, 3), _log((6, 9), (0, 9)))
