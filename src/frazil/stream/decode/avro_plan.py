"""What to do with the bytes of a writer's schema to fill the columns of a table: one step for each value.

The same plan leads the native decoder and the reference. It follows Avro's rules for schema resolution as far
as they hold without a reader's schema of Avro: columns have no defaults, and the aliases are the writer's.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum, auto

from frazil.core.schema import Field, ListType, MapType, Schema, SchemaChange, StructType, Type, show_type
from frazil.stream.config.model import Contract
from frazil.stream.decode.avro_schema import (
    Array,
    AvroType,
    Leaf,
    Map,
    NoType,
    Record,
    RecordField,
    Union,
    iceberg_type,
    takes_no_bytes,
)
from frazil.stream.decode.columns import fields_of
from frazil.stream.decode.decoded import Fault
from frazil.stream.decode.drift import Drift
from frazil.stream.decode.infer import united
from frazil.stream.decode.problem import Problem


class Op(IntEnum):
    """The numbers are known to avro_plan.h."""

    SKIP_VARINT = 0
    SKIP_BYTES = auto()
    SKIP_FIXED = auto()
    SKIP_UNION = auto()
    SKIP_RECORD = auto()
    SKIP_ARRAY = auto()
    SKIP_MAP = auto()
    NULL = auto()
    BAD = auto()
    DISCARD = auto()
    UNION = auto()
    RECORD = auto()
    ARRAY = auto()
    MAP = auto()
    BOOLEAN = auto()
    INT = auto()
    INT_OF_LONG = auto()
    LONG = auto()
    FLOAT_OF_INTEGER = auto()
    DOUBLE_OF_INTEGER = auto()
    FLOAT = auto()
    FLOAT_OF_DOUBLE = auto()
    DOUBLE = auto()
    DOUBLE_OF_FLOAT = auto()
    DATE = auto()
    TIME = auto()
    TIMESTAMP = auto()
    STRING = auto()
    BINARY = auto()
    FIXED_OF_BYTES = auto()
    FIXED = auto()
    BINARY_OF_FIXED = auto()
    UUID_OF_TEXT = auto()
    ENUM = auto()
    DECIMAL_OF_BYTES = auto()
    DECIMAL_OF_FIXED = auto()


@dataclass(frozen=True, eq=False)
class Column:
    """A column, or what is inside one; `index` counts them from the top, parents first."""

    index: int
    name: str
    type: Type
    required: bool
    children: tuple[Column, ...] = ()


@dataclass(eq=False)
class Step:
    op: Op
    column: Column | None = None
    children: tuple[Step, ...] = ()
    #: Bytes of a fixed; microseconds of a unit, negative for a part of one; digits a decimal is moved by.
    #: Else 1 where the writer's numbers have 32 bits, its text is no text, its elements take no bytes, and
    #: where the type is what is BAD.
    number: int = 0
    symbols: tuple[str, ...] = ()
    #: A value that does not fit becomes null.
    discards: bool = False
    #: Over the whole value, if it becomes null as soon as something required inside it does not fit.
    skip: Step | None = None
    #: Of BAD.
    reason: str = ""
    fault: Fault = Fault.TYPE
    #: Where, if that is not the column.
    field: str = ""


@dataclass(frozen=True)
class Plan:
    """Of one writer's schema for one table."""

    root: Step
    #: What the table would need, where the contract says `evolve`.
    changes: tuple[SchemaChange, ...] = ()


def columns_of(schema: Schema) -> Column:
    return _column(Field("", StructType(schema.fields), True), itertools.count())


def _column(of: Field, counter: Iterator[int]) -> Column:
    index = next(counter)
    children = tuple(_column(child, counter) for child in fields_of(of.type))
    return Column(index, of.name, of.type, of.required, children)


def resolve(writer: AvroType, root: Column, contract: Contract, drift: Drift) -> Plan:
    """A plan for every writer's schema: where the two do not go together, that is said of the records."""
    resolver = _Resolver(contract)
    step = resolver.step(writer, root, ())
    changes = tuple(resolver.changes.values())
    try:
        drift.fresh().add(changes)
    except Problem as problem:
        resolver.unknown.append((problem.path, problem.reason))
    if resolver.unknown:
        path, reason = resolver.unknown[0]
        refused = Step(Op.BAD, root, reason=reason, field=path, fault=Fault.UNKNOWN_FIELD)
        return Plan(refused)
    return Plan(step, changes)


_Path = tuple[str, ...]
_DECIMAL = re.compile(r"decimal\((\d+), (\d+)\)")
_UNITS = {"millis": 1000, "micros": 1, "nanos": -1000}


@dataclass
class _Resolver:
    contract: Contract
    changes: dict[_Path, SchemaChange] = field(default_factory=dict)
    #: Fields that no column has, where the contract discards or stops: path and reason.
    unknown: list[tuple[str, str]] = field(default_factory=list)
    _skips: dict[AvroType, Step] = field(default_factory=dict)

    def step(self, writer: AvroType, column: Column, path: _Path) -> Step:
        if isinstance(writer, Union):
            return Step(Op.UNION, column, tuple(self.step(one, column, path) for one in writer.branches))
        if isinstance(writer, Leaf) and writer.kind == "null":
            return _absent(column, "is null, and its column is required")
        if isinstance(writer, Leaf):
            found = self._leaf(writer, column, path) if isinstance(column.type, str) else None
        else:
            found = self._nested(writer, column, path)
        if found is None:
            return self._mismatch(writer, column)
        if self._discards(column):
            found.discards = isinstance(writer, Leaf)
            found.skip = None if isinstance(writer, Leaf) else self.skip(writer)
        return found

    def _nested(self, writer: Record | Array | Map, column: Column, path: _Path) -> Step | None:
        if isinstance(writer, Record) and isinstance(column.type, StructType):
            return self._record(writer, column, path)
        if isinstance(writer, Array) and isinstance(column.type, ListType):
            if takes_no_bytes(writer.items):
                return None
            return Step(Op.ARRAY, column, (self.step(writer.items, column.children[0], (*path, "element")),))
        if isinstance(writer, Map) and isinstance(column.type, MapType):
            key = self.step(Leaf("string"), column.children[0], (*path, "key"))
            return Step(Op.MAP, column, (key, self.step(writer.values, column.children[1], (*path, "value"))))
        return None

    def _discards(self, column: Column) -> bool:
        return self.contract.types == "discard_value" and not column.required

    def _mismatch(self, writer: AvroType, column: Column) -> Step:
        if self._discards(column):
            return Step(Op.DISCARD, column, (self.skip(writer),))
        return Step(Op.BAD, column, reason=f"Avro's {writer} does not fit {show_type(column.type)}", number=1)

    def _record(self, writer: Record, column: Column, path: _Path) -> Step:
        taken = _matched(writer, column)
        children = []
        for one in writer.fields:
            target = taken.get(one.name)
            if target is None:
                self._unknown(one, (*path, one.name))
                children.append(self.skip(one.type))
            else:
                children.append(self.step(one.type, target, (*path, target.name)))
        there = set(taken.values())
        missing = "is missing in the writer's schema, and its column is required"
        children += [_absent(child, missing) for child in column.children if child not in there]
        return Step(Op.RECORD, column, tuple(children))

    def _unknown(self, one: RecordField, path: _Path) -> None:
        if self.contract.columns == "discard_value" or takes_no_bytes(one.type):
            return
        shown = ".".join(path)
        if self.contract.columns != "evolve":
            self.unknown.append((shown, "no column has this field of the writer's schema"))
            return
        try:
            kind = iceberg_type(one.type, optional=True)
        except NoType as problem:
            self.unknown.append((shown, f"no column has this field, and none can be added: {problem}"))
        else:
            if kind is not None:
                known = self.changes.get(path)
                self.changes[path] = SchemaChange(path, united(known.type, kind) if known else kind)

    def _leaf(self, writer: Leaf, column: Column, path: _Path) -> Step | None:
        kind = str(column.type)
        if writer.logical in ("", "uuid"):
            found = _plain(writer, column, kind)
        elif writer.logical == "decimal":
            found = _decimal(writer, column, kind)
        else:
            found = _temporal(writer, column, kind)
        if found is not None and self.contract.types == "evolve":
            self._widen(writer, kind, path)
        return found

    def _widen(self, writer: Leaf, kind: str, path: _Path) -> None:
        needed = {("int", "long"): "long", ("float", "double"): "double"}.get((kind, writer.kind))
        if match := _DECIMAL.fullmatch(kind):
            wider = writer.scale == int(match[2]) and int(match[1]) < writer.precision <= 38
            needed = f"decimal({writer.precision}, {writer.scale})" if wider else None
        if needed is not None:
            known = self.changes.get(path)
            # Of two branches of a union the wider one counts.
            if known is None or _precision(known.type) < _precision(needed):
                self.changes[path] = SchemaChange(path, needed, widens=True)

    def skip(self, writer: AvroType) -> Step:
        """Steps over a value; of a record inside itself, the step comes back to itself."""
        if isinstance(writer, Leaf):
            return _skip_leaf(writer)
        if writer in self._skips:
            return self._skips[writer]
        made = self._skips[writer] = Step(Op.SKIP_RECORD)
        if isinstance(writer, Record):
            made.children = tuple(self.skip(one.type) for one in writer.fields)
        elif isinstance(writer, Union):
            made.op = Op.SKIP_UNION
            made.children = tuple(map(self.skip, writer.branches))
        else:
            inner = writer.items if isinstance(writer, Array) else writer.values
            made.op = Op.SKIP_ARRAY if isinstance(writer, Array) else Op.SKIP_MAP
            made.children = (self.skip(inner),)
            made.number = int(isinstance(writer, Array) and takes_no_bytes(inner))
        return made


def _precision(kind: Type) -> int:
    match = _DECIMAL.fullmatch(kind) if isinstance(kind, str) else None
    return int(match[1]) if match else 0


def _matched(writer: Record, column: Column) -> dict[str, Column]:
    """The columns of a record's fields: by name, and where no field has the name, by a field's alias."""
    named = {child.name: child for child in column.children}
    own = {one.name for one in writer.fields}
    taken: dict[str, Column] = {name: named[name] for name in own if name in named}
    for one in writer.fields:
        for alias in one.aliases:
            free = alias in named and alias not in own and named[alias] not in taken.values()
            if free and one.name not in taken:
                taken[one.name] = named[alias]
    return taken


def _absent(column: Column, reason: str) -> Step:
    if column.required:
        return Step(Op.BAD, column, reason=reason, fault=Fault.MISSING)
    return Step(Op.NULL, column)


def _plain(writer: Leaf, column: Column, kind: str) -> Step | None:
    """Without a logical type, or with one that only says what a text or a fixed is."""
    word = kind.split("[", maxsplit=1)[0]
    if writer.kind == "fixed":
        if word == "uuid" and writer.size == 16:
            return Step(Op.FIXED, column, number=16)
        if kind == f"fixed[{writer.size}]":
            return Step(Op.FIXED, column, number=writer.size)
        return Step(Op.BINARY_OF_FIXED, column, number=writer.size) if word == "binary" else None
    op = _PLAIN.get((writer.kind, word))
    if op is None:
        return None
    flag = writer.kind == "int" or (writer.kind == "bytes" and word == "string")
    return Step(op, column, number=int(flag), symbols=writer.symbols)


_PLAIN = {
    ("boolean", "boolean"): Op.BOOLEAN,
    ("int", "int"): Op.INT,
    ("long", "int"): Op.INT_OF_LONG,
    ("int", "long"): Op.LONG,
    ("long", "long"): Op.LONG,
    ("int", "float"): Op.FLOAT_OF_INTEGER,
    ("long", "float"): Op.FLOAT_OF_INTEGER,
    ("int", "double"): Op.DOUBLE_OF_INTEGER,
    ("long", "double"): Op.DOUBLE_OF_INTEGER,
    ("float", "float"): Op.FLOAT,
    ("double", "float"): Op.FLOAT_OF_DOUBLE,
    ("float", "double"): Op.DOUBLE_OF_FLOAT,
    ("double", "double"): Op.DOUBLE,
    ("string", "string"): Op.STRING,
    ("bytes", "string"): Op.STRING,
    ("string", "binary"): Op.BINARY,
    ("bytes", "binary"): Op.BINARY,
    ("bytes", "fixed"): Op.FIXED_OF_BYTES,
    ("string", "uuid"): Op.UUID_OF_TEXT,
    ("enum", "string"): Op.ENUM,
}


def _decimal(writer: Leaf, column: Column, kind: str) -> Step | None:
    match = _DECIMAL.fullmatch(kind)
    if match is None:
        return None
    moved = int(match[2]) - writer.scale
    if not -38 <= moved <= 38:
        return None
    if writer.kind == "bytes":
        return Step(Op.DECIMAL_OF_BYTES, column, number=moved)
    size = Step(Op.SKIP_FIXED, number=writer.size)
    return Step(Op.DECIMAL_OF_FIXED, column, (size,), number=moved)


def _temporal(writer: Leaf, column: Column, kind: str) -> Step | None:
    what, _, unit = writer.logical.rpartition("-")
    if (writer.logical, kind) == ("date", "date"):
        return Step(Op.DATE, column)
    if (what, kind) == ("time", "time"):
        return Step(Op.TIME, column, number=_UNITS[unit])
    if (what, kind) in (("timestamp", "timestamptz"), ("local-timestamp", "timestamp")):
        return Step(Op.TIMESTAMP, column, number=_UNITS[unit])
    return None


def _skip_leaf(writer: Leaf) -> Step:
    if writer.kind in ("int", "long", "enum"):
        return Step(Op.SKIP_VARINT)
    if writer.kind in ("bytes", "string"):
        return Step(Op.SKIP_BYTES)
    size = {"null": 0, "boolean": 1, "float": 4, "double": 8}.get(writer.kind, writer.size)
    return Step(Op.SKIP_FIXED, number=size)
