"""Numbers as people read them."""

from __future__ import annotations

from frazil.core.durations import show_duration

_UNITS = ("B", "kB", "MB", "GB", "TB")


def count(number: int | float | None) -> str:
    """
    >>> count(1234567), count(None)
    ('1,234,567', '-')
    """
    return "-" if number is None else f"{number:,.0f}"


def counted(number: int, noun: str) -> str:
    """
    >>> counted(1, "row"), counted(2000, "row")
    ('1 row', '2,000 rows')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def size(number: float) -> str:
    """
    >>> size(999), size(12_345_678)
    ('999 B', '12.3 MB')
    """
    for unit in _UNITS[:-1]:
        if number < 1000:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1000
    return f"{number:.1f} {_UNITS[-1]}"


def seconds(value: float | None) -> str:
    """
    >>> seconds(None), seconds(0.25), seconds(2.34), seconds(75)
    ('-', '250ms', '2.3s', '1m 15s')
    """
    if value is None:
        return "-"
    return f"{value:.1f}s" if 1 <= value < 10 else show_duration(value) or "0s"


def ago(moment: float | None, now: float) -> str:
    """
    >>> ago(None, 10.0), ago(9.5, 10.0), ago(10.0, 100.0)
    ('-', 'now', '1m 30s ago')
    """
    if moment is None:
        return "-"
    return "now" if now - moment < 1 else f"{show_duration(now - moment)} ago"
