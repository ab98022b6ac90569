"""What is wrong with a JSON record, in words.

Documents are as `reference` reads them: objects are tuples of pairs, arrays lists, numbers bytes.
"""

from __future__ import annotations

import json
from typing import Any

from frazil.stream.decode.decoded import Fault, Undecodable

_SHOWN = 100


class Problem(Exception):
    """What is wrong with a value; the path to it is put together on the way out."""

    def __init__(self, reason: str, fault: Fault = Fault.BROKEN, *, loose: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.fault = fault
        #: Whether the value may be left out instead, by an optional column around it.
        self.loose = loose
        self.path = ""

    def within(self, step: str) -> Problem:
        joint = "." if self.path and not self.path.startswith("[") else ""
        self.path = f"{step}{joint}{self.path}"
        return self

    def of(self, index: int) -> Undecodable:
        return Undecodable(index, self.reason, self.path or None, self.fault)


def cut(whole: str) -> str:
    shown = json.dumps(whole, ensure_ascii=False)[1:-1] if not whole.isprintable() else whole
    return shown if len(shown) <= _SHOWN else shown[:_SHOWN] + "…"


def show(value: Any) -> str:
    if isinstance(value, bytes):
        return cut(value.decode())
    if isinstance(value, tuple):
        return "an object"
    if isinstance(value, list):
        return "an array"
    return f'"{cut(value)}"' if isinstance(value, str) else json.dumps(value)


def mismatch(expected: str, value: Any) -> str:
    return f"found {show(value)}, expected {expected}"
