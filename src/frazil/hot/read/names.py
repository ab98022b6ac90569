"""Where names stand in the text of a query, as the engine reads it that takes the query.

What is a name to one engine is a text to another: `"shop.orders"` is a name for DuckDB and a text for Spark,
from which a backslash hides the quote after it, as from DuckDB only in texts that begin with E.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Name:
    """One, between dots."""

    text: str
    #: Where it stands in the query, with its quotes.
    start: int
    end: int


@dataclass(frozen=True)
class Syntax:
    """What the text of a query consists of."""

    #: Around names that it gives, and twice for one inside of them.
    quote: str
    #: The groups `gap`, `plain`, `quoted` and `dot`; of others nothing is a name.
    token: re.Pattern[str]
    #: Begins a comment, and another one inside of it: they nest.
    comment: re.Pattern[str]

    def quoted(self, name: str) -> str:
        return self.quote + name.replace(self.quote, self.quote * 2) + self.quote

    def names(self, query: str) -> Iterator[list[Name]]:
        """In their order; those together that have dots between them."""
        # None: what stands here is no name, nor are those after dots parts of one.
        chain: list[Name] | None = None
        before = ""
        for kind, start, end in self._tokens(query):
            if kind in ("plain", "quoted"):
                name = Name(_text(query[start:end], kind), start, end)
                if before != "dot":
                    if chain:
                        yield chain
                    chain = [name]
                elif chain:
                    chain.append(name)
            elif kind != "dot" or before not in ("plain", "quoted"):
                if chain:
                    yield chain
                chain = None
            before = kind
        if chain:
            yield chain

    def _tokens(self, query: str) -> Iterator[tuple[str, int, int]]:
        """All but spaces and comments."""
        at = 0
        while at < len(query):
            if self.comment.match(query, at):
                at = self._after_comment(query, at)
                continue
            found = self.token.match(query, at)
            assert found is not None, "any character is a token"
            if found.lastgroup != "gap":
                yield str(found.lastgroup), at, found.end()
            at = found.end()

    def _after_comment(self, query: str, at: int) -> int:
        depth = 0
        while at < len(query):
            begun = self.comment.match(query, at)
            ended = query.startswith("*/", at)
            depth += bool(begun) - ended
            at += 2 if begun or ended else 1
            if depth == 0:
                break
        return at


def _text(name: str, kind: str) -> str:
    return name[1:-1].replace(name[0] * 2, name[0]) if kind == "quoted" else name


def _syntax(quote: str, *, gap: str, texts: str, quoted: str, plain: str, comment: str) -> Syntax:
    token = (
        rf"(?P<gap>{gap})|(?P<text>{texts})|(?P<quoted>{quoted})|(?P<plain>{plain})|(?P<dot>\.)|(?P<other>.)"
    )
    return Syntax(quote, re.compile(token, re.DOTALL), re.compile(comment))


# What nothing closes goes on to the end of the query: the engine refuses it.
_ESCAPED = r"'(?:[^'\\]|''|\\.)*+'?"
_BACKQUOTED = "`(?:[^`]|``)*+`?"
_DOUBLE_QUOTED = '"(?:[^"]|"")*+"?'

#: DuckDB takes these for spaces, and all others that are not of ASCII for letters.
_SPACES = "\u00a0\u2000-\u200d\u202f\u205f\u2060\u3000\ufeff"
_LETTER = rf"(?:[A-Za-z_]|[^\x00-\x7f{_SPACES}])"
DUCKDB = _syntax(
    '"',
    gap=rf"[ \t\n\r\f\v{_SPACES}]+|--[^\r\n]*",
    # Those that follow each other on lines of their own are one, of the first one's kind.
    texts=rf"[eE]{_ESCAPED}(?:\s*\n\s*{_ESCAPED})*|'(?:[^']|'')*+'?"
    rf"|\$(?P<tag>(?:{_LETTER}(?:{_LETTER}|[0-9])*)?)\$.*?(?:\$(?P=tag)\$|\Z)",
    quoted=_DOUBLE_QUOTED,
    plain=rf"{_LETTER}(?:{_LETTER}|[0-9$])*",
    comment=r"/\*",
)

_RAW = r"""[rR](?:'[^']*'?|"[^"]*"?)"""
_SPARK = {
    # A backslash at the end of a line takes the next one into the comment.
    "gap": r"\s+|--(?:\\\n|[^\r\n])*",
    "plain": r"\d*[^\W\d]\w*",
    # Names of tables in a hint are names: /*+ BROADCAST(shop.orders) */
    "comment": r"/\*(?!\+)",
}
SPARK = _syntax(
    "`", **_SPARK, texts="|".join((_RAW, _ESCAPED, _ESCAPED.replace("'", '"'))), quoted=_BACKQUOTED
)
#: With `spark.sql.ansi.doubleQuotedIdentifiers`.
SPARK_DOUBLE_QUOTED = _syntax(
    "`", **_SPARK, texts=f"{_RAW}|{_ESCAPED}", quoted=f"{_BACKQUOTED}|{_DOUBLE_QUOTED}"
)
