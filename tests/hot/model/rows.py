"""The three tables of the workload, and seeded rows for them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any, Final

from frazil.core.partitioning import parse_partitioning
from frazil.core.schema import Field, Schema
from frazil.hot.declared.declaration import Declaration

_START = datetime(2026, 1, 1, tzinfo=UTC)
_WORDS: Final = (None, "", "x", "yy", 'a "quoted" \\ word', "größer", "line\nbreak", "0")
_SHOPS: Final = ("north", "", 'so"uth', "öst")
_VALUES: Final = (
    Field("word", "string"),
    Field("amount", "decimal(12, 2)"),
    Field("at", "timestamptz"),
)
_SHARED: Final = {"bucket.num": "2", "table.datalake.freshness": "1s"}


def declarations(namespace: tuple[str, ...]) -> list[Declaration]:
    """A key of text and number, a long one, and a log; formats 2 and 3, partitioned and not.

    Accounts are partitioned by what changes: a row has to be found in the partition where it was.
    """
    stock = Declaration(
        namespace,
        "stock",
        Schema((Field("shop", "string"), Field("n", "int"), *_VALUES)),
        ("shop", "n"),
        options=_SHARED | {"frazil.hot.keep": "1h"},
    )
    accounts = Declaration(
        namespace,
        "accounts",
        Schema((Field("id", "long"), *_VALUES)),
        ("id",),
        parse_partitioning(["truncate(1, word)"]),
        options=_SHARED | {"bucket.num": "3", "frazil.hot.keep": "20s"},
        format_version=3,
    )
    clicks = Declaration(
        namespace,
        "clicks",
        Schema((Field("n", "long"), *_VALUES)),
        partitioning=parse_partitioning(["bucket(2, n)"]),
        options=_SHARED | {"frazil.hot.keep": "1h"},
    )
    return [stock, accounts, clicks]


def key_of(rng: Random, columns: tuple[str, ...]) -> dict[str, Any]:
    """One of about a hundred; of numbers now and then one beyond all others."""
    far = rng.random() < 0.03
    made: dict[str, Any] = {
        "shop": rng.choice(_SHOPS),
        "n": rng.randrange(-2, 25),
        "id": rng.randrange(-(2**62), 2**62) if far else rng.randrange(100),
    }
    return {name: made[name] for name in columns}


def value_of(rng: Random) -> dict[str, Any]:
    """What is beside the key; columns that are left out are null."""
    made: dict[str, Any] = {
        "word": rng.choice(_WORDS),
        "amount": rng.choice((None, Decimal(rng.randrange(-(10**9), 10**9)).scaleb(-2))),
        "at": _START + timedelta(microseconds=rng.randrange(10**13)),
    }
    return {name: value for name, value in made.items() if rng.random() < 0.9}


def more_of(rng: Random, column: str) -> dict[str, Any]:
    """A value of a column that came later."""
    return {column: rng.randrange(1000)} if rng.random() < 0.7 else {}
