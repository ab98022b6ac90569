"""Types of Flink's SQL as those of Iceberg.

| Flink | Iceberg |
|---|---|
| `BOOLEAN` | `boolean` |
| `TINYINT`, `SMALLINT`, `INT` | `int` |
| `BIGINT` | `long` |
| `FLOAT`; `DOUBLE` | `float`; `double` |
| `DECIMAL(p, s)` | `decimal(p, s)` |
| `CHAR(n)`, `VARCHAR(n)`, `STRING` | `string`, of any length |
| `BINARY(n)`; `VARBINARY(n)`, `BYTES` | `fixed[n]`; `binary`, of any length |
| `DATE` | `date` |
| `TIMESTAMP(p)`; `TIMESTAMP_LTZ(p)`, p up to 6 | `timestamp`; `timestamptz` |
| `ARRAY<t>`, `MAP<STRING, t>`, `ROW<n t, …>` | `list<t>`, `map<string, t>`, `struct<n: t, …>` |
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from frazil.core.schema import Field, ListType, MapType, StructType, Type

if TYPE_CHECKING:
    from frazil.hot.declared.ddl_parser import Parser

_DIGITS = 38
_MICROS = 6
_NANOS = 9
_PLAIN = {
    "BOOLEAN": "boolean",
    "TINYINT": "int",
    "SMALLINT": "int",
    "INT": "int",
    "INTEGER": "int",
    "BIGINT": "long",
    "FLOAT": "float",
    "STRING": "string",
    "BYTES": "binary",
    "DATE": "date",
}
_REFUSED = {
    "TIME": "Spark cannot open a table with a time of day: make it a STRING, such as 23:59:59",
    "INTERVAL": "Iceberg has no intervals: make it a BIGINT",
    "MULTISET": "Iceberg has no multisets: make it an ARRAY, or MAP<STRING, INT>",
    "RAW": "Iceberg has no types of Java's: make it BYTES",
    "NULL": "a column needs a type",
    "VARIANT": "variants are not read here: make it a STRING",
    "UUID": "Flink's SQL has no such type: make it CHAR(36), or declare the table in YAML",
}
_LEGAL = (
    "BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, DECIMAL(p, s), CHAR(n), VARCHAR(n), STRING, "
    "BINARY(n), VARBINARY(n), BYTES, DATE, TIMESTAMP(p), TIMESTAMP_LTZ(p), ARRAY<t>, MAP<STRING, t>, "
    "ROW<name t, …>"
)


def read_type(parser: Parser) -> tuple[Type, bool | None]:
    """A type, and whether it is said to be NOT NULL (True) or NULL (False)."""
    at = parser.here
    word = parser.word("a type").upper()
    if word in _REFUSED:
        parser.fail(f"{word}: {_REFUSED[word]}", at)
    if word in _PLAIN:
        found: Type = _PLAIN[word]
    elif word in _SPECIAL:
        found = _SPECIAL[word](parser)
    else:
        parser.fail(f"'{word}' is no type. Legal: {_LEGAL}", at)
    return found, _nullability(parser)


def _nullability(parser: Parser) -> bool | None:
    if parser.take_words("NOT", "NULL"):
        return True
    return False if parser.take_words("NULL") else None


def _double(parser: Parser) -> Type:
    parser.take_words("PRECISION")
    return "double"


def _decimal(parser: Parser) -> Type:
    at = parser.here
    given = parser.numbers(2)
    digits, scale = [*given, *(10, 0)[len(given) :]]
    if not 1 <= digits <= _DIGITS or scale > digits:
        parser.fail(f"a decimal has 1 to {_DIGITS} digits, its scale within them", at)
    return f"decimal({digits}, {scale})"


def _text(parser: Parser) -> Type:
    parser.numbers(1)
    return "string"


def _binary(parser: Parser) -> Type:
    at = parser.here
    length = next(iter(parser.numbers(1)), 1)
    if not length:
        parser.fail("BINARY(0) holds nothing; legal: BINARY(n) of 1 byte or more", at)
    return f"fixed[{length}]"


def _bytes(parser: Parser) -> Type:
    parser.numbers(1)
    return "binary"


def _timestamp(parser: Parser) -> Type:
    _precision(parser)
    if parser.take_words("WITHOUT", "TIME", "ZONE"):
        return "timestamp"
    if parser.take_words("WITH", "LOCAL", "TIME", "ZONE") or parser.take_words("WITH", "TIME", "ZONE"):
        return "timestamptz"
    return "timestamp"


def _zoned(parser: Parser) -> Type:
    _precision(parser)
    return "timestamptz"


def _precision(parser: Parser) -> None:
    at = parser.here
    digits = next(iter(parser.numbers(1)), _MICROS)
    if digits > _MICROS:
        more = "" if digits <= _NANOS else f", and Flink's up to {_NANOS}"
        parser.fail(
            f"Iceberg's timestamps have microseconds, p up to {_MICROS}{more}; this one has {digits}", at
        )


def _array(parser: Parser) -> Type:
    parser.mark("<")
    element, required = read_type(parser)
    parser.mark(">")
    return ListType(element, bool(required))


def _map(parser: Parser) -> Type:
    parser.mark("<")
    at = parser.here
    key, _ = read_type(parser)
    if key != "string":
        parser.fail("the keys of a map are strings in JSON, which is what the log holds: MAP<STRING, …>", at)
    parser.mark(",")
    value, required = read_type(parser)
    parser.mark(">")
    return MapType(key, value, bool(required))


def _row(parser: Parser) -> Type:
    close = ")" if parser.take_mark("(") else ">"
    if close == ">":
        parser.mark("<")
    fields = []
    while True:
        name = parser.name("the name of a field")
        kind, required = read_type(parser)
        fields.append(Field(name, kind, bool(required), parser.take_text()))
        if not parser.take_mark(","):
            break
    parser.mark(close)
    return StructType(tuple(fields))


_SPECIAL: dict[str, Callable[[Parser], Type]] = {
    "DOUBLE": _double,
    "DECIMAL": _decimal,
    "DEC": _decimal,
    "NUMERIC": _decimal,
    "CHAR": _text,
    "VARCHAR": _text,
    "BINARY": _binary,
    "VARBINARY": _bytes,
    "TIMESTAMP": _timestamp,
    "TIMESTAMP_LTZ": _zoned,
    "ARRAY": _array,
    "MAP": _map,
    "ROW": _row,
}
