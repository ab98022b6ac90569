"""Which part of a history is compared; the comparisons themselves are in test_verify.py."""

from __future__ import annotations

from typing import Any

from frazil.core.stamp import Position, Stamp, stamp_key
from frazil.lake.scan import LiveFile
from frazil.stream.kafka.log import LogView, Topic
from frazil.stream.source import Slice
from frazil.stream.verify_range import Spans, find_spans

NAME = "orders"


class Story:
    """Snapshots one after the other."""

    def __init__(self) -> None:
        self.snapshots: list[dict[str, Any]] = []
        self.total = 0

    def other(self, operation: str = "append", added: int = 0, **summary: str) -> Story:
        number = len(self.snapshots) + 1
        self.total += added
        counts = {"added-records": str(added), "total-records": str(self.total), "operation": operation}
        self.snapshots.append(
            {
                "snapshot-id": number,
                "parent-snapshot-id": number - 1 or None,
                "summary": {**counts, **summary},
            }
        )
        return self

    def stamped(
        self, epoch: int, number: int, following: tuple[int, ...], rows: int, added: int = 0
    ) -> Story:
        stamp = Stamp(
            pipeline=NAME,
            epoch=epoch,
            round=number,
            token=f"{epoch}-{number}",
            source="kafka:c",
            positions={"a": Position("id", following)},
            read=rows,
            written=rows,
        )
        return self.other("append", added, **{stamp_key(NAME): stamp.encode()})

    def expire(self, count: int) -> Story:
        del self.snapshots[:count]
        return self

    def spans(self, beginnings: tuple[int, ...] | None = (0, 0)) -> Spans:
        refs = {"main": {"snapshot-id": self.snapshots[-1]["snapshot-id"]}}
        metadata = {"snapshots": self.snapshots, "refs": refs}
        log = None
        if beginnings is not None:
            topic = Topic("a", "id", len(beginnings))
            log = LogView("kafka:c", {"a": topic}, (), {"a": beginnings}, {"a": (1000,) * len(beginnings)})
        found = find_spans(metadata, NAME, log)
        assert found is not None
        return found


def story() -> Story:
    """A claim, 20 rows, a restart, 10 rows."""
    found = Story().stamped(1, 0, (5, 0), 0).stamped(1, 1, (15, 10), 20, 20)
    return found.stamped(2, 0, (15, 10), 20).stamped(2, 1, (20, 15), 30, 10)


def test_the_whole_of_it() -> None:
    spans = story().spans()
    span = spans.told
    assert spans.held is span
    assert span.complete
    assert span.alone
    assert (span.read, span.written, span.added, len(span.commits)) == (30, 30, 30, 3)
    assert span.slices() == [Slice("a", 0, 5, 20), Slice("a", 1, 0, 15)]
    assert spans.trimmed == {}


def test_a_reset_begins_anew() -> None:
    spans = story().stamped(3, 0, (0, 0), 0).stamped(3, 1, (4, 4), 8, 8).spans()
    assert spans.told.complete
    assert (spans.told.written, spans.told.added) == (8, 8)
    assert spans.told.slices() == [Slice("a", 0, 0, 4), Slice("a", 1, 0, 4)]
    # The rows of before are in the table as well.
    assert not spans.told.alone


def test_a_claim_before_anything_was_read_does() -> None:
    spans = Story().stamped(1, 0, (5, 0), 0).stamped(2, 0, (5, 0), 0).stamped(2, 1, (6, 0), 1, 1).spans()
    assert spans.told.complete
    assert spans.told.slices() == [Slice("a", 0, 5, 6)]


def test_what_expired_is_not_told() -> None:
    spans = story().expire(1).spans()
    assert not spans.told.complete
    assert not spans.told.alone
    assert (spans.told.written, spans.told.added) == (10, 10)


def test_what_was_trimmed_is_not_held() -> None:
    spans = story().spans((7, 0))
    assert spans.told.complete
    assert spans.trimmed == {("a", 0): 2}
    assert spans.held is not None
    assert spans.held.base.stamp.token == "1-1"
    assert (spans.held.read, spans.held.slices()[0]) == (10, Slice("a", 0, 15, 20))
    # Of a log that begins at the stamp nothing is left to compare.
    held = story().spans((20, 15)).held
    assert held is not None
    assert held.slices() == []


def test_a_log_that_cannot_be_read() -> None:
    assert story().spans(None).held is None


def test_partitions_that_came_later_begin_at_0() -> None:
    spans = story().stamped(2, 2, (20, 15, 3), 33, 3).spans((0, 0, 0))
    assert spans.told.slices()[-1] == Slice("a", 2, 0, 3)
    held = story().stamped(2, 2, (20, 15, 3), 33, 3).spans((0, 0, 1)).held
    assert held is not None
    assert held.slices() == []


def test_others() -> None:
    foreign = story().other("append", 5).spans().told
    assert foreign.alone
    assert not foreign.rewritten
    assert [view.id for view in foreign.others] == [5]
    shared = story().other("append", 5, **{stamp_key("clicks"): "x"}).spans().told
    assert not shared.alone
    assert story().other("overwrite").spans().told.rewritten
    older = Story().other("append", 5).stamped(1, 0, (0, 0), 0).stamped(1, 1, (1, 0), 1, 1).spans().told
    assert older.others == ()
    assert not older.alone


def test_a_stamp_that_was_carried_on_counts_once() -> None:
    """As maintenance does, whose snapshots have the stamps of the one before."""
    made = story()
    copied = made.snapshots[-1]["summary"][stamp_key(NAME)]
    span = made.other("replace", 30, **{stamp_key(NAME): copied}).spans().told
    assert (span.written, span.added) == (30, 30)
    assert len(span.commits) == 3
    assert [view.id for view in span.others] == [5]


def test_files_are_known_by_their_names() -> None:
    def file(path: str) -> LiveFile:
        return LiveFile(f"s3://b/t/data/{path}", "PARQUET", 1, 1)

    ours = [file("orders/000003/00000001-ab-00000-0-000.parquet")]
    older = [file("orders/000002/00000001-ab-00000-0-000.parquet")]
    others = [file("clicks/000003/00000001-ab-00000-0-000.parquet"), file("x/y.parquet")]
    live = [*ours, *older, *others]
    anew = story().stamped(3, 0, (0, 0), 0).stamped(3, 1, (4, 4), 8, 8).spans().told
    assert anew.files(NAME, live) == ours
    held = story().spans((7, 0)).held
    assert held is not None
    assert held.files(NAME, live) == [*ours, *older]
    assert story().spans().told.files(NAME, live) == live
