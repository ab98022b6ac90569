"""The grammar of Iceberg's primitive type names."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

_PLAIN = (
    "boolean",
    "int",
    "long",
    "float",
    "double",
    "date",
    "time",
    "timestamp",
    "timestamptz",
    "timestamp_ns",
    "timestamptz_ns",
    "string",
    "uuid",
    "binary",
    "unknown",
    "variant",
)
_EDGE_ALGORITHMS = ("spherical", "vincenty", "thomas", "andoyer", "karney")
_MAX_PRECISION = 38
_MAX_INT = 2**31 - 1

# The coarse grammar, published in the OpenAPI document; `parse_primitive` knows the rest (scale, lengths).
PRIMITIVE_PATTERN = (
    r"^(" + "|".join(_PLAIN) + r"|decimal\( *[0-9]{1,2} *, *[0-9]{1,2} *\)|fixed\[ *[0-9]{1,10} *\]"
    r"|geometry( *\([^()]*\))?|geography( *\([^()]*\))?)$"
)

_DECIMAL = re.compile(r"decimal\( *([0-9]{1,2}) *, *([0-9]{1,2}) *\)")
_FIXED = re.compile(r"fixed\[ *([0-9]{1,10}) *\]")
_GEO = re.compile(r"(geometry|geography) *(?:\( *([^(),]*?) *(?:, *(\w+) *)?\))?")

V3_TYPES = frozenset({"timestamp_ns", "timestamptz_ns", "unknown", "variant", "geometry", "geography"})


class Primitive(NamedTuple):
    """A parsed primitive: its family (`decimal`, `fixed`, `geometry`, …) and its canonical spelling."""

    family: str
    name: str


@lru_cache(maxsize=4096)
def parse_primitive(name: str) -> Primitive | None:
    """The primitive that `name` spells, or None when it spells none."""
    if name in _PLAIN:
        return Primitive(name, name)
    if name.startswith("decimal"):
        return _decimal(name)
    if name.startswith("fixed"):
        return _fixed(name)
    if name.startswith("geo"):
        return _geo(name)
    return None


def _decimal(name: str) -> Primitive | None:
    match = _DECIMAL.fullmatch(name)
    if match is None:
        return None
    precision, scale = int(match[1]), int(match[2])
    if not 1 <= precision <= _MAX_PRECISION or scale > precision:
        return None
    # Spelt with a blank as Iceberg's Java and Python libraries do: types can then be compared as text.
    return Primitive("decimal", f"decimal({precision}, {scale})")


def _fixed(name: str) -> Primitive | None:
    match = _FIXED.fullmatch(name)
    if match is None or not 0 < int(match[1]) <= _MAX_INT:
        return None
    return Primitive("fixed", f"fixed[{int(match[1])}]")


def _geo(name: str) -> Primitive | None:
    match = _GEO.fullmatch(name)
    if match is None:
        return None
    family, algorithm = match[1], match[3]
    if algorithm is not None and (family == "geometry" or algorithm.lower() not in _EDGE_ALGORITHMS):
        return None
    return Primitive(family, name)
