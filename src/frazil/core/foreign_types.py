"""Types that Iceberg has and frazil has not; a table may have columns of them all the same."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from frazil.core.errors import Unsupported

#: By type, those of format 3, what to use instead.
_INSTEAD = {
    "timestamp_ns": "timestamp (microseconds) or long",
    "timestamptz_ns": "timestamptz (microseconds) or long",
    "variant": "string (with JSON in it)",
    "geometry": "binary (with WKB in it)",
    "geography": "binary (with WKB in it)",
    "unknown": "what it shall hold",
}
_HAD = re.compile(
    "boolean|int|long|float|double|decimal|date|time|timestamp|timestamptz|string|uuid|fixed|binary"
)
_WORD = re.compile(r"\s*([A-Za-z_][A-Za-z_0-9]*)")


def instead_of(text: str) -> str | None:
    """What to use instead of a type of format 3, None: it is not one of those."""
    match = _WORD.match(text)
    return None if match is None else _INSTEAD.get(match[1].lower())


def require_types(document: Mapping[str, Any], table: str | None) -> None:
    """Unsupported, if a schema of the spec's form has a column that frazil has no type for.

    `table`: its name; None: of a query.
    """
    for path, kind in _foreign(document):
        instead = _INSTEAD.get(_word(kind), "that frazil has")
        if table is None:
            raise Unsupported(
                f"the column '{'.'.join(path)}' is of the type {kind}, which frazil does not read or write: "
                f"make it one of the type {instead}"
            )
        raise Unsupported(
            f"the column '{'.'.join(path)}' of the table {table} is of the type {kind}, which frazil does "
            "not read or write. Let an engine that has the type copy what is needed to a column of the type "
            f"{instead}, and drop this one"
        )


def without_foreign(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """A schema of the spec's form less the columns that frazil has no type for.

    For schemas of a table's past: a column that was dropped is in the way of nobody.
    """
    fields = [each for each in document["fields"] if next(_foreign(each["type"]), None) is None]
    return {**document, "fields": fields}


def _foreign(kind: Any) -> Iterator[tuple[tuple[str, ...], str]]:
    """The types inside a type, itself if it is one, with the names that lead to them."""
    if isinstance(kind, str):
        if _HAD.fullmatch(_word(kind)) is None:
            yield (), kind
        return
    parts = [(field["name"], field["type"]) for field in kind.get("fields", ())]
    parts += [(part, kind[part]) for part in ("element", "key", "value") if part in kind]
    for name, inner in parts:
        yield from (((name, *path), found) for path, found in _foreign(inner))


def _word(kind: str) -> str:
    match = _WORD.match(kind)
    return "" if match is None else match[1].lower()
