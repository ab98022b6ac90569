"""Transactions of the database: all rows that one changed in a table come in one commit, where that is asked.

Debezium tells in a topic of its own when a transaction has ended and how many changes of each table it had
(`provide.transaction.metadata`). A round that would end within one ends before it instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import zip_longest
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.core.changes import Op
from frazil.core.errors import InvalidConfig, NotFound
from frazil.stream.cdc.changes import Changes
from frazil.stream.cdc.decode.position import transactions
from frazil.stream.config.model import KafkaSource, Start
from frazil.stream.kafka.feed import KafkaReader
from frazil.stream.kafka.log import KafkaLog
from frazil.stream.source import Slice

#: Ends of transactions are looked for from this long before the first change that is not in the table.
_BEFORE = timedelta(hours=1)
#: Those that are remembered; a round asks for the newest ones only.
_KEPT = 100_000


@dataclass(frozen=True)
class Tail:
    """The transaction at the end of what was read of a partition."""

    id: str
    #: Of its first record.
    offset: int
    #: The last record's number among the transaction's changes of this table.
    order: int


def tail_after(before: Tail | None, changes: Changes) -> Tail | None:
    """The transaction that the batch ends in, which may have begun in an earlier one."""
    ids, offsets = changes.transactions, changes.order.column("offset")
    if ids is None or not len(ids):
        return before
    last = ids[-1].as_py()
    if last is None:
        _require_none(changes)
        return None
    others = np.flatnonzero(pc.fill_null(pc.not_equal(ids, last), True).to_numpy(zero_copy_only=False))
    first = int(others[-1]) + 1 if len(others) else 0
    goes_on = before is not None and before.id == last and first == 0
    offset = before.offset if goes_on and before is not None else offsets[first].as_py()
    return Tail(last, offset, _order(changes, offsets[len(offsets) - 1].as_py()))


def _require_none(changes: Changes) -> None:
    """InvalidConfig: the last change names no transaction, and is no row of a snapshot or a truncate."""
    if changes.order.column("op")[-1].as_py() in (Op.CREATE, Op.UPDATE, Op.DELETE):
        raise InvalidConfig(
            f"changes of {changes.raw.topic} name no transaction, and `changes.whole_transactions` is asked "
            "for: set `provide.transaction.metadata` to true in the connector, or leave that out. Records "
            "from before the connector was told so are taken by a run without it"
        )


def _order(changes: Changes, offset: int) -> int:
    row = int(np.searchsorted(changes.raw.offsets.to_numpy(), offset))
    document = _payload(changes.raw.values[row].as_py())
    return int((document.get("transaction") or {}).get("data_collection_order") or 0)


def _payload(value: bytes) -> Mapping[str, Any]:
    document: dict[str, Any] = msgspec.json.decode(value)
    inner = document.get("payload")
    return inner if isinstance(inner, dict) and "schema" in document else document


class Transactions:
    """The ends of transactions, as one connector tells them. For one thread."""

    def __init__(self, source: KafkaSource, topic: str) -> None:
        self._topic = topic
        self._log = KafkaLog(replace(source, topics=(topic,), pattern=None))
        self._reader = KafkaReader(source.settings)
        #: By partition: one is enough, but whoever made the topic may have given it more.
        self._next: tuple[int, ...] | None = None
        self._counts: dict[tuple[str, str], int] = {}

    def ended(self, tail: Tail, table: str, ts: int) -> bool:
        """Whether all of its changes of `table` are there; `ts`: when the first of them was made, about."""
        if (tail.id, table) not in self._counts:
            self._read(ts)
        return self._counts.get((tail.id, table), -1) == tail.order

    def _read(self, ts: int) -> None:
        view = self._log.look()
        if view.missing:
            raise NotFound(
                f"there is no topic {self._topic}, in which Debezium tells of transactions: set "
                "`provide.transaction.metadata` to true in the connector, or leave "
                "`changes.whole_transactions` out"
            )
        if self._next is None:
            at = datetime.fromtimestamp(ts / 1000, UTC) - _BEFORE
            self._next = self._log.start(Start(at))[self._topic].next
        ends = view.ends[self._topic]
        ranges = enumerate(zip_longest(self._next, ends, fillvalue=0))
        slices = [Slice(self._topic, number, first, end) for number, (first, end) in ranges if first < end]
        for raw in self._reader.read(slices):
            for value in raw.values.to_pylist():
                self._take({} if value is None else _payload(value))
        self._next = ends
        while len(self._counts) > _KEPT:
            self._counts.pop(next(iter(self._counts)))

    def _take(self, event: Mapping[str, Any]) -> None:
        if event.get("status") != "END":
            return
        (named,) = transactions(pa.array([event["id"]])).to_pylist()
        for each in event.get("data_collections") or ():
            self._counts[named, each["data_collection"]] = int(each["event_count"])
