"""Flink's SQL as words, names, texts, numbers and marks, each with its place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NoReturn, TypeAlias

from frazil.core.errors import InvalidConfig

Kind: TypeAlias = Literal["word", "name", "text", "number", "mark", "end"]

_SPACE = re.compile(r"(?:\s|--[^\n]*|/\*.*?\*/)*", re.DOTALL)
_TOKENS: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    ("word", re.compile(r"[^\W\d]\w*")),
    ("name", re.compile(r"`(?:[^`]|``)+`")),
    ("text", re.compile(r"'(?:[^']|'')*'", re.DOTALL)),
    ("number", re.compile(r"[0-9]+(?:\.[0-9]+)?")),
    ("mark", re.compile(r"[-(),;.<>=*+|!?%\[\]:&^~]|/(?!\*)")),
)
_OPEN = {"`": "a name in backquotes", "'": "a text", "/*": "a comment"}


@dataclass(frozen=True)
class Token:
    kind: Kind
    #: Names and texts without their quotes.
    text: str
    at: int

    def __str__(self) -> str:
        return "the end" if self.kind == "end" else f"'{self.text}'"


def tokens(text: str, source: str) -> Iterator[Token]:
    """All of them, and the end; InvalidConfig where there is none."""
    at = 0
    while True:
        space = _SPACE.match(text, at)
        at = at if space is None else space.end()
        if at == len(text):
            yield Token("end", "", at)
            return
        for kind, pattern in _TOKENS:
            match = pattern.match(text, at)
            if match is not None:
                yield Token(kind, _plain(kind, match[0]), at)
                at = match.end()
                break
        else:
            wrong(text, source, at, _unreadable(text, at))


def wrong(text: str, source: str, at: int, message: str) -> NoReturn:
    """InvalidConfig with the line and the column."""
    line = text.count("\n", 0, at) + 1
    column = at - (text.rfind("\n", 0, at) + 1) + 1
    raise InvalidConfig(f"{source}:{line}:{column}: {message}")


def _plain(kind: Kind, text: str) -> str:
    if kind == "name":
        return text[1:-1].replace("``", "`")
    return text[1:-1].replace("''", "'") if kind == "text" else text


def _unreadable(text: str, at: int) -> str:
    for begin, what in _OPEN.items():
        if text.startswith(begin, at):
            return f"{what} begins here and does not end" if text[at : at + 2] != "``" else "an empty name"
    if text[at] == '"':
        return "double quotes mean nothing in Flink's SQL: names stand in backquotes, texts in single quotes"
    return f"{text[at]!r} has no meaning here"
