"""Values that are written as text: what reads each type, and what it expects."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any, TypeAlias

from frazil.core.schema import Type, arrow_type
from frazil.stream.config.model import Timestamps
from frazil.stream.decode import text
from frazil.stream.decode.rows_types import widened

#: The value; None if the text is not exactly one.
Reads: TypeAlias = Callable[[str], Any]
#: Decimal places from the unit of a timestamp down to microseconds.
UNIT_SCALE = {"s": 6, "ms": 3, "us": 0}
_INTEGER = re.compile("-?(?:0|[1-9][0-9]*)")
_REAL = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_MAX_PRECISION = 38


def reads(kind: Type, timestamps: Timestamps = "iso") -> Reads:
    """What reads a primitive type."""
    assert isinstance(kind, str)
    if kind.startswith("decimal"):
        return _decimal(arrow_type(kind).precision, arrow_type(kind).scale)
    if kind.startswith("fixed"):
        return _fixed(arrow_type(kind).byte_width)
    if kind in ("timestamp", "timestamptz"):
        return _timestamp(kind, timestamps)
    return _READS[kind]


def wider(kind: Type, value: str) -> Type | None:
    """The narrowest type that the column could become to hold the value; None: there is none."""
    wide: Type = {"int": "long", "float": "double"}.get(str(kind), kind)
    if isinstance(kind, str) and kind.startswith("decimal"):
        scale = arrow_type(kind).scale
        found = text.scaled(value, scale, _MAX_PRECISION)
        if found is None:
            return None
        wide = f"decimal({len(str(abs(found)))}, {scale})"
    if widened(kind, wide) is None or reads(wide)(value) is None:
        return None
    return wide


def words(kind: Type, timestamps: Timestamps = "iso") -> str:
    """What is expected of the text of a value."""
    assert isinstance(kind, str)
    if kind in ("timestamp", "timestamptz") and timestamps != "iso":
        unit = {"s": "seconds", "ms": "milliseconds", "us": "microseconds"}[timestamps]
        return (
            f"a number of {unit} since 1970 in the years 1 to 9999, exact to the microsecond ({kind}), by "
            f"`timestamps: {timestamps}`"
        )
    if kind.startswith("decimal"):
        return f"a number that is exactly a {kind}"
    if kind.startswith("fixed"):
        return f"base64 text of {arrow_type(kind).byte_width} bytes ({kind})"
    return _WORDS[kind]


def _integer(bits: int) -> Reads:
    def read(value: str) -> int | None:
        if not _INTEGER.fullmatch(value) or len(value) > 20:
            return None
        return found if -(2 ** (bits - 1)) <= (found := int(value)) < 2 ** (bits - 1) else None

    return read


def _double(value: str) -> float | None:
    if not _REAL.fullmatch(value) or math.isinf(found := float(value)):
        return None
    return found


def _float(value: str) -> float | None:
    """The nearest float of the nearest double, as every C program has it."""
    found = _double(value)
    try:
        return None if found is None else float(struct.unpack("<f", struct.pack("<f", found))[0])
    except OverflowError:
        return None


def _decimal(precision: int, scale: int) -> Reads:
    def read(value: str) -> Decimal | None:
        found = text.scaled(value, scale, precision)
        if found is None:
            return None
        return Decimal((int(found < 0), tuple(map(int, str(abs(found)))), -scale))

    return read


def _fixed(length: int) -> Reads:
    def read(value: str) -> bytes | None:
        found = text.base64_bytes(value)
        return found if found is not None and len(found) == length else None

    return read


def _timestamp(kind: str, timestamps: Timestamps) -> Reads:
    if timestamps == "iso":
        return lambda value: text.micros(value, zoned=kind == "timestamptz")
    return lambda value: text.in_range(text.scaled(value, UNIT_SCALE[timestamps], 19))


_READS: dict[str, Reads] = {
    "boolean": {"true": True, "false": False}.get,
    "int": _integer(32),
    "long": _integer(64),
    "float": _float,
    "double": _double,
    "string": lambda value: value,
    "date": text.days,
    "time": text.micros_of_day,
    "uuid": text.uuid_bytes,
    "binary": text.base64_bytes,
}
_WORDS = {
    "boolean": "true or false",
    "int": "an integer from -2147483648 to 2147483647 (int)",
    "long": "an integer from -9223372036854775808 to 9223372036854775807 (long)",
    "float": "a number within the range of a float",
    "double": "a number within the range of a double",
    "date": "a date such as 2024-02-29",
    "time": "a time such as 23:59:59.999999",
    "uuid": "a uuid of 36 characters",
    "binary": "base64 text, padded",
    "timestamp": "ISO 8601 text such as 2024-02-29T12:00:00, without an offset, to the microsecond "
    "(timestamp)",
    "timestamptz": "ISO 8601 text such as 2024-02-29T12:00:00Z, with Z or an offset, to the microsecond "
    "(timestamptz)",
}
