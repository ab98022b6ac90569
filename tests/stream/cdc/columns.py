"""The tables of the random workload: columns of many types, and literals for them in each dialect."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from random import Random

Make = Callable[[Random], str]
_WORDS = (
    "floe",
    "frazil",
    "nilas",
    "O'Brien",
    'say "ice"',
    "æther",
    "снег",
    "氷",
    "🧊",
    "",
    " padded ",
    "a,b;c",
)
REGIONS = ("north", "south", "east", "west")


@dataclass(frozen=True)
class Column:
    """A column and how to make a literal for it; NULL now and then, if `nullable`."""

    name: str
    type: str
    make: Make
    nullable: bool = True
    #: What it can be changed into without losing a value.
    wider: Column | None = None

    def literal(self, random: Random) -> str:
        return "NULL" if self.nullable and random.random() < 0.12 else self.make(random)

    @property
    def definition(self) -> str:
        # MariaDB makes the first TIMESTAMP of a table NOT NULL, and sets it by itself, unless told.
        return f"{self.name} {self.type} {'NULL' if self.nullable else 'NOT NULL'}"


@dataclass(frozen=True)
class Table:
    name: str
    #: Each literal of a key is made of the number of the row, so that none comes twice.
    key: tuple[tuple[str, str, Callable[[Random, int], str]], ...]
    columns: tuple[Column, ...]
    #: Statements after its creation.
    after: tuple[str, ...] = field(default=())
    truncated: bool = False

    @property
    def key_names(self) -> tuple[str, ...]:
        return tuple(name for name, _, _ in self.key)

    def creation(self) -> list[str]:
        parts = [f"{name} {kind} NOT NULL" for name, kind, _ in self.key]
        parts += [column.definition for column in self.columns]
        parts.append(f"PRIMARY KEY ({', '.join(self.key_names)})")
        return [f"CREATE TABLE {self.name} ({', '.join(parts)})", *self.after]


def quoted(value: str) -> str:
    """As both dialects read it: none of the texts here has a backslash outside of JSON."""
    return "'" + value.replace("'", "''") + "'"


def tables_of(dialect: str, without: Iterable[str] = ()) -> list[Table]:
    """The tables at the start, without some columns (`name` or `table.name`)."""
    left_out = set(without)
    made = _postgres() if dialect == "postgres" else _mariadb()
    return [
        Table(
            table.name,
            table.key,
            tuple(c for c in table.columns if not {c.name, f"{table.name}.{c.name}"} & left_out),
            table.after,
            table.truncated,
        )
        for table in made
    ]


def new_table(dialect: str, number: int) -> Table:
    columns = (
        Column("word", "VARCHAR(60)", _word),
        Column("amount", "NUMERIC(8,3)", _decimal(8, 3)),
        Column("at", "TIMESTAMP(6)" if dialect == "postgres" else "DATETIME(6)", _timestamp(6)),
    )
    return Table(f"extra_{number}", (("id", "INT", _number),), columns)


def new_column(dialect: str, number: int, random: Random) -> Column:
    """A column that an existing table gets while changes flow."""
    text = "TEXT" if dialect == "postgres" else "VARCHAR(200)"
    kinds = (
        ("INT", _integer(32)),
        ("BIGINT", _integer(64)),
        (text, _word),
        ("NUMERIC(9,4)", _decimal(9, 4)),
        ("DATE", _date),
    )
    kind, make = random.choice(kinds)
    return Column(f"more_{number}", kind, make)


def _postgres() -> list[Table]:
    customers = (
        *_shared("TEXT"),
        Column("active", "BOOLEAN", lambda random: random.choice(("TRUE", "FALSE"))),
        Column("seen", "TIMESTAMP(3)", _timestamp(3)),
        Column("seen6", "TIMESTAMP(6)", _timestamp(6)),
        Column("zoned", "TIMESTAMPTZ", lambda random: f"{_timestamp(6)(random)[:-1]}+05:30'"),
        Column("doc", "JSONB", _json),
        Column("ref", "UUID", lambda random: f"'{random.getrandbits(128):032x}'"),
        Column("numbers", "INT[]", _array(_integer(32), "INT")),
        Column("words", "TEXT[]", _array(_word, "TEXT")),
        Column("raw", "BYTEA", lambda random: f"'\\x{random.randbytes(random.randrange(40)).hex()}'"),
        Column("mood", "mood", _mood),
        Column("ratio", "REAL", lambda random: str(random.randrange(-4096, 4096) / 64)),
        Column(
            "odd", "DOUBLE PRECISION", lambda random: random.choice(("'NaN'", "'Infinity'", "'-0'", "1e-300"))
        ),
    )
    return [
        Table(
            "customers",
            (("id", "INT", _number),),
            customers,
            # One table whose changes carry the whole row before them; the others have only the key.
            ("ALTER TABLE customers REPLICA IDENTITY FULL",),
        ),
        *_others("TEXT", "VARCHAR(60)"),
    ]


def _mariadb() -> list[Table]:
    customers = (
        *_shared("MEDIUMTEXT"),
        Column("active", "TINYINT(1)", lambda random: str(random.randrange(2))),
        Column("yes", "BIT(1)", lambda random: f"b'{random.randrange(2)}'"),
        Column("seen", "DATETIME(3)", _timestamp(3)),
        Column("seen6", "DATETIME(6)", _timestamp(6)),
        Column("zoned", "TIMESTAMP(6)", _timestamp(6, first=1971, last=2037)),
        Column("doc", "JSON", _json),
        Column("raw", "VARBINARY(64)", lambda random: f"x'{random.randbytes(random.randrange(40)).hex()}'"),
        Column("mood", "ENUM('glad', 'sad', 'it''s ok')", _mood),
        Column(
            "flags", "SET('p', 'q', 'r')", lambda random: random.choice(("''", "'p'", "'p,r'", "'p,q,r'"))
        ),
        Column(
            "ubig",
            "BIGINT UNSIGNED",
            lambda random: str(random.choice((0, 2**63, 2**64 - 1, random.getrandbits(64)))),
        ),
        Column(
            "uint", "INT UNSIGNED", lambda random: str(random.choice((0, 2**32 - 1, random.getrandbits(32))))
        ),
        Column("born_in", "YEAR", lambda random: str(random.randrange(1901, 2156))),
    )
    return [
        Table("customers", (("id", "INT", _number),), customers),
        # Without this, keys that differ in case or in spaces at the end would be the same.
        *_others("MEDIUMTEXT", "VARCHAR(60) COLLATE utf8mb4_bin"),
    ]


def _shared(text: str) -> tuple[Column, ...]:
    """Columns of `customers` that both dialects have."""
    return (
        Column("name", text, _word, nullable=False),
        Column("email", "VARCHAR(40)", _email, wider=Column("email", "VARCHAR(200)", _word)),
        # What its copy is partitioned by.
        Column("region", "VARCHAR(10)", lambda random: quoted(random.choice(REGIONS)), nullable=False),
        Column(
            "balance",
            "NUMERIC(12,2)",
            _decimal(12, 2),
            wider=Column("balance", "NUMERIC(16,2)", _decimal(16, 2)),
        ),
        Column("tally", "INT", _integer(32), wider=Column("tally", "BIGINT", _integer(64))),
        Column("small", "SMALLINT", _integer(16)),
        Column("big", "BIGINT", _integer(64)),
        Column("born", "DATE", _date),
        Column("wakes", "TIME(6)", lambda random: f"'{_clock(random, 6)}'"),
        Column("score", "DOUBLE PRECISION", _double),
        Column("note", text, lambda random: _large(random) if random.random() < 0.2 else _word(random)),
    )


def _others(text: str, slug: str) -> list[Table]:
    orders = (
        Column("amount", "NUMERIC(10,2)", _decimal(10, 2)),
        Column("day", "DATE", lambda random: f"'2026-01-{random.randrange(1, 29):02d}'", nullable=False),
        Column("note", "VARCHAR(100)", _word),
    )
    docs = (
        Column("version", "INT", _integer(16), nullable=False),
        # Too large for its row: PostgreSQL leaves it out of updates that do not change it.
        Column("body", text, _large),
    )
    external = ("ALTER TABLE docs ALTER COLUMN body SET STORAGE EXTERNAL",) if text == "TEXT" else ()
    return [
        Table("orders", (("region", "VARCHAR(10)", _region), ("number", "INT", _number)), orders),
        Table("docs", (("slug", slug, _slug),), docs, external),
        Table("events", (("id", "BIGINT", _number),), (Column("v", "INT", _integer(32)),), truncated=True),
    ]


def _number(random: Random, number: int) -> str:
    return str(number)


def _region(random: Random, number: int) -> str:
    return quoted(random.choice(REGIONS))


def _slug(random: Random, number: int) -> str:
    return quoted(f"{random.choice(_WORDS)}-{number}")


def _word(random: Random) -> str:
    return quoted(random.choice(_WORDS))


def _email(random: Random) -> str:
    return quoted(f"{random.randrange(10**6)}@example.com")


def _large(random: Random) -> str:
    return quoted(random.randbytes(random.randrange(2000, 4000)).hex())


def _mood(random: Random) -> str:
    return quoted(random.choice(("glad", "sad", "it's ok")))


def _integer(bits: int) -> Make:
    lowest, highest = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    return lambda random: str(random.choice((0, lowest, highest, random.randint(lowest, highest))))


def _decimal(precision: int, scale: int) -> Make:
    largest = 10**precision - 1

    def make(random: Random) -> str:
        unscaled = random.choice((0, largest, -largest, random.randint(-largest, largest)))
        digits = str(abs(unscaled)).rjust(scale + 1, "0")
        return f"{'-' if unscaled < 0 else ''}{digits[:-scale]}.{digits[-scale:]}"

    return make


def _double(random: Random) -> str:
    return repr(random.choice((0.5, -1e100, math.pi, random.uniform(-1e6, 1e6))))


def _date(random: Random) -> str:
    some = date(1900, 1, 1) + timedelta(days=random.randrange(80_000))
    return f"'{random.choice((some, some, date(1969, 12, 31), date(1583, 1, 1), date(9999, 12, 31)))}'"


def _clock(random: Random, digits: int) -> str:
    microsecond = random.choice((0, 999_999, random.randrange(10**6)))
    clock = time(random.randrange(24), random.randrange(60), random.randrange(60), microsecond)
    return clock.isoformat("microseconds")[: len("hh:mm:ss.") + digits]


def _timestamp(digits: int, first: int = 1900, last: int = 2200) -> Make:
    def make(random: Random) -> str:
        days = (datetime(last, 1, 1) - datetime(first, 1, 1)).days  # noqa: DTZ001 - only a date is made of it
        day = date(first, 1, 1) + timedelta(days=random.randrange(days))
        return f"'{day} {_clock(random, digits)}'"

    return make


def _json(random: Random) -> str:
    document = {
        "n": random.randrange(1000),
        "list": [1, None, {"deep": random.choice(("x", "é", "'"))}],
        "x": None,
    }
    return quoted(json.dumps(document, ensure_ascii=False))


def _array(element: Make, kind: str) -> Make:
    def make(random: Random) -> str:
        parts = [element(random) if random.random() > 0.2 else "NULL" for _ in range(random.randrange(4))]
        return f"ARRAY[{', '.join(parts)}]::{kind}[]"

    return make
