"""Names of namespaces, tables and views: how they are checked, compared and joined."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from frazil.core.errors import InvalidInput

#: Joins the levels of a namespace in a URL and in the database (the REST spec's unit separator).
LEVEL_SEPARATOR = "\x1f"

_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")

MAX_NAME_LENGTH = 255
MAX_LEVELS = 32
#: Fits PostgreSQL's largest index entry (2,704 bytes) even where folding the case makes a name longer.
MAX_PATH_BYTES = 800


def name_key(name: str) -> str:
    """The form under which a name is unique: case and Unicode composition do not count.

    >>> name_key("Orders") == name_key("ORDERS")
    True
    """
    if name.isascii():
        return name.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def namespace_key(levels: Sequence[str]) -> str:
    """The form under which a namespace is unique inside its warehouse."""
    return name_key(LEVEL_SEPARATOR.join(levels))


def is_uuid(text: str) -> bool:
    """Whether `text` is a UUID in its usual spelling."""
    return _UUID.fullmatch(text) is not None


def check_name(name: str, field: str) -> str:
    """Refuse a name that no engine could use or that would break a URL or a log line."""
    if not name:
        raise InvalidInput(f"{field} must not be empty")
    if len(name) > MAX_NAME_LENGTH:
        raise InvalidInput(f"{field} is {len(name)} characters long, at most {MAX_NAME_LENGTH} are allowed")
    if not name.isprintable() and any(unicodedata.category(char) in ("Cc", "Cs") for char in name):
        raise InvalidInput(f"{field} {name.encode('unicode_escape').decode()!r} contains a control character")
    return name


def check_levels(levels: Sequence[str], field: str) -> tuple[str, ...]:
    """A namespace as a tuple of checked levels."""
    if not levels:
        raise InvalidInput(f"{field} must have at least one level")
    if len(levels) > MAX_LEVELS:
        raise InvalidInput(f"{field} has {len(levels)} levels, at most {MAX_LEVELS} are allowed")
    checked = tuple(check_name(level, f"{field}[{index}]") for index, level in enumerate(levels))
    size = len(LEVEL_SEPARATOR.join(checked).encode())
    if size > MAX_PATH_BYTES:
        raise InvalidInput(f"{field} is {size} bytes long in all, at most {MAX_PATH_BYTES} are allowed")
    return checked


def split_levels(path: str, field: str) -> tuple[str, ...]:
    """The levels of a namespace as it stands in a URL."""
    return check_levels(path.split(LEVEL_SEPARATOR), field)


def show(levels: Sequence[str], name: str | None = None) -> str:
    """A dotted name for messages."""
    return ".".join(levels if name is None else (*levels, name))
