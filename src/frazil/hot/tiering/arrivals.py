"""When the records of a topic came, by looking at its ends alone.

At each look the end of a partition is remembered with the time of the look before: what lies between two ends
was appended after the earlier look. So the age of a record is known, never too low and too high by no more
than the time between two looks, without reading it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

#: Looks that are remembered for each partition; beyond that, two become one.
_KEPT = 512
#: Looks further apart than this many seconds tell little: the record itself is asked.
_VAGUE_SECONDS = 2.0


@dataclass(frozen=True)
class _Part:
    """Records up to `end`, appended at or after `since`, and before `until`."""

    end: int
    since: float
    until: float


@dataclass
class _Partition:
    next: int
    end: int
    parts: list[_Part] = field(default_factory=list)
    #: Where it was in Iceberg when the oldest record was asked.
    asked: int | None = None
    #: At the last look it ended before that.
    short: bool = False

    def saw(self, end: int, since: float, at: float) -> None:
        self.short = end < self.next
        if end > self.end:
            self.parts.append(_Part(end, since, at))
            self.end = end
        if len(self.parts) > _KEPT:
            pairs = zip(self.parts[::2], self.parts[1::2], strict=False)
            odd = self.parts[-1:] if len(self.parts) % 2 else []
            self.parts = [_Part(late.end, early.since, late.until) for early, late in pairs] + odd

    def reached(self, following: int) -> None:
        self.next, self.end = max(self.next, following), max(self.end, following)
        self.parts = [part for part in self.parts if part.end > self.next]

    def told(self, since: float) -> None:
        self.asked, first = self.next, self.parts[0]
        self.parts[0] = _Part(first.end, max(first.since, since), first.until)

    @property
    def vague(self) -> bool:
        return (
            bool(self.parts)
            and self.asked != self.next
            and self.parts[0].until - self.parts[0].since > _VAGUE_SECONDS
        )


class Arrivals:
    """Of one topic. For one thread at a time."""

    def __init__(self, following: Sequence[int]) -> None:
        """`following`: up to where it is in Iceberg."""
        self._partitions = [_Partition(one, one) for one in following]
        # What is there at the first look may be of any age.
        self._looked = 0.0

    def saw(self, ends: Sequence[int], at: float) -> None:
        """The ends of its partitions at a moment."""
        self._grow(len(ends))
        for partition, end in zip(self._partitions, ends, strict=False):
            partition.saw(end, self._looked, at)
        self._looked = at

    def reached(self, following: Sequence[int]) -> None:
        """So far it is in Iceberg."""
        self._grow(len(following))
        for partition, one in zip(self._partitions, following, strict=False):
            partition.reached(one)

    def told(self, oldest: float) -> None:
        """None of the vague ones came before this moment: their first records were asked."""
        for one in self._partitions:
            if one.vague:
                one.told(oldest)

    def vague(self) -> dict[int, tuple[int, int]]:
        """Partitions whose oldest record had better be asked, as the looks tell too little: next and end."""
        return {number: (one.next, one.end) for number, one in enumerate(self._partitions) if one.vague}

    def before(self, following: Sequence[int]) -> bool:
        """Whether these are before where it was said to be in Iceberg."""
        known = (one.next for one in self._partitions)
        return any(one < old for one, old in zip_longest(following, known, fillvalue=0))

    def has(self, ends: Sequence[int]) -> bool:
        """Whether all before these is in Iceberg."""
        self._grow(len(ends))
        return all(one.next >= end for one, end in zip(self._partitions, ends, strict=False))

    @property
    def short(self) -> bool:
        """Whether it seems to have lost records: it ended before what is in Iceberg. A look that began before
        a commit and came after it seems so, too."""
        return any(one.short for one in self._partitions)

    @property
    def backlog(self) -> int:
        """Offsets that are not in Iceberg."""
        return sum(one.end - one.next for one in self._partitions)

    def oldest(self) -> float | None:
        """When the oldest record that is not in Iceberg came, or a little earlier; None: there is none."""
        return min((one.parts[0].since for one in self._partitions if one.parts), default=None)

    def _grow(self, count: int) -> None:
        self._partitions += [_Partition(0, 0) for _ in range(count - len(self._partitions))]
