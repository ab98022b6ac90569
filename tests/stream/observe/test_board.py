"""The picture of each pipeline, put together from its events."""

from __future__ import annotations

import pytest
from tests.stream.observe.story import Clock, claimed, committed, started

from frazil.stream.events import CaughtUp, RoundRetried, Stopped
from frazil.stream.observe import Board, Phase


def test_a_pipeline_from_its_claim_to_its_end() -> None:
    clock = Clock()
    board = Board(["orders", "clicks"], clock=clock, wall=lambda: 5000.0)
    assert [row.phase for row in board.rows()] == [Phase.STARTING, Phase.STARTING]
    board.notify(claimed())
    assert (board.row("orders").table, board.row("orders").epoch) == ("shop.orders", 3)
    board.notify(started())
    row = board.row("orders")
    assert (row.phase, row.round, row.lag) == (Phase.READING, 1, 140)
    board.notify(committed())
    board.notify(committed(written=10, lag=0))
    row = board.row("orders")
    assert (row.read, row.written, row.bytes, row.files, row.commits) == (200, 100, 24_690, 4, 2)
    assert (row.lag, row.round_seconds, row.committed_at) == (0, 2.5, 5000.0)
    board.notify(Stopped("orders"))
    assert board.row("orders").phase is Phase.STOPPED
    assert board.failures() == {}
    assert board.row("clicks").phase is Phase.STARTING


def test_a_reason_is_shown_until_the_next_commit() -> None:
    board = Board(["orders"])
    board.notify(claimed())
    board.notify(RoundRetried("orders", "the store said no", attempt=1, wait_seconds=1))
    row = board.row("orders")
    assert (row.phase, row.trouble, row.retries) == (Phase.RETRYING, "the store said no", 1)
    board.notify(started())
    assert board.row("orders").trouble == "the store said no"
    board.notify(committed())
    assert board.row("orders").trouble is None
    board.notify(Stopped("orders", "a bad record"))
    assert board.failures() == {"orders": "a bad record"}


def test_caught_up_means_no_lag() -> None:
    board = Board(["orders"])
    board.notify(claimed())
    board.notify(started())
    board.notify(CaughtUp("orders"))
    assert (board.row("orders").phase, board.row("orders").lag) == (Phase.CAUGHT_UP, 0)


def test_speed_is_that_of_the_commits_of_the_last_minute() -> None:
    clock = Clock()
    board = Board(["orders"], clock=clock)
    assert board.rows_per_second("orders") == 0
    clock.now += 500
    board.notify(claimed())
    clock.now += 10
    board.notify(committed(written=1000))
    assert board.rows_per_second("orders") == pytest.approx(100)
    clock.now += 30
    board.notify(committed(written=600))
    assert board.rows_per_second("orders") == pytest.approx(40)
    for _ in range(3):
        clock.now += 30
        board.notify(committed(written=300))
    # The first commits are too old to count.
    assert board.rows_per_second("orders") == pytest.approx(10)
    clock.now += 61
    assert board.rows_per_second("orders") == 0


def test_rounds_longer_than_the_window_have_a_speed() -> None:
    clock = Clock()
    board = Board(["orders"], clock=clock)
    board.notify(claimed())
    for _ in range(3):
        clock.now += 200
        board.notify(committed(written=1000))
        assert board.rows_per_second("orders") == pytest.approx(5)
