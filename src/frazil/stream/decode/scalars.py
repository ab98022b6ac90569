"""Single JSON values by the type of their column, and what a type expects in words.

Numbers are bytes: their digits as they stood in the record.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any, TypeAlias

import pyarrow as pa

from frazil.core.schema import ListType, Type, arrow_type, show_type
from frazil.stream.config.model import JsonFormat
from frazil.stream.decode import text

#: Decimal places from the unit of a timestamp down to microseconds.
UNIT_SCALE = {"s": 6, "ms": 3, "us": 0}
LONGEST_DECIMAL = 38
_RANGES = {"int": (-(2**31), 2**31 - 1), "long": (-(2**63), 2**63 - 1)}
_WIDER = {"int": "long", "float": "double"}
Convert: TypeAlias = Callable[[Any], Any]


def scalar(kind: str, settings: JsonFormat) -> Convert:
    """What reads a value that is not null; None from it says that the value does not fit."""
    if kind.startswith("decimal"):
        return _decimal(arrow_type(kind))
    if kind.startswith("fixed"):
        return _fixed(arrow_type(kind).byte_width)
    if kind in _RANGES:
        return _integer(*_RANGES[kind])
    if kind in ("timestamp", "timestamptz"):
        return _timestamp(kind, settings)
    return {
        "boolean": lambda value: value if isinstance(value, bool) else None,
        "float": _float,
        "double": _double,
        "string": lambda value: value if isinstance(value, str) else None,
        "date": _of_text(text.days),
        "time": _of_text(text.micros_of_day),
        "uuid": _of_text(text.uuid_bytes),
        "binary": _of_text(text.base64_bytes),
    }[kind]


def wider(kind: str, value: Any, settings: JsonFormat) -> str | None:
    """The type that Iceberg can make of a column for it to take a value that does not fit it yet."""
    if kind in _WIDER:
        return _WIDER[kind] if scalar(_WIDER[kind], settings)(value) is not None else None
    if not kind.startswith("decimal"):
        return None
    scale = arrow_type(kind).scale
    found = scalar(f"decimal({LONGEST_DECIMAL}, {scale})", settings)(value)
    return None if found is None else f"decimal({len(found.as_tuple().digits)}, {scale})"


def _of_text(read: Callable[[str], Any]) -> Convert:
    return lambda value: read(value) if isinstance(value, str) else None


def _integer(least: int, most: int) -> Convert:
    def convert(value: Any) -> int | None:
        if not isinstance(value, bytes) or len(value) > 20 or not value.removeprefix(b"-").isdigit():
            return None
        return found if least <= (found := int(value)) <= most else None

    return convert


def _double(value: Any) -> float | None:
    if not isinstance(value, bytes) or math.isinf(found := float(value)):
        return None
    return found


def _float(value: Any) -> float | None:
    """The nearest float of the nearest double, as every C program has it."""
    found = _double(value)
    try:
        return None if found is None else struct.unpack("<f", struct.pack("<f", found))[0]
    except OverflowError:
        return None


def _decimal(kind: pa.DataType) -> Convert:
    def convert(value: Any) -> Decimal | None:
        written = value.decode() if isinstance(value, bytes) else value
        found = text.scaled(written, kind.scale, kind.precision) if isinstance(written, str) else None
        if found is None:
            return None
        return Decimal((int(found < 0), tuple(map(int, str(abs(found)))), -kind.scale))

    return convert


def _fixed(length: int) -> Convert:
    def convert(value: Any) -> bytes | None:
        found = text.base64_bytes(value) if isinstance(value, str) else None
        return found if found is not None and len(found) == length else None

    return convert


def _timestamp(kind: str, settings: JsonFormat) -> Convert:
    if settings.timestamps == "iso":
        return _of_text(lambda value: text.micros(value, zoned=kind == "timestamptz"))
    scale = UNIT_SCALE[settings.timestamps]

    def convert(value: Any) -> int | None:
        return text.in_range(text.scaled(value.decode(), scale, 19)) if isinstance(value, bytes) else None

    return convert


def expected(kind: Type, settings: JsonFormat) -> str:
    if not isinstance(kind, str):
        return f"{'an array' if isinstance(kind, ListType) else 'an object'} ({show_type(kind)})"
    if kind in _RANGES:
        least, most = _RANGES[kind]
        return f"an integer from {least} to {most} ({kind})"
    if kind in ("timestamp", "timestamptz"):
        return _expected_timestamp(kind, settings)
    if kind.startswith("decimal"):
        return f"a number that is exactly a {kind}"
    if kind.startswith("fixed"):
        return f"base64 text of {arrow_type(kind).byte_width} bytes ({kind})"
    return _EXPECTED[kind]


_EXPECTED = {
    "boolean": "true or false",
    "float": "a number within the range of a float",
    "double": "a number within the range of a double",
    "string": "a string",
    "date": 'a date such as "2024-02-29"',
    "time": 'a time such as "23:59:59.999999"',
    "uuid": "a uuid of 36 characters",
    "binary": "base64 text, padded",
}


def _expected_timestamp(kind: str, settings: JsonFormat) -> str:
    """Names the setting: a wrong unit is the likely mistake."""
    if settings.timestamps == "iso":
        example = "2024-02-29T12:00:00" + (
            "Z, with Z or an offset" if kind == "timestamptz" else ", without an offset"
        )
        return (
            f"ISO 8601 text such as {example}, to the microsecond ({kind}); "
            "for numbers set `format: {json: {timestamps: ms}}` (or s, us)"
        )
    unit = {"s": "seconds", "ms": "milliseconds", "us": "microseconds"}[settings.timestamps]
    return (
        f"a number of {unit} since 1970 in the years 1 to 9999, exact to the microsecond ({kind}), by "
        f"`format: {{json: {{timestamps: {settings.timestamps}}}}}`; for ISO 8601 text set `timestamps: iso`"
    )
