"""How old records are, from looks at the ends of their topic."""

from __future__ import annotations

import random
from bisect import bisect_right

from frazil.hot.tiering.arrivals import Arrivals


def test_a_record_came_after_the_look_before() -> None:
    seen = Arrivals((10, 0))
    seen.saw((10, 0), 100.0)
    assert seen.oldest() is None
    assert seen.backlog == 0
    seen.saw((12, 0), 101.0)
    seen.saw((15, 3), 102.0)
    assert seen.oldest() == 100.0
    assert seen.backlog == 8
    seen.reached((12, 0))
    assert seen.oldest() == 101.0
    seen.reached((15, 0))
    assert seen.oldest() == 101.0
    seen.reached((15, 3))
    assert seen.oldest() is None
    assert seen.vague() == {}


def test_what_was_there_before_the_first_look_has_to_be_asked() -> None:
    seen = Arrivals((5, 7))
    seen.saw((9, 7), 1000.0)
    assert seen.vague() == {0: (5, 9)}
    assert seen.oldest() == 0.0
    seen.told(400.0)
    assert seen.oldest() == 400.0
    assert seen.vague() == {}
    # Further on in the same part: it is asked again.
    seen.reached((7, 7))
    assert seen.vague() == {0: (7, 9)}
    seen.told(500.0)
    seen.saw((9, 8), 1001.0)
    assert seen.oldest() == 500.0
    seen.reached((9, 7))
    assert seen.oldest() == 1000.0
    assert seen.vague() == {}


def test_a_log_that_ends_before_what_is_in_iceberg() -> None:
    seen, short = Arrivals((10, 0)), []
    # It may only seem so: that look began before a commit that it came after.
    for ends in ((10, 0), (9, 3), (10, 3)):
        seen.saw(ends, 100.0)
        short.append(seen.short)
    assert short == [False, True, False]


def test_new_partitions_and_positions_ahead_of_the_last_look() -> None:
    seen = Arrivals(())
    seen.saw((0,), 1.0)
    seen.reached((4,))
    seen.saw((3, 1), 2.0)
    assert (seen.backlog, seen.oldest()) == (1, 1.0)
    seen.saw((6, 1), 3.0)
    assert seen.backlog == 3


def test_a_table_that_rests_for_long_needs_no_more_memory() -> None:
    seen = Arrivals((0,))
    seen.saw((0,), 0.0)
    for number in range(1, 10_000):
        seen.saw((number,), float(number))
    assert seen.oldest() == 0.0
    (partition,) = seen._partitions
    assert len(partition.parts) <= 512
    seen.reached((9_000,))
    found = seen.oldest()
    assert found is not None
    assert 9_000 - 64 <= found <= 9_000


def test_against_the_true_times() -> None:
    """Never younger than it is, and older by no more than the time between two looks."""
    chance = random.Random(3)
    for _ in range(200):
        appended: list[float] = []
        seen, now, reached = Arrivals((0,)), 10.0, 0
        seen.saw((0,), now)
        looks = [now]
        for _ in range(40):
            for _ in range(chance.randrange(4)):
                now += chance.random()
                appended.append(now)
            now += chance.random()
            seen.saw((len(appended),), now)
            looks.append(now)
            if chance.random() < 0.3 and appended:
                reached = chance.randrange(reached, len(appended) + 1)
                seen.reached((reached,))
            found = seen.oldest()
            assert seen.backlog == len(appended) - reached
            if reached == len(appended):
                assert found is None
                continue
            assert found is not None
            true = appended[reached]
            assert found <= true
            assert found == looks[bisect_right(looks, true) - 1]
