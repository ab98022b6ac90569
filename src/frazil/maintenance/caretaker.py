"""Merges small files and expires snapshots in the loop of a pipeline, a bounded piece at a time."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from frazil.core.errors import FrazilError
from frazil.lake.catalog import Lake
from frazil.lake.files import MEGABYTE, FileOptions
from frazil.lake.table import LakeTable
from frazil.maintenance.actions import (
    MIN_FILES,
    Merged,
    document,
    expire,
    merge_files,
    merge_manifests,
    set_properties,
)
from frazil.maintenance.expiry import ExpiryPlan, expiry_by
from frazil.maintenance.history import Unmerged, main_line, manifests, number, unmerged
from frazil.maintenance.settings import Maintenance

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from frazil.lake.authority import SnapshotView

T = TypeVar("T")
_logger = logging.getLogger(__name__)

#: To look costs a walk over all snapshots: one commit in so many does.
_LOOK_EVERY = 20
#: What one run takes at most, for each core of Spark's, so that the next round does not wait for long.
_BYTES_PER_CORE = 512 * MEGABYTE
_FILES_PER_RUN = 5000
#: What work takes on a slow machine: seconds of a job, and of each file, snapshot and byte (for each core).
_JOB_SECONDS, _FILE_SECONDS, _SNAPSHOT_SECONDS, _BYTE_SECONDS = 2.0, 0.02, 0.005, 1 / (8 * MEGABYTE)
#: Merging appends keep their number at about a hundred.
_MANY_MANIFESTS = 250
#: Each expiry reads the manifest list of every snapshot that stays: it is done for many at once.
_EXPIRE_AT_LEAST = 50
_EXPIRE_SHARE = 10
#: Snapshots that somebody keeps and that are worth a word.
_MANY_PINNED = 100
#: Commits until what failed is tried again, doubled at each failure.
_FIRST_WAIT, _LONGEST_WAIT = 10, 640
#: Older metadata documents that a table keeps.
_METADATA_VERSIONS = 20
_DELETE_METADATA = "write.metadata.delete-after-commit.enabled"
_KEEP_METADATA = "write.metadata.previous-versions-max"
#: One run at a time in a process: pipelines share its Spark.
_turn = threading.Lock()


@dataclass(frozen=True)
class Done:
    """What one run did for a table."""

    table: str
    seconds: float = 0.0
    #: None: no merge was due, or it failed.
    merged: Merged | None = None
    #: How many were merged into few.
    manifests: int = 0
    #: Snapshots; `kept` is None if none was due.
    expired: int = 0
    kept: int | None = None
    #: Who keeps snapshots that could go otherwise, and how many.
    pins: Mapping[str, int] = field(default_factory=dict)
    #: From now on old metadata documents are deleted.
    trimmed: bool = False
    #: What went wrong and will be tried again.
    failures: tuple[str, ...] = ()
    #: Nothing was done: it would take about so many seconds, which is longer than it may.
    needs: float | None = None

    def __str__(self) -> str:
        said = []
        if self.merged is not None:
            said.append(f"{self.merged.files} small files became {self.merged.into}")
        if self.manifests:
            said.append(f"{self.manifests} manifests were merged")
        if self.kept is not None:
            said.append(f"{self.expired} snapshots expired, {self.kept} stay")
        if self.trimmed:
            said.append("old metadata documents are deleted from now on")
        said += [f"not done: {text}" for text in self.failures]
        return f"{self.table}: {'; '.join(said) or 'nothing to do'} ({self.seconds:.1f} s)"


@dataclass
class _State:
    """Of one table, while the process lives. The table's history tells the rest."""

    commits: int = 0
    look_at: int = 1
    #: The count at the last merge; what it left is not in the history.
    merged_at: int | None = None
    #: The last merge took all that it may, of files of about this size.
    debt: bool = False
    file_bytes: int = 1
    #: Of what failed: how often in a row, and the count at which it is tried again.
    failed: dict[str, tuple[int, int]] = field(default_factory=dict)
    #: Snapshots that were last told to be kept for somebody.
    pins: dict[str, int] = field(default_factory=dict)

    def ready(self, duty: str) -> bool:
        return self.commits >= self.failed.get(duty, (0, 0))[1]

    def settle(self, duty: str, ok: bool) -> None:
        if ok:
            self.failed.pop(duty, None)
            return
        times = self.failed.get(duty, (0, 0))[0]
        again = self.commits + min(_FIRST_WAIT * 2**times, _LONGEST_WAIT)
        self.failed[duty] = (times + 1, again)
        self.look_at = min(self.look_at, again)


class Caretaker:
    """Looks after the tables of one pipeline. For the thread of its loop."""

    def __init__(
        self,
        spark: SparkSession,
        lake: Lake,
        config: Maintenance,
        *,
        file_size: int = FileOptions().size,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._spark = spark
        self._lake = lake
        self._config = config
        self._file_size = file_size
        self._clock = clock
        self._states: dict[str, _State] = {}

    def committed(self, table: LakeTable, *, within: float = math.inf) -> Done | None:
        """Call it after each commit to the table. None: nothing was due.

        What cannot be done now is logged, and tried again some commits later: no reason to stop a pipeline.
        What would take longer than `within` is not begun, and the commit does not count: say it again later.
        """
        state = self._states.setdefault(f"{table} {table.uuid}", _State())
        state.commits += 1
        if state.commits < state.look_at or not _turn.acquire(blocking=False):
            return None
        try:
            state.look_at = state.commits + min(_LOOK_EVERY, self._config.merge_every or _LOOK_EVERY)
            done = self._look(table, state, within)
        except FrazilError as error:
            done = Done(str(table), failures=(error.message,))
        finally:
            _turn.release()
        if done is not None and done.needs is not None:
            state.look_at = state.commits
            state.commits -= 1
        elif done is not None and done.failures:
            _logger.warning("maintenance, to be tried again: %s", done)
        elif done is not None:
            _logger.info("maintenance: %s", done)
        return done

    def _look(self, table: LakeTable, state: _State, within: float) -> Done | None:
        found = document(table)
        line = main_line(found)
        new = unmerged(line, self._file_size)
        plan = self._expiry(found)
        self._tell_pins(table, state, plan)
        wanted = {
            "merge": self._merge_due(state, new),
            "manifests": bool(line) and (manifests(line[0]) or 0) > _MANY_MANIFESTS,
            "expire": self._expiry_due(plan),
            "trim": self._trim_due(found),
        }
        duties = [duty for duty, due in wanted.items() if due and state.ready(duty)]
        if not duties:
            return None
        needs = self._seconds(duties, line, new, plan)
        if needs > within:
            return Done(str(table), needs=needs)
        started = time.monotonic()
        # An own one: the loop's must not move under it, and its files are for the driver alone.
        own = self._lake.load_for_jobs(table.namespace, table.name)
        run = _Run(self._spark, own, Done(str(table)))
        for duty in duties:
            failures = len(run.done.failures)
            match duty:
                case "merge":
                    self._merge(state, new, run)
                case "manifests":
                    run.merge_manifests()
                case "expire":
                    run.expire(self._expiry)
                case _:
                    run.trim(found)
            state.settle(duty, ok=len(run.done.failures) == failures)
        return replace(run.done, seconds=time.monotonic() - started)

    def _merge_due(self, state: _State, new: Unmerged) -> bool:
        every = self._config.merge_every
        if every is None:
            return False
        since = None if state.merged_at is None else state.commits - state.merged_at
        if state.debt and since is not None:
            return since >= self._soon()
        return new.commits >= every and new.small_files >= MIN_FILES and (since is None or since >= every)

    def _seconds(
        self, duties: Sequence[str], line: Sequence[SnapshotView], new: Unmerged, plan: ExpiryPlan
    ) -> float:
        """About how long they take."""
        seconds = 0.0
        if "merge" in duties:
            # The file that the last merge left may be small as well.
            size = min(new.small_bytes + self._file_size, self._most_bytes)
            if line and "total-files-size" in line[0].summary:
                size = min(size, number(line[0], "total-files-size"))
            files = min(new.small_files, _FILES_PER_RUN)
            seconds += _JOB_SECONDS + files * _FILE_SECONDS + size * _BYTE_SECONDS / self._cores
        if "manifests" in duties:
            seconds += _JOB_SECONDS
        if "expire" in duties:
            seconds += (plan.kept + len(plan.expire)) * _SNAPSHOT_SECONDS
        return seconds

    @property
    def _cores(self) -> int:
        return max(self._spark.sparkContext.defaultParallelism, 2)

    @property
    def _most_bytes(self) -> int:
        return _BYTES_PER_CORE * self._cores

    def _merge(self, state: _State, new: Unmerged, run: _Run) -> None:
        """As many files as are about as large as one run may be; what is left does not wait for long."""
        if new.small_files:
            state.file_bytes = max(new.small_bytes // new.small_files, 1)
        most = max(MIN_FILES, min(self._most_bytes // state.file_bytes, _FILES_PER_RUN))
        run.merge(self._file_size, most)
        if run.done.merged is None:
            return
        state.merged_at = state.commits
        state.debt = run.done.merged.files >= most
        if state.debt:
            state.look_at = state.commits + self._soon()

    def _soon(self) -> int:
        return max((self._config.merge_every or 0) // 10, 1)

    def _expiry(self, found: Mapping[str, Any]) -> ExpiryPlan:
        if found.get("properties", {}).get("gc.enabled", "").lower() == "false":
            return ExpiryPlan()
        return expiry_by(self._config, found, self._clock())

    def _expiry_due(self, plan: ExpiryPlan) -> bool:
        return len(plan.expire) >= max(_EXPIRE_AT_LEAST, plan.kept // _EXPIRE_SHARE)

    def _trim_due(self, found: Mapping[str, Any]) -> bool:
        """Without a word about old metadata documents in its properties, a table would keep all of them."""
        if self._config.keep_snapshots is None or _DELETE_METADATA in found.get("properties", {}):
            return False
        return len(found.get("metadata-log", ())) >= _METADATA_VERSIONS

    def _tell_pins(self, table: LakeTable, state: _State, plan: ExpiryPlan) -> None:
        for name, count in plan.pins.items():
            if count >= max(_MANY_PINNED, 2 * state.pins.get(name, 0)):
                state.pins[name] = count
                _logger.warning(
                    "%s, which has not written for long, keeps %d snapshots of %s that would have expired",
                    name,
                    count,
                    table,
                )


class _Run:
    """One run; a part that fails does not keep the others from being tried."""

    def __init__(self, spark: SparkSession, table: LakeTable, done: Done) -> None:
        self._spark = spark
        self._table = table
        self.done = done

    def merge(self, file_size: int, most_files: int) -> None:
        found = self._tried(lambda: merge_files(self._spark, self._table, file_size, most_files))
        if found is None:
            return
        self.done = replace(self.done, merged=found)
        if found.failed:
            self._failed(f"{found.failed} files stay as they are: Spark's log says why")

    def merge_manifests(self) -> None:
        found = self._tried(lambda: merge_manifests(self._spark, self._table))
        self.done = replace(self.done, manifests=found or 0)

    def expire(self, choose: Callable[[Mapping[str, Any]], ExpiryPlan]) -> None:
        def work() -> ExpiryPlan:
            # Chosen on what the table is now: a merge took its time.
            self._table.refresh()
            plan = choose(document(self._table))
            expire(self._table, plan.expire)
            return plan

        plan = self._tried(work)
        if plan is not None:
            self.done = replace(self.done, expired=len(plan.expire), kept=plan.kept, pins=plan.pins)

    def trim(self, found: Mapping[str, Any]) -> None:
        keep = found.get("properties", {}).get(_KEEP_METADATA, str(_METADATA_VERSIONS))

        def work() -> bool:
            set_properties(self._table, {_KEEP_METADATA: keep, _DELETE_METADATA: "true"})
            return True

        if self._tried(work):
            self.done = replace(self.done, trimmed=True)

    def _tried(self, work: Callable[[], T]) -> T | None:
        try:
            return work()
        except FrazilError as error:
            self._failed(error.message)
            return None

    def _failed(self, text: str) -> None:
        self.done = replace(self.done, failures=(*self.done.failures, text))
