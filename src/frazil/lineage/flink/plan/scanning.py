"""Finding the ends of strings and brackets in the text that Flink's planner prints.

The planner quotes nothing but string literals, and does not escape a quote inside of one. So a literal ends
at the first quote after which an expression can go on; where that reading does not come out even, the text
is `Unclear` and whoever asked must not draw conclusions from it.

The options of a hint are printed as they are, whatever is in them, and may be passwords: they end only where
the hint does, and `without_options` gives a text that may be shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_OPENING = {"(": ")", "[": "]", "{": "}"}
_CLOSING = frozenset(_OPENING.values())
#: How a window is named inside its own properties: `start('w$)`, `TumblingGroupWindow('w$, ts, 1000)`.
_WINDOW_NAME = re.compile(r"'w\$(?=[),])")
#: What can come behind a string; behind a blank, it is an operator, a test, a name or the end of a row.
_AFTER_STRING = re.compile(
    r"[,)\]}:.]|$| \}| (?:AS|IS|FILTER|AND|OR|LIKE|DATETIME_PLUS|MINUS_DATE|[-+*/%<>=!|&^~]+) "
)
_BEGINS = r"\[(?P<hint>[A-Z][A-Z_]*)(?: inheritPath:\[[^\]]*\])? options:\{"
_ENDS = r"\}(?=\](?:\](?:\]|$)|(?:, )?\[[A-Z]))"
#: A hint up to the end of its options: `[OPTIONS options:{topic=a, properties.sasl.jaas.config=…}`.
HINT = re.compile(rf"{_BEGINS}(?P<options>.*?){_ENDS}", re.DOTALL)
#: The same, or as much of it as a text has that was cut off.
_SHOWN = re.compile(rf"(?P<before>{_BEGINS})(?:.*?{_ENDS}|.*)", re.DOTALL)


class Unclear(Exception):
    """The text can be read in more than one way, or in none; the message says which part."""


def without_options(text: str) -> str:
    """A text that may be shown."""
    return _SHOWN.sub(r"\g<before>…}", text)


def string_end(text: str, start: int) -> int:
    """The index after the literal whose quote opens at `start`."""
    window = _WINDOW_NAME.match(text, start)
    if window:
        return window.end()
    at = start
    while True:
        at = text.find("'", at + 1)
        if at < 0:
            raise Unclear(f"a string that does not end: {text[start : start + 40]}")
        if _AFTER_STRING.match(text, at + 1):
            return at + 1


def matching(text: str, start: int) -> int:
    """The index after the bracket that closes the one at `start`."""
    stack: list[str] = []
    at = start
    while at < len(text):
        char = text[at]
        if char == "'":
            at = string_end(text, at)
            continue
        if char == "[" and (hint := HINT.match(text, at)) is not None:
            stack.append("]")
            at = hint.end()
            continue
        if char in _OPENING:
            stack.append(_OPENING[char])
        elif char in _CLOSING:
            if not stack or stack.pop() != char:
                raise Unclear(f"brackets that do not match: {text[start : start + 40]}")
            if not stack:
                return at + 1
        at += 1
    raise Unclear(f"a bracket that does not close: {text[start : start + 40]}")


def top_level(text: str, start: int = 0) -> Iterator[int]:
    """The indexes of the characters that no bracket and no string holds."""
    at = start
    while at < len(text):
        char = text[at]
        if char == "'":
            at = string_end(text, at)
        elif char in _OPENING:
            yield at
            at = matching(text, at)
        elif char in _CLOSING:
            raise Unclear(f"a bracket that nothing opened: {text[at : at + 40]}")
        else:
            yield at
            at += 1


def split(text: str, separator: str) -> list[str]:
    """`text` cut at each `separator` that no bracket and no string holds; nothing gives nothing."""
    if not text:
        return []
    cuts = [at for at in top_level(text) if text.startswith(separator, at)]
    parts, start = [], 0
    for cut in cuts:
        if cut >= start:
            parts.append(text[start:cut])
            start = cut + len(separator)
    return [*parts, text[start:]]
