"""Live progress on a terminal: one row for each pipeline, redrawn in place."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from frazil.stream.observe.board import Board, Phase, Row
from frazil.stream.observe.lines import one_line
from frazil.stream.observe.texts import ago, count, seconds

_STYLES = {
    Phase.STARTING: "dim",
    Phase.READING: "cyan",
    Phase.WAITING: "green",
    Phase.CAUGHT_UP: "green",
    Phase.RETRYING: "yellow",
    Phase.STOPPED: "dim",
    Phase.FAILED: "bold red",
}
#: By column, the width of the terminal from which it is shown. Of 80 columns, bad records need theirs more
#: than the speed does: nothing else tells of them.
_COLUMNS = {"rows": 0, "bad": 64, "rows/s": 84, "lag": 0, "last commit": 64, "round": 96, "files": 96}
_REDRAWS_PER_SECOND = 4


class Terminal:
    """Draws the board while its block runs, and leaves the last picture behind."""

    def __init__(
        self,
        board: Board,
        console: Console,
        *,
        headline: str = "",
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._board = board
        self._console = console
        self._wall = wall
        #: A line above the rows, changed when somebody asks to stop.
        self.headline = headline
        self._live = Live(
            get_renderable=self.picture,
            console=console,
            refresh_per_second=_REDRAWS_PER_SECOND,
            vertical_overflow="ellipsis",
        )

    def __enter__(self) -> Self:
        self._live.start(refresh=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give the terminal back as it was."""
        self._live.stop()

    def picture(self) -> RenderableType:
        rows = self._board.rows()
        troubles = [self._trouble(row) for row in rows if row.trouble is not None]
        head = [Text(self.headline, style="dim")] if self.headline else []
        return Group(*head, self._table(rows), *troubles)

    def _table(self, rows: list[Row]) -> Table:
        shown = [name for name, width in _COLUMNS.items() if self._console.width >= width]
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
        table.add_column("pipeline", overflow="ellipsis", no_wrap=True)
        table.add_column("state", no_wrap=True)
        for name in shown:
            table.add_column(name, justify="right", no_wrap=True)
        for row in rows:
            table.add_row(*self._cells(row, shown))
        return table

    def _cells(self, row: Row, shown: list[str]) -> list[Text]:
        state = row.phase.value
        if row.phase is Phase.READING and row.round is not None:
            state = f"round {row.round}"
        texts = {
            "rows": count(row.written),
            "bad": count(row.bad),
            "rows/s": count(self._board.rows_per_second(row.pipeline)),
            "lag": count(row.lag),
            "last commit": ago(row.committed_at, self._wall()),
            "round": seconds(row.round_seconds),
            "files": count(row.files),
        }
        cells = [Text(texts[name]) for name in shown]
        return [Text(row.pipeline), Text(state, style=_STYLES[row.phase]), *cells]

    def _trouble(self, row: Row) -> Text:
        style = _STYLES[row.phase] if row.phase is Phase.FAILED else "yellow"
        text = Text(f"{row.pipeline}: ", style=style)
        return text.append(one_line(row.trouble or ""), style="" if row.phase is Phase.FAILED else "dim")
