"""Earliest deadline first, with a clock that is made up."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from frazil.hot.tiering.schedule import Bounds, Candidate, Costs, Measured, Round, choose, due_at

_COSTS = Costs(job=1.0, commit=0.1, claim=0.2, rate=50_000.0)


def waiting(
    name: str, oldest: float, freshness: float = 30.0, backlog: int = 10, served: float = 0.0
) -> Candidate:
    return Candidate(name, backlog, oldest, freshness, served)


def test_nothing_waits() -> None:
    assert due_at([], _COSTS) is None
    assert choose([], _COSTS, 100.0) == Round()


def test_a_round_begins_so_early_that_each_table_is_in_time() -> None:
    one = waiting("a", 100.0)
    alone = due_at([one], _COSTS)
    assert alone == pytest.approx(130.0 - _COSTS.seconds(1, 10))
    both = due_at([one, waiting("b", 100.0)], _COSTS)
    assert both is not None
    assert both == pytest.approx(130.0 - _COSTS.seconds(2, 20))
    # One that has time has no say.
    assert due_at([one, waiting("b", 500.0)], _COSTS) == alone


def test_the_first_deadline_is_the_first_commit() -> None:
    tables = [waiting("late", 100.0), waiting("soon", 95.0), waiting("fast", 118.0, 5.0)]
    assert choose(tables, _COSTS, 121.0).tables == ("fast", "soon", "late")


def test_tables_that_have_time_wait_for_a_later_round() -> None:
    tables = [waiting("due", 100.0), waiting("half", 112.0), waiting("fresh", 126.0)]
    chosen = choose(tables, _COSTS, 127.5)
    assert chosen.tables == ("due", "half")
    assert chosen.records == {"due": 10, "half": 10}


def test_a_round_takes_along_whoever_would_be_late_after_it() -> None:
    slow = Costs(job=10.0, commit=1.0, claim=1.0, rate=1000.0)
    tables = [waiting("due", 100.0, 60.0), waiting("next", 120.0, 60.0)]
    assert choose(tables, slow, 145.0, bounds=Bounds(strictest=60.0)).tables == ("due", "next")


def test_a_huge_backlog_gets_a_slice_and_the_small_ones_all_they_have() -> None:
    tables = [waiting("huge", 0.0, backlog=10**9), *(waiting(f"t{n}", 90.0) for n in range(5))]
    chosen = choose(tables, _COSTS, 118.0)
    assert set(chosen.tables) == {"huge", "t0", "t1", "t2", "t3", "t4"}
    assert all(chosen.records[f"t{n}"] == 10 for n in range(5))
    assert 10_000 < chosen.records["huge"] < 1_000_000


def test_late_tables_and_timely_ones_take_turns() -> None:
    late = [waiting(f"late{n:02d}", 0.0, served=float(n)) for n in range(40)]
    early = [waiting(f"early{n:02d}", 95.0) for n in range(40)]
    chosen = choose([*late, *early], _COSTS, 120.0, bounds=Bounds(tables=10))
    assert len(chosen.tables) == 10
    assert {name for name in chosen.tables if name.startswith("late")} == {f"late{n:02d}" for n in range(5)}


def test_the_number_of_tables_is_bounded_by_the_time_they_take() -> None:
    slow = Costs(job=1.0, commit=2.0, claim=0.0, rate=1000.0)
    tables = [waiting(f"t{n:02d}", 100.0) for n in range(30)]
    chosen = choose(tables, slow, 129.0)
    assert 2 <= len(chosen.tables) <= 6
    assert chosen.tables[0] == "t00"


def test_what_rounds_take_is_learned() -> None:
    costs = Costs()
    for _ in range(30):
        costs = costs.after(Measured(job=0.5, commits=5.0, tables=50, records=50))
    assert costs.job == pytest.approx(0.5, abs=0.1)
    assert costs.commit == pytest.approx(0.1, abs=0.01)
    for _ in range(30):
        costs = costs.after(Measured(job=10.5, commits=0.1, tables=1, records=1_000_000))
    assert costs.rate == pytest.approx(100_000, rel=0.1)
    worse = costs.after(Measured(job=0.5, commits=2.0, tables=1, records=10, claims=4.0, new=2))
    assert worse.commit > 1.0
    assert worse.claim > 1.0


@dataclass
class World:
    """Tables that are written to, and rounds whose parts take what they take."""

    chance: random.Random
    true: Costs
    tables: dict[str, float]
    costs: Costs = field(default_factory=Costs)
    now: float = 0.0
    #: By table: when records came that are not in Iceberg.
    arrived: dict[str, list[float]] = field(default_factory=dict)
    served: dict[str, float] = field(default_factory=dict)
    worst: dict[str, float] = field(default_factory=dict)
    rounds: int = 0
    commits: int = 0

    def candidates(self) -> list[Candidate]:
        return [
            Candidate(name, len(times), times[0], self.tables[name], self.served.get(name, 0.0))
            for name, times in self.arrived.items()
            if times and times[0] <= self.now
        ]

    def step(self) -> None:
        """A tick of the loop: a round, if one is due."""
        present, bounds = self.candidates(), Bounds(strictest=min(self.tables.values()))
        due = due_at(present, self.costs, bounds=bounds)
        if due is None or due > self.now:
            self.now += 0.25
            return
        chosen = choose(present, self.costs, self.now, bounds=bounds)
        assert chosen.tables
        known = {one.name for one in present}
        assert set(chosen.tables) <= known
        assert set(chosen.records) == set(chosen.tables)
        assert all(count >= 1 for count in chosen.records.values())
        self._work(chosen)

    def _work(self, chosen: Round) -> None:
        records = sum(chosen.records.values())
        job = (self.true.job + records / self.true.rate) * self.chance.uniform(0.8, 1.3)
        began, planned = self.now, self.now
        self.now += job
        for name in chosen.tables:
            self.now += self.true.commit * self.chance.uniform(0.8, 1.3)
            taken = [at for at in self.arrived[name] if at <= planned][: chosen.records[name]]
            if taken:
                self.worst[name] = max(self.worst.get(name, 0.0), self.now - taken[0])
            self.arrived[name] = self.arrived[name][len(taken) :]
            self.served[name] = self.now
        commits = self.now - began - job
        self.costs = self.costs.after(Measured(job, commits, len(chosen.tables), records))
        self.rounds += 1
        self.commits += len(chosen.tables)


@pytest.mark.parametrize("seed", range(5))
def test_fifty_tables_at_thirty_seconds_are_all_in_time(seed: int) -> None:
    chance = random.Random(seed)
    tables = {f"t{n:02d}": 30.0 for n in range(50)}
    world = World(chance, Costs(job=0.8, commit=0.15, rate=30_000.0), tables)
    for name in tables:
        gap, at = chance.choice((0.5, 3.0, 20.0, 100.0)), chance.uniform(0, 30)
        world.arrived[name] = []
        while at < 600:
            world.arrived[name].append(at)
            at += gap * chance.uniform(0.5, 1.5)
    while world.now < 640:
        world.step()
    assert max(world.worst.values()) < 30.0
    assert not world.candidates()
    # Not more commits than needed: one table is committed at most every half of its freshness, or so.
    assert world.commits < 50 * 600 / 15 * 1.2
    assert world.rounds < 640 / 4


@pytest.mark.parametrize("seed", range(5))
def test_tables_of_different_freshness_and_a_huge_backlog(seed: int) -> None:
    chance = random.Random(seed)
    tables = {"fast": 8.0, "usual": 30.0, "slow": 300.0, "huge": 30.0}
    world = World(chance, Costs(job=0.6, commit=0.1, rate=2_000.0), tables)
    for name in tables:
        world.arrived[name] = [n * 0.5 + chance.random() for n in range(1000)]
    world.arrived["huge"] = [0.0] * 250_000
    while world.now < 500:
        world.step()
    assert {name: worst for name, worst in world.worst.items() if worst >= tables[name]}.keys() <= {"huge"}
    # All that the others leave is for the backlog.
    assert len(world.arrived["huge"]) == 0


@pytest.mark.parametrize("seed", range(5))
def test_with_more_work_than_can_be_done_every_table_gets_on(seed: int) -> None:
    chance = random.Random(seed)
    tables = {f"t{n:02d}": chance.choice((5.0, 30.0)) for n in range(60)}
    world = World(chance, Costs(job=3.0, commit=2.0, rate=1000.0), tables)
    for name in tables:
        world.arrived[name] = [n * 1.0 for n in range(2000)]
    while world.now < 1500:
        world.step()
    last = {name: world.now - world.served.get(name, 0.0) for name in tables}
    assert max(last.values()) < 60 * 2.0 * 4
