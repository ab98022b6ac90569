"""What a union read is of: a snapshot and the ends of the log. The same pins give the same answer.

The snapshot is taken before the ends. Its stamp says up to where the log is in it, and tiering reads no
further than the log goes: so ends that are asked for afterwards are never below it, whatever was committed
meanwhile. The other way round a commit in between could put records into the snapshot that lie beyond the
ends, and the answer would be of no one moment.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import msgspec

from frazil.client import Client
from frazil.core.errors import HistoryChanged, InvalidInput, NotFound, SourceChanged, Unavailable
from frazil.core.names import show
from frazil.hot.log import log_reader, remade, require_reached, require_topic
from frazil.hot.rollback import rolled_back
from frazil.hot.table import TIERING, HotTable, hot_table, table_name
from frazil.lake.authority import MetadataHistory, find_stamp
from frazil.stream.config.model import KafkaSource
from frazil.stream.kafka.feed import KafkaReader
from frazil.stream.kafka.log import KafkaLog, LogView, Topic
from frazil.stream.source import Slice

PINS_VERSION = 1
_PEEK = 64


class Pins(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One table at one moment."""

    v: int = msgspec.field(default_factory=lambda: PINS_VERSION)
    #: `shop.orders`, and which table of that name.
    table: str
    uuid: str
    #: None: nothing was in Iceberg.
    snapshot: int | None = None
    #: The columns of the answer.
    schema: int = 0
    #: Empty: an ordinary table, which has no log, or its log was not asked for.
    topic: str = ""
    topic_id: str = ""
    #: By partition, up to where the log is in the snapshot, and up to where it is read.
    starts: tuple[int, ...] = ()
    ends: tuple[int, ...] = ()
    #: Of a stream: the number of the snapshot's row with which it goes on; None: it is past them.
    row: int | None = None
    #: When they were made, milliseconds since 1970.
    at: int = 0

    def encode(self) -> str:
        """Compact JSON."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def decode(cls, text: str) -> Self:
        """InvalidInput: these are no pins."""
        try:
            found = msgspec.json.decode(text, type=cls)
        except msgspec.MsgspecError as error:
            raise InvalidInput(f"these are no pins ({error}): {text[:200]}") from None
        if found.v > PINS_VERSION:
            raise InvalidInput(
                f"the pins are of version {found.v}, this frazil reads {PINS_VERSION}: upgrade frazil"
            )
        return found

    @property
    def tail(self) -> int:
        """Offsets of the log that are read."""
        return sum(end - start for start, end in zip(self.starts, self.ends, strict=True))

    def slices(self) -> list[Slice]:
        """One for each partition that has something to read."""
        pairs = zip(self.starts, self.ends, strict=True)
        return [
            Slice(self.topic, partition, start, end)
            for partition, (start, end) in enumerate(pairs)
            if start < end
        ]

    def __str__(self) -> str:
        snapshot = "no snapshot" if self.snapshot is None else f"snapshot {self.snapshot}"
        if not self.topic:
            return f"{self.table}: {snapshot}"
        ends = " ".join(f"{number}:{end}" for number, end in enumerate(self.ends))
        return f"{self.table}: {snapshot}, log up to {ends} ({self.tail} of them not in the snapshot)"


@dataclass(frozen=True)
class Pinned:
    """Pins with the table's metadata that they were checked against."""

    pins: Pins
    namespace: tuple[str, ...]
    name: str
    metadata: Mapping[str, Any]
    #: None: an ordinary table.
    hot: HotTable | None

    def __str__(self) -> str:
        return self.pins.table


def pin(
    client: Client,
    name: str,
    *,
    kafka: Mapping[str, str] | None = None,
    max_lag: float | None = None,
    fresh: bool = True,
) -> Pins:
    """The table as it is now: main's snapshot and the log's last stable offsets.

    `kafka`: settings that count before those that the table knows. `max_lag`: seconds; where Iceberg is no
    further behind than that, the log is not read at all. Without `fresh` it never is, and an Iceberg table
    that is further behind is refused (Unavailable). With neither, nobody asks for the log: it may be gone.

    >>> pin(client, "shop.orders").ends  # doctest: +SKIP
    (1042, 993)
    """
    return pinned(client, name, kafka=kafka, max_lag=max_lag, fresh=fresh).pins


def pinned(
    client: Client,
    name: str,
    *,
    kafka: Mapping[str, str] | None = None,
    max_lag: float | None = None,
    fresh: bool = True,
) -> Pinned:
    """Pins of now, with what they are of."""
    namespace, table = table_name(name)
    metadata = client.tables.load(namespace, table).metadata
    hot = hot_table(namespace, table, metadata)
    head = MetadataHistory(metadata).head
    made = Pins(
        table=show(namespace, table),
        uuid=str(metadata["table-uuid"]),
        snapshot=head,
        schema=int(metadata["current-schema-id"]),
        at=time.time_ns() // 1_000_000,
    )
    if hot is not None and (fresh or max_lag is not None):
        # The snapshot is known by now; only then is the log asked for its ends.
        made = _with_log(made, hot, metadata, kafka or {}, max_lag, fresh)
    return Pinned(made, namespace, table, metadata, hot)


def opened(client: Client, pins: Pins, *, kafka: Mapping[str, str] | None = None) -> Pinned:
    """Pins that were made earlier, if what they are of is still there."""
    namespace, table = table_name(pins.table)
    metadata = client.tables.load(namespace, table).metadata
    if metadata["table-uuid"] != pins.uuid:
        raise HistoryChanged(
            f"the table {pins.table} was dropped and made again after it was pinned (its id was {pins.uuid} "
            f"and is {metadata['table-uuid']}): pin it again"
        )
    if pins.snapshot is not None and MetadataHistory(metadata).snapshot(pins.snapshot) is None:
        raise NotFound(
            f"the snapshot {pins.snapshot} of the table {pins.table}, which was pinned, expired: pin the "
            "table again, and keep snapshots for longer than pins are used"
        )
    hot = hot_table(namespace, table, metadata)
    if pins.topic:
        if hot is None:
            raise HistoryChanged(f"the table {pins.table} is no hot table any more: pin it again")
        view = _log(hot, kafka or {}).look()
        _require_same(hot, view, pins.topic_id)
        _require_kept(hot, view, pins.starts, pins.ends)
    return Pinned(pins, namespace, table, metadata, hot)


def confirm(found: Pinned, kafka: Mapping[str, str] | None = None) -> None:
    """After reading: a topic that was made again meanwhile has other records at the same offsets."""
    if found.hot is not None and found.pins.tail:
        _require_same(found.hot, _log(found.hot, kafka or {}).look(), found.pins.topic_id)


def log_ends(found: Pinned, kafka: Mapping[str, str] | None = None) -> tuple[int, ...]:
    """Where the log ends now, if it is still the one that was pinned."""
    assert found.hot is not None, "ordinary tables have no log"
    view = _log(found.hot, kafka or {}).look()
    _require_same(found.hot, view, found.pins.topic_id)
    return view.ends[found.hot.topic]


def lag(hot: HotTable, pins: Pins, kafka: Mapping[str, str] | None = None) -> float:
    """Seconds since the oldest record was appended that is not in the snapshot; 0: there is none."""
    oldest = _oldest(log_reader(hot.settings(kafka or {})), pins.slices())
    return 0.0 if oldest is None else max(0.0, time.time() - oldest / 1000)


def _with_log(
    made: Pins,
    hot: HotTable,
    metadata: Mapping[str, Any],
    kafka: Mapping[str, str],
    max_lag: float | None,
    fresh: bool,
) -> Pins:
    position = _position(hot, MetadataHistory(metadata))
    view = _log(hot, kafka).look()
    partitions = require_topic(hot, view).partitions
    # New partitions of a log table begin at 0, as everything does that was never tiered.
    starts = position + (0,) * (partitions - len(position))
    made = msgspec.structs.replace(
        made, topic=hot.topic, topic_id=hot.binding.topic_id, starts=starts, ends=view.ends[hot.topic]
    )
    _require_kept(hot, view, made.starts, made.ends)
    if fresh and max_lag is None:
        return made
    if max_lag is not None:
        behind = lag(hot, made, kafka)
        if behind > max_lag and fresh:
            return made
        if behind > max_lag:
            raise Unavailable(
                f"what is in Iceberg of the table {hot} is {behind:.1f} s behind its log, and {max_lag:g} s "
                "were accepted: read both tiers (--fresh), accept more, or see what keeps tiering (frazil "
                "status)"
            )
    return msgspec.structs.replace(made, ends=made.starts)


def _position(hot: HotTable, history: MetadataHistory) -> tuple[int, ...]:
    """Up to where the log is in main; nothing if it was never tiered."""
    try:
        stamp = find_stamp(history, TIERING)
    except HistoryChanged as error:
        raise rolled_back(hot, error) from None
    except InvalidInput as error:
        raise InvalidInput(f"the hot table {hot}: {error.message}") from None
    if stamp is None:
        return ()
    known = stamp.positions.get(hot.topic)
    if known is None or known.id != hot.binding.topic_id or stamp.source != hot.binding.source:
        read = ", ".join(f"{name} ({position.id})" for name, position in stamp.positions.items())
        raise HistoryChanged(
            f"the hot table {hot} belongs to the topic {hot.topic} ({hot.binding.topic_id}, on "
            f"{hot.binding.source}), and what is in Iceberg was read from {read} on {stamp.source}: its "
            "properties were changed. Drop the table and create it again, or restore the property frazil.hot"
        )
    return known.next


def _log(hot: HotTable, kafka: Mapping[str, str]) -> KafkaLog:
    return KafkaLog(KafkaSource(hot.settings(kafka), topics=(hot.topic,)))


def _require_same(hot: HotTable, view: LogView, topic_id: str) -> Topic:
    """The topic that was pinned."""
    if hot.binding.topic_id != topic_id:
        raise remade(hot, topic_id, hot.binding.topic_id)
    return require_topic(hot, view)


def _require_kept(hot: HotTable, view: LogView, starts: Sequence[int], ends: Sequence[int]) -> None:
    beginnings, stable = view.beginnings[hot.topic], view.ends[hot.topic]
    if len(starts) > len(beginnings):
        raise SourceChanged(
            f"{len(starts)} partitions of the topic {hot.topic} were pinned, and it has {len(beginnings)}"
        )
    for partition, (start, end) in enumerate(zip(starts, ends, strict=True)):
        where = f"{hot.topic}-{partition}"
        if start < end and start < beginnings[partition]:
            raise SourceChanged(
                f"the log of the hot table {hot} was trimmed up to {beginnings[partition]} of {where}, and "
                f"is to be read from {start}: the pins are too old. Pin the table again; if it just was, "
                "somebody else than tiering removed records of the topic, which are lost. The property "
                f"frazil.hot.keep ({hot.keep:g} s here) says how long tiering leaves them"
            )
    require_reached(hot, tuple(map(max, starts, ends)), stable)


def _oldest(reader: KafkaReader, slices: Sequence[Slice]) -> int | None:
    """When the first record of them was appended. There may be none: transactions have markers."""
    found: list[int] = []
    for part in slices:
        start, size = part.start, 1
        while start < part.end:
            end = min(part.end, start + size)
            times = [
                int(raw.timestamps[0].as_py())
                for raw in reader.read([Slice(part.topic, part.partition, start, end)])
                if len(raw)
            ]
            if times:
                found.append(times[0])
                break
            start, size = end, size * _PEEK
    return min(found, default=None)


def pinned_schema(found: Pinned) -> Mapping[str, Any]:
    """The schema document of the answer."""
    for document in found.metadata["schemas"]:
        if document["schema-id"] == found.pins.schema:
            chosen: Mapping[str, Any] = document
            return chosen
    raise HistoryChanged(
        f"the columns that {found} had when it was pinned (schema {found.pins.schema}) were removed from its "
        "history: pin it again"
    )
