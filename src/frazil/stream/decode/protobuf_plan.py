"""What a message has for the columns of a table: a tree that both decoders follow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from frazil.core.schema import Field, ListType, MapType, SchemaChange, StructType, Type
from frazil.stream.config.model import Contract
from frazil.stream.decode.drift import Drift
from frazil.stream.decode.problem import Problem
from frazil.stream.decode.protobuf_types import (
    TIMES,
    Source,
    fits,
    is_map,
    message_of,
    source_of,
    type_of,
    wrapped,
)
from frazil.stream.decode.rows_types import widened


class Use(IntEnum):
    """What a field is for, numbered as in protobuf_plan.h."""

    COLUMN = 0
    #: Nothing, but it clears the other members of its oneof.
    CLEARS = 1
    #: Nothing, and a record that has it is bad.
    UNKNOWN = 2
    #: A column that it can never fit.
    CONFLICT = 3


class Count(IntEnum):
    ONE = 0
    LIST = 1
    MAP = 2


class Presence(IntEnum):
    """What it means that a field is not there."""

    #: It has the default value of its type.
    IMPLICIT = 0
    #: It has no value.
    EXPLICIT = 1
    #: The record is bad.
    REQUIRED = 2


@dataclass(frozen=True)
class Entry:
    """A field of a message that means something."""

    number: int
    name: str
    source: Source
    use: Use = Use.COLUMN
    count: Count = Count.ONE
    presence: Presence = Presence.EXPLICIT
    #: Whether the value is in field 1 of a message.
    wrapper: bool = False
    #: Of its message; -1 for none.
    oneof: int = -1
    column: int = -1
    #: What is inside, of messages and of the entries of maps.
    inner: Message | None = None
    #: Of enums, by number.
    words: Mapping[int, str] = field(default_factory=dict)

    def describe(self) -> tuple[Any, ...]:
        """As the native decoder takes it."""
        inner = None if self.inner is None else self.inner.describe()
        words = tuple((number, name.encode()) for number, name in sorted(self.words.items()))
        numbers = (self.number, int(self.source), int(self.use), int(self.count), int(self.presence))
        return (*numbers, self.wrapper, self.oneof, self.column, inner, words)


@dataclass(frozen=True)
class Message:
    """The fields of a message, by number, and the columns that they are for."""

    entries: tuple[Entry, ...]
    columns: tuple[Field, ...]

    def describe(self) -> tuple[Any, ...]:
        return tuple(entry.describe() for entry in self.entries)


class Planner:
    """Makes plans for one schema; what the table would need for a message is collected in `drift`."""

    def __init__(self, contract: Contract, drift: Drift) -> None:
        self._contract = contract
        self._drift = drift

    def message(self, kind: Descriptor, columns: tuple[Field, ...], path: tuple[str, ...] = ()) -> Message:
        places = {column.name: place for place, column in enumerate(columns)}
        known = [one for one in kind.fields if one.name in places]
        oneofs = {one.containing_oneof.index for one in known if one.containing_oneof}
        entries = [self._entry(one, columns[places[one.name]], places[one.name], path) for one in known]
        entries += self._others((one for one in kind.fields if one.name not in places), oneofs, path)
        return Message(tuple(sorted(entries, key=lambda entry: entry.number)), columns)

    def _entry(self, one: FieldDescriptor, column: Field, place: int, path: tuple[str, ...]) -> Entry:
        path = (*path, column.name)
        entry = Entry(one.number, one.name, Source.MESSAGE, column=place, oneof=_oneof(one))
        if is_map(one):
            return self._map(entry, one, column.type, path)
        if one.is_repeated:
            if not isinstance(column.type, ListType):
                return replace(entry, use=Use.CONFLICT)
            return self._single(
                replace(entry, count=Count.LIST), one, column.type.element, (*path, "element")
            )
        presence = Presence.EXPLICIT if one.has_presence else Presence.IMPLICIT
        presence = Presence.REQUIRED if one.is_required else presence
        return self._single(replace(entry, presence=presence), one, column.type, path)

    def _map(self, entry: Entry, one: FieldDescriptor, kind: Type, path: tuple[str, ...]) -> Entry:
        key, value = message_of(one).fields_by_number[1], message_of(one).fields_by_number[2]
        # Two keys must not become the same one.
        if not isinstance(kind, MapType) or (source_of(key) == Source.STRING and kind.key != "string"):
            return replace(entry, use=Use.CONFLICT)
        columns = (Field("key", kind.key, True), Field("value", kind.value, kind.value_required))
        entries = []
        for place, (part, column) in enumerate(zip((key, value), columns, strict=True)):
            made = Entry(place + 1, column.name, Source.MESSAGE, presence=Presence.IMPLICIT, column=place)
            entries.append(self._single(made, part, column.type, (*path, column.name)))
        return replace(entry, count=Count.MAP, inner=Message(tuple(entries), columns))

    def _single(self, entry: Entry, one: FieldDescriptor, kind: Type, path: tuple[str, ...]) -> Entry:
        """One value, or one of many."""
        source = source_of(one)
        if source is None:
            return replace(entry, use=Use.CONFLICT)
        inside = wrapped(one) if source == Source.MESSAGE else None
        if inside is not None and isinstance(kind, str):
            return self._single(replace(entry, wrapper=True), inside, kind, path)
        if source in TIMES and isinstance(kind, StructType):
            source = Source.MESSAGE
        if source == Source.MESSAGE:
            if not isinstance(kind, StructType):
                return replace(entry, use=Use.CONFLICT)
            return replace(entry, inner=self.message(message_of(one), kind.fields, path))
        if not fits(source, kind):
            return replace(entry, source=source, wrapper=False, use=Use.CONFLICT)
        self._widen(source, kind, path)
        words = (
            {value.number: value.name for value in reversed(one.enum_type.values)} if one.enum_type else {}
        )
        return replace(entry, source=source, words=words)

    def _widen(self, source: Source, kind: Type, path: tuple[str, ...]) -> None:
        wide = widened(kind, source.iceberg)
        if wide is not None and self._contract.types == "evolve":
            self._drift.add([SchemaChange(path, wide, widens=True)])

    def _others(
        self, fields: Iterable[FieldDescriptor], oneofs: set[int], path: tuple[str, ...]
    ) -> Iterable[Entry]:
        """Those that no column has."""
        for one in fields:
            entry = Entry(one.number, one.name, source_of(one) or Source.BYTES)
            if not self._left_out(one, (*path, one.name)):
                yield replace(entry, use=Use.UNKNOWN)
            elif one.containing_oneof and one.containing_oneof.index in oneofs and source_of(one) is not None:
                yield replace(entry, use=Use.CLEARS, oneof=_oneof(one))

    def _left_out(self, one: FieldDescriptor, path: tuple[str, ...]) -> bool:
        """Whether records may have the field. What the table cannot get stays unknown to it."""
        if self._contract.columns == "discard_value":
            return True
        kind = type_of(one) if self._contract.columns == "evolve" else None
        if kind is None:
            return False
        try:
            self._drift.add([SchemaChange(path, kind)])
        except Problem:
            return False
        return True


def _oneof(one: FieldDescriptor) -> int:
    return int(one.containing_oneof.index) if one.containing_oneof else -1
