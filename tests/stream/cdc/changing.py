"""A table of a database that exists only as its rows and the change events that Debezium would send."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from confluent_kafka import Producer

#: What Debezium puts in for a large value that did not change.
UNCHANGED = "__debezium_unavailable_value"
#: Key, value and headers.
Event = tuple[bytes | None, bytes | None, dict[str, bytes]]


@dataclass
class ChangingTable:
    """As PostgreSQL's, with JSON without schemas."""

    #: Whether updates and deletes come with the whole row as it was.
    tells_before: ClassVar[bool] = False
    key: tuple[str, ...] = ("id",)
    rows: dict[tuple[Any, ...], dict[str, Any]] = field(default_factory=dict)
    #: Not yet sent, in log order.
    events: list[Event] = field(default_factory=list)
    lsn: int = 1000
    ts_ms: int = 1_760_000_000_000

    def read(self, **row: Any) -> None:
        """A snapshot meets the row."""
        self._put(row)
        self._send("r", row, row)

    def put(self, **row: Any) -> None:
        """Insert or update. UNCHANGED: the value is what it was."""
        before = self.rows.get(self._key(row))
        self._put(row)
        self._send("u" if before else "c", row, row, before if self.tells_before else None)

    def delete(self, *key: Any, whole: bool = False, tombstone: bool = True) -> None:
        row = self.rows.pop(key)
        only = dict(zip(self.key, key, strict=True))
        self._send("d", only, None, before=row if whole or self.tells_before else only | _nothing(row, only))
        if tombstone:
            self.events.append((_json(only), None, {}))

    def change_key(self, old: Sequence[Any], **row: Any) -> None:
        """As Debezium tells it: the old row goes and the new one comes, by one record of the log."""
        before = self.rows[tuple(old)]
        new = {name: before[name] if value == UNCHANGED else value for name, value in row.items()}
        self.delete(*old)
        key = _json({name: new[name] for name in self.key})
        self.events[-2:] = [(*event[:2], {"__debezium.newkey": key}) for event in self.events[-2:]]
        self._put(new)
        self._send("c", row, row, moves=False)
        key = _json(dict(zip(self.key, old, strict=True)))
        self.events[-1] = (*self.events[-1][:2], {"__debezium.oldkey": key})

    def truncate(self) -> None:
        self.rows.clear()
        self._send("t", None, None)

    def send(self, producer: Producer, topic: str, events: Sequence[Event] | None = None) -> None:
        """What is waiting, or other events once more."""
        if events is None:
            events, self.events = self.events, []
        for key, value, headers in events:
            producer.produce(topic, value, key, partition=0, headers=dict(headers))
        assert producer.flush(120) == 0

    def _move(self, op: str) -> None:
        """To the next place in the log."""
        self.lsn += 10

    def _key(self, row: Mapping[str, Any]) -> tuple[Any, ...]:
        return tuple(row[name] for name in self.key)

    def _put(self, row: Mapping[str, Any]) -> None:
        before = self.rows.get(self._key(row), {})
        self.rows[self._key(row)] = {
            name: before[name] if value == UNCHANGED else value for name, value in row.items()
        }

    def _send(
        self,
        op: str,
        row: Mapping[str, Any] | None,
        after: Mapping[str, Any] | None,
        before: Mapping[str, Any] | None = None,
        *,
        moves: bool = True,
    ) -> None:
        self.ts_ms += 1
        if moves:
            self._move(op)
        source = self.source(op)
        value = {"before": before, "after": after, "source": source, "transaction": None, "op": op}
        key = None if row is None else _json({name: row[name] for name in self.key})
        self.events.append((key, _json(value | {"ts_ms": self.ts_ms}), {}))

    def source(self, op: str) -> dict[str, Any]:
        """The part of an event that tells where it is from."""
        return {
            "version": "3.6.3.Final",
            "connector": "postgresql",
            "name": "pg",
            "ts_ms": self.ts_ms,
            "snapshot": "true" if op == "r" else "false",
            "db": "shop",
            "sequence": json.dumps([None if op == "r" else str(self.lsn - 10), str(self.lsn)]),
            "schema": "inv",
            "table": "orders",
            "txId": self.lsn // 10,
            "lsn": self.lsn,
            "xmin": None,
        }


def _nothing(row: Mapping[str, Any], key: Mapping[str, Any]) -> dict[str, Any]:
    return {name: None for name in row if name not in key}


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()
