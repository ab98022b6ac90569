"""Until when the snapshot of a history is kept, and with it the log behind it.

Tiering removes nothing of a log that lies behind a tagged snapshot. Who has taken the last row of a history
is behind the log by as long as that took: without the tag, what comes next could go before it is read. So the
tag stays until the pipeline has read what the log had only a moment ago.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from itertools import zip_longest
from typing import TYPE_CHECKING

from frazil.core.errors import FrazilError
from frazil.core.stamp import Position
from frazil.stream.bootstrap.place import pending

if TYPE_CHECKING:
    from frazil.stream.bootstrap.table import HistoryTable
    from frazil.stream.kafka.log import LogView, Offsets

#: A round may have been planned just before somebody asked where the log ends: what it reaches is then what
#: the log had when that was asked the time before.
_REMEMBERED = 2


class Hold:
    """Of one pipeline. For one thread at a time."""

    def __init__(self, table: HistoryTable, look: Callable[[], LogView]) -> None:
        self._table = table
        self._look = look
        #: Where the log ended the last times that it was asked, the oldest first.
        self._ends: deque[Offsets] = deque(maxlen=_REMEMBERED)
        self._over = False

    def settle(self, positions: Mapping[str, Position]) -> None:
        """Call it when these are in the table: what was needed until now need not be kept, if that is all."""
        if not self._over and pending(positions) is None and self._caught_up(positions):
            self._over = self._table.release()

    def _caught_up(self, positions: Mapping[str, Position]) -> bool:
        if not self._ends or not _reached(self._ends[0], positions):
            try:
                self._ends.append(self._look().ends)
            except FrazilError:
                # Who reads the log next meets it, too. Until then nobody knows, and the tag stays.
                return False
        return _reached(self._ends[0], positions)


def _reached(ends: Offsets, positions: Mapping[str, Position]) -> bool:
    return all(
        following >= end
        for topic, several in ends.items()
        for following, end in zip_longest(
            positions[topic].next if topic in positions else (), several, fillvalue=0
        )
    )
