"""From the bytes of a body to a validated request."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from frazil.core.errors import InvalidInput

Json = dict[str, Any]
T = TypeVar("T")

# Python's own recursion limit (1000 by default) also bounds msgspec. What is read here is later written
# again from deeper in the stack, so the limit keeps well away from it.
MAX_DEPTH = 300

_DECODER = msgspec.json.Decoder()


def decode(type_: type[T], body: bytes) -> tuple[T, Json]:
    """Parse and validate a body: the typed request and the JSON object it came from.

    Both views are of one parse, so a key that is given twice cannot mean different things to them.
    """
    raw = parse_object(body)
    return validate(type_, raw), raw


def parse_object(body: bytes, what: str = "the body") -> Json:
    """The JSON object in `body`; InvalidInput when it is anything else, too deep, or holds NUL characters."""
    try:
        raw = _DECODER.decode(body)
    except RecursionError:
        raise _too_deep(what) from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{what} is not valid JSON: {error}") from None
    if not isinstance(raw, dict):
        raise InvalidInput(f"{what} must be a JSON object")
    _check_depth(raw, body, what)
    if b"\\u0000" in body:
        _check_nul(raw, what)
    return raw


def validate(type_: type[T], raw: Json, what: str = "") -> T:
    """`raw` as a `type_`; the message of InvalidInput names the path of the field that does not fit."""
    try:
        return msgspec.convert(raw, type_)
    except RecursionError:
        raise _too_deep(what or "the body") from None
    except msgspec.ValidationError as error:
        raise InvalidInput(f"{what}: {error}" if what else str(error)) from None


def check_text(value: str, what: str) -> str:
    """`value`, if it can be stored as a name: no NUL, no lone surrogate; else InvalidInput naming `what`."""
    if "\0" in value:
        raise InvalidInput(f"{what} must not contain NUL characters")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise InvalidInput(f"{what} is not valid Unicode: it has a lone surrogate") from None
    return value


def _too_deep(what: str) -> InvalidInput:
    return InvalidInput(f"{what} is nested too deeply (more than {MAX_DEPTH} levels)")


def _check_depth(raw: Json, body: bytes, what: str) -> None:
    if body.count(b"{") + body.count(b"[") <= MAX_DEPTH:
        return
    level: list[Any] = [raw]
    for _ in range(MAX_DEPTH):
        below: list[Any] = []
        for node in level:
            children = node.values() if type(node) is dict else node
            below.extend([child for child in children if type(child) is dict or type(child) is list])
        if not below:
            return
        level = below
    raise _too_deep(what)


def _check_nul(raw: Json, what: str) -> None:
    """The escape may be an escaped backslash followed by `u0000`, so only the parsed strings can tell."""
    stack: list[tuple[str, Any]] = [("$", raw)]
    while stack:
        path, node = stack.pop()
        if type(node) is str:
            if "\0" in node:
                raise InvalidInput(f"{what} has a NUL character at `{path}`")
        elif type(node) is dict:
            for key, value in node.items():
                if "\0" in key:
                    raise InvalidInput(f"{what} has a NUL character in a key of `{path}`")
                stack.append((f"{path}.{key}" if len(path) < 200 else path, value))
        elif type(node) is list:
            stack.extend((f"{path}[{i}]" if len(path) < 200 else path, v) for i, v in enumerate(node))
