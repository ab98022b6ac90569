"""Types for values that no column has: the narrowest that Iceberg has for all that was seen, never a guess.

- `true`, `false`: boolean. Strings: string, also those that look like dates, numbers or times.
- Integers: long; beyond it decimal(38, 0); of more than 38 digits: none, the record is bad. Other numbers:
  double; those beyond it: none.
- Objects: struct of what their fields are. Arrays: list of one type for all elements; there is none when
  elements differ in kind, and the record is bad.
- null, `{}`, `[]` and what is made of them say nothing.
- Integers and other numbers together are double. Between records that differ in kind the first one decides,
  as if they had come one by one; the others do not fit its type, and are then a matter of `types`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from frazil.core.schema import Field, ListType, MapType, StructType, Type, show_type
from frazil.stream.decode.decoded import Fault
from frazil.stream.decode.problem import Problem, show
from frazil.stream.decode.scalars import LONGEST_DECIMAL

_LONGEST = f"decimal({LONGEST_DECIMAL}, 0)"
#: Each takes the values of those before it; a double the nearest one.
_NUMBERS = (("int", "long", _LONGEST, "double"), ("float", "double"))


def inferred(value: Any) -> Type | None:
    """The type of a value as `reference` reads it; None where it says nothing. Problem: there is no type."""
    match value:
        case None:
            return None
        case bool():
            return "boolean"
        case str():
            return "string"
        case bytes():
            return _number(value)
        case list():
            return _list(value)
    return _struct(value)


def united(first: Type, second: Type, *, strict: bool = False) -> Type:
    """A type for the values of both; where there is none the first one, or if strict a Problem."""
    if first == second:
        return first
    match first, second:
        case StructType(), StructType():
            return _united_structs(first, second, strict)
        case ListType(), ListType():
            return ListType(united(first.element, second.element, strict=strict))
        case MapType(), MapType():
            return MapType(first.key, united(first.value, second.value, strict=strict))
        case str(), str():
            wide = _united_numbers(first, second)
            if wide is not None:
                return wide
    if strict:
        both = f"{show_type(first)} and {show_type(second)}"
        raise Problem(f"values of several types ({both}) where one column is to be; expected one", Fault.TYPE)
    return first


def _united_numbers(first: str, second: str) -> str | None:
    for numbers in _NUMBERS:
        if first in numbers and second in numbers:
            return max(first, second, key=numbers.index)
    if _scale(first) is not None and _scale(first) == _scale(second):
        return max(first, second, key=_precision)
    return None


def _number(digits: bytes) -> Type:
    if digits.removeprefix(b"-").isdigit():
        if len(digits) <= 20 and -(2**63) <= int(digits) < 2**63:
            return "long"
        if len(digits.removeprefix(b"-")) <= LONGEST_DECIMAL:
            return _LONGEST
    elif math.isfinite(float(digits)):
        return "double"
    raise Problem(f"found {show(digits)}, a number for which there is no column type", Fault.TYPE)


def _list(items: list[Any]) -> Type | None:
    found: Type | None = None
    for index, item in enumerate(items):
        try:
            found = _with(found, inferred(item))
        except Problem as problem:
            raise problem.within(f"[{index}]") from None
    return None if found is None else ListType(found)


def _with(found: Type | None, kind: Type | None) -> Type | None:
    if found is None or kind is None:
        return found or kind
    return united(found, kind, strict=True)


def _struct(pairs: Iterable[tuple[str, Any]]) -> Type | None:
    fields: dict[str, Field] = {}
    for name, item in pairs:
        try:
            kind = inferred(item)
            if kind is not None and name in fields:
                raise Problem("stands twice in its object; expected once")
        except Problem as problem:
            raise problem.within(name) from None
        if kind is not None:
            fields[name] = Field(name, kind)
    return StructType(tuple(fields.values())) if fields else None


def _united_structs(first: StructType, second: StructType, strict: bool) -> StructType:
    fields = {field.name: field for field in first.fields}
    for field in second.fields:
        known = fields.get(field.name)
        kind = field.type if known is None else united(known.type, field.type, strict=strict)
        fields[field.name] = Field(field.name, kind)
    return StructType(tuple(fields.values()))


def _precision(kind: str) -> int:
    return int(kind.removeprefix("decimal(").split(",")[0])


def _scale(kind: str) -> int | None:
    return int(kind.split(",")[1].removesuffix(")")) if kind.startswith("decimal(") else None
