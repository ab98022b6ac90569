r"""Names as people write them, and as they stand in a URL.

A namespace is written with dots between its levels, a table as namespace, dot, name. A backslash before a dot
keeps it a part of the name: `sales\.eu.orders` is the table `orders` in the one-level namespace `sales.eu`.
Whoever has the levels apart gives them as a list, where nothing is special.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeAlias
from urllib.parse import quote

from frazil.core.errors import InvalidInput
from frazil.core.names import LEVEL_SEPARATOR, check_levels, check_name

NamespaceLike: TypeAlias = str | Sequence[str]

_PART = re.compile(r"((?:[^.\\]|\\[.\\])*)(\.|$)")


def levels(namespace: NamespaceLike) -> tuple[str, ...]:
    """The levels of a namespace, checked."""
    return check_levels(_split(namespace) if isinstance(namespace, str) else namespace, "namespace")


def identifier(text: str) -> tuple[tuple[str, ...], str]:
    """Namespace and name of a table that is written in one word."""
    parts = _split(text)
    if len(parts) < 2:
        raise InvalidInput(f"{text!r} is not a table: write namespace.name, such as sales.orders")
    return check_levels(parts[:-1], "namespace"), check_name(parts[-1], "name")


def written(*parts: str) -> str:
    """The inverse of `levels` and `identifier`."""
    return ".".join(re.sub(r"([.\\])", r"\\\1", part) for part in parts)


def segment(*parts: str) -> str:
    """A name, or the levels of a namespace, as one segment of a path."""
    joined = LEVEL_SEPARATOR.join(parts)
    # "." and ".." would be resolved by whoever normalizes the URL on the way.
    return joined.replace(".", "%2E") if joined in (".", "..") else quote(joined, safe="")


def _split(text: str) -> list[str]:
    parts, position = [], 0
    while True:
        match = _PART.match(text, position)
        if match is None:
            raise InvalidInput(f"{text!r}: a backslash may only stand before a dot or a backslash")
        parts.append(re.sub(r"\\(.)", r"\1", match[1]))
        position = match.end()
        if not match[2]:
            return parts
