"""A seeded story of hot tables in chapters; each step has a seed of its own, so that none shifts the others.

In every chapter the same happens to rows, files and log. What differs is how tiering goes: killed, round by
round, held up and superseded, or without an end.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import TYPE_CHECKING, Final

from tests.hot.model.corrections import correct
from tests.hot.model.log import Row
from tests.hot.model.services import Gate, InProcess, Killed, once, require_superseded
from tests.hot.model.table import ModelTable

from frazil.core.errors import Conflict, FrazilError

if TYPE_CHECKING:
    from tests.hot.model.world import World

#: Steps that cost little, and how often they are taken.
_LIGHT: Final = {
    "put": 24,
    "delete": 8,
    "reinsert": 8,
    "again": 6,
    "burst": 5,
    "writer": 5,
    "transaction": 3,
    "read": 24,
    "some": 6,
    "old": 12,
    "iceberg": 5,
}
#: So often in each chapter, among the others, besides what its kind of tiering needs.
_HEAVY: Final = (
    "compact",
    "compact",
    "expire",
    "care",
    "trim",
    "trim",
    "column",
    "spark",
    "spark",
    "correct",
)
#: Where a service is killed, chapter by chapter, and where one is held up.
KILLS: Final = (
    "commit.before@4",
    "commit.after@2",
    "round.job-done@2",
    "claim.after@2",
    "round.planned@3",
    "commit.after@5",
    "claim.before@3",
    "commit.before",
)
HOLDS: Final = (
    "commit.before@2",
    "round.job-done",
    "commit.after",
    "claim.before@2",
    "claim.after",
    "round.planned",
    "commit.before",
)
STORIES: Final = ("killed", "rounds", "held", "served")
_MOST_COLUMNS = 3
_TOLD = 25
#: What procedures of Iceberg may say when somebody else commits meanwhile.
_REFUSED = (
    "CommitFailedException",
    "ValidationException",
    "Cannot commit",
    "could not be found in the latest",
)


class Workload:
    """Runs it; `story` names the steps that led to where it is."""

    def __init__(
        self, world: World, gate: Gate, seed: int, steps: int, stories: Sequence[str] = STORIES
    ) -> None:
        """`steps`: of each chapter; `stories`: what the chapters are of, in turn."""
        self._world = world
        self._gate = gate
        self._seed = seed
        self._steps = steps
        self._stories = stories
        self._number = 0
        self._told: deque[str] = deque(maxlen=_TOLD)
        self._rival = False
        self.taken: Counter[str] = Counter()

    def run(self, chapters: int) -> None:
        known = {
            "killed": self._killed,
            "rounds": self._rounds,
            "held": self._held,
            "served": self._served,
        }
        for chapter in range(chapters):
            known[self._stories[chapter % len(self._stories)]](chapter)
        once(self._world)
        for table in self._world.tables:
            table.check_complete()
            table.check_spark(again=True)

    def story(self) -> str:
        """The last steps; with the seed and the chapters they come again."""
        return f"seed {self._seed}, {self._number} steps taken, the last of them:\n" + "\n".join(self._told)

    # Chapters

    def _killed(self, chapter: int) -> None:
        point = KILLS[chapter // len(self._stories) % len(KILLS)]
        steps = self._plan(chapter)
        self._tell(f"a process that dies at {point}")
        with Killed(self._world, point) as service, self._contested():
            for kind in steps[: len(steps) // 4]:
                self._step(kind)
            service.until(lambda: service.working, lambda: None)
            for kind in steps[len(steps) // 4 :]:
                self._step(kind)
            service.until(lambda: service.dead, lambda: self._step("put"))
            service.reap()
        self._tell("it died")

    def _rounds(self, chapter: int) -> None:
        for kind in self._plan(chapter, "once", "once", "once"):
            self._step(kind)

    def _held(self, chapter: int) -> None:
        """A service stands still in the middle; a second one takes over; then the first one goes on."""
        point = HOLDS[chapter // len(self._stories) % len(HOLDS)]
        steps = self._plan(chapter)
        third = len(steps) // 3
        for kind in steps[:third]:
            self._step(kind)
        for table in self._world.tables:
            table.change((table.row(self._rng()), False))
        self._gate.close(point)
        self._tell(f"a service that stands still at {point}")
        try:
            with InProcess(self._world, once=True) as service, self._contested():
                while not self._gate.held.wait(0.1):
                    assert not service.ended, f"it did not come to {point}"
                for kind in steps[third : 2 * third]:
                    self._step(kind)
                once(self._world)
                self._tell("another one took over")
                self._gate.open()
                for kind in steps[2 * third :]:
                    self._step(kind)
                self._tell(f"the first one went on: {require_superseded(service.join())}")
        finally:
            self._gate.open()

    def _served(self, chapter: int) -> None:
        """Rounds come by themselves; in the end another service ends this one."""
        with InProcess(self._world, once=False) as service, self._contested():
            self._tell("a service goes on")
            for kind in self._plan(chapter):
                self._step(kind)
            if chapter // len(self._stories) % 2:
                once(self._world)
                self._tell("another one took over")
        errors = service.join()
        assert require_superseded(errors) == "through" or chapter // len(self._stories) % 2, errors

    # Steps

    def _plan(self, chapter: int, *more: str) -> list[str]:
        rng = Random(f"{self._seed}/{chapter}")
        light = rng.choices(list(_LIGHT), list(_LIGHT.values()), k=self._steps - len(_HEAVY) - len(more))
        for kind in (*_HEAVY, *more):
            light.insert(rng.randint(0, len(light)), kind)
        return light

    def _rng(self) -> Random:
        return Random(f"{self._seed}:{self._number}")

    def _step(self, kind: str) -> None:
        self._number += 1
        rng = self._rng()
        table = rng.choice(self._world.tables)
        self.taken[kind] += 1
        self._tell(f"{self._number} {kind} {table.hot.name}")
        done: Callable[[ModelTable, Random], str | None] = getattr(self, f"_{kind}")
        began = time.monotonic()
        said = done(table, rng)
        self._told[-1] += f" ({time.monotonic() - began:.1f} s){f': {said}' if said else ''}"

    def _tell(self, text: str) -> None:
        self._told.append(text)

    @contextmanager
    def _contested(self) -> Iterator[None]:
        """Somebody else commits meanwhile."""
        self._rival = True
        yield
        self._rival = False

    def _put(self, table: ModelTable, rng: Random) -> None:
        table.change(*((table.row(rng), False) for _ in range(rng.randint(1, 3))))

    def _delete(self, table: ModelTable, rng: Random) -> None:
        """Of a row that is there, or of none; a log has no deletes."""
        found = table.some_row(rng) if rng.random() < 0.8 else None
        table.change((found or table.row(rng), bool(table.hot.key)))

    def _reinsert(self, table: ModelTable, rng: Random) -> None:
        found = table.some_row(rng) or table.row(rng)
        if not table.hot.key:
            return table.change((found, False))
        key = {name: found[name] for name in table.hot.key}
        again = found if rng.random() < 0.5 else table.row(rng, key)
        return table.change((found, True), (again, False), *([(found, True)] if rng.random() < 0.2 else []))

    def _again(self, table: ModelTable, rng: Random) -> None:
        """The same row once more, of a log too."""
        table.change((table.some_row(rng) or table.row(rng), False))

    def _burst(self, table: ModelTable, rng: Random) -> str:
        count = rng.choice((20, 60, 200))
        keyed = bool(table.hot.key)
        table.change(*((table.row(rng), keyed and rng.random() < 0.3) for _ in range(count)))
        return str(count)

    def _writer(self, table: ModelTable, rng: Random) -> None:
        rows: list[Row] = [table.row(rng) for _ in range(rng.randint(1, 5) if table.hot.key else 1)]
        gone: list[Row] = [table.row(rng) for _ in range(rng.randint(0, 2) if table.hot.key else 0)]
        table.write(rows, gone)

    def _transaction(self, table: ModelTable, rng: Random) -> str:
        return self._world.transaction(table, rng)

    def _read(self, table: ModelTable, rng: Random) -> str:
        return str(table.check())

    def _some(self, table: ModelTable, rng: Random) -> None:
        table.check_some(rng)

    def _old(self, table: ModelTable, rng: Random) -> str | None:
        if not table.answers:
            return None
        # Old ones are mostly gone.
        answer = table.answers[int((1 - rng.random() ** 2) * (len(table.answers) - 1))]
        good = table.check_again(answer)
        self.taken["old, the same" if good else "old, gone"] += 1
        return f"{answer.pins}{'' if good else ', gone'}"

    def _iceberg(self, table: ModelTable, rng: Random) -> None:
        table.check_iceberg()

    def _spark(self, table: ModelTable, rng: Random) -> None:
        """Mostly with a tail that takes rows of the snapshot away."""
        self._again(table, rng)
        self._reinsert(table, rng)
        table.check_spark(again=rng.random() < 0.3)

    def _once(self, table: ModelTable, rng: Random) -> None:
        once(self._world)
        for one in self._world.tables:
            assert all(end <= at for end, at in zip(one.log.ends, one.tiered(), strict=True))

    def _compact(self, table: ModelTable, rng: Random) -> str:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        try:
            return self._world.compact(table, rng)
        except (FrazilError, PySparkException, Py4JError) as error:
            refused = isinstance(error, Conflict) or any(word in str(error) for word in _REFUSED)
            if not self._rival or not refused:
                raise
            return f"refused: {str(error)[:100]}"

    def _correct(self, table: ModelTable, rng: Random) -> str | None:
        """While tiering goes on, if it does; else with what comes meanwhile."""

        def meanwhile() -> None:
            table.change(*((table.row(rng), False) for _ in range(3)))
            if not self._rival and rng.random() < 0.5:
                once(self._world)

        return correct(table, rng, meanwhile)

    def _expire(self, table: ModelTable, rng: Random) -> str:
        return self._world.expire(table, rng.choice((0.0, 0.0, 10.0)))

    def _care(self, table: ModelTable, rng: Random) -> str:
        """What is left has to be all that pins were promised."""
        said = self._world.care(table)
        same = [table.check_again(answer) for answer in list(table.answers)]
        return f"{said}, {sum(same)} of {len(same)} answers are the same"

    def _trim(self, table: ModelTable, rng: Random) -> str:
        return self._world.trim(table, rng.choice((0.0, 15.0, 40.0)))

    def _column(self, table: ModelTable, rng: Random) -> str | None:
        return self._world.add_column(table) if len(table.added) < _MOST_COLUMNS else None
