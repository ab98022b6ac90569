"""Transactions of the database: all rows that one changed in a table come in one commit, where that is asked.

Debezium tells in a topic of its own when a transaction has ended and how many changes of each table it had
(`provide.transaction.metadata`). A round that would end within one ends before it instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import zip_longest
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.core.changes import Op
from frazil.core.errors import InvalidConfig, NotFound, Unsupported
from frazil.stream.cdc.changes import Changes
from frazil.stream.cdc.decode.position import transactions
from frazil.stream.config.model import KafkaSource, Start
from frazil.stream.kafka.feed import TO_PIPELINES, KafkaReader
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
    #: Of its first record that is a row.
    offset: int
    #: The number that its last record has among the transaction's changes of this table.
    order: int
    #: What the connector calls itself and the table, whatever the topic is called.
    connector: str
    table: str
    #: Bad records behind that one which say nothing of a transaction.
    unread: int = 0


def tail_after(before: Tail | None, changes: Changes) -> Tail | None:
    """The transaction that the rows so far end in, which may have begun in an earlier batch.

    Bad records count, too: they are no rows, but the database counts them. None: nothing has to wait.
    """
    ids = changes.transactions
    if ids is None:
        return before
    tail, row = before, -1
    if len(ids):
        row = int(np.searchsorted(changes.raw.offsets.to_numpy(), changes.order.column("offset")[-1].as_py()))
        tail = _of_rows(before, changes, row)
    return _with_bad(tail, changes, row)


def _of_rows(before: Tail | None, changes: Changes, row: int) -> Tail | None:
    """By the good ones; `row`: the record that the last of them is of."""
    assert changes.transactions is not None, "it was asked for"
    ids, offsets = changes.transactions, changes.order.column("offset")
    last = ids[-1].as_py()
    if last is None:
        _require_none(changes)
        return None
    others = np.flatnonzero(pc.fill_null(pc.not_equal(ids, last), True).to_numpy(zero_copy_only=False))
    first = int(others[-1]) + 1 if len(others) else 0
    goes_on = before is not None and before.id == last and first == 0
    offset = before.offset if goes_on and before is not None else offsets[first].as_py()
    document = _payload(changes.raw.values[row].as_py())
    _, order = _transaction(document)
    return Tail(last, offset, order, *_names(changes.raw.topic, document))


def _with_bad(tail: Tail | None, changes: Changes, row: int) -> Tail | None:
    """What the bad records behind this one make of it."""
    for bad in changes.bad:
        if tail is None:
            return None
        if bad.index <= row:
            continue
        try:
            name, order = _transaction(_payload(changes.raw.values[bad.index].as_py() or b""))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            tail = replace(tail, unread=tail.unread + 1)
            continue
        if name == tail.id:
            tail = replace(tail, order=order, unread=0)
        elif name is not None:
            # A later one has begun, of which there are no rows yet.
            return None
    return tail


def _require_none(changes: Changes) -> None:
    """InvalidConfig: the last change names no transaction, and is no row of a snapshot or a truncate."""
    if changes.order.column("op")[-1].as_py() in (Op.CREATE, Op.UPDATE, Op.DELETE):
        raise InvalidConfig(
            f"changes of {changes.raw.topic} name no transaction, and `changes.whole_transactions` is asked "
            "for: set `provide.transaction.metadata` to true in the connector, or leave that out. Records "
            "from before the connector was told so are taken by a run without it"
        )


def _transaction(document: Mapping[str, Any]) -> tuple[str | None, int]:
    """Its name, and the change's number among its changes of the table."""
    block = _block(document, "transaction")
    name, order = block.get("id"), block.get("data_collection_order")
    if not isinstance(name, str):
        return None, 0
    return transactions(pa.array([name]))[0].as_py(), order if isinstance(order, int) else 0


def _names(topic: str, document: Mapping[str, Any]) -> tuple[str, str]:
    """Of connector and table, as in what is told of transactions; Unsupported if the change lacks them."""
    source = _block(document, "source")
    # PostgreSQL has databases, too, but one connector is for one of them and does not name it there.
    parts = [source.get("name"), source.get("schema") or source.get("db"), source.get("table")]
    if not all(isinstance(part, str) and part for part in parts):
        raise Unsupported(
            f"changes of {topic} do not say of which connector and table they are, and Debezium tells of "
            "transactions by these names: read whole envelopes, with `name`, `schema` (or `db`) and `table` "
            "in their `source`, or leave `changes.whole_transactions` out"
        )
    return str(parts[0]), f"{parts[1]}.{parts[2]}"


def _block(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    block = document.get(name)
    return block if isinstance(block, dict) else {}


_DECODER = msgspec.json.Decoder(dict[str, Any])


def _payload(value: bytes) -> Mapping[str, Any]:
    document = _DECODER.decode(value)
    inner = document.get("payload")
    return inner if isinstance(inner, dict) and "schema" in document else document


class Transactions:
    """The ends of transactions, as one connector tells them. For one thread."""

    def __init__(self, source: KafkaSource, topics: Sequence[str]) -> None:
        """`topics`: the first of them that there is tells."""
        self._topics = tuple(topics)
        self._log = KafkaLog(replace(source, topics=self._topics, pattern=None))
        self._reader = KafkaReader(source.settings, advice=TO_PIPELINES)
        #: By partition: one is enough, but whoever made the topic may have given it more.
        self._next: tuple[int, ...] | None = None
        self._counts: dict[tuple[str, str], int] = {}

    def ended(self, tail: Tail, ts: int) -> bool:
        """Whether all of its changes are there; `ts`: when the first of them was made, about.

        Changes of a transaction follow each other: bad records that say nothing are the ones it lacks.
        """
        if (tail.id, tail.table) not in self._counts:
            self._read(ts)
        count = self._counts.get((tail.id, tail.table))
        return count is not None and tail.order <= count <= tail.order + tail.unread

    def _read(self, ts: int) -> None:
        view = self._log.look()
        topic = next((one for one in self._topics if one in view.topics), None)
        if topic is None:
            raise NotFound(
                f"there is no topic {' nor '.join(self._topics)}, in which Debezium tells of transactions: "
                "set `provide.transaction.metadata` to true in the connector and give that topic no other "
                "name, or leave `changes.whole_transactions` out"
            )
        if self._next is None:
            at = datetime.fromtimestamp(ts / 1000, UTC) - _BEFORE
            self._topics = (topic,)
            self._log.select(self._topics)
            self._next = self._log.start(Start(at))[topic].next
        ends = view.ends[topic]
        ranges = enumerate(zip_longest(self._next, ends, fillvalue=0))
        slices = [Slice(topic, number, first, end) for number, (first, end) in ranges if first < end]
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
