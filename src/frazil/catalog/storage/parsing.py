"""From untrusted builtins to Structs, with errors that name the field as the caller spelled it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from frazil.core.errors import InvalidInput

T = TypeVar("T")

_AT = re.compile(r" - at `\$?\.?([^`]*)`$")
_MISSING = re.compile(r"missing required field `([^`]*)`")


def require_object(raw: object, field: str) -> Mapping[str, Any]:
    """The JSON object that `field` must be."""
    if not isinstance(raw, Mapping):
        raise InvalidInput(f"{field}: expected an object, got {_kind(raw)}")
    return raw


def convert(raw: Mapping[str, Any], kind: type[T], field: str) -> T:
    """Convert `raw` (with null meaning absent) to `kind`; the error names the path below `field`."""
    given = {name: value for name, value in raw.items() if value is not None}
    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        raise explain(error, field) from None


def explain(error: msgspec.ValidationError, field: str) -> InvalidInput:
    """msgspec's complaint with the path in front."""
    text = str(error)
    at = _AT.search(text)
    missing = _MISSING.search(text)
    parts = [field, at.group(1) if at else "", missing.group(1) if missing else ""]
    reason = "required" if missing else _AT.sub("", text)
    return InvalidInput(f"{'.'.join(p for p in parts if p)}: {reason}")


def _kind(raw: object) -> str:
    names = {str: "a string", bool: "a boolean", int: "a number", float: "a number", list: "an array"}
    return "null" if raw is None else names.get(type(raw), type(raw).__name__)
