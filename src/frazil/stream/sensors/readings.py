"""Readings of sensors, made up: a function of the seed and the number of the reading alone.

Reckoned in whole numbers, so that they are the same on every machine, however they are cut into batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from frazil.core.schema import Field, Schema

Numbers: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"
_Text: TypeAlias = "np.ndarray[Any, np.dtype[np.uint8]]"

SENSOR_SCHEMA = Schema(
    (
        Field("sensor_id", "string", required=True),
        Field("reading", "long", required=True, doc="counted over all sensors, from 0"),
        Field("event_time", "timestamptz", required=True),
        Field("temperature", "double", doc="in °C"),
        Field("humidity", "double", doc="in %"),
        Field("pressure", "double", doc="in hPa"),
    )
)

_DAY = 86_400_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: The two digits of the numbers below 100.
_PAIRS = np.frombuffer(b"".join(b"%02d" % number for number in range(100)), np.uint8).reshape(100, 2)
#: Stands for nothing.
_BLANK = 0
_SENSOR_DIGITS = 3
_MICROSECOND = datetime.resolution


@dataclass(frozen=True)
class _Columns:
    """Readings as whole numbers: microseconds since 1970, and hundredths of the units."""

    number: Numbers
    sensor: Numbers
    micros: Numbers
    temperature: Numbers
    humidity: Numbers
    pressure: Numbers


def readings(
    seed: int, sensors: int, start: int, count: int, anchor: datetime, rate: float
) -> pa.RecordBatch:
    """`count` readings from number `start` on, by SENSOR_SCHEMA; those of the sensors take turns.

    Reading n was taken n / `rate` seconds after the anchor.
    """
    found = _columns(seed, sensors, start, count, anchor, rate)
    names = pa.array([_name(number, sensors) for number in range(sensors)], pa.string())
    return pa.RecordBatch.from_arrays(
        [
            names.take(pa.array(found.sensor)),
            pa.array(found.number),
            pa.array(found.micros).cast(pa.timestamp("us", tz="UTC")),
            # The nearest double, as a parser of the text would find it.
            *(pa.array(column / 100.0) for column in (found.temperature, found.humidity, found.pressure)),
        ],
        schema=SENSOR_SCHEMA.to_arrow(),
    )


def json_records(
    seed: int, sensors: int, start: int, count: int, anchor: datetime, rate: float
) -> tuple[pa.BinaryArray, pa.Int64Array]:
    """The same readings as JSON objects, and when they were taken (milliseconds since 1970)."""
    found = _columns(seed, sensors, start, count, anchor, rate)
    text = _filled(
        count,
        [
            '{"sensor_id":"sensor-',
            _digits(found.sensor + 1, max(_SENSOR_DIGITS, len(str(sensors)))),
            '","reading":',
            _unpadded(_digits(found.number, len(str(start + count)))),
            ',"event_time":"',
            *_iso(found.micros),
            '","temperature":',
            *_hundredths(found.temperature, 2),
            ',"humidity":',
            *_hundredths(found.humidity, 2),
            ',"pressure":',
            *_hundredths(found.pressure, 4),
            "}",
        ],
    )
    return _strings(text), pa.array(found.micros // 1000)


def interval(rate: float) -> Fraction:
    """Microseconds from one reading to the next."""
    return 1_000_000 / Fraction(str(rate))


def _name(number: int, sensors: int) -> str:
    return f"sensor-{number + 1:0{max(_SENSOR_DIGITS, len(str(sensors)))}d}"


def _columns(seed: int, sensors: int, start: int, count: int, anchor: datetime, rate: float) -> _Columns:
    number = np.arange(start, start + count, dtype=np.int64)
    sensor = number % sensors
    micros = _times(start, count, anchor, rate)
    # Warmest at noon; a straight line up and down, as a sine is not the same on every machine.
    warmth = 800 - np.abs(micros % _DAY - _DAY // 2) * 1600 // _DAY
    return _Columns(
        number,
        sensor,
        micros,
        1500 + _chance(seed, 1, sensor, 1000) + warmth + _chance(seed, 2, number, 150) - 75,
        7000 - _chance(seed, 3, sensor, 2000) - warmth + _chance(seed, 4, number, 200) - 100,
        100500 + _chance(seed, 5, sensor, 3000) + _chance(seed, 6, number, 300) - 150,
    )


def _times(start: int, count: int, anchor: datetime, rate: float) -> Numbers:
    step = interval(rate)
    first = (anchor - _EPOCH) // _MICROSECOND
    whole, rest = divmod(start * step.numerator, step.denominator)
    if (count + 1) * step.numerator + rest >= 2**63:
        exact = [first + int((start + number) * step) for number in range(count)]
        return np.array(exact, dtype=np.int64)
    return first + whole + (rest + np.arange(count, dtype=np.int64) * step.numerator) // step.denominator


def _chance(seed: int, stream: int, number: Numbers, below: int) -> Numbers:
    """Numbers from 0 up to `below`, by the finalizer of SplitMix64."""
    salt = (seed * 0x9E3779B97F4A7C15 + stream * 0xD1342543DE82EF95) % 2**64
    mixed = number.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(salt)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return (mixed % np.uint64(below)).astype(np.int64)


def _filled(count: int, parts: Sequence[str | _Text]) -> _Text:
    """Rows of the parts beside one another; text is the same in all of them."""
    widths = [len(part) if isinstance(part, str) else part.shape[1] for part in parts]
    rows = np.empty((count, sum(widths)), np.uint8)
    at = 0
    for part, width in zip(parts, widths, strict=True):
        rows[:, at : at + width] = np.frombuffer(part.encode(), np.uint8) if isinstance(part, str) else part
        at += width
    return rows


def _digits(numbers: Numbers, width: int) -> _Text:
    """In so many digits."""
    pairs = []
    for _ in range(0, width, 2):
        numbers, last = np.divmod(numbers, 100)
        pairs.append(_PAIRS[last])
    return np.concatenate(pairs[::-1], axis=1)[:, -width:]


def _unpadded(digits: _Text) -> _Text:
    """Without the zeros that lead."""
    leading = np.logical_and.accumulate(digits[:, :-1] == ord("0"), axis=1)
    shown = digits.copy()
    shown[:, :-1][leading] = _BLANK
    return shown


def _hundredths(numbers: Numbers, width: int) -> tuple[_Text, str, _Text]:
    whole, rest = np.divmod(numbers, 100)
    return _digits(whole, width), ".", _PAIRS[rest]


def _iso(micros: Numbers) -> tuple[str | _Text, ...]:
    days, rest = np.divmod(micros, _DAY)
    seconds, fraction = np.divmod(rest, 1_000_000)
    each, which = np.unique(days, return_inverse=True)
    dates = np.datetime_as_string(each.astype("datetime64[D]")).astype("S10")
    date = dates.view(np.uint8).reshape(-1, 10)[which]
    hour, minute, second = _PAIRS[seconds // 3600], _PAIRS[seconds // 60 % 60], _PAIRS[seconds % 60]
    return date, "T", hour, ":", minute, ":", second, ".", _digits(fraction, 6), "Z"


def _strings(text: _Text) -> pa.BinaryArray:
    """Rows without their blanks."""
    written = text != _BLANK
    ends = np.zeros(len(text) + 1, np.int32)
    np.cumsum(written.sum(axis=1), out=ends[1:])
    shown = text if ends[-1] == text.size else text[written]
    return pa.Array.from_buffers(pa.binary(), len(text), [None, pa.py_buffer(ends), pa.py_buffer(shown)])
