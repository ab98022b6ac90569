"""What is in a table by the records of its log alone: the model that all reads are held against."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any, TypeAlias

Row: TypeAlias = Mapping[str, Any]
#: Values in the order of the columns.
Values: TypeAlias = tuple[Any, ...]
_SHOWN = 5


@dataclass(frozen=True)
class Corrected:
    """Rows that were in Iceberg, by records before these offsets, became others; None: they went."""

    ends: tuple[int, ...]
    change: Callable[[Row], Row | None]


@dataclass
class Log:
    """The records of a topic that count, by partition and offset: key and row, None where it is deleted."""

    key: tuple[str, ...]
    records: list[dict[int, tuple[bytes | None, Row | None]]] = field(default_factory=list)
    #: In the order in which they were published.
    corrections: list[Corrected] = field(default_factory=list)

    def add(self, partition: int, offset: int, key: bytes | None, row: Row | None) -> None:
        assert offset not in self.records[partition], f"offset {offset} of {partition} was given twice"
        self.records[partition][offset] = key, row

    def rows(self, ends: Sequence[int]) -> list[Row]:
        """Of the records before these offsets. A key is in one partition for ever."""
        found: list[Row] = []
        for number, (records, end) in enumerate(zip(self.records, ends, strict=True)):
            last: dict[bytes | int, Row | None] = {}
            waiting = [(one.ends[number], one.change) for one in self.corrections]
            for offset in sorted(one for one in records if one < end):
                while waiting and waiting[0][0] <= offset:
                    last = _changed(last, waiting.pop(0)[1])
                key, row = records[offset]
                last[offset if key is None else key] = row
            for _, change in waiting:
                last = _changed(last, change)
            found += [row for row in last.values() if row is not None]
        return found

    @property
    def ends(self) -> tuple[int, ...]:
        """Behind the last record of each partition that counts."""
        return tuple(max(records, default=-1) + 1 for records in self.records)


def _changed(
    rows: Mapping[bytes | int, Row | None], change: Callable[[Row], Row | None]
) -> dict[bytes | int, Row | None]:
    return {key: None if row is None else change(row) for key, row in rows.items()}


def values(rows: Iterable[Row], columns: Sequence[str]) -> Counter[Values]:
    """Rows to compare, whoever read them; a column that a row lacks is null."""
    return Counter(tuple(_plain(row.get(name)) for name in columns) for row in rows)


def require_equal(found: Counter[Values], wanted: Counter[Values], what: str) -> None:
    if found == wanted:
        return
    extra, missing = list((found - wanted).elements()), list((wanted - found).elements())
    raise AssertionError(
        f"{what}: {found.total()} rows and not {wanted.total()}; {len(extra)} are wrong: {extra[:_SHOWN]}; "
        f"{len(missing)} are missing: {missing[:_SHOWN]}"
    )


def encoded(row: Row) -> bytes:
    """A JSON object as any producer would write it."""
    return json.dumps(row, separators=(",", ":"), ensure_ascii=False, default=_text).encode()


def murmur2(data: bytes) -> int:
    """The hash of Java's partitioner, written down once more."""
    mask, factor = 0xFFFFFFFF, 0x5BD1E995
    value = (0x9747B28C ^ len(data)) & mask
    whole = len(data) & ~3
    for at in range(0, whole, 4):
        part = int.from_bytes(data[at : at + 4], "little") * factor & mask
        part = (part ^ part >> 24) * factor & mask
        value = (value * factor & mask) ^ part
    if whole < len(data):
        value = (value ^ int.from_bytes(data[whole:], "little")) * factor & mask
    value = (value ^ value >> 13) * factor & mask
    return value ^ value >> 15


def partition_of(key: bytes, partitions: int) -> int:
    return (murmur2(key) & 0x7FFFFFFF) % partitions


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return int(value.timestamp() * 1_000_000)
    return str(value) if isinstance(value, Decimal) else value


def _text(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)
