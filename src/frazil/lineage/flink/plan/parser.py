"""The expressions that the planner prints: which columns of the input an item of a select list is made of.

A call is `NAME(a, b)`, arithmetic and comparison stand in brackets (`(a + b)`, `(a AND b AND c)`) or before
them (`+(a, b)`), a test stands behind (`a IS NOT NULL`), a cast is `CAST(a AS TYPE)`, a literal may carry
its type (`5000:INTERVAL SECOND`), and a field of a row is `a.b`. Aggregates add `DISTINCT`, `FILTER` and
accumulators in brackets (`AVG((sum$0, count$1))`).

The parser is strict: text that it cannot place, or a name that the input does not have, is `Unclear`. Bare
words in capitals inside a call are the planner's symbols (`FLOOR(ts, DAY)`) unless a column has that name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from frazil.lineage.flink.plan.lexing import Kind, Token, tokens
from frazil.lineage.flink.plan.scanning import Unclear

_LITERAL = re.compile(
    r"(?:[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?[LlFfDdBbSs]?"
    r"|\d{4}-\d\d-\d\d(?: [\d:.]+)?|\d\d:\d\d:\d\d(?:\.\d+)?"
    r"|true|false|TRUE|FALSE|null|NULL|NaN|-?Infinity|\*)"
)
_TYPED = re.compile(r"(.+?):([A-Za-z].*)", re.DOTALL)
_SYMBOL = re.compile(r"[A-Z][A-Z0-9_]*")
#: What a symbol is one of: `SqlJsonQueryEmptyOrErrorBehavior[NULL]`.
_SYMBOLS = re.compile(r"Sql[A-Z][A-Za-z]*")
_FUNCTION_WORD = re.compile(r"[A-Z]+")
_OPERATOR = re.compile(r"[-+*/%<>=!|&^~]+|AND|OR|LIKE|DATETIME_PLUS|MINUS_DATE")
_AFTER_COLUMN = re.compile(rf"IS|AS|FILTER|{_OPERATOR.pattern}")
_DISTINCT = re.compile(r"DISTINCT\*?|APPROXIMATE|distinct\$\d+")
_CORRELATED = re.compile(r"\$cor\d+\.")
_TYPE_WORD = re.compile(
    r"ARRAY|CHARACTER|DAY|HOUR|LOCAL|MINUTE|MONTH|MULTISET|NOT|NULL|PRECISION|SECOND|SET|TIME|TO|VARYING|WITH"
    r"|WITHOUT|YEAR|ZONE|\".*"
)
_TESTS = frozenset({"NULL", "TRUE", "FALSE", "UNKNOWN"})
#: Arguments that are symbols by position, whatever the columns are called.
_SYMBOL_ARGUMENTS = {"EXTRACT": 0, "TRIM": 0, "TIMESTAMPADD": 0, "TIMESTAMPDIFF": 0, "FLOOR": 1, "CEIL": 1}


@dataclass(frozen=True)
class Reference:
    """A column of the input, and the way into it where only a field is used."""

    column: str
    path: tuple[str, ...] = ()


@dataclass(frozen=True)
class Expression:
    """What an expression reads; `plain` when it is nothing but that one column or field."""

    references: tuple[Reference, ...] = ()
    plain: bool = False
    #: Whether its outermost part is a call: what an aggregate's items are.
    call: bool = False


@dataclass(frozen=True)
class Item:
    """An entry of a select list: several names where an aggregate gives an accumulator of several parts."""

    expression: Expression
    names: tuple[str, ...]
    text: str


class Parser:
    """Reads one text; `names` has begin and end of column names in it that are not plain words."""

    def __init__(self, text: str, columns: Sequence[str] | None, names: Mapping[int, int]) -> None:
        self._text = text
        self._columns = None if columns is None else frozenset(columns)
        self._tokens = tokens(text, names)
        self._at = 0

    # -- lists

    def items(self) -> tuple[Item, ...]:
        """The entries of a select list."""
        found = []
        while self._at < len(self._tokens):
            found.append(self._item())
            if self._at < len(self._tokens):
                self._expect(",")
        return tuple(found)

    def _item(self) -> Item:
        start = self._at
        expression = self._expression(top=True)
        if self._word("FILTER"):
            self._take()
            self._expression(top=False)
        before_name = self._at
        if not self._word("AS"):
            text = self._slice(start, before_name)
            return Item(expression, (text,), text)
        self._take()
        text = self._slice(start, before_name)
        if self._mark("(") and (names := self._several_names()) is not None:
            return Item(expression, names, text)
        first = self._at
        while self._at < len(self._tokens) and not self._mark(","):
            self._take()
        if self._at == first:
            raise Unclear(f"a name is missing after AS: {self._text[:60]}")
        return Item(expression, (self._slice(first, self._at),), text)

    def _several_names(self) -> tuple[str, ...] | None:
        """`(sum$0, count$1)`: the parts of an accumulator, unless the bracket begins a longer name."""
        start = self._at
        self._take()
        names = []
        while (token := self._peek()) is not None and token.kind is Kind.WORD:
            names.append(self._take().text)
            if self._mark(","):
                self._take()
        if self._mark(")"):
            self._take()
            if self._at == len(self._tokens) or self._mark(","):
                return tuple(names)
        self._at = start
        return None

    # -- expressions

    def _expression(self, *, top: bool) -> Expression:
        expression = self._operand(top=top)
        while (token := self._peek()) is not None:
            if token.text == "IS" and token.kind is Kind.WORD:
                self._test()
                expression = Expression(expression.references, call=True)
            elif token.glued and token.kind is Kind.WORD and token.text.startswith("."):
                self._take()
                expression = self._field(expression, tuple(token.text[1:].split(".")))
            elif token.glued and token.text == "[":
                self._take()
                index = self._arguments("]", None)
                expression = Expression(_union([expression, *index]), call=True)
            else:
                break
        return expression

    def _field(self, expression: Expression, path: tuple[str, ...]) -> Expression:
        if not expression.plain:
            return Expression(expression.references, call=True)
        (only,) = expression.references
        return Expression((Reference(only.column, only.path + path),), plain=True)

    def _test(self) -> None:
        self._take()
        if self._word("NOT"):
            self._take()
        token = self._take()
        if token.text not in _TESTS:
            raise Unclear(f"IS {token.text} is no test: {self._text[:60]}")

    def _operand(self, *, top: bool) -> Expression:
        token = self._take()
        if token.kind is Kind.COLUMN:
            return Expression((Reference(token.text),), plain=True)
        if token.kind is Kind.STRING:
            self._type_after(token)
            return Expression(call=True)
        if token.text == "(":
            return self._group()
        if token.kind is Kind.MARK:
            raise Unclear(f"an operand is missing before {self._text[token.start : token.start + 40]}")
        if self._opens_call(token):
            return self._call(self._function_name(token))
        return self._literal(token) or self._reference(token, top=top)

    def _group(self) -> Expression:
        """`(a + b)`, `(a AND b AND c)`, or an accumulator `(sum$0, count$1)`."""
        parts = [self._expression(top=False)]
        while not self._mark(")"):
            if self._mark(","):
                self._take()
            else:
                token = self._take()
                if token.kind is not Kind.WORD or _OPERATOR.fullmatch(token.text) is None:
                    raise Unclear(f"{token.text} is no operator: {self._text[:60]}")
            parts.append(self._expression(top=False))
        self._take()
        return parts[0] if len(parts) == 1 else Expression(_union(parts), call=True)

    def _opens_call(self, token: Token) -> bool:
        """Whether a function's name begins here: one word, or several in capitals, right before a bracket."""
        after = self._peek()
        if self._known(token.text) and after is not None and _AFTER_COLUMN.fullmatch(after.text):
            return False
        at = self._at
        while at < len(self._tokens):
            following = self._tokens[at]
            if following.text == "(" and following.kind is Kind.MARK:
                return following.glued and _typed_literal(token.text) is None
            if not (following.kind is Kind.WORD and _FUNCTION_WORD.fullmatch(following.text)):
                return False
            if following.text == "AS":
                return False
            if _FUNCTION_WORD.fullmatch(token.text) is None:
                return False
            at += 1
        return False

    def _function_name(self, token: Token) -> str:
        words = [token.text]
        while not self._mark("("):
            words.append(self._take().text)
        self._take()
        return " ".join(words)

    def _call(self, name: str) -> Expression:
        if name in ("CAST", "TRY_CAST"):
            inner = self._expression(top=False)
            if not self._word("AS"):
                raise Unclear(f"a cast without a type: {self._text[:60]}")
            self._skip_to_close()
            return Expression(inner.references, call=True)
        return Expression(_union(self._arguments(")", name)), call=True)

    def _arguments(self, closing: str, function: str | None) -> list[Expression]:
        parts: list[Expression] = []
        position = 0
        while not self._mark(closing):
            if position:
                self._expect(",")
            self._skip_distinct()
            if _SYMBOL_ARGUMENTS.get(function or "") == position and self._symbol():
                self._take()
            elif (words := self._symbol_words()) > 1:
                self._at += words
            elif not self._mark(closing):
                parts.append(self._expression(top=False))
            position += 1
        self._take()
        return parts

    def _symbol(self) -> bool:
        token = self._peek()
        word = token is not None and token.kind is Kind.WORD and _SYMBOL.fullmatch(token.text) is not None
        return word and self._ends_after()

    def _symbol_words(self) -> int:
        """How many words a symbol has here: `ON EMPTY` in `JSON_VALUE(a, '$.b', NULL, ON EMPTY)`."""
        at = self._at
        while at < len(self._tokens) and _FUNCTION_WORD.fullmatch(self._tokens[at].text):
            at += 1
        words = [token.text for token in self._tokens[self._at : at]]
        ends = at < len(self._tokens) and self._tokens[at].text in (",", ")")
        return len(words) if ends and "IS" not in words and not any(map(self._known, words)) else 0

    def _ends_after(self) -> bool:
        following = self._tokens[self._at + 1] if self._at + 1 < len(self._tokens) else None
        return following is not None and following.text in (",", ")")

    def _skip_distinct(self) -> None:
        """`COUNT(DISTINCT a)`, `COUNT(distinct$0 a)`: what stands before the argument is not one."""
        while (token := self._peek()) is not None and token.kind is Kind.WORD:
            if _DISTINCT.fullmatch(token.text) is None or (self._known(token.text) and self._ends_after()):
                return
            self._take()

    # -- words

    def _literal(self, token: Token) -> Expression | None:
        if _SYMBOLS.fullmatch(token.text) and not self._known(token.text) and self._mark("["):
            self._take()
            self._skip_to_close()
            return Expression(call=True)
        if token.text == "Sarg" and self._mark("["):
            self._take()
            self._skip_to_close()
            if (after := self._peek()) is not None and after.glued and after.text.startswith(":"):
                self._take()
                self._type_words()
            return Expression(call=True)
        typed = _typed_literal(token.text)
        if typed is None and _LITERAL.fullmatch(token.text) is None:
            return None
        if self._known(token.text):
            raise Unclear(f"{token.text} is a column here, and can be a literal: {self._text[:60]}")
        if typed is not None:
            self._type_words()
        return Expression(call=True)

    def _type_after(self, token: Token) -> None:
        """`'x':VARCHAR(1) CHARACTER SET "UTF-16LE"`: the type behind a string."""
        after = self._peek()
        if after is not None and after.glued and after.kind is Kind.WORD and after.text.startswith(":"):
            self._take()
            self._type_words()
        elif after is not None and after.glued and after.kind is not Kind.MARK:
            raise Unclear(f"a string with a quote in it: {self._text[token.start : token.start + 40]}")

    def _type_words(self) -> None:
        while (token := self._peek()) is not None:
            if token.text == "(" and token.glued:
                self._take()
                self._skip_to_close()
            elif token.kind is Kind.WORD and _TYPE_WORD.fullmatch(token.text):
                self._take()
            else:
                return

    def _reference(self, token: Token, *, top: bool) -> Expression:
        text = _CORRELATED.sub("", token.text)
        if self._columns is None:
            head, *path = text.split(".")
            return Expression((Reference(head, tuple(path)),), plain=True)
        parts = text.split(".")
        found = [
            Reference(".".join(parts[:cut]), tuple(parts[cut:]))
            for cut in range(len(parts), 0, -1)
            if ".".join(parts[:cut]) in self._columns
        ]
        if len(found) > 1:
            raise Unclear(f"{text} is a column here, and can be a field of one")
        if found:
            return Expression((found[0],), plain=True)
        if not top and _SYMBOL.fullmatch(text):
            return Expression(call=True)
        raise Unclear(f"{text} is not a column of the input")

    def _known(self, name: str) -> bool:
        return self._columns is not None and name in self._columns

    # -- tokens

    def _peek(self) -> Token | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def _take(self) -> Token:
        token = self._peek()
        if token is None:
            raise Unclear(f"text that ends too early: {self._text[-40:]}")
        self._at += 1
        return token

    def _mark(self, text: str) -> bool:
        token = self._peek()
        return token is not None and token.kind is Kind.MARK and token.text == text

    def _word(self, text: str) -> bool:
        token = self._peek()
        return token is not None and token.kind is Kind.WORD and token.text == text

    def _expect(self, mark: str) -> None:
        if not self._mark(mark):
            token = self._peek()
            rest = self._text[token.start :] if token is not None else "the end"
            raise Unclear(f"{mark} expected before {rest[:40]}")
        self._at += 1

    def _skip_to_close(self) -> None:
        """Past the bracket that closes the one before the current token."""
        depth = 1
        while depth:
            token = self._take()
            if token.kind is Kind.MARK and token.text in "([{":
                depth += 1
            elif token.kind is Kind.MARK and token.text in ")]}":
                depth -= 1

    def _slice(self, start: int, end: int) -> str:
        return self._text[self._tokens[start].start : self._tokens[end - 1].end] if end > start else ""


def _typed_literal(word: str) -> re.Match[str] | None:
    typed = _TYPED.fullmatch(word)
    return typed if typed is not None and _LITERAL.fullmatch(typed.group(1)) else None


def _union(expressions: Sequence[Expression]) -> tuple[Reference, ...]:
    return tuple(dict.fromkeys(_references(expressions)))


def _references(expressions: Sequence[Expression]) -> Iterator[Reference]:
    for expression in expressions:
        yield from expression.references
