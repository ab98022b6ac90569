"""One rebuild at work: rounds over the past of the source, then a swap, while the pipeline itself goes on.

The rounds are those of the pipeline: the same reading, decoding, transform and writing. They commit nothing.
When they have reached the pipeline's newest stamp, one commit on top of the snapshot with that stamp takes
all files away and adds the rebuilt ones. If the pipeline went on meanwhile, a small round catches up first.
The stamp of the pipeline stays where it is: it still says what the table holds.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from frazil.core.errors import BadRecord, Conflict, FrazilError, NotFound, Outcome, Superseded
from frazil.core.failpoints import reach
from frazil.core.names import show
from frazil.core.rebuild import Record, record_key
from frazil.core.stamp import Stamp
from frazil.lake.authority import MetadataHistory, find_stamp
from frazil.lake.catalog import Lake
from frazil.lake.history import TableHistory
from frazil.lake.session import use_catalog
from frazil.maintenance.actions import document
from frazil.stream.columns import with_columns
from frazil.stream.config.model import PipelineConfig, TableSource
from frazil.stream.events import Claimed, Observer
from frazil.stream.feeds import feed_of
from frazil.stream.jobs import Jobs, rows_schema
from frazil.stream.pipeline import PipelineLoop, Work
from frazil.stream.rebuild.diff import Difference, difference
from frazil.stream.rebuild.letters import settled
from frazil.stream.rebuild.others import others
from frazil.stream.rebuild.past import Past, same_place
from frazil.stream.rebuild.possible import (
    forget_history,
    past_of,
    require_by_record,
    require_possible,
    require_taken,
)
from frazil.stream.rebuild.sink import Moved, RebuildSink

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

_logger = logging.getLogger(__name__)
#: Times that a commit of somebody else may come in between; each makes the next step smaller.
_MOST_MOVES = 100


@dataclass(frozen=True)
class Wishes:
    """How a rebuild is done."""

    #: Compare and leave the table as it is.
    dry_run: bool = False
    #: Rows that others wrote may go.
    discard_others: bool = False
    #: Nothing but removing what a rebuild that died left behind.
    abandon: bool = False
    #: A table with records that the log does not have any more, as `namespace.name`.
    history: str | None = None


@dataclass(frozen=True)
class Rebuilt:
    """What a rebuild did, or would do."""

    pipeline: str
    table: str
    #: Records that were read, and those of them that became no row.
    read: int
    bad: int
    #: Rows before and after.
    before: int
    after: int
    #: The swap; None: there was none.
    snapshot_id: int | None = None
    #: Of a dry run.
    difference: Difference | None = None
    #: Dead letters that are new, and those that are rows now.
    letters: int = 0
    put_back: int = 0
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Final:
    """The table as it was looked at last, with all that a swap on top of it needs."""

    head: int | None
    stamp: Stamp
    before: int
    letters: tuple[pa.Table, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Work(Work):
    feed: Past
    sink: RebuildSink
    lake: Lake
    #: The pipeline's stamp when the rebuild began.
    began: Stamp
    notes: list[str] = field(default_factory=list)


class RebuildLoop(PipelineLoop):
    """Rebuilds the table of one pipeline in the thread that calls `run`; what came of it is in `result`."""

    result: Rebuilt | None = None

    def __init__(
        self,
        config: PipelineConfig,
        spark: SparkSession,
        connect: Callable[[], Lake],
        catalog_name: str,
        observer: Observer,
        wishes: Wishes,
    ) -> None:
        super().__init__(config, spark, connect, catalog_name, observer, once=True)
        self._wishes = wishes

    def _run(self) -> None:
        work = self._retrying(self._opened)
        if work is None:
            return
        try:
            self.result = self._rebuilt(work)
            if self.result is None:
                self._clean(work.sink)
            work.feed.release()
        except Superseded:
            work.sink.drop()
            raise Superseded(
                f"another rebuild of pipeline {self.name} began, and this one ends: the table is as it was. "
                "Let one of them run"
            ) from None
        except BadRecord as error:
            self._clean(work.sink)
            work.feed.release()
            raise _in_words(error) from None
        except FrazilError as error:
            # What may have landed keeps its files. Of the source nothing more is read.
            if error.outcome is not Outcome.UNKNOWN:
                self._clean(work.sink)
            work.feed.release()
            raise

    def _opened(self) -> _Work | None:
        """The claim comes last: what cannot be rebuilt changes nothing."""
        require_possible(self._config)
        lake = self._connect()
        where = show(*self._config.home)
        metadata = lake.client.tables.load(*self._config.home).metadata
        story = MetadataHistory(metadata)
        began = find_stamp(story, self.name)
        if began is None:
            raise NotFound(
                f"pipeline {self.name} has not written to the table {where} yet, so there is nothing to "
                "rebuild: run it"
            )
        if self._wishes.abandon:
            self._abandon(lake, began)
            forget_history(self._config, lake, began, story, self._wishes.history)
            return None
        require_taken(began)
        self._require_alone(metadata, began)
        self._config = config = with_columns(self._config, feed_of(self._config, lake), lake)
        if config.transform is not None:
            use_catalog(self._spark, self._catalog_name, lake.client)
        rows = rows_schema(self._spark, config)
        require_by_record(self._spark, config)
        past = past_of(config, lake, began, story, self._wishes.history)
        try:
            sink = RebuildSink(config, self._spark, lake, rows, past.begin(story))
            sink.take_over(self._patience)
        except FrazilError:
            past.release()
            raise
        reach("rebuild.claimed")
        self._observer.notify(Claimed(self.name, where, sink.writer.stamp.epoch, False, False))
        return _Work(past, sink, Jobs(self._spark, config), lake, began)

    def _abandon(self, lake: Lake, stamp: Stamp) -> None:
        """To take over is to stop a rebuild that runs, and to remove what one that died left behind."""
        sink = RebuildSink(self._config, self._spark, lake, lake.load(*self._config.home).schema, stamp)
        sink.take_over(self._patience)
        self._leave(sink, {})

    def _rebuilt(self, work: _Work) -> Rebuilt | None:
        """None: it was told to stop."""
        for _ in range(_MOST_MOVES):
            if not self._caught_up(work):
                return None
            try:
                found = self._retrying(lambda: self._ended(work))
            except Moved:
                continue
            return found
        raise Conflict(
            f"the table {show(*self._config.home)} was changed by others at each of {_MOST_MOVES} tries to "
            "swap the rebuild in; it is as it was. Try again, or let the pipeline commit less often"
        )

    def _caught_up(self, work: _Work) -> bool:
        """Whether all that the pipeline's newest stamp covers was read; else it was told to stop."""
        while not self._stopping.is_set():
            plan = self._retrying(lambda: self._round(work))
            if plan is None:
                return False
            self._let_go()
            if not plan.tasks:
                return True
        return False

    def _ended(self, work: _Work) -> Rebuilt:
        """Swap, or compare. Moved: somebody committed, and there may be more to read."""
        final = self._looked(work)
        reach("rebuild.built")
        sink, letters = work.sink, [len(rows) for rows in final.letters] or [0, 0]
        after = sum(file.records for file in sink.rows)
        made = Rebuilt(
            self.name, str(sink.home), sink.stamp.read, sink.bad, final.before, after,
            letters=letters[0], put_back=letters[1], notes=final.notes,
        )  # fmt: skip
        if self._wishes.dry_run:
            found = difference(sink.home, work.lake.client, final.head, sink.rows)
            self._clean(sink)
            return replace(made, difference=found)
        record = Record.of(final.stamp, self._config.hash, sink.stamp.read, after)
        snapshot = sink.swap(final.head, record, final.letters)
        reach("rebuild.swapped")
        if sink.letters is not None:
            self._drop_letters(sink)
        self._leave(sink, {record_key(self.name): record.encode()})
        return replace(made, snapshot_id=snapshot)

    def _looked(self, work: _Work) -> _Final:
        """All checks are about one snapshot of the table, and a swap is on top of that or not at all."""
        sink, table = work.sink, work.sink.home
        self._patience.until_answered(table.refresh)
        head, metadata = table.head, document(table)
        stamp = find_stamp(table, self.name)
        assert stamp is not None, "it was there when the rebuild began"
        require_taken(stamp)
        notes = [*self._require_alone(metadata, stamp), *self._require_config(stamp, work.began)]
        if not same_place(stamp.positions, sink.stamp.positions):
            work.feed.end = stamp
            raise Moved
        letters: tuple[pa.Table, ...] = ()
        # Of a table nobody can say which row of it a letter is.
        if sink.letters is not None and not isinstance(self._config.source, TableSource):
            where = sink.writer.tables[sink.letters]
            bad = sink.files[sink.letters]
            letters = settled(self.name, where, work.lake.client, bad, work.feed.covers)
        return _Final(head, stamp, _rows(TableHistory(metadata)), letters, tuple(notes))

    def _require_alone(self, metadata: dict[str, object], stamp: Stamp) -> list[str]:
        """What goes although others wrote it. Conflict: that was not allowed."""
        found = others(metadata, stamp)
        if not found:
            return []
        told = "; ".join(found.texts())
        if self._wishes.discard_others:
            return [f"not kept: {told}"]
        raise Conflict(
            f"the table {show(*self._config.home)} has rows that pipeline {self.name} did not write, and a "
            f"rebuild would lose them: {told}. Allow that with --discard-others, or put them into a table of "
            "their own first"
        )

    def _require_config(self, stamp: Stamp, began: Stamp) -> list[str]:
        """Who goes on with another transform would mix its rows with the rebuilt ones."""
        if stamp.config == self._config.hash:
            return []
        if (stamp.epoch, stamp.round) != (began.epoch, began.round):
            raise Conflict(
                f"pipeline {self.name} runs with another configuration than this file has, so that what it "
                "writes next would not fit the rebuilt rows. Stop it, or start it again with this file, and "
                "rebuild then; the table is as it was"
            )
        note = f"the last commit of pipeline {self.name} was made with another configuration"
        return [f"{note}: start it again with this file"]

    def _drop_letters(self, sink: RebuildSink) -> None:
        """What tasks set aside; of that, what is new was written once more."""
        assert sink.letters is not None, "there is such a table"
        files = sink.files[sink.letters]
        try:
            sink.writer.tables[sink.letters].storage().delete([file.path for file in files])
        except FrazilError as error:
            _logger.warning("pipeline %s: files of the rebuild stay: %s", self.name, error.message)

    def _clean(self, sink: RebuildSink) -> None:
        """Nothing of it is left; if that fails, the next rebuild does it."""
        try:
            sink.drop()
        except FrazilError as error:
            _logger.warning("pipeline %s: files of the rebuild stay: %s", self.name, error.message)
        self._leave(sink, {})

    def _leave(self, sink: RebuildSink, properties: dict[str, str]) -> None:
        """The table's history need not be kept for a rebuild that ended."""
        try:
            sink.writer.leave(properties)
        except FrazilError as error:
            _logger.warning("the stamp of a rebuild stays: %s", error.message)


def _rows(history: TableHistory) -> int:
    head = None if history.head is None else history.snapshot(history.head)
    return 0 if head is None else head.total - int(head.summary.get("total-position-deletes", "0"))


def _in_words(error: BadRecord) -> BadRecord:
    said = error.message.partition(". Everything before it")[0]
    return BadRecord.at(
        error.position,
        f"{said}. The rebuild ends, and the table is as it was. Correct the schema, or let bad records go "
        "to a dead-letter table (`dead_letters`)",
    )
