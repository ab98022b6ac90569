"""Dates and times from all that Debezium makes of them, and back into text.

Nothing is cut off: a value between two microseconds, beyond the years 1 to 9999 or of more than a day does
not fit, and neither do PostgreSQL's infinities, which come as numbers far outside or as the word.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.stream.cdc.decode.trouble import Mask, array_of, longs_of, mask_of, valid_of
from frazil.stream.decode import text

_DAY = 86_400_000_000
_FIRST_DAY, _LAST_DAY = text.FIRST_MICROS // _DAY, text.LAST_MICROS // _DAY
_US = pa.timestamp("us")


def date_of_days(values: pa.Array) -> tuple[pa.Array, Mask]:
    days = longs_of(values)
    wrong = (days < _FIRST_DAY) | (days > _LAST_DAY)
    return array_of(np.where(wrong, 0, days).astype(np.int32), valid_of(values), pa.date32()), wrong


def time_of_numbers(values: pa.Array, nanos: int) -> tuple[pa.Array, Mask]:
    """Units of so many nanoseconds since midnight."""
    micros, wrong = _micros(values, nanos, 0, _DAY - 1)
    return array_of(micros, valid_of(values), pa.time64("us")), wrong


def timestamp_of_numbers(values: pa.Array, nanos: int, kind: pa.DataType) -> tuple[pa.Array, Mask]:
    """Units of so many nanoseconds since 1970."""
    micros, wrong = _micros(values, nanos, text.FIRST_MICROS, text.LAST_MICROS)
    return array_of(micros, valid_of(values), kind), wrong


def _micros(
    values: pa.Array, nanos: int, first: int, last: int
) -> tuple[np.ndarray[tuple[int], np.dtype[np.int64]], Mask]:
    numbers = longs_of(values)
    if nanos >= 1000:
        factor = nanos // 1000
        wrong = (numbers < -(-first // factor)) | (numbers > last // factor)
        return np.where(wrong, 0, numbers) * factor, wrong
    micros = numbers // 1000
    wrong = (numbers % 1000 != 0) | (micros < first) | (micros > last)
    return np.where(wrong, 0, micros), wrong


def timestamp_of_text(values: pa.Array, kind: pa.DataType, *, utc: bool) -> tuple[pa.Array, Mask]:
    """ISO 8601, with a zone if the type has one; with `utc` a `Z` may stand behind a local time."""
    zoned = kind.tz is not None
    bare = _without_z(values) if utc and not zoned else values
    shapely = pc.match_substring_regex(bare, _SHAPE if zoned else _LOCAL_SHAPE)
    if mask_of(shapely.fill_null(True)).all():
        try:
            found = bare.cast(kind)
        except pa.ArrowInvalid:
            pass
        else:
            return found, np.zeros(len(values), bool)
    return _one_by_one(bare, lambda one: text.micros(one, zoned=zoned), kind)


#: What Arrow reads as `text.micros` does; it takes more, and cuts off what is below a microsecond.
_LOCAL_SHAPE = r"^(000[1-9]|00[1-9]\d|0[1-9]\d\d|[1-9]\d{3})-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?$"
_SHAPE = _LOCAL_SHAPE.removesuffix("$") + r"(Z|[+-]\d\d:\d\d)$"


def date_of_text(values: pa.Array) -> tuple[pa.Array, Mask]:
    return _one_by_one(_without_z(values), text.days, pa.date32())


def time_of_text(values: pa.Array) -> tuple[pa.Array, Mask]:
    return _one_by_one(_without_z(values), text.micros_of_day, pa.time64("us"))


def _without_z(values: pa.Array) -> pa.Array:
    return pc.utf8_rtrim(values, "Z")


def _one_by_one(
    values: pa.Array, read: Callable[[str], int | None], kind: pa.DataType
) -> tuple[pa.Array, Mask]:
    numbers = [None if one is None else read(one) for one in values.to_pylist()]
    found = pa.array(numbers, pa.int32() if pa.types.is_date32(kind) else pa.int64()).view(kind)
    return found, mask_of(values.is_valid()) & mask_of(found.is_null())


def text_of_temporal(values: pa.Array) -> pa.Array:
    """ISO 8601; of instants with a `Z`."""
    kind = values.type
    if pa.types.is_timestamp(kind):
        mark = "Z" if kind.tz else ""
        return pc.replace_substring(
            pc.binary_join_element_wise(values.cast(_US).cast(pa.string()), mark, ""), " ", "T"
        )
    return values.cast(pa.string())
