"""How far a table was read, and the round that goes on from there."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from frazil.core.stamp import Position
from frazil.lake.history import Rewritten, TableHistory, TableSnapshot
from frazil.stream.source import Slice


@dataclass(frozen=True)
class Place:
    """As numbers in a stamp `(read,)`, or `(read, taken, current)` in the middle of a snapshot."""

    #: The last snapshot of which everything was taken; 0: none.
    read: int
    #: Files taken of `current`.
    taken: int = 0
    #: If nothing was read before it, all files of the table are taken, else those that it added.
    current: int = 0

    @classmethod
    def of(cls, position: Position) -> Place:
        return cls(*position.next)

    def numbers(self) -> tuple[int, ...]:
        return (self.read, self.taken, self.current) if self.current else (self.read,)

    @property
    def beginning(self) -> bool:
        """Whether what was in the table when the pipeline began is not all taken."""
        return not self.read and bool(self.current)


@dataclass(frozen=True)
class Step:
    """A snapshot that is to be read: what it added, or the table as a whole at it."""

    snapshot: TableSnapshot
    whole: bool = False

    @property
    def records(self) -> int:
        return self.snapshot.total if self.whole else self.snapshot.added


def steps_from(history: TableHistory, place: Place) -> list[Step]:
    """What is to be read, oldest first. Rewritten: the history is another one."""
    if place.beginning:
        whole = history.snapshot(place.current)
        following = history.following(place.current)
        if whole is None:
            raise Rewritten(f"snapshot {place.current} expired before all of it was read")
        return [Step(whole, whole=True), *map(Step, following)]
    found = history.following(place.read)
    if place.current and (not found or found[0].id != place.current):
        raise Rewritten(
            f"a part of snapshot {place.current} was read, and it is not in main's history any more: the "
            "table was rolled back"
        )
    return [Step(snapshot) for snapshot in found]


@dataclass
class Filling:
    """A round while it is filled."""

    budget: int
    place: Place
    slices: list[Slice] = field(default_factory=list)
    records: int = 0
    #: Of the snapshot that is taken in part.
    rest: int = 0

    def take(self, snapshot: TableSnapshot, files: list[Slice]) -> bool:
        """Whether all of it was. One that fits into a round is not divided; of a larger one, what fits.

        The slices are whole files.
        """
        left = files[self.place.taken :]
        self.rest = sum(map(len, left))
        if self.records and self.records + self.rest > self.budget:
            return False
        for number, file in enumerate(left):
            if self.records and self.records + len(file) > self.budget:
                self.place = Place(self.place.read, self.place.taken + number, snapshot.id)
                return False
            self._add(file)
        self.skip(snapshot)
        return True

    def take_part(self, snapshot: TableSnapshot, whole: Slice) -> bool:
        """The same of one that can be divided at every offset: those are what was taken of it."""
        left = replace(whole, start=self.place.taken)
        self.rest = len(left)
        if self.records and self.records + self.rest > self.budget:
            return False
        if self.rest > self.budget:
            self._add(replace(left, end=left.start + self.budget))
            self.place = Place(self.place.read, left.start + self.budget, snapshot.id)
            return False
        self._add(left)
        self.skip(snapshot)
        return True

    def _add(self, part: Slice) -> None:
        self.slices.append(part)
        self.records += len(part)
        self.rest -= len(part)

    def skip(self, snapshot: TableSnapshot) -> None:
        """Nothing of it is to be taken, or nothing more."""
        self.place = Place(snapshot.id)
        self.rest = 0
