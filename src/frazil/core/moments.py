"""Times that are counted in microseconds, as the tables and stamps have them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def moment(micros: int) -> datetime:
    """Microseconds since 1970 as a time; of what a `datetime` cannot be, the nearest that it can.

    >>> moment(253_402_300_799_999_999).isoformat()
    '9999-12-31T23:59:59.999999+00:00'
    """
    try:
        return _EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC) if micros > 0 else datetime.min.replace(tzinfo=UTC)
