"""Bring one commit into its tables, through conflicts and lost answers: it lands once or not at all."""

from __future__ import annotations

import logging
import random
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar

from msgspec.structs import replace

from frazil.core.errors import (
    CommitFailed,
    CommitStateUnknown,
    Conflict,
    FrazilError,
    HistoryChanged,
    Outcome,
)
from frazil.core.failpoints import reach
from frazil.core.stamp import Stamp, stamp_key
from frazil.lake.authority import History, ancestry, mirrored
from frazil.lake.commit import Attempt, Staged, stage
from frazil.lake.delta import Deltas, RowDelta
from frazil.lake.files import DataFile
from frazil.lake.table import LakeTable

T = TypeVar("T")
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Patience:
    """How long to go on. A catalog that does not answer is waited for until `stop` is set."""

    #: Refusals because somebody else committed first.
    conflicts: int = 50
    #: Tries that may go without an answer, where others must not wait for this table; None: as many as it
    #: takes.
    tries: int | None = None
    first_wait: float = 0.1
    longest_wait: float = 10.0
    stop: threading.Event = field(default_factory=threading.Event)
    #: Told why a commit does not get on.
    waiting: Callable[[str], None] = _LOG.warning

    def over(self, number: int) -> bool:
        """Whether no more than `number` tries, counted from 0, are to be made."""
        return self.stop.is_set() or (self.tries is not None and number + 1 >= self.tries)

    def pause(self, number: int, longest: float | None = None) -> None:
        """Wait before try `number`, counted from 0, with jitter: rivals must not meet again and again."""
        wait = min(self.first_wait * 2.0 ** min(number, 20), longest or self.longest_wait)
        self.stop.wait(wait * random.uniform(0.5, 1.0))  # noqa: S311

    def until_answered(self, ask: Callable[[], T]) -> T:
        """What `ask` returns, once the catalog answers. A refusal that will not pass is raised."""
        number = 0
        while True:
            try:
                return ask()
            except FrazilError as error:
                if error.outcome is Outcome.FATAL or self.over(number):
                    raise
                self.waiting(f"{error.message}; asking again")
            self.pause(number)
            number += 1


@dataclass(frozen=True)
class Wanted:
    """What shall be committed."""

    stamp: Stamp
    #: By table; only those that the delivery has.
    files: Mapping[str, Sequence[DataFile] | Deltas] = field(default_factory=dict)
    #: Raises where files do not fit a table as it is now.
    check: Callable[[LakeTable, Sequence[DataFile]], None] = lambda _table, _files: None


@dataclass
class Delivery(ABC, Generic[T]):
    """One commit on its way: kinds of it say what is sent, and by what it is known when it landed."""

    #: Somebody else may have done the same already.
    looks_first: ClassVar[bool] = False
    #: The home table, which tells whether it landed.
    table: LakeTable
    patience: Patience
    #: `claim` or `commit`: for the crash tests.
    step: str
    #: Other tables that get files.
    companions: Sequence[LakeTable] = ()
    #: Not known to have landed nor to be out of the world: its files must stay.
    unsettled: bool = False
    #: An attempt of it went without an answer, at whatever time.
    doubt: bool = False

    @abstractmethod
    def landed(self) -> T | None:
        """What is known of it, if it is in the home table as that was just loaded."""

    @abstractmethod
    def staged(self, opened: Sequence[tuple[LakeTable, Any]]) -> Attempt[T] | None:
        """Built on the tables as they were just loaded; None: it has to be looked at again."""

    def run(self) -> T:
        """Commit. CommitStateUnknown only if it was told to stop while waiting for the catalog."""
        for conflict in range(self.patience.conflicts):
            if conflict > 1:
                self.patience.pause(conflict, longest=1.0)
            opened = [(table, self.patience.until_answered(table.transaction)) for table in self._home_last()]
            found = self.landed() if self.doubt or self.looks_first else None
            if found is not None:
                self.unsettled = False
                return found
            attempt = self.staged(opened)
            if attempt is None:
                continue
            done = self._send(attempt)
            self.doubt = self.doubt or attempt.doubtful
            self.unsettled = done is None and self.doubt
            if done is not None:
                return done
            attempt.clean()
        names = " or ".join(str(table) for table in (self.table, *self.companions))
        raise CommitFailed(
            f"the table {names} was changed by others at each of {self.patience.conflicts} tries to "
            "commit; nothing was written. Try again, or make the other writers commit less often"
        )

    def _home_last(self) -> list[LakeTable]:
        """The order to load in: what the home table tells is never older than what the others do."""
        return [*self.companions, self.table]

    def _send(self, attempt: Attempt[T]) -> T | None:
        """What landed, None if the attempt never will."""
        number = 0
        while True:
            self.unsettled = True
            reach(f"{self.step}.before")
            try:
                attempt.send()
                reach(f"{self.step}.after")
                return attempt.outcome
            except CommitFailed:
                found = self._found_later()
                # Refused, and nobody moved main: the HTTP client tried twice, and the first try may be what
                # stood in the way and may land yet.
                attempt.doubtful = attempt.doubtful or attempt.possible
                return found
            except CommitStateUnknown as error:
                attempt.doubtful = True
                self.patience.waiting(f"no answer to a commit, looking whether it landed: {error.message}")
            found = self._found_later()
            if found is not None or not attempt.possible:
                return found
            if self.patience.over(number):
                raise self._given_up()
            # On the same bases: should the lost request arrive after all, one of the two is refused.
            self.patience.pause(number)
            number += 1

    def _found_later(self) -> T | None:
        try:
            for table in self._home_last():
                self.patience.until_answered(table.refresh)
        except FrazilError as error:
            if error.outcome is Outcome.FATAL:
                raise
            raise self._given_up() from error
        return self.landed()

    def _given_up(self) -> CommitStateUnknown:
        return CommitStateUnknown(
            f"a commit to the table {self.table} had no answer, and is not waited for any longer; it may "
            "still land. Nothing is lost: the next run finds out"
        )


@dataclass(kw_only=True)
class StampDelivery(Delivery[Stamp]):
    """A commit of a pipeline, known by the token in its stamp in whatever attempt it lands."""

    pipeline: str
    token: str
    #: Checks the tables as they were just loaded and says what to commit.
    prepare: Callable[[], Wanted]

    def landed(self) -> Stamp | None:
        return landed(self.table, self.pipeline, self.token)

    def staged(self, opened: Sequence[tuple[LakeTable, Any]]) -> Attempt[Stamp] | None:
        """None: somebody changed rows that were looked up, which asks for another look."""
        wanted = self.prepare()
        changes: list[Sequence[DataFile] | RowDelta] = []
        stamp = wanted.stamp
        for table, _ in opened:
            given = wanted.files.get(str(table), ())
            change = given if isinstance(given, Sequence) else given.at(table)
            if isinstance(change, RowDelta):
                stamp = replace(stamp, written=stamp.written - change.late)
            wanted.check(table, change.rows if isinstance(change, RowDelta) else change)
            changes.append(change)
        parts: list[Staged] = []
        for (table, transaction), change in zip(opened, changes, strict=True):
            try:
                parts.append(stage(table, transaction, stamp, change, home=table is self.table))
            except Conflict as error:
                self._require_looked_up(table, change, error)
                Attempt(stamp, tuple(parts)).clean()
                return None
        return Attempt(stamp, tuple(parts))

    def _require_looked_up(
        self, table: LakeTable, change: Sequence[DataFile] | RowDelta, error: Conflict
    ) -> None:
        """A conflict of a lookup that is older than the table goes away with the next; no other does."""
        if not isinstance(change, RowDelta) or change.base == table.head:
            raise error


def landed(history: History, pipeline: str, token: str) -> Stamp | None:
    """The stamp with that token, if it is in main. HistoryChanged: it was, and is not any more."""
    key, last = stamp_key(pipeline), None
    for view in ancestry(history):
        # Not decoded: the stamps below may be many.
        if token in view.summary.get(key, ""):
            return Stamp.decode(view.summary[key])
        last = view
    mirror = mirrored(history, pipeline)
    if mirror is None or mirror.stamp.token != token:
        return None
    if last is not None and last.parent_id is not None and history.snapshot(mirror.snapshot_id) is None:
        return mirror.stamp
    raise HistoryChanged(
        f"the commit of pipeline {pipeline} landed as snapshot {mirror.snapshot_id}, and then the table was "
        "rolled back",
        "Start the pipeline again to go on from where the table is now",
    )
