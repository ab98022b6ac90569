"""How far a history was taken: a position of the stamp beside those of the topics.

Rows of the pinned snapshot are numbered: its data files in a fixed order, and in each all rows that it holds,
deleted ones among them. So a history is a log of one partition that ends, and rounds, slices and batches of
stateful queries treat it as one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from frazil.core.errors import InvalidInput
from frazil.core.stamp import Position
from frazil.stream.source import Slice

#: No topic can have it in its name.
_SUFFIX = "/history"


def history_topic(table: str) -> str:
    """What stands where records have their topic."""
    return f"{table}{_SUFFIX}"


def is_history(topic: str) -> bool:
    return topic.endswith(_SUFFIX)


@dataclass(frozen=True)
class Place:
    """A pinned snapshot, and how many of its rows were taken."""

    table: str
    uuid: str
    snapshot: int
    #: Rows of its files.
    total: int
    #: The column, by its id, whose lowest values order the files; 0: they are in the order of their paths.
    ordered_by: int = 0
    taken: int = 0

    @property
    def topic(self) -> str:
        return history_topic(self.table)

    @property
    def done(self) -> bool:
        return not self.left

    @property
    def left(self) -> int:
        """Rows that are still to be taken."""
        return max(0, self.total - self.taken)

    def position(self) -> Position:
        """All but the number is its identity, so that whoever compares places compares the same history."""
        return Position(id=f"{self.uuid}/{self.snapshot}/{self.total}/{self.ordered_by}", next=(self.taken,))

    @classmethod
    def of(cls, topic: str, position: Position) -> Place:
        try:
            uuid, *numbers = position.id.split("/")
            snapshot, total, ordered_by = map(int, numbers)
            (taken,) = position.next
        except ValueError:
            raise InvalidInput(f"a damaged stamp: {topic} is at {position.id} {position.next}") from None
        return cls(topic.removesuffix(_SUFFIX), uuid, snapshot, total, ordered_by, taken)

    def next(self, budget: int, cuts: Sequence[int] | None = None) -> Slice:
        """What a round takes of it. `cuts`: the only places where one may end, the last being the end."""
        end = min(self.total, self.taken + max(1, budget))
        if cuts is not None:
            within = bisect_right(cuts, end)
            end = cuts[within - 1] if within and cuts[within - 1] > self.taken else cuts[within]
        return Slice(self.topic, 0, self.taken, end)


def history_of(positions: Mapping[str, Position]) -> Place | None:
    """None: the pipeline did not begin with one."""
    return next((Place.of(name, at) for name, at in positions.items() if is_history(name)), None)


def pending(positions: Mapping[str, Position]) -> Place | None:
    """The history, if rows of it are still to be taken."""
    found = history_of(positions)
    return None if found is None or found.done else found


def of_log(positions: Mapping[str, Position]) -> dict[str, Position]:
    """Without the history."""
    return {name: at for name, at in positions.items() if not is_history(name)}
