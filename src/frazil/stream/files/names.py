"""Which names are meant: a glob, and what is never taken."""

from __future__ import annotations

import re
from collections.abc import Callable

from frazil.core.errors import InvalidConfig

#: How programs mark what they have not finished.
UNFINISHED = (".tmp", ".inprogress", "._COPYING_")
_HIDDEN = ("_", ".")
_MARKS = {"*": "[^/]*", "?": "[^/]"}


def is_hidden(name: str) -> bool:
    """Whether a file or folder of that name is left out, with all below it."""
    return name.startswith(_HIDDEN) or name.endswith(UNFINISHED)


def matcher(pattern: str) -> Callable[[str], bool]:
    """Whether a path behind the location, folders included, is meant by the glob.

    >>> matches = matcher("**/*.{json,json.gz}")
    >>> matches("a.json"), matches("2026/11/b.json.gz"), matches("c.csv")
    (True, True, False)
    """
    try:
        compiled = re.compile(_translated(pattern), re.DOTALL)
    except (re.error, IndexError) as error:
        raise InvalidConfig(
            f"'{pattern}' is no pattern of file names ({error}). `*` is anything in one name, `**` crosses "
            "folders, `?` is one character, [abc] one of these, {csv,txt} one of these texts"
        ) from None
    return lambda path: compiled.fullmatch(path) is not None


def _translated(pattern: str) -> str:
    found, at, braces = [], 0, 0
    while at < len(pattern):
        mark = pattern[at]
        if pattern.startswith("**/", at) and (at == 0 or pattern[at - 1] == "/"):
            found.append("(?:[^/]+/)*")
            at += 3
            continue
        if pattern.startswith("**", at):
            found.append(".*")
            at += 2
            continue
        if mark == "[":
            end = pattern.index("]", at + 2) if "]" in pattern[at + 2 :] else None
            if end is None:
                raise IndexError("a [ without a ]")
            found.append(_characters(pattern[at + 1 : end]))
            at = end + 1
            continue
        if mark == "{" or (mark in ",}" and braces):
            braces += {"{": 1, ",": 0, "}": -1}[mark]
            found.append({"{": "(?:", ",": "|", "}": ")"}[mark])
        else:
            found.append(_MARKS.get(mark) or re.escape(mark))
        at += 1
    return "".join(found)


def _characters(inside: str) -> str:
    negated = inside.startswith(("!", "^"))
    listed = (
        inside[negated:].replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]").replace("^", "\\^")
    )
    return f"[^/{listed}]" if negated else f"(?!/)[{listed}]"
