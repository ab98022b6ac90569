"""Iceberg's partition transforms on Arrow arrays, and their values in the spec's JSON form."""

from __future__ import annotations

import math
import re
import uuid
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg_core import transform as core

from frazil.core.errors import InvalidInput, Unsupported

_WIDTH = re.compile(r"(bucket|truncate)\[(\d+)\]")
_MICROS = 1_000_000
_SECONDS_A_DAY = 86_400
#: From 0000-03-01, with which the years of the Gregorian calendar are regular, to 1970-01-01.
_DAYS_TO_EPOCH = 719_468
_DAYS_A_CYCLE = 146_097
_LAST_PLAIN_YEAR = 9999
_WIDTHS = {"int": pa.int32(), "date": pa.int32()}
_TIMED = ("year", "month", "day", "hour")
_PLAIN = ("identity", "void", *_TIMED)
_TIMES = ("date", "time", "timestamp", "timestamptz")


def transformed(transform: str, values: pa.Array) -> pa.Array:
    """The partition values of `values`, a column of one of the types that `transform` takes."""
    if transform == "identity":
        return values
    if transform == "void":
        return pa.nulls(len(values), values.type)
    if match := _WIDTH.fullmatch(transform):
        return getattr(core, match[1])(values, int(match[2]))
    if transform in ("year", "month") and pa.types.is_timestamp(values.type):
        # The calendar is dear, and days are few.
        days = pc.dictionary_encode(core.day(values))
        return getattr(core, transform)(days.dictionary).take(days.indices)
    if transform in _TIMED:
        return getattr(core, transform)(values)
    raise Unsupported(
        f"frazil cannot write to tables partitioned by '{transform}'. It knows identity, year, month, day, "
        "hour, bucket[n], truncate[n] and void"
    )


def is_known(transform: str) -> bool:
    """Whether `transformed` takes it."""
    return transform in _PLAIN or _WIDTH.fullmatch(transform) is not None


def result_type(transform: str, kind: str) -> str:
    """The type of the partition values for a column of type `kind`."""
    if transform == "day":
        return "date"
    if transform in ("identity", "void") or transform.startswith("truncate"):
        return kind
    return "int"


def json_values(kind: str, values: pa.Array) -> list[Any]:
    """Values of a primitive type as the spec writes them in JSON.

    >>> json_values("date", pa.array([-1, None], pa.date32()))
    ['1969-12-31', None]
    """
    if kind in _TIMES:
        values = values.view(_WIDTHS.get(kind, pa.int64()))
    return [None if value is None else json_value(kind, value) for value in values.to_pylist()]


def json_value(kind: str, value: Any) -> Any:
    """One value, as Python holds it; moments and days are the numbers that Iceberg has for them."""
    return _JSON.get(kind.partition("(")[0].partition("[")[0], _same)(value)


def _same(value: Any) -> Any:
    return value


def _number(value: float) -> float:
    if not math.isfinite(value):
        raise InvalidInput(
            f"Iceberg has no way to write the partition value {value}; bucket or drop such rows"
        )
    return value


def _date(days: int) -> str:
    """ISO 8601, for years that Python's dates do not have too."""
    cycle, day = divmod(days + _DAYS_TO_EPOCH, _DAYS_A_CYCLE)
    year_of_cycle = (day - day // 1460 + day // 36524 - day // 146096) // 365
    day_of_year = day - (365 * year_of_cycle + year_of_cycle // 4 - year_of_cycle // 100)
    moved = (5 * day_of_year + 2) // 153
    month = moved + 3 if moved < 10 else moved - 9
    year = cycle * 400 + year_of_cycle + (month <= 2)
    sign = "-" if year < 0 else "+" if year > _LAST_PLAIN_YEAR else ""
    return f"{sign}{abs(year):04d}-{month:02d}-{day_of_year - (153 * moved + 2) // 5 + 1:02d}"


def _time(micros: int) -> str:
    seconds, fraction = divmod(micros, _MICROS)
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{fraction:06d}"


def _timestamp(micros: int) -> str:
    days, rest = divmod(micros, _SECONDS_A_DAY * _MICROS)
    return f"{_date(days)}T{_time(rest)}"


_JSON: dict[str, Callable[[Any], Any]] = {
    "float": _number,
    "double": _number,
    "date": _date,
    "time": _time,
    "timestamp": _timestamp,
    "timestamptz": lambda micros: f"{_timestamp(micros)}+00:00",
    "decimal": lambda value: format(value, "f"),
    "uuid": lambda value: str(uuid.UUID(bytes=value)),
    "fixed": lambda value: value.hex().upper(),
    "binary": lambda value: value.hex().upper(),
}
