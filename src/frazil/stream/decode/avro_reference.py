"""The rules of `frazil.stream.decode.avro` in plain Python: the fallback, the judge of the native decoder in
tests, and the one that puts every refusal into words."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any, TypeAlias

import pyarrow as pa

from frazil.core.schema import Schema, arrow_type, show_type
from frazil.stream.decode import assemble, text
from frazil.stream.decode.avro_plan import Op, Step
from frazil.stream.decode.decoded import Fault
from frazil.stream.decode.problem import Problem

#: Records, arrays and maps that may be open at once, the record itself among them.
MAX_DEPTH = 64
_SHOWN = 100
_INT = range(-(2**31), 2**31)
_LONG = range(-(2**63), 2**63)
_DAY_MICROS = 86_400_000_000
#: Days of the years 0001 to 9999.
_DAYS = range(-719_162, 2_932_897)


class _Unfit(Exception):
    """The value was read, and does not fit its column."""

    def __init__(self, found: str) -> None:
        super().__init__(found)
        self.found = found


def read_record(data: bytes, root: Step) -> Any:
    """The columns of a record by name; Problem if it is none, or none of this table."""
    source = _Source(data)
    row = source.read(root)
    if source.at != len(data):
        raise Problem(
            f"{len(data) - source.at} bytes are left behind the record of {source.at}; is this its schema?"
        )
    return row


def rows_batch(rows: list[Any], schema: Schema) -> pa.RecordBatch:
    wanted = schema.to_arrow()
    columns = [
        assemble.retyped(pa.array([row[field.name] for row in rows], field.type), field.type)
        for field in wanted
    ]
    return pa.RecordBatch.from_arrays(columns, schema=wanted)


class _Source:
    """A record, and how far it was read."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0
        self._depth = 0

    def read(self, step: Step) -> Any:
        start, depth = self.at, self._depth
        try:
            return _READERS[step.op](self, step)
        except _Unfit as problem:
            if step.discards:
                return None
            assert step.column is not None
            reason = f"found {problem.found}, which does not fit {show_type(step.column.type)}"
            raise Problem(reason, Fault.TYPE, loose=True) from None
        except Problem as problem:
            if step.skip is None or not problem.loose:
                raise
            self.at, self._depth = start, depth
            self.read(step.skip)
            return None

    def take(self, size: int) -> bytes:
        if not 0 <= size <= len(self._data) - self.at:
            raise Problem(f"cut off, or of another schema: {size} bytes wanted at byte {self.at + 1}")
        self.at += size
        return self._data[self.at - size : self.at]

    def varint(self, bits: range = _LONG) -> int:
        whole = shift = 0
        start = self.at
        while True:
            byte = self.take(1)[0]
            whole |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
            if shift > 63:
                raise Problem(f"a number of more than 10 bytes at byte {start + 1}")
        found = whole >> 1 ^ -(whole & 1)
        if found not in bits:
            raise Problem(f"the number {found} at byte {start + 1} is too large for its type in the schema")
        return found

    def sized(self) -> bytes:
        return self.take(self.varint())

    def blocks(self, *, skips: bool) -> Iterable[int]:
        """The counts of the blocks of an array or a map; skipping, without those that say their size."""
        while count := self.varint():
            if count < 0:
                size = self.varint()
                if skips:
                    self.take(size)
                    continue
            yield abs(count)

    def check(self, count: int) -> int:
        if count > len(self._data) - self.at:
            raise Problem(f"cut off, or of another schema: {count} elements at byte {self.at + 1}")
        return count

    def __enter__(self) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise Problem(f"records, arrays and maps are nested more than {MAX_DEPTH} deep")

    def __exit__(self, *_: object) -> None:
        self._depth -= 1


_Reader: TypeAlias = Callable[[_Source, Step], Any]


def _branch(source: _Source, step: Step) -> Any:
    index = source.varint()
    if not 0 <= index < len(step.children):
        raise Problem(f"branch {index} of a union that has {len(step.children)}")
    return source.read(step.children[index])


def _record(source: _Source, step: Step) -> Any:
    row: dict[str, Any] = {}
    with source:
        for child in step.children:
            name = child.column.name if child.column else ""
            try:
                value = source.read(child)
            except Problem as problem:
                raise problem.within(name) if name else problem from None
            if child.column:
                row[name] = value
    return row


def _array(source: _Source, step: Step) -> Any:
    found: list[Any] = []
    with source:
        for count in source.blocks(skips=False):
            for _ in range(source.check(count)):
                found.append(_inside(source, step.children[0], f"[{len(found)}]"))
    return found


def _map(source: _Source, step: Step) -> Any:
    found: dict[str, Any] = {}
    twice = None
    with source:
        for count in source.blocks(skips=False):
            for _ in range(source.check(count)):
                key = source.read(step.children[0])
                twice = key if key in found else twice
                found[key] = _inside(source, step.children[1], f"[{json.dumps(key, ensure_ascii=False)}]")
    if twice is not None:
        raise Problem(f"the key {_show(twice)} stands twice in its map; expected once")
    return list(found.items())


def _inside(source: _Source, step: Step, path: str) -> Any:
    try:
        return source.read(step)
    except Problem as problem:
        raise problem.within(path) from None


def _bad(_source: _Source, step: Step) -> Any:
    raise Problem(step.reason, step.fault, loose=step.number == 1).within(step.field)


def _discard(source: _Source, step: Step) -> None:
    source.read(step.children[0])


def _skip_all(source: _Source, step: Step) -> None:
    with source:
        for child in step.children:
            source.read(child)


def _skip_blocks(source: _Source, step: Step) -> None:
    with source:
        for count in source.blocks(skips=True):
            if step.number:
                continue
            for _ in range(source.check(count)):
                if step.op == Op.SKIP_MAP:
                    source.sized()
                source.read(step.children[0])


def _boolean(source: _Source, _step: Step) -> bool:
    (byte,) = source.take(1)
    if byte > 1:
        raise Problem(f"a boolean is 0 or 1, not {byte}, at byte {source.at}")
    return byte == 1


def _integer(source: _Source, step: Step) -> int:
    return source.varint(_INT if step.number else _LONG)


def _narrow(source: _Source, _step: Step) -> int:
    found = source.varint()
    if found not in _INT:
        raise _Unfit(str(found))
    return found


def _nearest(found: float) -> float:
    """The nearest float; out of its range only what is infinite already."""
    try:
        nearest: float = struct.unpack("<f", struct.pack("<f", found))[0]
    except OverflowError:
        raise _Unfit(repr(found)) from None
    return nearest


def _real(code: str, size: int) -> _Reader:
    return lambda source, _: struct.unpack(code, source.take(size))[0]


def _narrow_real(source: _Source, _step: Step) -> float:
    found: float = struct.unpack("<d", source.take(8))[0]
    return found if math.isinf(found) or math.isnan(found) else _nearest(found)


def _date(source: _Source, _step: Step) -> int:
    found = source.varint(_INT)
    if found not in _DAYS:
        raise _Unfit(f"day {found} since 1970")
    return found


def _scaled(found: int, unit: int) -> int:
    if unit > 0:
        return found * unit
    if found % -unit:
        raise _Unfit(f"{found} nanoseconds, not whole microseconds,")
    return found // -unit


def _time(source: _Source, step: Step) -> int:
    found = source.varint(_INT if step.number == 1000 else _LONG)
    micros = _scaled(found, step.number)
    if not 0 <= micros < _DAY_MICROS:
        raise _Unfit(f"{found}, which is beyond a day,")
    return micros


def _timestamp(source: _Source, step: Step) -> int:
    found = source.varint()
    micros = text.in_range(_scaled(found, step.number))
    if micros is None:
        raise _Unfit(f"{found}, which is beyond the years 1 to 9999,")
    return micros


def _string(source: _Source, step: Step) -> str:
    found = source.sized()
    try:
        return found.decode()
    except UnicodeDecodeError:
        if step.number:
            raise _Unfit(f"{_show(found)}, which is no UTF-8,") from None
        raise Problem(f"{_show(found)} is no UTF-8, as a string has to be") from None


def _fixed_of_bytes(source: _Source, step: Step) -> bytes:
    found = source.sized()
    assert step.column is not None
    if len(found) != arrow_type(step.column.type).byte_width:
        raise _Unfit(f"{len(found)} bytes")
    return found


def _uuid(source: _Source, _step: Step) -> bytes:
    written = source.sized()
    found = text.uuid_bytes(written.decode("latin-1"))
    if found is None:
        raise _Unfit(_show(written))
    return found


def _symbol(source: _Source, step: Step) -> str:
    index = source.varint()
    if not 0 <= index < len(step.symbols):
        raise Problem(f"symbol {index} of an enum that has {len(step.symbols)}")
    return step.symbols[index]


def _decimal(source: _Source, step: Step) -> Decimal:
    written = source.sized() if step.op == Op.DECIMAL_OF_BYTES else source.take(step.children[0].number)
    assert step.column is not None
    kind = arrow_type(step.column.type)
    found = int.from_bytes(written, "big", signed=True)
    shown = f"{_show(written)}, a decimal of {found}e{step.number - kind.scale}," if written else "no bytes"
    if not written or abs(found) >= 10**38:
        raise _Unfit(shown)
    moved, rest = divmod(found, 10**-step.number) if step.number < 0 else (found * 10**step.number, 0)
    if rest or abs(moved) >= 10**kind.precision:
        raise _Unfit(shown)
    return Decimal((int(moved < 0), tuple(map(int, str(abs(moved)))), -kind.scale))


def _show(value: bytes | str) -> str:
    shown = repr(value) if isinstance(value, bytes) else json.dumps(value, ensure_ascii=False)
    return shown if len(shown) <= _SHOWN else shown[:_SHOWN] + "…"


_READERS: dict[Op, _Reader] = {
    Op.SKIP_VARINT: lambda source, _: source.varint(),
    Op.SKIP_BYTES: lambda source, _: source.sized(),
    Op.SKIP_FIXED: lambda source, step: source.take(step.number),
    Op.SKIP_UNION: _branch,
    Op.SKIP_RECORD: _skip_all,
    Op.SKIP_ARRAY: _skip_blocks,
    Op.SKIP_MAP: _skip_blocks,
    Op.NULL: lambda *_: None,
    Op.BAD: _bad,
    Op.DISCARD: _discard,
    Op.UNION: _branch,
    Op.RECORD: _record,
    Op.ARRAY: _array,
    Op.MAP: _map,
    Op.BOOLEAN: _boolean,
    Op.INT: _integer,
    Op.INT_OF_LONG: _narrow,
    Op.LONG: _integer,
    Op.FLOAT_OF_INTEGER: lambda source, step: _nearest(float(_integer(source, step))),
    Op.DOUBLE_OF_INTEGER: lambda source, step: float(_integer(source, step)),
    Op.FLOAT: _real("<f", 4),
    Op.FLOAT_OF_DOUBLE: _narrow_real,
    Op.DOUBLE: _real("<d", 8),
    Op.DOUBLE_OF_FLOAT: _real("<f", 4),
    Op.DATE: _date,
    Op.TIME: _time,
    Op.TIMESTAMP: _timestamp,
    Op.STRING: _string,
    Op.BINARY: lambda source, _: source.sized(),
    Op.FIXED_OF_BYTES: _fixed_of_bytes,
    Op.FIXED: lambda source, step: source.take(step.number),
    Op.BINARY_OF_FIXED: lambda source, step: source.take(step.number),
    Op.UUID_OF_TEXT: _uuid,
    Op.ENUM: _symbol,
    Op.DECIMAL_OF_BYTES: _decimal,
    Op.DECIMAL_OF_FIXED: _decimal,
}
