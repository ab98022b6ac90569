"""One hot table beside its model: how it is written, and how each read is held against the model."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from confluent_kafka import Message, Producer, TopicPartition
from tests.hot.model import rows as seeded
from tests.hot.model.log import Log, Row, Values, encoded, partition_of, require_equal, values

import frazil
from frazil.core.errors import NotFound, SourceChanged
from frazil.hot.read.arrow import read_arrow
from frazil.hot.read.pins import Pins
from frazil.hot.table import HotTable
from frazil.hot.write.put import Writer

if TYPE_CHECKING:
    from tests.hot.model.world import World

_KEPT = 30
_SECONDS = 120.0
#: A snapshot is a little older than its commit; a pin of just that time has so much less of the keep window.
_MARGIN = 10.0
_EXPIRED, _TRIMMED = "its snapshot expired", "its log was trimmed"


@dataclass(frozen=True)
class Answer:
    """What a read gave, to be given again for the same pins."""

    pins: Pins
    began: float
    columns: tuple[str, ...]
    rows: Counter[Values]


@dataclass
class ModelTable:
    world: World
    hot: HotTable
    columns: list[str]
    #: Columns that somebody added later, by whom the rows have values from then on.
    added: list[str] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    #: Pins before these moments may have lost their log or their snapshot: no keep window was minded then.
    trimmed: float = 0.0
    expired: float = 0.0

    def __post_init__(self) -> None:
        self.log = Log(self.hot.key, [{} for _ in range(self.partitions)])
        self.name = str(self.hot)

    @property
    def partitions(self) -> int:
        return int(self.hot.properties["bucket.num"])

    # Writing

    def row(self, rng: Random, key: Mapping[str, Any] | None = None) -> Row:
        own = key if key is not None else seeded.key_of(rng, self.hot.key or ("n",))
        more = {k: v for column in self.added for k, v in seeded.more_of(rng, column).items()}
        return {**own, **seeded.value_of(rng), **more}

    def some_row(self, rng: Random) -> Row | None:
        """One that is there now."""
        there = self.log.rows(self.log.ends)
        return rng.choice(there) if there else None

    def send(self, producer: Producer, row: Row, *, delete: bool = False) -> list[Message]:
        """Produce a record; what comes back holds it when it was delivered."""
        sent: list[Message] = []
        value = None if delete else encoded(row)
        producer.produce(
            self.hot.topic, value, self.key_bytes(row), on_delivery=lambda e, m: sent.append(_good(e, m))
        )
        return sent

    def note(self, sent: Sequence[Message], row: Row, *, delete: bool = False) -> None:
        """It counts from now on."""
        for one in sent:
            partition, offset, key = one.partition(), one.offset(), self.key_bytes(row)
            assert partition is not None
            assert offset is not None
            assert key is None or partition == partition_of(key, self.partitions)
            self.log.add(partition, offset, key, None if delete else row)

    def change(self, *changes: tuple[Row, bool]) -> None:
        """Put rows, or delete them."""
        made = [(self.send(self.world.producer, row, delete=gone), row, gone) for row, gone in changes]
        assert self.world.producer.flush(_SECONDS) == 0
        for sent, row, gone in made:
            self.note(sent, row, delete=gone)

    def write(self, rows: Sequence[Row], gone: Sequence[Row]) -> None:
        """By the writer of frazil. It tells no offsets: they are those that come next."""
        following = list(self.ends())
        with Writer(self.hot) as writer:
            writer.put([dict(row) for row in rows])
            if gone:
                writer.delete([dict(row) for row in gone])
        if not self.hot.key:
            assert len(rows) == 1, "where it lies is seen by what grew"
        grown = [at for at, (old, new) in enumerate(zip(following, self.ends(), strict=True)) if new > old]
        for row, deleted in [*((one, False) for one in rows), *((one, True) for one in gone)]:
            key = self.key_bytes(row)
            partition = grown[0] if key is None else partition_of(key, self.partitions)
            self.log.add(partition, following[partition], key, None if deleted else row)
            following[partition] += 1
        assert tuple(following) == self.ends()

    def key_bytes(self, row: Row) -> bytes | None:
        return encoded({name: row[name] for name in self.hot.key}) if self.hot.key else None

    def ends(self, *, stable: bool = True) -> tuple[int, ...]:
        """As Kafka tells it to anybody."""
        consumer = self.world.stable if stable else self.world.consumer
        places = (TopicPartition(self.hot.topic, partition) for partition in range(self.partitions))
        found = (consumer.get_watermark_offsets(place, timeout=_SECONDS) for place in places)
        return tuple(high for _, high in found)

    def beginnings(self) -> tuple[int, ...]:
        places = (TopicPartition(self.hot.topic, partition) for partition in range(self.partitions))
        found = (self.world.consumer.get_watermark_offsets(place, timeout=_SECONDS) for place in places)
        return tuple(low for low, _ in found)

    # Reading

    def check(self, read: Callable[[Pins], pa.Table] | None = None) -> Pins:
        """Both tiers, as they are now."""
        began, ends = time.time(), self.ends()
        pins = frazil.pin(self.world.client, self.name)
        assert pins.ends == ends, f"{self.name} is pinned up to {pins.ends}, and ends at {ends}"
        try:
            found = (read or self._arrow)(pins)
        except SourceChanged:
            # The service leaves the log for the keep window, and a slow read may take longer.
            if time.time() - began < self.hot.keep:
                raise
            return self.check(read)
        assert found.column_names == self.columns, f"columns of {self.name}: {found.column_names}"
        answer = values(found.to_pylist(), self.columns)
        require_equal(answer, self._wanted(ends), f"{self.name} at {pins}")
        self.answers.append(Answer(pins, began, tuple(self.columns), answer))
        del self.answers[:-_KEPT]
        return pins

    def check_some(self, rng: Random) -> None:
        """Some columns, and rows of one key."""
        ends, names = self.ends(), rng.sample(self.columns, rng.randint(1, len(self.columns)))
        found = read_arrow(self.name, columns=names, catalog=self.world.client)
        wanted = self.log.rows(ends)
        require_equal(values(found.to_pylist(), names), values(wanted, names), f"{names} of {self.name}")
        if not self.hot.key:
            return
        there = self.some_row(rng) if rng.random() < 0.5 else None
        key = {name: (there or self.row(rng))[name] for name in self.hot.key}
        found = read_arrow(self.name, where=key, catalog=self.world.client)
        wanted = [row for row in wanted if self.key_bytes(row) == self.key_bytes(key)]
        require_equal(
            values(found.to_pylist(), self.columns), values(wanted, self.columns), f"{self.name}, {key}"
        )

    def check_spark(self, *, again: bool = False) -> None:
        """By Spark; `again`: at the newest pins that a reader without it had."""
        if again and self.answers:
            self.check_again(self.answers[-1], self._by_spark)
        else:
            self.check(self._by_spark)

    def check_again(self, answer: Answer, read: Callable[[Pins], pa.Table] | None = None) -> bool:
        """The same pins, the same answer; False: what they need is gone, and should be."""
        gone = self._gone(answer.pins)
        try:
            found = (read or self._arrow)(answer.pins)
        except (NotFound, SourceChanged):
            reason = gone or self._gone(answer.pins)
            if reason is None:
                raise
            self.answers.remove(answer)
            self._require_old(answer, reason)
            return False
        assert gone is None, f"{answer.pins} were read, but {gone}"
        assert found.column_names == list(answer.columns)
        require_equal(
            values(found.to_pylist(), answer.columns), answer.rows, f"once more {self.name} at {answer.pins}"
        )
        return True

    def check_iceberg(self) -> None:
        """Iceberg alone, by another's reader and by ours: the model up to the stamp of that snapshot."""
        head, ends = stamped(self.metadata(), self.hot)
        if head is not None:
            found = self.world.pyiceberg.load_table(self.name).scan(snapshot_id=head).to_arrow()
            wanted = values(self.log.rows(ends), found.column_names)
            require_equal(
                values(found.to_pylist(), found.column_names), wanted, f"{self.name} in Iceberg up to {ends}"
            )
        pins = frazil.pin(self.world.client, self.name, fresh=False)
        assert not pins.topic, "nobody asks for the log"
        if pins.snapshot is not None:
            ends = stamped(self.metadata(), self.hot, pins.snapshot)[1]
            rows = values(self._arrow(pins).to_pylist(), self.columns)
            require_equal(rows, self._wanted(ends), f"{self.name} without its tail, {pins}")

    def check_complete(self) -> None:
        """Everything is in Iceberg."""
        ends = self.tiered()
        assert all(end <= at for end, at in zip(self.log.ends, ends, strict=True)), (self.log.ends, ends)
        self.check_iceberg()
        self.check()

    def tiered(self) -> tuple[int, ...]:
        """Up to where the log is in Iceberg."""
        return stamped(self.metadata(), self.hot)[1]

    def metadata(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.world.client.tables.load(self.hot.namespace, self.hot.name).metadata
        return found

    def _wanted(self, ends: Sequence[int]) -> Counter[Values]:
        return values(self.log.rows(ends), self.columns)

    def _arrow(self, pins: Pins) -> pa.Table:
        return read_arrow(self.name, pins=pins.encode(), catalog=self.world.client)

    def _by_spark(self, pins: Pins) -> pa.Table:
        world = self.world
        return frazil.read(world.spark, self.name, pins=pins, catalog=world.client).toArrow()

    def _gone(self, pins: Pins) -> str | None:
        """What the pins need and what is not there any more."""
        if pins.snapshot is not None and pins.snapshot not in _snapshots(self.metadata()):
            return _EXPIRED
        parts = zip(pins.starts, pins.ends, self.beginnings(), strict=True)
        return _TRIMMED if any(start < min(end, low) for start, end, low in parts) else None

    def _require_old(self, answer: Answer, reason: str) -> None:
        """Only what nobody has a promise for may go."""
        since = max(self.trimmed if reason == _TRIMMED else self.expired, time.time() - self.hot.keep)
        assert answer.began < since + _MARGIN, f"{answer.pins}: {reason}, within the keep window"


def stamped(
    metadata: Mapping[str, Any], hot: HotTable, snapshot: int | None = None
) -> tuple[int | None, tuple[int, ...]]:
    """Main's snapshot, or that one, and where the log is in it: read off the document, by none of the
    readers' code."""
    head = snapshot or (metadata.get("refs") or {}).get("main", {}).get("snapshot-id")
    snapshots, at = _snapshots(metadata), head
    while at is not None:
        assert at in snapshots, f"the line of {hot} ends at the expired snapshot {at}, before its stamp"
        text = (snapshots[at].get("summary") or {}).get("frazil.stamp.hot")
        if text is not None:
            return head, tuple(json.loads(text)["positions"][hot.topic]["next"])
        at = snapshots[at].get("parent-snapshot-id")
    return head, (0,) * int(hot.properties["bucket.num"])


def _snapshots(metadata: Mapping[str, Any]) -> dict[int, Mapping[str, Any]]:
    return {one["snapshot-id"]: one for one in metadata.get("snapshots") or ()}


def _good(error: object, message: Message) -> Message:
    assert error is None, error
    return message
