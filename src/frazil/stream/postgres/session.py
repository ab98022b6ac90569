"""One life of the connection: snapshots first, then the stream, into a bounded log in memory."""

from __future__ import annotations

import atexit
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping

from frazil.core.errors import FrazilError, InvalidConfig, NotAllowed, RoundFailed, SourceChanged, Unavailable
from frazil.core.stamp import Position, Stamp
from frazil.stream.postgres.database import Database, Slot, SourceTable, explain, slot_gone
from frazil.stream.postgres.engine import MESSAGE_PREFIX, Engine, snapshot_properties, stream_properties
from frazil.stream.postgres.log import READS, STREAM, Chunk, TopicLog, TopicState, held, numbers, slot_target
from frazil.stream.postgres.records import COMPLETED, Batch
from frazil.stream.postgres.requests import asked
from frazil.stream.postgres.slots import SlotNote
from frazil.stream.postgres.source import PostgresSource, Snapshot
from frazil.stream.postgres.standing import begun, require_slot
from frazil.stream.rounds import share
from frazil.stream.source import Slice

_logger = logging.getLogger(__name__)
#: So much of the database's log may wait behind a slot with nothing to say, before it is moved on.
_IDLE_BYTES = 16 << 20
#: So long a snapshot waits for transactions that are under way.
_SETTLE_SECONDS = 5.0
#: Of a table that was not looked at yet.
_UNKNOWN = ""


class Session:
    """Follows the tables from where the stamp is. For one driver thread; engines have their own."""

    def __init__(
        self,
        source: PostgresSource,
        database: Database,
        stamp: Stamp,
        *,
        whole_transactions: bool = False,
        stopped: Iterable[str] = (),
    ) -> None:
        """`stopped`: topics of tables that cannot go on, of which the stamp may know nothing."""
        self._source = source
        self._whole = whole_transactions
        self._stopped = set(stopped)
        self._database = database
        self._pipeline = stamp.pipeline
        self._positions = stamp.positions
        self._changed = threading.Condition()
        self._logs: dict[str, TopicLog] = {}
        self._tables: dict[str, SourceTable] = {}
        self._refused: set[str] = set()
        #: By topic: why its table cannot go on, which is its own affair.
        self.troubles: dict[str, FrazilError] = {}
        self._stream: Engine | None = None
        self._snapshot: Engine | None = None
        #: Tables whose rows are to be read.
        self._waiting: list[SourceTable] = []
        #: Topics whose rows are being read; the stream waits meanwhile.
        self._reading: tuple[str, ...] = ()
        self._closed = False
        states = [TopicState.of(position) for position in stamp.positions.values()]
        self._begun = begun(stamp)
        self._note = SlotNote(database, source, max((state.slot for state in states), default=0))
        self._polled = 0.0
        #: There is no slot yet: the first snapshot makes it, so that the stream begins where the rows end.
        self._slotless = False
        #: The last commit that the slot has sent, and what it was told.
        self.boundary = 0
        self._confirmed = 0
        #: The last commit that the stream itself told of: a change behind it names it as the one before.
        self._told = 0

    def open(self) -> None:
        # A thread of Java's that comes into a Python that is ending would bring the process down.
        atexit.register(self.close)
        self._database.check()
        slot = self._database.slot()
        self._check_slot(slot)
        tables = self._publish()
        new = not self._begun and not self._stopped
        if slot is None or (new and self._source.snapshot is Snapshot.INITIAL):
            # Nothing was taken yet and all rows will be read: an old slot would only bring old changes.
            self._database.drop_slot()
            self._slotless = True
        self._follow(tables)
        if self._slotless and not self._waiting:
            self._database.create_slot()
        self._look_at_slot()

    def close(self) -> None:
        atexit.unregister(self.close)
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for engine in (self._snapshot, self._stream):
            if engine is not None:
                engine.close()

    def _look_at_slot(self) -> None:
        """One that is just being made is nowhere yet."""
        slot = self._database.slot()
        if slot is not None and slot.confirmed:
            self.boundary = self._confirmed = slot.confirmed
            self._slotless = False

    def tend(self) -> None:
        """Between rounds: go on from the snapshot to the stream, look for new tables, see what failed."""
        if self._slotless:
            self._look_at_slot()
        for engine, needed in ((self._snapshot, bool(self._reading)), (self._stream, True)):
            if engine is not None and needed and (engine.ended or engine.failure is not None):
                raise self._failed(engine)
        if self._snapshot is not None and not self._reading:
            self._snapshot.close()
            self._snapshot = None
        if self._snapshot is None:
            self._heed()
        if self._snapshot is None and self._waiting:
            self._start_snapshot()
        if self._snapshot is None and self._stream is None:
            self._start_stream()
        if self._stream is not None and time.monotonic() >= self._polled + self._source.poll_seconds:
            self._polled = time.monotonic()
            self._follow(self._publish())
            self._move_idle_slot()

    def take(self, records: int) -> tuple[list[Slice], dict[str, Position], dict[str, tuple[int, ...]]]:
        """What a round reads, where it ends, and what is left."""
        with self._changed:
            # A stamp that does not know where the slot is could not tell it from another one.
            logs = {} if self._slotless else dict(self._logs)
            backlog = {}
            for topic, log in logs.items():
                partition, count = log.ready(self._over)
                backlog[topic, partition] = count
            shares = share(backlog, max(1, self._budget(records, sum(backlog.values()))))
            parts: dict[str, Slice] = {}
            for (topic, partition), count in shares.items():
                if count:
                    count = logs[topic].whole(count, self._over) if partition == STREAM else count
                    start = logs[topic].landed[partition]
                    parts[topic] = Slice(topic, partition, start, start + count)
            positions = {topic: logs[topic].position(part, self.boundary) for topic, part in parts.items()}
            lags = {topic: self._left(log, parts.get(topic)) for topic, log in logs.items()}
        return sorted(parts.values()), positions, lags

    def chunks(self, part: Slice) -> list[Chunk]:
        with self._changed:
            return held(list(self._logs[part.topic].chunks), part)

    def beginning(self, topic: str, partition: int, number: int) -> int:
        """The first record that lands together with this one."""
        with self._changed:
            whole = self._whole and partition == STREAM
            return self._logs[topic].beginning(number) if whole else number

    def stop(self, topics: Iterable[str]) -> None:
        """Their tables cannot go on: they must not fill the memory."""
        with self._changed:
            self._stopped |= set(topics)
            for topic in self._stopped & self._logs.keys():
                self._logs[topic].stop()
            self._changed.notify_all()

    def settle(self, positions: Mapping[str, Position]) -> None:
        """These have landed; raises RoundFailed if they are not where this session goes on."""
        with self._changed:
            for topic, log in self._logs.items():
                position = positions.get(topic)
                if position is None or numbers(position) == log.landed:
                    continue
                if any(after < before for after, before in zip(numbers(position), log.landed, strict=True)):
                    raise RoundFailed(
                        f"the stamp of {topic} went back to {position.next}: the source begins anew"
                    )
                log.settle(position)
                self._note.stamped = max(self._note.stamped, TopicState.of(position).slot)
            self._changed.notify_all()
        self._confirm()

    @property
    def caught_up_to(self) -> int:
        """Everything that was committed before this has landed; 0 while rows are being read."""
        with self._changed:
            busy = (
                self._stream is None
                or self._reading
                or self._waiting
                or any(log.chunks or log.asking for log in self._logs.values())
            )
            return 0 if busy else self.boundary

    def _heed(self) -> None:
        """Tables whose rows were asked for are read next."""
        with self._changed:
            wanted = {topic for topic, log in self._logs.items() if log.asking and not log.reading}
        if not wanted:
            return
        tables = {self._source.topic(t.schema, t.name): t for t in self._database.tables() if t.readable}
        self._waiting += [tables[topic] for topic in sorted(wanted & tables.keys())]
        for topic in wanted - tables.keys():
            _logger.warning("pipeline %s: %s is gone or may not be read any more", self._pipeline, topic)
            with self._changed:
                self._logs[topic].give_up()

    def _start_snapshot(self) -> None:
        """The stream waits meanwhile. If the slot is made with the snapshot, it then sends what was done to
        the rows after they were read. Else what it sends is at least as new as the rows were when reading
        began, so that in the end the newest values win; older changes that the slot still has are left out
        where that can be told: they might not find what they change."""
        makes_slot = self._slotless
        floor = None if makes_slot else self._database.settled(_SETTLE_SECONDS)
        names = tuple(dict.fromkeys((table.schema, table.name) for table in self._waiting))
        with self._changed:
            self._waiting = []
            self._reading = tuple(self._source.topic(*name) for name in names)
            for topic in self._reading:
                self._logs[topic].begin(self._over)
                # Rows of a snapshot before this one wait for what was done to them since.
                if not any(self._logs[topic].landed):
                    self._logs[topic].floor = floor or 0
        properties = snapshot_properties(self._source, names, makes_slot=makes_slot)
        self._snapshot = Engine(self._source, properties, self._read, None)
        self._snapshot.start()

    def _start_stream(self) -> None:
        self._polled = time.monotonic()
        if self._slotless:
            self._look_at_slot()
        self._await_idle_slot()
        self._stream = Engine(self._source, stream_properties(self._source), self._streamed, self._confirmed)
        self._stream.start()

    def _await_idle_slot(self) -> None:
        """The server notices a little later that the engine which made it has gone."""
        deadline = time.monotonic() + _SETTLE_SECONDS
        while (slot := self._database.slot()) and slot.active and time.monotonic() < deadline:
            time.sleep(0.05)

    def _check_slot(self, slot: Slot | None) -> None:
        source = self._source
        require_slot(source, self._pipeline, slot, begun=self._begun)
        if slot is None:
            return
        if slot.active:
            raise Unavailable(
                f"another process is reading the slot {source.slot} of {source.where}. If it is the same "
                "pipeline somewhere else, one of the two must end; one that was killed lets go of it soon"
            )
        if self._begun and not self._note.allows(slot.confirmed):
            found = (
                f"the slot {source.slot} was moved on by somebody else, or made anew: it is at "
                f"{slot.confirmed}, and what has landed reaches up to {self._note.stamped}"
            )
            raise slot_gone(source, self._pipeline, found)

    def _publish(self) -> list[SourceTable]:
        """The tables to follow, all of them in the publication."""
        tables = [table for table in self._database.tables() if self._usable(table)]
        fresh = [table for table in tables if not table.published]
        try:
            self._database.publish(fresh)
        except NotAllowed:
            if len(fresh) == len(tables):
                raise
            for table in fresh:
                self._publish_alone(table)
        return [table for table in tables if self._topic(table) not in self.troubles]

    def _publish_alone(self, table: SourceTable) -> None:
        try:
            self._database.publish([table])
        except NotAllowed as error:
            self.troubles[self._topic(table)] = error

    def _topic(self, table: SourceTable) -> str:
        return self._source.topic(table.schema, table.name)

    def _usable(self, table: SourceTable) -> bool:
        if self._topic(table) in self.troubles:
            return False
        if table.identified and table.readable:
            return True
        reason = (
            f"the user {self._source.user} may not read it: GRANT SELECT ON {table.quoted} TO it, and USAGE "
            "on its schema"
            if table.identified
            else "it has no primary key, and updates of it would be refused once it is published: add one, "
            f"or ALTER TABLE {table.quoted} REPLICA IDENTITY FULL"
        )
        if self._source.named(table.schema, table.name):
            raise InvalidConfig(f"the table {table.full_name} cannot be followed: {reason}; or leave it out")
        if table.full_name not in self._refused:
            self._refused.add(table.full_name)
            _logger.warning("the table %s is left out: %s", table.full_name, reason)
        return False

    def _follow(self, tables: list[SourceTable]) -> None:
        """Begin to follow those that are new."""
        fresh = []
        for table in tables:
            topic = self._topic(table)
            known = self._logs.get(topic)
            position = self._positions.get(topic)
            before = known.id if known else position.id if position else _UNKNOWN
            if before not in (_UNKNOWN, table.oid):
                self.troubles[topic] = self._another(table, topic, before, tables)
                self.stop([topic])
                continue
            if known is None:
                log = TopicLog.at(position, table.oid)
                log.done = log.done or (self._source.snapshot is Snapshot.NEVER and not log.asked)
                if topic in self._stopped:
                    log.stop()
                with self._changed:
                    self._logs[topic] = log
                if not (log.done or log.stopped):
                    fresh.append(table)
            elif known.id == _UNKNOWN:
                known.id = table.oid
        self._waiting += [table for table in fresh if self._topic(table) not in self.troubles]

    def _another(self, table: SourceTable, topic: str, oid: str, tables: list[SourceTable]) -> FrazilError:
        """What to say of a table that is not the one which the topic was of."""
        for other in tables:
            if other.oid == oid:
                return InvalidConfig(
                    f"the tables {other.full_name} and {table.full_name} share the topic {topic}, in whose "
                    "name all but letters, digits, dots and - become _: leave one of them out, or rename it"
                )
        return SourceChanged(
            f"pipeline {self._pipeline}: the table {table.full_name} was dropped and made again (its oid "
            f"was {oid} and is {table.oid}); what was read of the old one is still in the lake. Nothing "
            f"was written; drop the copy of {topic} there, and the next run reads its rows anew"
        )

    def _budget(self, records: int, ready: int) -> int:
        """Half of the memory at most, so that the other half can be filled meanwhile."""
        size = sum(log.size for log in self._logs.values())
        half = self._source.buffer_bytes // 2
        return min(records, ready if size <= half else ready * half // size)

    def _left(self, log: TopicLog, part: Slice | None) -> tuple[int, ...]:
        left = [log.tail[STREAM] - log.landed[STREAM], log.tail[READS] - log.landed[READS]]
        if part is not None:
            left[part.partition] -= len(part)
        return tuple(max(count, 0) for count in left)

    def _read(self, batch: Batch) -> None:
        """In the engine's thread."""
        with self._changed:
            self._wait(lambda: bool(self._reading) and self._full)
            for topic, records in batch.topics:
                if topic in self._reading:
                    self._logs[topic].read(records)
            for notice in batch.notices:
                self._noticed(notice)

    def _noticed(self, what: str) -> None:
        if what == COMPLETED:
            for topic in self._reading:
                self._logs[topic].end()
            self._reading = ()
            self._changed.notify_all()
        elif what in ("ABORTED", "SKIPPED"):
            raise RoundFailed(f"the snapshot of {', '.join(self._reading)} ended early: {what.lower()}")

    def _streamed(self, batch: Batch) -> None:
        """In the engine's thread."""
        with self._changed:
            self._wait(lambda: bool(self._reading) or self._full)
            for topic, records in batch.topics:
                # A table that nobody has looked for yet: its rows will be read, if they are wanted at all.
                if topic not in self._logs and self._source.snapshot is Snapshot.NEVER:
                    self._logs[topic] = TopicLog(_UNKNOWN, [0, 0], None, done=True)
                if topic in self._logs:
                    self._logs[topic].streamed(records)
            for message in batch.messages:
                self._hear(message)
            self.boundary = max(self.boundary, batch.boundary)
            self._told = max(self._told, batch.boundary)
        self._confirm()

    def _hear(self, message: bytes) -> None:
        found = asked(self._source, message)
        if found is None:
            return
        request, commit, lsn = found
        log = self._logs.get(self._source.topic(request.schema, request.table))
        if log is not None:
            log.ask(commit, lsn)
            return
        _logger.warning(
            "pipeline %s: the rows of %s.%s were asked for, and it does not follow such a table",
            self._pipeline,
            request.schema,
            request.table,
        )

    def _wait(self, busy: Callable[[], bool]) -> None:
        while busy() and not self._closed:
            self._changed.wait()
        if self._closed:
            raise RoundFailed("the source was closed")

    @property
    def _over(self) -> int | None:
        return self._told if self._whole else None

    @property
    def _full(self) -> bool:
        if sum(log.size for log in self._logs.values()) < self._source.buffer_bytes:
            return False
        # A transaction that is larger than the memory for it must still come to its end.
        return not self._whole or any(log.ready(self._over)[1] for log in self._logs.values())

    def _confirm(self) -> None:
        with self._changed:
            lsn = slot_target(self._logs.values(), min(self.boundary, self._note.reach))
            stream = self._stream
            if stream is None or lsn <= self._confirmed:
                return
            self._confirmed = lsn
        stream.confirm(lsn)

    def _move_idle_slot(self) -> None:
        """Other tables and databases fill the same log, which is kept for a slot that stands still."""
        if self._database.log_end() - self._confirmed < _IDLE_BYTES:
            return
        with self._changed:
            boundary = self.boundary
            idle = slot_target(self._logs.values(), boundary) == boundary
        if idle and boundary > self._note.reach:
            self._note.move(boundary)
            self._confirm()
        elif idle:
            self._database.emit(MESSAGE_PREFIX)

    def _failed(self, engine: Engine) -> FrazilError:
        failure = engine.failure
        if isinstance(failure, FrazilError):
            return failure
        if failure is None:
            return Unavailable(f"the engine that follows {self._source.where} has ended")
        return explain(self._source, failure)
