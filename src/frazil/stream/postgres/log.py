"""Changes between the database and the table: numbered, and kept until they have landed.

A replication slot sends whole transactions again after a restart, from wherever it was left. Their records
get the numbers that they had: the stamp knows one transaction of each topic, the number of its first record
there, and how far the topic was read. So a number always means the same record, as an offset in Kafka does.

Rows that a snapshot read are a partition of their own, because nothing brings them a second time in the same
order; one round never takes both from a topic, which keeps their order.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

import msgspec
import pyarrow as pa

from frazil.core.stamp import Position
from frazil.stream.source import Slice

#: Partitions of a topic.
STREAM, READS = 0, 1
# In compact JSON this cannot stand inside a string: a quote there has a backslash before it.
_SEQUENCE = re.compile(rb'"sequence":"\[(?:\\"(\d+)\\"|null),\\"(\d+)\\"\]"')
_MARK = b'"sequence":"['


class Anchor(msgspec.Struct, frozen=True):
    """The first record of a transaction in a topic."""

    #: Where the transaction before it was committed.
    commit: int
    lsn: int
    number: int


class TopicState(msgspec.Struct, frozen=True, omit_defaults=True):
    """`Position.state` of a topic."""

    #: Its rows were all read, or need not be.
    done: bool = False
    #: If so many have landed: a round may have been cut short.
    rows: int = 0
    #: Of the first and the last record that landed with this: a round may have been cut short.
    anchors: tuple[Anchor, ...] = ()
    #: How far the slot may have moved once this has landed.
    slot: int = 0
    #: Rows that were read have in them what stands before this in the database's log.
    floor: int = 0
    #: Where the last request for its rows stands that was heard; those before it are over.
    asked: int = 0

    @classmethod
    def of(cls, position: Position | None) -> TopicState:
        return msgspec.json.decode(position.state, type=cls) if position and position.state else cls()

    def anchor(self, landed: int) -> Anchor | None:
        """The last transaction of which something has landed."""
        return max((anchor for anchor in self.anchors if anchor.number < landed), default=None, key=_number)

    def encode(self) -> str:
        return msgspec.json.encode(self).decode()


def numbers(position: Position | None) -> list[int]:
    """The next one of each partition."""
    return [*(position.next if position is not None else ()), 0, 0][:2]


def place(value: bytes) -> tuple[int, int]:
    """Where the transaction before the record's own was committed, and where it stands itself."""
    # The envelope's own is the last: a column may have the same name.
    match = _SEQUENCE.match(value, max(value.rfind(_MARK), 0))
    return (0, 0) if match is None else (int(match[1] or 0), int(match[2]))


def _number(anchor: Anchor) -> int:
    return anchor.number


@dataclass(frozen=True)
class Schemas:
    """Debezium's own description of keys and values, as JSON."""

    value: bytes
    key: bytes = b""


@dataclass(frozen=True)
class Chunk:
    """Consecutive records of a topic."""

    partition: int
    first: int
    keys: pa.BinaryArray
    values: pa.BinaryArray
    schemas: Schemas
    #: When they arrived, milliseconds since 1970.
    time: int

    @property
    def end(self) -> int:
        return self.first + len(self.values)

    @property
    def size(self) -> int:
        return int(self.keys.nbytes + self.values.nbytes)

    def cut(self, start: int, end: int) -> Chunk:
        """Those with a number from `start` up to, not including, `end`."""
        skip = max(start - self.first, 0)
        length = max(min(end, self.end) - self.first - skip, 0)
        return Chunk(
            self.partition,
            self.first + skip,
            self.keys.slice(skip, length),
            self.values.slice(skip, length),
            self.schemas,
            self.time,
        )


@dataclass(frozen=True)
class Records:
    """What the engine brought of one topic, in order."""

    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    schemas: Schemas
    time: int
    #: Of the stream: the commit before, and the record's own position in the log.
    commits: Sequence[int] = ()
    lsns: Sequence[int] = ()
    #: The last one deletes a row that the next one brings with another key.
    half: bool = False


@dataclass
class TopicLog:
    """What is held of one topic."""

    id: str
    #: By partition: what has landed, and what comes next.
    landed: list[int]
    anchor: Anchor | None
    done: bool
    tail: list[int] = field(init=False)
    chunks: deque[Chunk] = field(default_factory=deque)
    #: First records of the transactions of what is held, in order.
    starts: list[Anchor] = field(default_factory=list)
    #: Rows are being read just now, and so many chunks of changes come behind them.
    reading: bool = False
    behind: int = 0
    #: The slot has come to where this topic goes on.
    found: bool = False
    #: Until a change has landed: those before this are in the rows that were read.
    floor: int = 0
    #: The last change is half of one that gives a row another key.
    half: bool = False
    #: Where the last request for its rows stands, and whether reading them has yet to begin.
    asked: int = 0
    asking: bool = False
    #: The commit before a request that no stamp knows of yet: the slot waits there.
    hold: int | None = None
    #: Its table cannot go on: nothing is kept of it, and the slot waits for it.
    stopped: bool = False

    def __post_init__(self) -> None:
        self.tail = list(self.landed)

    @classmethod
    def at(cls, position: Position | None, oid: str) -> TopicLog:
        state = TopicState.of(position)
        landed = numbers(position)
        anchor = state.anchor(landed[STREAM])
        done = state.done and landed[READS] >= state.rows
        return cls(oid, landed, anchor, done, floor=state.floor, asked=state.asked)

    def stop(self) -> None:
        self.stopped = True
        self.chunks.clear()

    def ask(self, commit: int, lsn: int) -> None:
        """All rows are wanted again; a request that was heard before is not a new one."""
        if lsn > self.asked:
            self.hold = commit if self.hold is None else self.hold
            self.asked, self.asking, self.done = lsn, True, False

    def begin(self, over: int | None = None) -> None:
        """Its rows are read from now on. They come before a transaction, or a changed key, of which only a
        part is here: the slot brings the rest when they were read. `over`, as `ready` has it."""
        self.reading, self.asking, self.done = True, False, False
        number = self._complete(over)
        apart = held(self.chunks, Slice("", STREAM, number, self.tail[STREAM]))
        while self.chunks and self.chunks[-1].partition == STREAM and self.chunks[-1].end > number:
            last = self.chunks.pop()
            if last.first < number:
                self.chunks.append(last.cut(last.first, number))
        self.chunks.extend(apart)
        self.behind = len(apart)

    def end(self) -> None:
        """All its rows are here."""
        self.reading, self.behind, self.done = False, 0, not self.asking
        # What brought no row has nothing to land with, and costs nothing to do again.
        if self.done and not self.stopped and not any(chunk.partition == READS for chunk in self.chunks):
            self.hold = None

    def give_up(self) -> None:
        """The rows that were asked for cannot be read."""
        self.asking = False
        self.end()

    def read(self, records: Records) -> None:
        """Rows of a snapshot."""
        self._append(READS, records, 0)

    def streamed(self, records: Records) -> None:
        """Changes that the slot sent; those that have landed before are left out."""
        skip = 0 if self.found else self._find(records)
        number = self.tail[STREAM]
        for row in range(skip, len(records.values)):
            known = self.stopped and number > self.landed[STREAM]
            if not self.starts or (self.starts[-1].commit != records.commits[row] and not known):
                self.starts.append(Anchor(records.commits[row], records.lsns[row], number))
            number += 1
        seen = max(0, min(self.landed[STREAM] - self.tail[STREAM], len(records.values) - skip))
        self.tail[STREAM] += seen
        self._append(STREAM, records, skip + seen)
        self.half = records.half

    def _find(self, records: Records) -> int:
        """How many come before the transaction that the stamp knows, or the one behind it."""
        anchor = self.anchor
        for row, commit in enumerate(records.commits):
            if records.lsns[row] >= self.floor if anchor is None else commit >= anchor.commit:
                self.found = True
                again = anchor is not None and records.lsns[row] == anchor.lsn
                self.tail[STREAM] = anchor.number if anchor and again else self.landed[STREAM]
                return row
        return len(records.values)

    def _append(self, partition: int, records: Records, skip: int) -> None:
        count = len(records.values) - skip
        if count <= 0:
            return
        keys = pa.array(records.keys[skip:], pa.binary())
        values = pa.array(records.values[skip:], pa.binary())
        first = self.tail[partition]
        if not self.stopped:
            chunk = Chunk(partition, first, keys, values, records.schemas, records.time)
            self.chunks.insert(len(self.chunks) - self.behind, chunk)
        self.tail[partition] += count

    def ready(self, over: int | None = None) -> tuple[int, int]:
        """The partition that is next, and how many of its records can be taken. `over`: the last commit that
        the slot told of, where a transaction that may have more changes has to wait for them.
        """
        if not self.chunks:
            return STREAM, 0
        partition = self.chunks[0].partition
        run = list(takewhile(lambda chunk: chunk.partition == partition, self.chunks))
        count = sum(len(chunk.values) for chunk in run)
        if partition == READS:
            # The last row waits until it is known to be the last: what lands with it can then say so.
            return partition, count - (self.reading and len(run) == len(self.chunks) - self.behind)
        return partition, min(count, self._complete(over) - self.landed[STREAM])

    def _complete(self, over: int | None) -> int:
        """The changes before this number need none that is not here yet; `over`, as `ready` has it."""
        if over is not None and self.starts and self.starts[-1].commit >= over:
            return max(self.starts[-1].number, self.landed[STREAM])
        return self.tail[STREAM] - self.half

    def beginning(self, number: int) -> int:
        """Of the transaction that the record is of, as far as it has not landed."""
        return max(self._start(number).number, self.landed[STREAM])

    def whole(self, count: int, over: int | None = None) -> int:
        """So many changes, or one more: a delete and the row with another key have one place in the log, and
        land together, for what the row does not say is where its old key was. `over`, as `ready` has it: as
        many more as the transaction has."""
        ready = self.ready(over)[1]
        if count >= ready:
            return count
        last = self.landed[STREAM] + count - 1
        if over is not None:
            behind = bisect_right(self.starts, last, key=_number)
            return ready if behind == len(self.starts) else self.starts[behind].number - self.landed[STREAM]
        return count + (place(self._value(last)) == place(self._value(last + 1)))

    def _value(self, number: int) -> bytes:
        """Of a change that is held."""
        (found,) = held(self.chunks, Slice("", STREAM, number, number + 1))
        value: bytes = found.values[0].as_py()
        return value

    def position(self, part: Slice | None, slot: int) -> Position:
        """Behind the slice."""
        following = list(self.landed)
        anchors: tuple[Anchor, ...] = () if self.anchor is None else (self.anchor,)
        rows_left = sum(len(chunk.values) for chunk in self.chunks if chunk.partition == READS)
        if part is not None:
            following[part.partition] = part.end
            if part.partition == STREAM:
                first, last = self._start(part.start), self._start(part.end - 1)
                anchors = (first,) if first is last else (first, last)
            else:
                rows_left -= len(part)
        floor = 0 if anchors else self.floor
        done = self.done and not rows_left
        state = TopicState(done, self.tail[READS] if done else 0, anchors, slot, floor, self.asked)
        return Position(id=self.id, next=tuple(following), state=state.encode())

    def settle(self, position: Position) -> None:
        """It has landed: what is before it is let go."""
        state = TopicState.of(position)
        self.landed = numbers(position)
        self.anchor = state.anchor(self.landed[STREAM])
        if state.asked >= self.asked:
            self.hold = None
        while self.chunks and self.chunks[0].end <= self.landed[self.chunks[0].partition]:
            self.chunks.popleft()
        if self.chunks:
            head = self.chunks[0]
            self.chunks[0] = head.cut(self.landed[head.partition], head.end)
        # That of the last one is still needed.
        del self.starts[: max(bisect_left(self.starts, self.landed[STREAM], key=_number) - 1, 0)]

    @property
    def size(self) -> int:
        return sum(chunk.size for chunk in self.chunks)

    def bound(self, lsn: int) -> int:
        """How far the slot may move for this topic, up to the position (a commit that the slot has sent).

        After a restart from there, the transaction that the stamp knows must be sent again, or else the first
        record that is sent must be the next one to land.
        """
        landed, anchor = self.landed[STREAM], self.anchor
        lsn = lsn if self.hold is None else min(lsn, self.hold)
        if not self.found or not self.starts:
            return lsn
        if self.tail[STREAM] < landed and anchor is not None:
            return min(lsn, anchor.commit)
        if self.tail[STREAM] > landed:
            lsn = min(lsn, self._start(landed).commit)
        if self.starts[0].number >= landed:
            return lsn
        last = self._start(landed - 1)
        if lsn > last.commit or anchor is None or anchor.lsn == last.lsn:
            return lsn
        return min(lsn, anchor.commit)

    def _start(self, number: int) -> Anchor:
        """Of the transaction that the record is of."""
        return self.starts[bisect_right(self.starts, number, key=_number) - 1]


def held(chunks: Iterable[Chunk], part: Slice) -> list[Chunk]:
    """The records of a slice."""
    found = [chunk for chunk in chunks if chunk.partition == part.partition]
    return [
        chunk.cut(part.start, part.end)
        for chunk in found
        if chunk.first < part.end and chunk.end > part.start
    ]


def slot_target(logs: Iterable[TopicLog], lsn: int) -> int:
    """How far the slot may move, up to the position; what one topic holds back, others may hold back more."""
    logs = list(logs)
    while (bound := min((log.bound(lsn) for log in logs), default=lsn)) < lsn:
        lsn = bound
    return lsn
