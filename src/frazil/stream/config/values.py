"""Words and numbers of a configuration: sizes, starting points, topics, columns."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from typing import Literal
from urllib.parse import urlsplit

from frazil.core.durations import parse_duration
from frazil.core.errors import InvalidConfig
from frazil.core.schema import Field, ListType, MapType, StructType, Type, parse_type

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(k|m|g)i?b", re.IGNORECASE)
_SHARE = re.compile(r"(\d+(?:\.\d+)?)\s*%")
_WHOLE = 100
_UNITS = {"k": 1024, "m": 1024**2, "g": 1024**3}
_SMALLEST_FILE = 64 * 1024
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_SHORTEST = 0.1
_REQUIRED = re.compile(r"(.*\S)\s+required", re.DOTALL)


def size(text: str) -> int:
    """Bytes of `128mb`."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise InvalidConfig(f"'{text}' is no size: write a number and a unit (kb, mb, gb), such as 128mb")
    found = int(float(match[1]) * _UNITS[match[2].lower()])
    if found < _SMALLEST_FILE:
        raise InvalidConfig(f"'{text}' is too small for a file: write 64kb or more, 128mb is usual")
    return found


def bytes_(text: str) -> int:
    """Bytes of `16mb`."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise InvalidConfig(f"'{text}' is no size: write a number and a unit (kb, mb, gb), such as 16mb")
    return max(1, int(float(match[1]) * _UNITS[match[2].lower()]))


def share(text: str) -> float:
    """The part of `1%`."""
    match = _SHARE.fullmatch(text.strip())
    if match is None or float(match[1]) > _WHOLE:
        raise InvalidConfig(f"'{text}' is no share: write 0% to 100%, such as 1%")
    return float(match[1]) / _WHOLE


def rate(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not (found > 0 and math.isfinite(found)):
        raise InvalidConfig(f"'{text}' is no rate: write how many a second, such as 10 or 0.5")
    return found


def character(text: str) -> str:
    if len(text) != 1 or text in "\r\n" or not text.isascii():
        raise InvalidConfig(f"'{text}' is not one character of ASCII, or a line break; write one such as ;")
    return text


def location(text: str) -> str:
    """A folder or prefix, without a slash at the end."""
    found = text.rstrip("/") or "/"
    if found.startswith("/") or re.fullmatch(r"(file:///|s3a?://[^/]+).*", found):
        return found
    raise InvalidConfig(f"'{text}' is no place: write an absolute path, file:///… or s3://bucket/…")


def checkpoint(text: str) -> str:
    """A folder of Hadoop's file systems, without a slash at the end."""
    found = text.rstrip("/")
    if found.startswith("s3:"):
        raise InvalidConfig(f"'{text}': Spark calls it s3a://bucket/…")
    if re.fullmatch(r"/.+|[a-z][a-z0-9+.-]*:/.+", found):
        return found
    raise InvalidConfig(f"'{text}' is no folder: write an absolute path, or one such as s3a://bucket/…")


def glob(text: str) -> str:
    if not text or text.startswith("/") or ".." in text.split("/"):
        raise InvalidConfig(f"'{text}' is no pattern below the folder: write one such as **/*.json")
    return text


def registry_url(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidConfig("a registry is given as http://host:port or https://host:port")
    if parts.username or parts.password:
        raise InvalidConfig("the user of a registry is not given in its address: write username, password")
    return text.rstrip("/")


def freshness(text: str) -> float:
    seconds = parse_duration(text)
    if seconds < _SHORTEST:
        raise InvalidConfig(f"'{text}' is too short: commits are at least 100ms apart")
    return seconds


def topic(text: str) -> str:
    if _TOPIC.fullmatch(text) is None or text in (".", ".."):
        raise InvalidConfig(
            f"'{text}' cannot be the name of a topic: it has 1 to 249 of a-z, A-Z, 0-9, '.', '_', '-'. "
            "For a regular expression write 'pattern'"
        )
    return text


def pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise InvalidConfig(f"'{text}' is no regular expression: {error}") from None
    return text


def catalog_name(text: str) -> str:
    if not (text.isascii() and text.isidentifier()):
        raise InvalidConfig(f"'{text}' cannot name a catalog in SQL: use letters, digits and _")
    return text


def moment(text: str) -> datetime:
    """A day is its first moment; what names no time zone is UTC."""
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        raise InvalidConfig(f"'{text}' is no time: write one such as 2026-01-01T00:00:00Z") from None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def start(text: str) -> Literal["earliest", "latest"] | datetime:
    """A day is its first moment; what names no time zone is UTC."""
    if text == "earliest":
        return "earliest"
    if text == "latest":
        return "latest"
    try:
        return moment(text)
    except InvalidConfig:
        raise InvalidConfig(
            f"'{text}' is no starting point: write earliest, latest, a time such as 2026-01-01T00:00:00Z, or "
            "offsets by topic such as {orders: [0, 10]}"
        ) from None


def column(text: str) -> tuple[Type, bool]:
    """`long required`: the type, and whether it is NOT NULL."""
    match = _REQUIRED.fullmatch(text.strip())
    return (parse_type(match[1]), True) if match else (parse_type(text), False)


def type_problem(kind: Type) -> str | None:
    """What JSON or a table cannot have, in words."""
    if isinstance(kind, MapType):
        if kind.key != "string":
            return "the keys of a map are strings in JSON: write map<string, …>"
        return type_problem(kind.value)
    if isinstance(kind, ListType):
        return type_problem(kind.element)
    if isinstance(kind, StructType):
        return names_problem(kind.fields) or next(
            filter(None, (type_problem(f.type) for f in kind.fields)), None
        )
    return None


def names_problem(fields: tuple[Field, ...]) -> str | None:
    """Names that differ only in case are one for Spark."""
    seen: dict[str, str] = {}
    for one in fields:
        other = seen.get(one.name.lower())
        if other is not None:
            return f"'{other}' and '{one.name}' are one name for Spark, which does not tell case apart"
        seen[one.name.lower()] = one.name
    return None
