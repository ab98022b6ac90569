from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.core.errors import NotFound, RoundFailed, SourceChanged
from frazil.core.stamp import Position, Stamp
from frazil.stream.config.model import Limits
from frazil.stream.kafka.log import LogView, Topic
from frazil.stream.rounds import RoundPlan, cut, plan_round, reached, share
from frazil.stream.source import Slice

LIMITS = Limits(records_per_round=1000, records_per_task=100)


def view(**topics: Sequence[tuple[int, int]]) -> LogView:
    """Topics by name: beginning and end of each partition."""
    return LogView(
        source="kafka:c",
        topics={name: Topic(name, f"id-{name}", len(bounds)) for name, bounds in topics.items()},
        missing=(),
        beginnings={name: tuple(first for first, _ in bounds) for name, bounds in topics.items()},
        ends={name: tuple(end for _, end in bounds) for name, bounds in topics.items()},
    )


def stamp(**following: tuple[int, ...]) -> Stamp:
    positions = {name: Position(id=f"id-{name}", next=offsets) for name, offsets in following.items()}
    return Stamp(pipeline="orders", epoch=1, round=1, token="t", source="kafka:c", positions=positions)


@dataclass
class Views:
    """A log that answers with one view after the other, then always with the last."""

    answers: list[LogView] = field(default_factory=list)
    looks: int = 0

    def look(self) -> LogView:
        self.looks += 1
        return self.answers[min(self.looks, len(self.answers)) - 1]

    def topics(self) -> dict[str, Topic]:
        return dict(self.look().topics)

    def require(self, missing: Iterable[str]) -> None:
        if list(missing):
            raise NotFound("no topic")


def planned(before: Stamp, now: LogView, limits: Limits = LIMITS, parallelism: int = 2) -> RoundPlan:
    return plan_round(before, Views([now]), limits, parallelism, confirm_seconds=0)


def refused(before: Stamp, now: LogView) -> str:
    with pytest.raises(SourceChanged) as caught:
        planned(before, now)
    return caught.value.message


def test_a_round_takes_what_is_there() -> None:
    plan = planned(stamp(a=(5, 0)), view(a=[(0, 10), (0, 0)]))
    assert plan.tasks == ((Slice("a", 0, 5, 10),),)
    assert plan.positions == {"a": Position(id="id-a", next=(10, 0))}
    assert (plan.offsets, plan.lag, plan.lags) == (5, 0, {"a": (0, 0)})


def test_nothing_to_read_is_no_task() -> None:
    plan = planned(stamp(a=(10,)), view(a=[(0, 10)]))
    assert plan.tasks == ()
    assert plan.offsets == plan.lag == 0


def test_a_large_backlog_is_read_in_bounded_rounds_by_many_tasks() -> None:
    plan = planned(stamp(a=(0, 0)), view(a=[(0, 100), (0, 5000)]), parallelism=4)
    assert plan.offsets == 1000
    assert plan.tasks == (
        (Slice("a", 0, 0, 100), Slice("a", 1, 0, 150)),
        (Slice("a", 1, 150, 400),),
        (Slice("a", 1, 400, 650),),
        (Slice("a", 1, 650, 900),),
    )
    assert plan.lags == {"a": (0, 4100)}
    assert plan.lag == 4100


def test_small_rounds_make_few_tasks() -> None:
    assert len(planned(stamp(a=(0,)), view(a=[(0, 100)]), parallelism=8).tasks) == 1
    assert len(planned(stamp(a=(0,)), view(a=[(0, 101)]), parallelism=8).tasks) == 2
    assert len(planned(stamp(a=(0,)), view(a=[(0, 1000)]), parallelism=8).tasks) == 8


def test_new_partitions_and_topics_start_at_0() -> None:
    plan = planned(stamp(a=(5,)), view(a=[(0, 5), (0, 2)], b=[(0, 3)]))
    assert plan.tasks == ((Slice("a", 1, 0, 2), Slice("b", 0, 0, 3)),)
    assert plan.positions == {"a": Position(id="id-a", next=(5, 2)), "b": Position(id="id-b", next=(3,))}


def test_topics_no_longer_selected_keep_their_position() -> None:
    plan = planned(stamp(a=(5,), old=(7,)), view(a=[(0, 6)]))
    assert plan.positions["old"] == Position(id="id-old", next=(7,))
    assert "old" not in plan.lags


def test_another_cluster_is_refused() -> None:
    told = refused(stamp(a=(5,)), replace(view(a=[(0, 9)]), source="kafka:other"))
    assert "kafka:c" in told
    assert "kafka:other" in told
    assert "frazil reset pipelines.yaml orders --to-offsets earliest" in told


def test_a_topic_made_again_is_refused() -> None:
    now = view(a=[(0, 9)])
    told = refused(stamp(a=(5,)), replace(now, topics={"a": Topic("a", "id-new", 1)}))
    assert "id-a" in told
    assert "id-new" in told
    assert "--to-offsets a=earliest" in told


def test_a_topic_that_is_gone_is_refused() -> None:
    told = refused(stamp(a=(5,), b=(1,)), replace(view(b=[(0, 1)]), missing=("a",)))
    assert "the topic a is gone" in told
    assert "frazil reset" not in told


def test_a_name_that_never_was_is_not_a_change() -> None:
    with pytest.raises(NotFound):
        planned(stamp(b=(1,)), replace(view(b=[(0, 1)]), missing=("a",)))


def test_fewer_partitions_are_refused() -> None:
    assert "had 2 partitions and has 1" in refused(stamp(a=(5, 5)), view(a=[(0, 9)]))


def test_removed_records_are_refused() -> None:
    told = refused(stamp(a=(1, 5)), view(a=[(0, 9), (7, 9)]))
    assert "2 offsets of a-1" in told
    assert "--to-offsets a=1:7" in told


def test_records_removed_after_they_were_read_are_fine() -> None:
    assert planned(stamp(a=(5,)), view(a=[(5, 9)])).offsets == 4
    assert planned(stamp(a=(5,)), view(a=[(5, 5)])).offsets == 0


def test_removed_records_of_a_new_partition_are_refused() -> None:
    assert "3 offsets of a-1" in refused(stamp(a=(5,)), view(a=[(0, 9), (3, 9)]))


def test_a_log_that_lost_its_end_is_refused() -> None:
    told = refused(stamp(a=(5,)), view(a=[(0, 4)]))
    assert "read up to 5 and now ends at 4" in told
    assert "--to-offsets a=0:4" in told


@given(st.data())
def test_a_plan_can_end_earlier_in_one_partition(data: st.DataObject) -> None:
    ends = data.draw(st.lists(st.integers(1, 500), min_size=1, max_size=4))
    whole = planned(
        stamp(), view(a=[(0, end) for end in ends]), LIMITS, parallelism=data.draw(st.integers(1, 5))
    )
    partition = data.draw(st.integers(0, len(ends) - 1))
    offset = data.draw(st.integers(0, whole.positions["a"].next[partition] - 1))
    cut_short = whole.before("a", partition, offset)
    wanted = list(whole.positions["a"].next)
    wanted[partition] = offset
    assert cut_short.positions["a"].next == tuple(wanted)
    assert cut_short.offsets + cut_short.lag == whole.offsets + whole.lag
    assert all(len(part) for task in cut_short.tasks for part in task)
    for number, end in enumerate(wanted):
        slices = sorted(part for task in cut_short.tasks for part in task if part.partition == number)
        edges = [0, *(edge for part in slices for edge in (part.start, part.end)), end]
        assert edges[::2] == edges[1::2]


def test_a_bounded_run_ends_when_all_is_in_that_is_still_there() -> None:
    now = planned(stamp(a=(5, 5)), view(a=[(0, 5), (0, 5)]))
    assert reached({"a": (5, 5)}, stamp(a=(5, 5)), now)
    assert reached({"a": (5, 4)}, stamp(a=(5, 9)), now)
    assert not reached({"a": (5, 5)}, stamp(a=(5, 4)), now)
    # A partition of which the stamp knows nothing yet.
    assert not reached({"a": (5, 5)}, stamp(a=(5,)), now)
    assert not reached({"a": (5, 5)}, stamp(), now)
    assert reached({"a": (5, 0)}, stamp(a=(5,)), now)
    # A topic of a pattern that was deleted meanwhile.
    assert reached({"a": (5, 5), "gone": (7,)}, stamp(a=(5, 5)), now)


def test_what_stops_a_pipeline_is_looked_at_twice() -> None:
    log = Views([view(a=[(0, 4)]), view(a=[(0, 9)])])
    assert plan_round(stamp(a=(5,)), log, LIMITS, 2, confirm_seconds=0).offsets == 4
    assert log.looks == 2


backlogs = st.dictionaries(
    st.tuples(st.sampled_from("abc"), st.integers(0, 5)),
    st.one_of(st.integers(0, 20), st.integers(0, 100_000)),
    max_size=12,
)


@given(backlogs, st.integers(1, 50_000))
def test_shares_are_fair(backlog: dict[tuple[str, int], int], budget: int) -> None:
    shares = share(backlog, budget)
    waiting = {key: size for key, size in backlog.items() if size}
    assert shares.keys() == backlog.keys()
    assert sum(shares.values()) == min(sum(waiting.values()), max(budget, len(waiting)))
    assert all(0 <= shares[key] <= size for key, size in backlog.items())
    assert all(shares[key] >= 1 for key in waiting)
    # Whoever does not get all gets as much as anybody, to the rounding.
    cut_short = [shares[key] for key, size in waiting.items() if shares[key] < size]
    if cut_short:
        assert max(shares.values()) - min(cut_short) <= len(waiting)


@given(backlogs, st.integers(0, 1000), st.integers(1, 20))
def test_tasks_cover_the_ranges_evenly(
    backlog: dict[tuple[str, int], int], first: int, parallelism: int
) -> None:
    ranges = [Slice(topic, number, first, first + size) for (topic, number), size in backlog.items() if size]
    total = sum(map(len, ranges))
    tasks = cut(ranges, parallelism)
    assert len(tasks) == min(parallelism, total)
    sizes = [sum(map(len, task)) for task in tasks]
    assert all(len(part) > 0 for task in tasks for part in task)
    assert not sizes or max(sizes) - min(sizes) <= 1
    # Laid side by side the parts are the ranges again: nothing twice, nothing left out.
    joined: list[Slice] = []
    for part in (part for task in tasks for part in task):
        if joined and (joined[-1].topic, joined[-1].partition) == (part.topic, part.partition):
            assert joined[-1].end == part.start
            joined[-1] = replace(joined[-1], end=part.end)
        else:
            joined.append(part)
    assert joined == ranges


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 5000)), max_size=8),
    st.integers(200, 3000),
    st.integers(1, 500),
    st.integers(1, 8),
)
def test_rounds_read_everything_once(
    partitions: list[tuple[int, int]], per_round: int, per_task: int, parallelism: int
) -> None:
    now = view(a=[(first, first + size) for first, size in partitions])
    at = stamp(a=tuple(first for first, _ in partitions))
    limits = Limits(records_per_round=per_round, records_per_task=per_task)
    read: list[Slice] = []
    while (plan := planned(at, now, limits, parallelism)).tasks:
        assert len(plan.tasks) == min(parallelism, -(-plan.offsets // per_task))
        assert plan.offsets == sum(len(part) for task in plan.tasks for part in task)
        assert plan == planned(at, now, limits, parallelism)
        read += (part for task in plan.tasks for part in task)
        at = Stamp(pipeline="orders", epoch=1, round=1, token="t", source="kafka:c", positions=plan.positions)
    assert at.positions["a"].next == now.ends["a"]
    for number, (first, size) in enumerate(partitions):
        parts = sorted(part for part in read if part.partition == number)
        assert [part.end for part in parts[:-1]] == [part.start for part in parts[1:]]
        assert sum(map(len, parts)) == size
        assert not parts or parts[0].start == first


@pytest.mark.parametrize("where", [("a", 0, 9), ("a", 0, 4), ("a", 1, 5), ("b", 0, 5)])
def test_a_round_ends_before_none_but_its_own_records(where: tuple[str, int, int]) -> None:
    """Else the stamp would say that records were read that were not."""
    whole = RoundPlan(((Slice("a", 0, 5, 9),),), {"a": Position(id="x", next=(9, 0))}, 4, {"a": (0, 0)})
    assert whole.before("a", 0, 7).before("a", 0, 6).positions["a"].next == (6, 0)
    with pytest.raises(RoundFailed, match="which was not read"):
        whole.before(*where)
    with pytest.raises(RoundFailed, match="which was not read"):
        whole.before("a", 0, 7).before("a", 0, 7)
