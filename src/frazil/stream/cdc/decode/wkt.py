"""Geometries as text: well-known text, with `SRID=…;` before it where the value has one."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

_NAMES = (
    "",
    "POINT",
    "LINESTRING",
    "POLYGON",
    "MULTIPOINT",
    "MULTILINESTRING",
    "MULTIPOLYGON",
    "GEOMETRYCOLLECTION",
)
_MAX_DEPTH = 16


def geometry_text(value: dict[str, Any]) -> str | None:
    """Of Debezium's struct (`x` and `y`, or `wkb`; `srid`); None if it is none."""
    if value.get("x") is not None and value.get("y") is not None:
        found = f"POINT({_number(value['x'])} {_number(value['y'])})"
    else:
        try:
            found = _Reader(value["wkb"]).geometry()
        except (struct.error, TypeError, IndexError, KeyError):
            return None
    return f"SRID={value['srid']};{found}" if value.get("srid") else found


def _number(value: float) -> str:
    shown = repr(float(value))
    return shown.removesuffix(".0")


class _Reader:
    """Over well-known binary, PostGIS's flags included."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._order = "<"
        self._axes = 2

    def geometry(self, depth: int = 0) -> str:
        if depth > _MAX_DEPTH:
            raise IndexError(depth)
        self._order = "<" if self._take("B") else ">"
        kind = self._take("I")
        dimensions = kind % 10_000 // 1000
        z = bool(kind & 0x80000000) or dimensions in (1, 3)
        m = bool(kind & 0x40000000) or dimensions in (2, 3)
        if kind & 0x20000000:
            self._take("I")
        self._axes = 2 + z + m
        word = (kind & 0x0FFFFFFF) % 1000
        if not 0 < word < len(_NAMES):
            raise IndexError(word)
        mark = (" " + "Z" * z + "M" * m + " ") if z or m else ""
        return f"{_NAMES[word]}{mark}{self._body(word, depth)}"

    def _body(self, word: int, depth: int) -> str:
        if word == 1:
            return f"({self._point()})"
        if word == 2:
            return self._many(self._point)
        if word == 3:
            return self._many(lambda: self._many(self._point))
        if word == 7:
            return self._many(lambda: self.geometry(depth + 1))
        return self._many(lambda: self.geometry(depth + 1).lstrip("ABCDEFGHIJKLMNOPQRSTUVWXYZ "))

    def _many(self, one: Callable[[], str]) -> str:
        count = self._take("I")
        return f"({', '.join(one() for _ in range(count))})" if count else " EMPTY"

    def _point(self) -> str:
        return " ".join(_number(self._take("d")) for _ in range(self._axes))

    def _take(self, mark: str) -> Any:
        form = self._order + mark
        (found,) = struct.unpack_from(form, self._data, self._at)
        self._at += struct.calcsize(form)
        return found
