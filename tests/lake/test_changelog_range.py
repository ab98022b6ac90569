"""Which snapshots are meant, and what is said where they cannot be told."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from frazil.core.errors import HistoryChanged, InvalidInput, NotFound
from frazil.lake.changelog_range import snapshot_range
from frazil.lake.history import Rewritten, TableHistory


def history(*parents: tuple[int, int | None], head: int | None, **tags: int) -> TableHistory:
    """Snapshots are committed at so many seconds after 1970."""
    rows: list[dict[str, Any]] = [
        {"snapshot-id": number, "parent-snapshot-id": parent, "timestamp-ms": number * 1000}
        for number, parent in parents
    ]
    refs = {name.replace("_", "-"): {"snapshot-id": number, "type": "tag"} for name, number in tags.items()}
    if head is not None:
        refs["main"] = {"snapshot-id": head, "type": "branch"}
    return TableHistory({"snapshots": rows, "refs": refs})


#: 1 → 2 → 3 → 5; 4 was rolled back.
ROLLED = history((1, None), (2, 1), (3, 2), (4, 2), (5, 3), head=5, the_report=2, gone=4)


def steps(found: TableHistory, since: Any = None, until: Any = None) -> list[int | None]:
    made = snapshot_range(found, "t", since, until)
    return [None if made.start is None else made.start.id, *(step.id for step in made.steps)]


@pytest.mark.parametrize(
    ("since", "until", "wanted"),
    [
        (None, None, [None, 1, 2, 3, 5]),
        (2, None, [2, 3, 5]),
        ("2", "3", [2, 3]),
        ("the-report", None, [2, 3, 5]),
        ("1970-01-01T00:00:02.500Z", "1970-01-01T00:00:03", [2, 3]),
        ("1970-01-01T00:00:00Z", 2, [None, 1, 2]),
        (5, None, [5]),
        (None, "1970-01-01", [None]),
        ("gone", "gone", [4]),
        (1, "gone", [1, 2, 4]),
    ],
)
def test_moments(since: Any, until: Any, wanted: list[int | None]) -> None:
    assert steps(ROLLED, since, until) == wanted


def logged(known: TableHistory, *log: tuple[float, int]) -> TableHistory:
    """The same with what main pointed at from so many seconds on."""
    rows = [{"timestamp-ms": int(seconds * 1000), "snapshot-id": number} for seconds, number in log]
    documents: list[dict[str, Any]] = [
        {"snapshot-id": one.id, "parent-snapshot-id": one.parent, "timestamp-ms": one.millis}
        for one in known.snapshots()
    ]
    refs = {"main": {"snapshot-id": known.head, "type": "branch"}}
    return TableHistory({"snapshots": documents, "refs": refs, "snapshot-log": rows})


def seconds(count: float) -> datetime:
    return datetime.fromtimestamp(count, UTC)


def test_main_was_moved_to_an_older_snapshot_of_a_branch() -> None:
    """At 5, as a correction is published: reports of 4 and of 6 tell it, and once."""
    moved = logged(history((1, None), (2, 1), (3, 2), head=3), (1, 1), (2, 2), (5, 3))
    assert steps(moved, seconds(1), seconds(4)) == [1, 2]
    assert steps(moved, seconds(4), seconds(6)) == [2, 3]
    assert steps(moved, seconds(6)) == [3]
    found = [moved.newest_at(seconds(at), before=True) for at in (1, 2, 4, 5, 6)]
    assert [None if one is None else one.id for one in found] == [None, 1, 2, 2, 3]


def test_what_main_was_before_a_branch_came_expired() -> None:
    """The snapshot of the branch is older than the time, and was not main then."""
    kept = logged(history((3, 2), head=3), (5, 3))
    assert steps(kept, seconds(5)) == [3]
    with pytest.raises(HistoryChanged, match=r"at 1970-01-01T00:00:04.* expired: its log goes back to .*:05"):
        steps(kept, seconds(4))
    with pytest.raises(Rewritten, match="its log goes back"):
        kept.newest_at(seconds(5), before=True)


def test_a_time_before_a_rollback_is_of_what_the_table_was_then() -> None:
    rolled = logged(ROLLED, (1, 1), (2, 2), (4, 4), (4.5, 2), (4.6, 3), (5, 5))
    assert steps(rolled, seconds(2), seconds(4.2)) == [2, 4]
    with pytest.raises(HistoryChanged, match=r"rolled back.*since=2"):
        steps(rolled, seconds(4.2))
    # Who begins then takes what main got since.
    then = rolled.newest_at(seconds(4.2), before=True)
    assert then is not None
    assert then.id == 2


def test_only_the_two_are_compared_where_only_the_difference_counts() -> None:
    """What was between them expired."""
    kept = history((2, 1), (5, 4), head=5)
    made = snapshot_range(kept, "t", 2, 5, net=True)
    assert made.start is not None
    assert (made.start.id, [one.id for one in made.steps]) == (2, [5])
    with pytest.raises(HistoryChanged, match="cannot be told"):
        snapshot_range(kept, "t", 2, 5)
    for net in (False, True):
        with pytest.raises(HistoryChanged, match=r"cannot be told.*Give the older one as `since`"):
            snapshot_range(kept, "t", 5, 2, net=net)
    with pytest.raises(HistoryChanged, match="rolled back"):
        snapshot_range(ROLLED, "t", 4, None, net=True)
    with pytest.raises(HistoryChanged, match="comes after"):
        snapshot_range(ROLLED, "t", 5, 2, net=True)


def test_a_table_without_snapshots() -> None:
    empty = history(head=None)
    assert steps(empty) == [None]
    with pytest.raises(NotFound, match="since: the table t has no snapshot 7"):
        steps(empty, 7)


def test_what_cannot_be_told() -> None:
    with pytest.raises(HistoryChanged, match=r"rolled back.*Both come from snapshot 2 .*since=2"):
        steps(ROLLED, 4)
    with pytest.raises(HistoryChanged, match="snapshot 5 of the table t comes after 2"):
        steps(ROLLED, 5, 2)
    with pytest.raises(InvalidInput, match=r"'yesterday' is neither a tag nor a branch.*the-report"):
        steps(ROLLED, "yesterday")
    short = history((3, 2), (5, 3), (9, 8), head=5)
    assert steps(short, 3) == [3, 5]
    with pytest.raises(NotFound, match=r"no snapshot 2: it expired.*since=3"):
        steps(short, 2)
    with pytest.raises(HistoryChanged, match=r"from its beginning .* Give `since`.*since=3"):
        steps(short)
    with pytest.raises(HistoryChanged, match=r"1970-01-01T00:00:01\+00:00 expired.*since=3"):
        steps(short, "1970-01-01T00:00:01Z")
    with pytest.raises(HistoryChanged, match=r"between the snapshots 9 and 5 cannot be told"):
        steps(short, 9)
