"""What is drawn on a terminal."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console
from tests.stream.observe.story import claimed, committed, started

from frazil.stream.events import RoundRetried, Stopped
from frazil.stream.observe import Board, Terminal, terminal


def _drawn(board: Board, width: int = 120) -> str:
    console = Console(file=io.StringIO(), width=width, force_terminal=False)
    console.print(Terminal(board, console, headline="local[2]", wall=lambda: 5090.0).picture())
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def _board() -> Board:
    board = Board(["orders", "clicks"], wall=lambda: 5000.0)
    for event in (claimed(), committed(written=1_234_567), started(round=2, offsets=5000, lag=1)):
        board.notify(event)
    return board


def test_one_row_for_each_pipeline() -> None:
    lines = _drawn(_board()).splitlines()
    assert lines[0] == "local[2]"
    (orders,) = [line for line in lines if line.startswith("orders")]
    assert re.split(r"\s{2,}", orders.strip())[:3] == ["orders", "round 2", "1,234,567"]
    assert orders.split()[-6:] == ["5,001", "1m", "30s", "ago", "2.5s", "2"]
    (clicks,) = [line for line in lines if line.startswith("clicks")]
    assert clicks.split()[:3] == ["clicks", "starting", "0"]


def test_a_narrow_terminal_shows_what_matters_most() -> None:
    drawn = _drawn(_board(), width=72)
    assert max(map(len, drawn.splitlines())) <= 72
    assert "1,234,567" in drawn
    assert "files" not in drawn
    assert "bad" in drawn, "that records are bad is told nowhere else"


def test_a_very_narrow_terminal_cuts_no_number() -> None:
    drawn = _drawn(_board(), width=44)
    assert max(map(len, drawn.splitlines())) <= 44
    (orders,) = [line for line in drawn.splitlines() if line.startswith("orders")]
    assert orders.split() == ["orders", "round", "2", "1,234,567", "5,001"]


def test_errors_stand_below_the_rows() -> None:
    board = _board()
    board.notify(RoundRetried("clicks", "the store\ndid not answer", 1, 2.0))
    board.notify(Stopped("orders", "a record cannot be decoded [topic orders]"))
    drawn = _drawn(board)
    table, _, below = drawn.partition("clicks: the store | did not answer")
    assert "failed" in table
    assert "orders: a record cannot be decoded [topic orders]" in table + below


def test_finished_rounds_do_not_scroll(monkeypatch: pytest.MonkeyPatch) -> None:
    """Redrawn in place: the picture is left behind once, however many rounds there were."""
    # What is drawn because time passes is not counted: that may be much where the machine is busy.
    monkeypatch.setattr(terminal, "_REDRAWS_PER_SECOND", 0.001)
    console = Console(file=io.StringIO(), width=120, height=20, force_terminal=True, color_system=None)
    board = _board()
    with Terminal(board, console):
        for _ in range(50):
            board.notify(committed())
    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue()
    assert shown.count("rows/s") <= 3
    assert shown.endswith("\x1b[?25h")
