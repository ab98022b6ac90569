"""When the next round has to begin, and which tables take part: earliest deadline first. Pure functions.

A table's deadline is when its oldest record that is not in Iceberg becomes older than the table's freshness.
Tables of a round are committed one after the other, in the order of their deadlines. So the k-th of them is
done when the job and k commits are, and a round has to begin when for one of them the time that is left is no
longer than that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from frazil.stream.rounds import share

#: What was measured can be worse the next time: so many times as long, and this much longer.
_MARGIN, _SPARE_SECONDS = 1.5, 0.5
#: Weight of a new measurement, when it is better and when it is worse than what is known.
_BETTER, _WORSE = 0.3, 0.7
#: A table whose freshness is used up by this share takes part in a round that comes anyway: one job for many
#: is cheaper than many jobs.
_USED = 0.5


@dataclass(frozen=True)
class Candidate:
    """A table with records that are not in Iceberg. Times are seconds since 1970."""

    name: str
    #: Offsets.
    backlog: int
    #: When the oldest was appended, or earlier.
    oldest: float
    #: Seconds.
    freshness: float
    #: When it last took part in a round.
    served: float = 0.0
    #: It has to be claimed first.
    new: bool = False

    @property
    def deadline(self) -> float:
        return self.oldest + self.freshness


@dataclass(frozen=True)
class Costs:
    """What rounds take, as measured; the defaults are those of a slow machine that just started."""

    #: Seconds of a job that reads little, of one commit, and of taking over a table.
    job: float = 2.0
    commit: float = 0.3
    claim: float = 0.5
    #: Records a second.
    rate: float = 2_000.0

    def seconds(self, tables: int, records: int, new: int = 0) -> float:
        """Of a round, with a margin."""
        bare = self.job + records / self.rate + tables * self.commit + new * self.claim
        return bare * _MARGIN + _SPARE_SECONDS

    def after(self, measured: Measured) -> Costs:
        """What is known after another round."""
        large = measured.records > self.rate * self.job
        job, rate = self.job, self.rate
        if large:
            # The fixed part of it is small: what is left tells how fast records go.
            reading = max(measured.job - self.job, measured.job / 2, 0.001)
            rate = 1 / _mixed(1 / self.rate, reading / measured.records)
        else:
            job = _mixed(self.job, max(0.0, measured.job - measured.records / self.rate))
        commit, claim = self.commit, self.claim
        if measured.tables:
            commit = _mixed(self.commit, measured.commits / measured.tables)
        if measured.new:
            claim = _mixed(self.claim, measured.claims / measured.new)
        return Costs(job, commit, claim, rate)


@dataclass(frozen=True)
class Measured:
    """One round: seconds of its parts, and of how much."""

    job: float
    commits: float
    tables: int
    records: int
    claims: float = 0.0
    new: int = 0


@dataclass(frozen=True)
class Bounds:
    """What one round may take."""

    tables: int = 64
    records: int = 4_000_000
    #: The freshness of the table that wants to be freshest, whether something of it waits or not: a round
    #: that just began must not be what makes it late.
    strictest: float = 30.0


@dataclass(frozen=True)
class Round:
    """Who takes part, in the order of the commits, and how many offsets of each."""

    tables: tuple[str, ...] = ()
    records: Mapping[str, int] = field(default_factory=dict)


def due_at(waiting: Iterable[Candidate], costs: Costs, *, bounds: Bounds | None = None) -> float | None:
    """When the next round has to begin; None: nothing waits."""
    ordered = sorted(waiting, key=_by_deadline)
    if not ordered:
        return None
    longest = _longest(costs, bounds or Bounds())
    starts, records, new = [], 0, 0
    for number, one in enumerate(ordered, 1):
        records, new = records + one.backlog, new + one.new
        needed = min(costs.seconds(number, records, new), longest)
        starts.append(one.deadline - needed)
    return min(starts)


def choose(waiting: Sequence[Candidate], costs: Costs, now: float, *, bounds: Bounds | None = None) -> Round:
    """The tables of a round that begins now. Never none, if anything waits.

    Those that can still be in time and those that are late take turns, so that neither holds up the other:
    with more work than can be done in time, every table still gets on.
    """
    bounds = bounds or Bounds()
    late = sorted((one for one in waiting if one.deadline <= now), key=lambda one: (one.served, one.name))
    early = sorted((one for one in waiting if one.deadline > now), key=_by_deadline)
    early = _soon(early, costs, now, bounds)
    longest = _longest(costs, bounds)
    taken: list[Candidate] = []
    for one in _in_turns(early, late):
        trial = [*taken, one]
        if taken and (len(trial) > bounds.tables or _bare(trial, costs) > longest):
            break
        taken = trial
    records = share({(one.name, 0): one.backlog for one in taken}, _budget(taken, costs, longest, bounds))
    return Round(
        tuple(one.name for one in sorted(taken, key=_by_deadline)),
        {name: count for (name, _), count in records.items()},
    )


def _in_turns(early: Sequence[Candidate], late: Sequence[Candidate]) -> list[Candidate]:
    """First whoever waits longer for a round: where there is room for one table alone, that is fair, too."""
    first, second = early, late
    if early and late and late[0].served < early[0].served:
        first, second = late, early
    return [one for pair in zip_longest(first, second) for one in pair if one is not None]


def _soon(ordered: list[Candidate], costs: Costs, now: float, bounds: Bounds) -> list[Candidate]:
    """Those that would be late if they waited for the round after this one, and those that a round which
    comes anyway may well take along."""
    if not ordered:
        return []
    longest = _longest(costs, bounds)
    horizon = now + 2 * min(costs.seconds(len(ordered), sum(one.backlog for one in ordered)), longest)
    near = [
        one for one in ordered if one.deadline <= horizon or one.deadline - now <= one.freshness * (1 - _USED)
    ]
    return near or ordered[:1]


def _longest(costs: Costs, bounds: Bounds) -> float:
    """Seconds that a round may last; with a second of reading for one table, it is as short as can be."""
    return max(bounds.strictest / 2, costs.seconds(1, min(bounds.records, int(costs.rate)), 1))


def _bare(taken: Sequence[Candidate], costs: Costs) -> float:
    """A round of them with hardly any records: those are shared out among whoever takes part."""
    return costs.seconds(len(taken), 0, sum(one.new for one in taken))


def _budget(taken: Sequence[Candidate], costs: Costs, longest: float, bounds: Bounds) -> int:
    left = max(longest - _bare(taken, costs), costs.job / 2) / _MARGIN
    return max(len(taken), min(bounds.records, int(left * costs.rate)))


def _by_deadline(one: Candidate) -> tuple[float, str]:
    return one.deadline, one.name


def _mixed(known: float, found: float) -> float:
    """Bad news counts for more."""
    weight = _WORSE if found > known else _BETTER
    return known + weight * (found - known)
