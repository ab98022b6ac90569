"""The rules of `frazil.stream.decode.protobuf` by Google's parser: the fallback, the judge of the native
decoder in tests, and the one that puts every refusal into words.

The parser gets messages that are cut down to what a plan wants: presence of every field, numbers for enums,
lists of entries for maps. What it means is decided here.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

from google.protobuf.descriptor_pb2 import DescriptorProto, Edition, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.unknown_fields import UnknownFieldSet

from frazil.core.schema import Field, ListType, Type, arrow_type, show_type
from frazil.stream.config.model import Contract
from frazil.stream.decode.csv_values import reads, words
from frazil.stream.decode.decoded import Fault
from frazil.stream.decode.problem import Problem, cut
from frazil.stream.decode.protobuf_plan import Count, Entry, Message, Presence, Use
from frazil.stream.decode.protobuf_types import TIMES, Source

_OPTIONAL, _REPEATED = FieldDescriptorProto.LABEL_OPTIONAL, FieldDescriptorProto.LABEL_REPEATED
_BITS = {"int": 32, "long": 64}
_FAR = {
    Source.TIMESTAMP: (-62_135_596_800, 253_402_300_799),
    Source.DURATION: (-315_576_000_000, 315_576_000_000),
}
_EMPTY_TYPES = ("string", "binary")


class ReferenceProgram:
    """Reads records of one message."""

    def __init__(self, plan: Message, contract: Contract) -> None:
        self._plan = plan
        self._contract = contract
        self._class = _reduced(plan)

    def record(self, value: bytes) -> dict[str, Any]:
        """The row; Problem if the record is bad."""
        try:
            found = self._class.FromString(value)
        except DecodeError:
            name = "no well-formed Protobuf, or text in it is not UTF-8"
            raise Problem(f"{name}: {len(value)} bytes that begin with {value[:16].hex(' ')}") from None
        return self._message(found, self._plan)

    def _message(self, found: Any, plan: Message) -> dict[str, Any]:
        unknown: Any = UnknownFieldSet
        odd = {one.field_number for one in unknown(found)} if _looks(plan) else set()
        row: dict[str, Any] = {}
        for entry in plan.entries:
            with _inside(entry.name):
                if entry.use == Use.UNKNOWN and entry.number in odd:
                    word = self._contract.columns
                    reason = f"no column has this field, and the contract says {word}"
                    raise Problem(reason, Fault.UNKNOWN_FIELD)
                if entry.column >= 0:
                    row[entry.name] = self._field(found, entry, plan.columns[entry.column], odd)
        for column in plan.columns:
            with _inside(column.name):
                if column.name not in row:
                    row[column.name] = _none(column.required)
        return row

    def _field(self, found: Any, entry: Entry, column: Field, odd: set[int]) -> Any:
        if entry.use == Use.CONFLICT:
            if entry.number not in odd:
                return _none(column.required or entry.presence == Presence.REQUIRED)
            return self._or_null(column.required, lambda: _conflict(column.type))
        name = f"f{entry.number}"
        if entry.count == Count.ONE:
            return self._one(found, name, entry, column)
        values = getattr(found, name)
        inner = entry.inner
        if entry.count == Count.MAP and inner is not None:
            return self._or_null(column.required, lambda: self._map(values, inner))
        assert isinstance(column.type, ListType)
        element, required = column.type.element, column.type.element_required
        return self._or_null(column.required, lambda: self._list(values, entry, element, required))

    def _one(self, found: Any, name: str, entry: Entry, column: Field) -> Any:
        present = found.HasField(name)
        value = getattr(found, name)
        texts = entry.source in (Source.STRING, Source.BYTES) and not entry.wrapper
        if entry.presence == Presence.IMPLICIT and texts and not value and column.type not in _EMPTY_TYPES:
            present = False
        elif entry.presence == Presence.IMPLICIT:
            present = True
        if not present:
            return _none(column.required or entry.presence == Presence.REQUIRED)
        return self._or_null(column.required, lambda: self._single(value, entry, column.type))

    def _list(self, values: Any, entry: Entry, kind: Type, required: bool) -> list[Any]:
        found = []
        for place, value in enumerate(values):
            with _inside(f"[{place}]"):
                found.append(self._element(value, entry, kind, required))
        return found

    def _element(self, value: Any, entry: Entry, kind: Type, required: bool) -> Any:
        return self._or_null(required, lambda: self._single(value, entry, kind))

    def _map(self, values: Any, inner: Message) -> list[tuple[Any, Any]]:
        """Of entries with the same key the last one counts, at its place."""
        last = {one.f1: place for place, one in enumerate(values)}
        found = []
        for place, one in enumerate(values):
            if last[one.f1] == place:
                try:
                    row = self._message(one, inner)
                except Problem as problem:
                    problem.path = problem.path.removeprefix("value").removeprefix(".")
                    raise problem.within(f"[{cut(str(one.f1))}]") from None
                found.append((row["key"], row["value"]))
        return found

    def _or_null(self, required: bool, read: Callable[[], Any]) -> Any:
        """A value that does not fit is a null by the nearest optional column, if that is the contract."""
        try:
            return read()
        except Problem as problem:
            if not problem.loose or required or self._contract.types != "discard_value":
                raise
            return None

    def _single(self, value: Any, entry: Entry, kind: Type) -> Any:
        if entry.wrapper:
            value = value.f1
        elif entry.source == Source.MESSAGE:
            assert entry.inner is not None
            return self._message(value, entry.inner)
        found = _read(value, entry, str(kind))
        if found is None:
            shown = f"{value.f1} s, {value.f2} ns" if entry.source in TIMES else cut(repr(value))
            expected = _expected(entry.source, str(kind))
            raise Problem(f"found {shown}, expected {expected}", Fault.TYPE, loose=True)
        return found


@contextmanager
def _inside(step: str) -> Iterator[None]:
    try:
        yield
    except Problem as problem:
        raise problem.within(step) from None


def _none(required: bool) -> Any:
    """No value: a null, unless there has to be one."""
    if required:
        raise Problem("is missing, and is required", Fault.MISSING)
    return None


def _conflict(kind: Type) -> None:
    raise Problem(
        f"the schema of the record has a type for this field that is never a {show_type(kind)}",
        Fault.TYPE,
        loose=True,
    )


def _looks(plan: Message) -> bool:
    return any(entry.use in (Use.UNKNOWN, Use.CONFLICT) for entry in plan.entries)


def _read(value: Any, entry: Entry, kind: str) -> Any:
    """The value in the type of its column; None if it does not fit."""
    source = entry.source
    if source in TIMES:
        return _micros(source, value.f1, value.f2)
    if source == Source.ENUM and kind == "string":
        return entry.words.get(value, str(value))
    if source == Source.STRING:
        return reads(kind)(value)
    if source == Source.BYTES:
        return value if kind == "binary" or len(value) == arrow_type(kind).byte_width else None
    if source in (Source.FLOAT, Source.DOUBLE):
        return value if kind == "double" else _narrow(value)
    if kind.startswith("decimal"):
        size = arrow_type(kind)
        digits = len(str(abs(value))) + size.scale if value else 0
        # Not by arithmetic, which is to the digits of a context.
        shown = Decimal((int(value < 0), tuple(map(int, str(abs(value)) + "0" * size.scale)), -size.scale))
        return shown if digits <= size.precision else None
    bits = _BITS.get(kind, 64)
    return value if -(2 ** (bits - 1)) <= value < 2 ** (bits - 1) else None


def _narrow(value: float) -> float | None:
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return value if math.isinf(value) else None


def _micros(source: Source, seconds: int, nanos: int) -> int | None:
    least, most = _FAR[source]
    if not least <= seconds <= most or abs(nanos) > 999_999_999 or nanos % 1000:
        return None
    if source == Source.TIMESTAMP:
        return None if nanos < 0 else seconds * 1_000_000 + nanos // 1000
    if (seconds > 0 and nanos < 0) or (seconds < 0 and nanos > 0):
        return None
    return seconds * 1_000_000 + nanos // 1000


def _expected(source: Source, kind: str) -> str:
    if source == Source.TIMESTAMP:
        return (
            "whole microseconds in the years 1 to 9999 (timestamptz); for nanoseconds declare the column as "
            "struct<seconds: long, nanos: int>"
        )
    if source == Source.DURATION:
        return "whole microseconds within 10,000 years (long)"
    if source == Source.STRING:
        return words(kind)
    return f"a value within a {kind}"


def _reduced(plan: Message) -> Any:
    file = FileDescriptorProto(name="reduced.proto", syntax="editions", edition=Edition.EDITION_2023)
    _reduce(file.message_type.add(name="Record"), plan)
    pool = DescriptorPool()
    pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName("Record"))


def _reduce(message: DescriptorProto, plan: Message) -> None:
    oneofs: dict[int, int] = {}
    for entry in plan.entries:
        if entry.use not in (Use.COLUMN, Use.CLEARS):
            continue
        many = entry.count != Count.ONE
        one = message.field.add(
            name=f"f{entry.number}", number=entry.number, label=_REPEATED if many else _OPTIONAL
        )
        if entry.oneof >= 0:
            if entry.oneof not in oneofs:
                oneofs[entry.oneof] = len(message.oneof_decl)
                message.oneof_decl.add(name=f"o{entry.oneof}")
            one.oneof_index = oneofs[entry.oneof]
        inner = _inner(entry)
        if inner is None:
            one.type = _type(entry)
        else:
            one.type, one.type_name = FieldDescriptorProto.TYPE_MESSAGE, f"M{entry.number}"
            _reduce(message.nested_type.add(name=one.type_name), inner)
    if not message.field:
        # Without any field Google's parser lets a tag of 0 pass.
        message.field.add(
            name="none", number=_unused(plan), label=_OPTIONAL, type=FieldDescriptorProto.TYPE_BOOL
        )


def _unused(plan: Message) -> int:
    used = {entry.number for entry in plan.entries}
    return next(number for number in range(1, len(used) + 2) if number not in used)


def _type(entry: Entry) -> Any:
    """An enum's numbers may be any; what only clears a oneof is not looked into."""
    if entry.use == Use.CLEARS and entry.source in (Source.STRING, Source.MESSAGE, *TIMES):
        return FieldDescriptorProto.TYPE_BYTES
    name = "INT32" if entry.source == Source.ENUM else entry.source.name
    return getattr(FieldDescriptorProto, f"TYPE_{name}")


def _inner(entry: Entry) -> Message | None:
    if entry.use == Use.CLEARS or entry.inner is not None:
        return entry.inner
    if entry.wrapper:
        return Message((Entry(1, "value", entry.source),), ())
    if entry.source in TIMES:
        return Message((Entry(1, "seconds", Source.INT64), Entry(2, "nanos", Source.INT32)), ())
    return None
