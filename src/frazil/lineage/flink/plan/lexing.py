"""Cutting a printed expression into tokens.

Column names are printed bare, whatever is in them. The names that the input of the operator has are known,
though: where one with blanks, commas, quotes or brackets in it stands at the place of an operand, it is one
token.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, auto

from frazil.lineage.flink.plan.scanning import Unclear, string_end

_PLAIN_NAME = re.compile(r"[^\s,()\[\]{}'`\"]+")
_STRING_PREFIX = re.compile(r"(?:_[A-Za-z0-9-]+|[xXuU]&?)?(?=')")
_DATE_TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?(?=[\s,)\]}:]|$)")
_WORD = re.compile(r"[^\s,()\[\]{}']+")
_BEFORE_NAME = frozenset(" ,([{")
_AFTER_NAME = frozenset(" ,)]}.")


class Kind(Enum):
    """What a token is."""

    COLUMN = auto()  #: a name of the input that is not a plain word
    STRING = auto()
    WORD = auto()
    MARK = auto()  #: a bracket or a comma


@dataclass(frozen=True)
class Token:
    """A piece of the text; `glued` where no blank stands before it."""

    kind: Kind
    text: str
    start: int
    end: int
    glued: bool


def is_plain(name: str) -> bool:
    """Whether a name is one word wherever it is printed."""
    return _PLAIN_NAME.fullmatch(name) is not None and name != "AS"


def places(text: str, names: Iterable[str]) -> list[tuple[int, int]]:
    """Where one of these names stands so that it could be an operand: begin and end."""
    found = []
    for name in names:
        at = text.find(name)
        while at >= 0:
            end = at + len(name)
            if (at == 0 or text[at - 1] in _BEFORE_NAME) and (end == len(text) or text[end] in _AFTER_NAME):
                found.append((at, end))
            at = text.find(name, at + 1)
    return found


def tokens(text: str, columns: Mapping[int, int]) -> list[Token]:
    """The tokens of `text`; `columns` has begin and end of the names that are to be read as one."""
    found: list[Token] = []
    at = 0
    while at < len(text):
        if text[at].isspace() and at not in columns:
            at += 1
            continue
        kind, end = (Kind.COLUMN, columns[at]) if at in columns else _next(text, at)
        glued = bool(found) and found[-1].end == at
        found.append(Token(kind, text[at:end], at, end, glued))
        at = end
    return found


def _next(text: str, at: int) -> tuple[Kind, int]:
    if text[at] in "()[]{},":
        return Kind.MARK, at + 1
    prefix = _STRING_PREFIX.match(text, at)
    if prefix:
        return Kind.STRING, string_end(text, prefix.end())
    word = _DATE_TIME.match(text, at) or _WORD.match(text, at)
    if word is None:
        raise Unclear(f"text that is no expression: {text[at : at + 40]}")
    return Kind.WORD, word.end()
