"""Texts of single values: every function gives the value, or None when the text is not exactly one."""

from __future__ import annotations

import base64
import re
from datetime import date

_NUMBER = re.compile(r"(-?)(0|[1-9][0-9]*)(?:\.([0-9]+))?(?:[eE]([+-]?)([0-9]+))?")
_DATE = "([0-9]{4})-([0-9]{2})-([0-9]{2})"
_TIME = r"([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,9}))?)?"
_ONLY_DATE = re.compile(_DATE)
_ONLY_TIME = re.compile(_TIME)
_TIMESTAMP = re.compile(rf"{_DATE}[T ]{_TIME}(Z|[+-][0-9]{{2}}(?::?[0-9]{{2}})?)?")
_UUID = re.compile("[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_EPOCH = date(1970, 1, 1).toordinal()
_MINUTE = 60_000_000
_DAY = 24 * 60 * _MINUTE
#: No exponent beyond this can be made up for by digits of a record.
_FAR = 10**9

#: Microseconds of the first and the last instant of the years 0001 to 9999.
FIRST_MICROS = -62_135_596_800_000_000
LAST_MICROS = 253_402_300_799_999_999


def scaled(text: str, scale: int, digits: int) -> int | None:
    """A JSON number times 10^scale, if that is an integer of at most so many digits."""
    match = _NUMBER.fullmatch(text)
    if match is None:
        return None
    sign, whole, fraction, exponent_sign, exponent_digits = match.groups(default="")
    significant = (whole + fraction).lstrip("0")
    if not significant:
        return 0
    exponent = scale - len(fraction)
    far = exponent_digits.lstrip("0")
    if far:
        exponent += int(exponent_sign + (far if len(far) < 10 else str(_FAR)))
    kept = significant.rstrip("0")
    exponent += len(significant) - len(kept)
    if exponent < 0 or len(kept) + exponent > digits:
        return None
    return int(sign + kept + "0" * exponent)


def days(text: str) -> int | None:
    """`2024-02-29` as days since 1970."""
    match = _ONLY_DATE.fullmatch(text)
    return _days(*match.groups()) if match else None


def micros_of_day(text: str) -> int | None:
    """`HH:MM[:SS[.fraction]]` as microseconds since midnight."""
    match = _ONLY_TIME.fullmatch(text)
    return _micros_of_day(*match.groups()) if match else None


def micros(text: str, *, zoned: bool) -> int | None:
    """ISO 8601 date and time as microseconds since 1970; with a zone, or without, as asked for."""
    match = _TIMESTAMP.fullmatch(text)
    if match is None or (match[8] is not None) is not zoned:
        return None
    day = _days(*match.groups()[:3])
    time = _micros_of_day(*match.groups()[3:7])
    offset = _offset(match[8]) if zoned else 0
    if day is None or time is None or offset is None:
        return None
    return in_range(day * _DAY + time - offset)


def in_range(instant: int | None) -> int | None:
    return instant if instant is not None and FIRST_MICROS <= instant <= LAST_MICROS else None


def uuid_bytes(text: str) -> bytes | None:
    return bytes.fromhex(text.replace("-", "")) if _UUID.fullmatch(text) else None


def base64_bytes(text: str) -> bytes | None:
    """Standard alphabet, padded; bits that no byte takes up are zero."""
    try:
        found = base64.b64decode(text, validate=True)
    except ValueError:
        return None
    return found if base64.b64encode(found).decode() == text else None


def _days(year: str, month: str, day: str) -> int | None:
    try:
        return date(int(year), int(month), int(day)).toordinal() - _EPOCH
    except ValueError:
        return None


def _micros_of_day(hour: str, minute: str, second: str | None, fraction: str | None) -> int | None:
    if int(hour) > 23 or int(minute) > 59 or int(second or 0) > 59:
        return None
    nanos = int((fraction or "0").ljust(9, "0"))
    if nanos % 1000:
        return None
    return (int(hour) * 60 + int(minute)) * _MINUTE + int(second or 0) * 1_000_000 + nanos // 1000


def _offset(zone: str) -> int | None:
    if zone == "Z":
        return 0
    digits = zone[1:].replace(":", "").ljust(4, "0")
    hours, minutes = int(digits[:2]), int(digits[2:])
    if hours > 23 or minutes > 59:
        return None
    return (hours * 60 + minutes) * (-_MINUTE if zone[0] == "-" else _MINUTE)
