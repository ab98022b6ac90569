"""Lags, broken promises and their causes, with a clock that is made up."""

from __future__ import annotations

from dataclasses import replace

import pytest

from frazil.core.schema import Field, Schema
from frazil.core.stamp import Mirror, Position, Stamp, stamp_key
from frazil.hot.table import TIERING, Binding, HotTable
from frazil.hot.tiering.schedule import Costs, choose, due_at
from frazil.hot.tiering.watch import Watch, tiered

_BINDING = Binding(topic="a.b", topic_id="T", source="kafka:K", brokers="x")
_TABLE = HotTable(("a",), "b", _BINDING, Schema((Field("id", "long"),)), freshness=10.0)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def watch(clock: Clock) -> Watch:
    """Of one table, in which nothing waits."""
    watch = Watch(clock)
    watch.follow(_TABLE)
    watch.saw({"a.b": (0, 0), "other": (7,)}, clock.now)
    return watch


def test_a_table_that_is_caught_up_has_no_lag(watch: Watch, clock: Clock) -> None:
    clock.now += 3600
    watch.saw({"a.b": (0, 0)}, clock.now)
    (found,) = watch.report()
    assert (found.table, found.lag, found.backlog, found.breaches) == ("a.b", 0.0, 0, 0)
    assert watch.waiting(["a.b"], []) == []
    assert watch.judge() == []


def test_a_promise_is_broken_once_until_it_is_kept_again(watch: Watch, clock: Clock) -> None:
    for _ in range(3):
        watch.saw({"a.b": (1, 0)}, clock.now)
        clock.now += 1
    watch.saw({"a.b": (1, 3)}, clock.now)
    (waiting,) = watch.waiting(["a.b"], ["a.b"])
    assert (waiting.backlog, waiting.oldest, waiting.deadline, waiting.new) == (4, 1000.0, 1010.0, False)
    assert watch.judge() == []
    clock.now = 1010.5
    (broken,) = watch.judge()
    assert (broken.table, broken.lag, broken.freshness) == ("a.b", 10.5, 10.0)
    clock.now = 1011
    assert watch.judge() == []
    watch.reached("a.b", (1, 3))
    assert watch.judge() == []
    watch.saw({"a.b": (1, 3)}, clock.now)
    watch.saw({"a.b": (2, 3)}, clock.now + 1)
    clock.now += 60
    assert len(watch.judge()) == 1
    assert watch.report()[0].breaches == 2


def test_a_promise_broken_between_two_looks_counts(watch: Watch, clock: Clock) -> None:
    watch.saw({"a.b": (5, 0)}, clock.now)
    clock.now += 10.4
    # Not all of it.
    watch.reached("a.b", (2, 0))
    watch.reached("a.b", (5, 0))
    clock.now += 0.1
    assert watch.report()[0].breaches == 1
    (broken,) = watch.judge()
    assert (round(broken.lag, 3), broken.cause) == (10.4, "round")
    assert watch.judge() == []
    # Kept again, and broken again, while nobody asked.
    for end, wait in ((6, 10.2), (7, 10.0), (8, 10.2), (9, 10.2)):
        watch.saw({"a.b": (end - 1, 0)}, clock.now)
        watch.saw({"a.b": (end, 0)}, clock.now)
        clock.now += wait
        watch.reached("a.b", (end, 0))
    assert (len(watch.judge()), watch.report()[0].breaches) == (3, 4)


def test_a_promise_that_was_seen_broken_is_not_broken_by_its_commit(watch: Watch, clock: Clock) -> None:
    watch.saw({"a.b": (5, 0)}, clock.now)
    clock.now += 11
    assert len(watch.judge()) == 1
    clock.now += 0.1
    watch.reached("a.b", (2, 0))
    assert watch.judge() == []
    watch.reached("a.b", (5, 0))
    assert watch.judge() == []
    assert watch.report()[0].breaches == 1


def test_a_commit_breaks_no_promise_about_records_of_unknown_age(clock: Clock) -> None:
    watch = Watch(clock)
    watch.follow(_TABLE)
    watch.saw({"a.b": (5,)}, clock.now)
    watch.reached("a.b", (5,))
    assert (watch.judge(), watch.report()[0].breaches) == ([], 0)


def test_the_number_of_broken_promises_never_falls(watch: Watch, clock: Clock) -> None:
    watch.saw({"a.b": (1, 0)}, clock.now)
    clock.now += 11
    assert len(watch.judge()) == 1
    watch.follow(_TABLE, anew=True)
    (found,) = watch.report()
    assert (found.breaches, found.cause) == (1, "round")
    watch.forget("a.b")
    watch.follow(_TABLE)
    assert watch.report() == (found,)


def test_a_freshness_that_is_changed_counts_at_once(watch: Watch, clock: Clock) -> None:
    watch.saw({"a.b": (1, 0)}, clock.now)
    clock.now += 5
    watch.follow(replace(_TABLE, freshness=2.0))
    assert watch.strictest(30.0) == 2.0
    assert watch.waiting(["a.b"], [])[0].deadline == 1002.0
    assert len(watch.judge()) == 1


def _late(watch: Watch, clock: Clock) -> str:
    clock.now += 60
    (broken,) = watch.judge()
    return broken.cause


def test_why_promises_are_broken(watch: Watch, clock: Clock) -> None:
    clock.now += 1
    watch.saw({"a.b": (0, 0)}, clock.now)
    clock.now += 1
    watch.saw({"a.b": (5, 0)}, clock.now)
    assert _late(watch, clock) == "round"


def test_a_round_took_what_it_could(watch: Watch, clock: Clock) -> None:
    clock.now += 1
    watch.saw({"a.b": (0, 0)}, clock.now)
    watch.saw({"a.b": (5, 0)}, clock.now + 1)
    watch.reached("a.b", (2, 0))
    watch.served("a.b", 3)
    assert _late(watch, clock) == "backlog"


@pytest.mark.parametrize("what", ["catalog", "kafka"])
def test_somebody_does_not_answer(watch: Watch, clock: Clock, what: str) -> None:
    watch.saw({"a.b": (5, 0)}, clock.now)
    watch.down(what, "down")
    assert _late(watch, clock) == what


def test_the_table_fails(watch: Watch, clock: Clock) -> None:
    watch.saw({"a.b": (5, 0)}, clock.now)
    watch.failing("a.b", "a bad record")
    watch.down("kafka", "down")
    assert _late(watch, clock) == "failing"
    assert watch.report()[0].trouble == "a bad record"
    watch.failing("a.b", None)
    assert watch.report()[0].trouble is None


def test_a_table_that_cannot_be_told_of(watch: Watch, clock: Clock) -> None:
    watch.saw({"a.b": (5, 0)}, clock.now)
    watch.unclear({"a.b": "a wrong property", "a.new": "another"})
    assert _late(watch, clock) == "failing"
    known, new = watch.report()
    assert (known.lag, known.freshness, known.trouble) == (60.0, 10.0, "a wrong property")
    assert (new.table, new.trouble) == ("a.new", "another")
    watch.unclear({})
    assert [(one.table, one.trouble) for one in watch.report()] == [("a.b", None)]


def test_a_log_that_is_seen_again_mends_nothing_else(watch: Watch) -> None:
    watch.unseen({"a.b": "no leader"})
    assert watch.report()[0].trouble == "no leader"
    watch.failing("a.b", "a bad record")
    assert watch.report()[0].trouble == "a bad record"
    watch.unseen({})
    assert watch.report()[0].trouble == "a bad record"


def test_a_table_that_was_made_again_has_no_trouble(watch: Watch) -> None:
    watch.failing("a.b", "a bad record")
    # Tried again.
    watch.follow(_TABLE, anew=True)
    assert watch.report()[0].trouble == "a bad record"
    watch.follow(replace(_TABLE, uuid="another"), anew=True)
    assert watch.report()[0].trouble is None


def test_a_commit_that_landed_after_all(watch: Watch, clock: Clock) -> None:
    """Nobody had an answer to it; there may be nothing to commit for long."""
    watch.saw({"a.b": (5, 0)}, clock.now)
    watch.failing("a.b", "a commit had no answer")
    watch.claimed("a.b", (4, 0))
    assert watch.report()[0].trouble is not None
    watch.claimed("a.b", (5, 0))
    assert watch.report()[0].trouble is None


def test_a_log_that_seems_to_have_lost_records_is_due(watch: Watch, clock: Clock) -> None:
    """Nothing waits in it; it would not be looked at until it had grown beyond what it had."""
    watch.reached("a.b", (5, 0))
    watch.saw({"a.b": (4, 0)}, clock.now)
    (waiting,) = watch.waiting(["a.b"], ["a.b"])
    due = due_at([waiting], Costs())
    assert due is not None
    assert due < clock.now
    assert choose([waiting], Costs(), clock.now).tables == ("a.b",)
    watch.saw({"a.b": (5, 0)}, clock.now)
    assert watch.waiting(["a.b"], ["a.b"]) == []


def test_records_that_were_there_before_the_service(clock: Clock) -> None:
    watch = Watch(clock)
    watch.follow(_TABLE)
    watch.saw({"a.b": (5,)}, clock.now)
    # Nobody knows how old they are: no promise is called broken.
    assert watch.judge() == []
    ((table, places),) = watch.vague()
    assert (table, places) == (_TABLE, {0: (0, 5)})
    watch.told("a.b", 900.0)
    (broken,) = watch.judge()
    assert (broken.cause, broken.lag) == ("starting", 100.0)


def test_where_a_table_goes_on(clock: Clock) -> None:
    stamp = Stamp(
        pipeline=TIERING,
        epoch=1,
        round=2,
        token="t",
        source="kafka:K",
        positions={"a.b": Position(id="T", next=(4, 5))},
    )
    table = replace(_TABLE, properties={stamp_key(TIERING): Mirror(7, stamp).encode()})
    assert tiered(table) == (4, 5)
    assert tiered(_TABLE) == ()
    # The log is another one.
    assert tiered(replace(table, binding=Binding(topic="a.b", topic_id="U", source="", brokers=""))) == ()
    watch = Watch(clock)
    watch.follow(table)
    watch.saw({"a.b": (4, 8)}, clock.now)
    assert watch.report()[0].backlog == 3
    assert watch.has("a.b", (4, 5))
    assert not watch.has("a.b", (4, 6))
    # Its writer knows better: it was made again, or rolled back.
    watch.claimed("a.b", (0, 0))
    watch.saw({"a.b": (4, 8)}, clock.now)
    assert watch.report()[0].backlog == 12
    watch.claimed("a.b", (4, 8))
    assert watch.report()[0].backlog == 0
    watch.forget("a.b")
    assert watch.report() == ()
