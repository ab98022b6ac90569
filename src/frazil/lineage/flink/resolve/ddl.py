"""Flink's CREATE TABLE and CREATE CATALOG statements, as SHOW CREATE TABLE or a user gives them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from frazil.core.errors import InvalidConfig

_TOKEN = re.compile(
    r"""\s+|--[^\n]*|/\*.*?\*/      # nothing
    |(?P<string>'(?:[^']|'')*')
    |(?P<quoted>`(?:[^`]|``)*`)
    |(?P<word>[\w$]+)
    |(?P<mark>.)""",
    re.VERBOSE | re.DOTALL,
)
_NOT_COLUMNS = {"PRIMARY", "CONSTRAINT", "WATERMARK", "UNIQUE", "PERIOD"}
_OPENING, _CLOSING = "(<", ")>"
#: Where the type of a column ends.
_AFTER_TYPE = {"NOT", "NULL", "COMMENT", "METADATA", "PRIMARY", "CONSTRAINT"}


@dataclass(frozen=True)
class Token:
    kind: str
    text: str

    def word(self) -> str:
        """In capitals if it can be a keyword, else empty."""
        return self.text.upper() if self.kind == "word" else ""


@dataclass(frozen=True)
class Column:
    name: str
    #: As it is written; empty for a computed column.
    type: str
    nullable: bool = True
    #: Whether an INSERT fills it: not a computed column, not virtual metadata.
    stored: bool = True
    #: Whether it is metadata of a record and no part of its value.
    metadata: bool = False
    #: Names of the fields inside a ROW, joined by dots.
    fields: tuple[str, ...] = ()


@dataclass(frozen=True)
class TableDef:
    """A table as a statement defines it."""

    path: tuple[str, ...]
    #: None where the statement does not list them (LIKE something unknown, AS SELECT).
    columns: tuple[Column, ...] | None = None
    #: They may hold passwords, so they never print.
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    primary_key: tuple[str, ...] = ()

    def stored_columns(self) -> tuple[str, ...] | None:
        """The columns that an INSERT fills, in the order of their declaration."""
        if self.columns is None:
            return None
        return tuple(column.name for column in self.columns if column.stored)

    def written_columns(self) -> tuple[str | None, ...] | None:
        """The same as the sink is given them: metadata last, and of several in the connector's own order."""
        if self.columns is None:
            return None
        metadata = [column.name for column in self.columns if column.stored and column.metadata]
        physical = (column.name for column in self.columns if column.stored and not column.metadata)
        return (*physical, *(metadata if len(metadata) == 1 else [None] * len(metadata)))

    def nested(self) -> dict[str, tuple[str, ...]]:
        """The fields inside columns that have any."""
        return {column.name: column.fields for column in self.columns or () if column.fields}


@dataclass
class Script:
    """Everything that a file of statements defines; names are completed by the USE statements before them."""

    tables: dict[tuple[str, ...], TableDef] = field(default_factory=dict)
    catalogs: dict[str, Mapping[str, str]] = field(default_factory=dict)


def parse_table(statement: str) -> TableDef:
    """One CREATE TABLE statement, its path as it is written."""
    return _table(_tokens(statement))


def parse_script(text: str, where: str) -> Script:
    """A file of statements. Others than CREATE and USE are passed over: a whole job's script may be given."""
    found = Script()
    current = ["default_catalog", "default_database"]
    for number, tokens in enumerate(_statements(_tokens(text)), 1):
        words = [token.word() for token in tokens[:4]]
        try:
            if words[0] == "USE":
                current = _used(tokens[1:], current)
            elif words[:2] == ["CREATE", "CATALOG"]:
                name, rest = _path(_skipped(tokens[2:]))
                found.catalogs[name[-1]] = _options(rest)
            elif words[0] == "CREATE" and "TABLE" in words:
                table = _table(tokens)
                path = (*current[: 3 - len(table.path)], *table.path)
                found.tables[path] = replace(_completed(table, tokens, current, found), path=path)
        except (IndexError, ValueError) as error:
            raise InvalidConfig(f"{where}: statement {number} cannot be read: {error}") from None
    return found


def _tokens(text: str) -> list[Token]:
    found = []
    for match in _TOKEN.finditer(text):
        kind, value = match.lastgroup, match.group()
        if kind == "string":
            value = value[1:-1].replace("''", "'")
        elif kind == "quoted":
            value = value[1:-1].replace("``", "`")
        if kind is not None:
            found.append(Token(kind, value))
    return found


def _statements(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    statement: list[Token] = []
    for token in tokens:
        if token == Token("mark", ";"):
            if statement:
                yield statement
            statement = []
        else:
            statement.append(token)
    if statement:
        yield statement


def _skipped(tokens: list[Token]) -> list[Token]:
    """After IF NOT EXISTS."""
    return tokens[3:] if tokens and tokens[0].word() == "IF" else tokens


def _path(tokens: list[Token]) -> tuple[tuple[str, ...], list[Token]]:
    """A name of one to three parts, and what follows it."""
    names = [_identifier(tokens[0])]
    position = 1
    while position + 1 < len(tokens) and tokens[position] == Token("mark", "."):
        names.append(_identifier(tokens[position + 1]))
        position += 2
    if len(names) > 3:
        raise ValueError(f"{'.'.join(names)!r} has more than three parts")
    return tuple(names), tokens[position:]


def _identifier(token: Token) -> str:
    if token.kind not in ("word", "quoted"):
        raise ValueError(f"a name is missing before {token.text!r}")
    return token.text


def _used(tokens: list[Token], current: list[str]) -> list[str]:
    if tokens[0].word() == "CATALOG":
        name = _identifier(tokens[1])
        return [name, "default_database" if name == "default_catalog" else "default"]
    if tokens[0].word() == "MODULES" and len(tokens) > 1:
        return current
    names, _ = _path(tokens)
    return [*current[: 2 - len(names)], *names]


def _table(tokens: list[Token]) -> TableDef:
    path, inner, rest = _parts(tokens)
    columns, key = (None, ()) if inner is None else _columns(inner)
    return TableDef(path, columns, _options(rest), key)


def _parts(tokens: list[Token]) -> tuple[tuple[str, ...], list[Token] | None, list[Token]]:
    """A table's name, what is in the brackets behind it, if there are any, and what follows."""
    start = next((n for n, token in enumerate(tokens) if token.word() == "TABLE"), None)
    if start is None:
        raise ValueError("it creates no table")
    path, rest = _path(_skipped(tokens[start + 1 :]))
    return (path, *_bracketed(rest)) if rest and rest[0].text == "(" else (path, None, rest)


def _options(tokens: list[Token]) -> dict[str, str]:
    """The strings of a WITH clause, in pairs."""
    for position, token in enumerate(tokens):
        if token.word() == "WITH" and position + 1 < len(tokens) and tokens[position + 1].text == "(":
            inner, _ = _bracketed(tokens[position + 1 :])
            strings = [token.text for token in inner if token.kind == "string"]
            return dict(zip(strings[::2], strings[1::2], strict=True))
    return {}


def _bracketed(tokens: list[Token]) -> tuple[list[Token], list[Token]]:
    """What is between the first bracket and the one that closes it, and what follows.

    Only brackets of its own kind count: a `<` in an expression is none.
    """
    opening = tokens[0].text
    closing = _CLOSING[_OPENING.index(opening)]
    depth = 0
    for position, token in enumerate(tokens):
        if token.kind == "mark" and token.text in (opening, closing):
            depth += 1 if token.text == opening else -1
            if depth == 0:
                return tokens[1:position], tokens[position + 1 :]
    raise ValueError("a bracket is not closed")


def _split(tokens: list[Token]) -> Iterator[list[Token]]:
    """By the commas that are inside no bracket. `<` opens one only in a type; expressions follow AS."""
    part: list[Token] = []
    depth, expression = 0, False
    for token in tokens:
        if token.kind == "mark":
            opening, closing = ("(", ")") if expression else (_OPENING, _CLOSING)
            depth += (token.text in opening) - (token.text in closing)
            if token.text == "," and depth == 0:
                yield part
                part, expression = [], False
                continue
        elif token.word() == "AS" and depth == 0:
            expression = True
        part.append(token)
    if part:
        yield part


def _columns(tokens: list[Token]) -> tuple[tuple[Column, ...], tuple[str, ...]]:
    columns: list[Column] = []
    key: tuple[str, ...] = ()
    for part in _split(tokens):
        if part[0].word() in _NOT_COLUMNS:
            key = key or _key(part)
        else:
            columns.append(_column(part))
            if any(token.word() == "PRIMARY" for token in part[1:]):
                key = (part[0].text,)
    return tuple(columns), key


def _key(part: list[Token]) -> tuple[str, ...]:
    for position, token in enumerate(part):
        if token.word() == "PRIMARY":
            inner, _ = _bracketed(part[position + 2 :])
            return tuple(token.text for token in inner if token.kind in ("word", "quoted"))
    return ()


def _column(part: list[Token]) -> Column:
    name = _identifier(part[0])
    words = [token.word() for token in part[1:]]
    if words and words[0] == "AS":
        return Column(name, "", stored=False)
    depth, end = 0, len(part)
    for position, token in enumerate(part[1:], 1):
        depth += (token.text in _OPENING) - (token.text in _CLOSING) if token.kind == "mark" else 0
        if depth == 0 and token.word() in _AFTER_TYPE:
            end = position
            break
    nullable = not any(
        a == "NOT" and b == "NULL" for a, b in zip(words[end - 1 :], words[end:], strict=False)
    )
    metadata = "METADATA" in words[end - 1 :]
    virtual = metadata and "VIRTUAL" in words[end - 1 :]
    return Column(name, _written(part[1:end]), nullable, not virtual, metadata, tuple(_fields(part[1:end])))


def _written(tokens: list[Token]) -> str:
    text = " ".join(f"`{token.text}`" if token.kind == "quoted" else token.text for token in tokens)
    return re.sub(r"\s*([(<>)])\s*", r"\1", text).replace(" ,", ",")


def _fields(type_: list[Token]) -> Iterator[str]:
    """The names inside a ROW, depth first."""
    if len(type_) < 2 or type_[0].word() != "ROW" or type_[1].text not in _OPENING:
        return
    inner, _ = _bracketed(type_[1:])
    for part in _split(inner):
        yield part[0].text
        for name in _fields(part[1:]):
            yield f"{part[0].text}.{name}"


def _completed(table: TableDef, tokens: list[Token], current: list[str], found: Script) -> TableDef:
    """What a LIKE clause takes over from a table that the file defined before."""
    clause = _like(_parts(tokens)[2])
    if clause is None:
        return table
    name, rest = _path(clause)
    base = found.tables.get((*current[: 3 - len(name)], *name))
    if base is None:
        # The columns that it lists are not all of them.
        return replace(table, columns=None)
    excluded = _excluded(rest)
    columns = base.columns
    if columns is not None:
        taken = (column for column in columns if not (column.metadata and "METADATA" in excluded))
        computed = (column for column in taken if column.type or "GENERATED" not in excluded)
        columns = (*computed, *(table.columns or ()))
    options = {} if "OPTIONS" in excluded else base.options
    return replace(table, columns=columns, options={**options, **table.options})


def _like(tokens: list[Token]) -> list[Token] | None:
    """What stands behind LIKE. Behind AS stands a query, in which it is an operator."""
    depth = 0
    for position, token in enumerate(tokens):
        if token.kind == "mark":
            depth += (token.text == "(") - (token.text == ")")
        elif depth == 0 and token.word() in ("AS", "LIKE"):
            return tokens[position + 1 :] if token.word() == "LIKE" else None
    return None


def _excluded(tokens: list[Token]) -> set[str]:
    """What is not taken over: `(EXCLUDING ALL INCLUDING OPTIONS)`, where ALL is what no other word names."""
    words = [token.word() for token in tokens]
    said = {what: how for how, what in pairwise(words) if how.endswith("CLUDING")}
    every = said.get("ALL", "INCLUDING")
    return {what for what in ("GENERATED", "METADATA", "OPTIONS") if said.get(what, every) == "EXCLUDING"}
