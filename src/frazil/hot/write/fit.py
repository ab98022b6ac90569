"""What people have as rows, brought into the columns of a table: dicts, Arrow, lines of JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

import msgspec
import pyarrow as pa

from frazil.core.errors import InvalidInput
from frazil.core.schema import ListType, MapType, Schema, StructType, Type, show_type
from frazil.stream.config.model import Contract, JsonFormat, ParquetFormat
from frazil.stream.decode.decoded import Decoded, Fault, Undecodable
from frazil.stream.decode.json import JsonDecoder
from frazil.stream.decode.rows import RowsDecoder
from frazil.stream.source import RawBatch

#: Rows that are worked on at once.
CHUNK = 50_000
#: A misspelt column is a mistake, not a column to leave out.
_CONTRACT = Contract(columns="discard_row")
_Check = Callable[[Any], None]


class Fit:
    """Rows for one table. A row that does not fit is an InvalidInput that names row and column."""

    def __init__(self, schema: Schema, what: str) -> None:
        """`what`: the table, for messages."""
        self._schema = schema
        self._what = what
        self._json = JsonDecoder(schema, JsonFormat(), _CONTRACT)
        self._columns = RowsDecoder(schema, ParquetFormat(), _CONTRACT)
        self._checks = {one.name: check for one in schema if (check := _check(one.type)) is not None}
        self._encoder = msgspec.json.Encoder(enc_hook=_plain, decimal_format="string")

    def dicts(self, rows: Sequence[Mapping[str, Any]], first: int = 0) -> Iterator[pa.RecordBatch]:
        """`first`: rows that came before these."""
        for start in range(0, len(rows), CHUNK):
            part = rows[start : start + CHUNK]
            values = [self._text(number, row) for number, row in enumerate(part, first + start + 1)]
            yield self._good(self._json.decode(_raw(values)), first + start, "row")

    def arrow(self, rows: pa.Table | pa.RecordBatch, first: int = 0) -> Iterator[pa.RecordBatch]:
        """`first`: rows that came before these."""
        table = pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows
        for batch in table.to_batches(max_chunksize=CHUNK):
            yield self._good(self._columns.decode(_columns(batch)), first, "row")
            first += len(batch)

    def lines(self, lines: Sequence[bytes], first: int = 0) -> pa.RecordBatch:
        """`first`: lines that came before these."""
        return self._good(self._json.decode(_raw(list(lines))), first, "line")

    def refuse(
        self, number: int, column: str | None, reason: str, word: str = "row", more: int = 0
    ) -> NoReturn:
        """`number` counts from 1."""
        where = f", column '{column}'" if column else ""
        others = f" (and {more} more)" if more else ""
        raise InvalidInput(
            f"{word} {number}{others} does not fit {self._what}{where}: {reason}. None of these was sent"
        )

    def _text(self, number: int, row: Mapping[str, Any]) -> bytes:
        name = None
        try:
            for name, check in self._checks.items():
                value = row.get(name)
                if value is not None:
                    check(value)
            name = None
            return self._encoder.encode(row)
        except (TypeError, ValueError, AttributeError) as error:
            if not isinstance(row, Mapping):
                self.refuse(number, None, f"a {type(row).__name__}; expected a dict with the columns")
            self.refuse(number, name, str(error))

    def _good(self, found: Decoded, first: int, word: str) -> pa.RecordBatch:
        if found.bad:
            bad = found.bad[0]
            self.refuse(first + bad.index + 1, bad.field, self._reason(bad), word, len(found.bad) - 1)
        return found.rows

    def _reason(self, bad: Undecodable) -> str:
        if bad.fault is Fault.UNKNOWN_FIELD:
            return f"there is no such column; there are: {', '.join(one.name for one in self._schema)}"
        return bad.reason


def _raw(values: Sequence[bytes]) -> RawBatch:
    count = pa.nulls(len(values), pa.int64())
    return RawBatch("", 0, pa.array(values, pa.binary()), count, count)


def _columns(batch: pa.RecordBatch) -> RawBatch:
    count = pa.nulls(len(batch), pa.int64())
    return RawBatch("", 0, pa.nulls(len(batch), pa.binary()), count, count, rows=batch)


def _plain(value: Any) -> Any:
    """numpy's scalars, pandas' timestamps and their like."""
    if hasattr(value, "item") and not hasattr(value, "__len__"):
        return value.item()
    raise TypeError(f"a value of type {type(value).__name__}, which no column holds")


def _check(kind: Type) -> _Check | None:
    """What JSON would not tell apart, or not hold; None: its decoder sees all there is to see."""
    if isinstance(kind, StructType):
        inner = {field.name: check for field in kind.fields if (check := _check(field.type)) is not None}
        return _of_struct(inner) if inner else None
    if isinstance(kind, ListType):
        element = _check(kind.element)
        return None if element is None else _of_list(element)
    if isinstance(kind, MapType):
        entry = _check(kind.value)
        return None if entry is None else lambda value: _of_list(entry)(value.values())
    if kind == "string":
        return lambda value: None if isinstance(value, str) else _misfit(value, kind)
    if kind == "binary" or kind.startswith("fixed"):
        return lambda value: (
            None if isinstance(value, bytes | bytearray | memoryview) else _misfit(value, kind)
        )
    return _finite if kind in ("float", "double") else None


def _of_struct(inner: Mapping[str, _Check]) -> _Check:
    def check(value: Any) -> None:
        for name, one in inner.items():
            found = value.get(name)
            if found is not None:
                one(found)

    return check


def _of_list(element: _Check) -> _Check:
    def check(value: Any) -> None:
        for one in value:
            if one is not None:
                element(one)

    return check


def _misfit(value: Any, kind: Type) -> NoReturn:
    raise ValueError(f"a value of Python's {type(value).__name__}; the column is of type {show_type(kind)}")


def _finite(value: Any) -> None:
    # Written as JSON, it would be null.
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        raise ValueError(f"{value} is no number that JSON has; write None")
