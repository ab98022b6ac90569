"""Keys are found whatever their type: against a plain loop over Python's values."""

from __future__ import annotations

import random
import uuid
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from frazil.lake.key_match import KeyMatcher

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def made(kind: str, rng: random.Random) -> Any:
    number = rng.randrange(-300, 300)
    match kind:
        case "long":
            return number * 2**40
        case "int":
            return number
        case "bool":
            return number > 0
        case "double":
            return rng.choice([float(number), -0.0, 0.0, 1.5])
        case "string":
            return rng.choice(["", "é" * (number % 3), f"key-{number}"])
        case "binary":
            return number.to_bytes(4, "big", signed=True)[rng.randrange(3) :]
        case "date":
            return date(2000, 1, 1) + timedelta(days=number)
        case "time":
            return time(number % 24, 3)
        case "tz":
            return _EPOCH + timedelta(hours=number)
        case "dec9" | "dec38":
            return Decimal(number * (1 if kind == "dec9" else 10**30)) / 100
        case "uuid":
            return uuid.UUID(int=(number + 300) << 70 | 5).bytes
    raise AssertionError(kind)


TYPES = {
    "long": pa.int64(),
    "int": pa.int32(),
    "bool": pa.bool_(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "tz": pa.timestamp("us", "UTC"),
    "dec9": pa.decimal128(9, 2),
    "dec38": pa.decimal128(38, 2),
    "uuid": pa.binary(16),
}


def column(kind: str, count: int, rng: random.Random, nulls: bool) -> pa.Array:
    values = [None if nulls and rng.random() < 0.1 else made(kind, rng) for _ in range(count)]
    return pa.array(values, TYPES[kind])


def check(keys: list[pa.Array], rows: list[pa.Array]) -> None:
    first: dict[tuple[Any, ...], int] = {}
    for number, key in enumerate(zip(*(each.to_pylist() for each in keys), strict=True)):
        first.setdefault(key, number)
    values = zip(*(each.to_pylist() for each in rows), strict=True)
    wanted = [(number, first[value]) for number, value in enumerate(values) if value in first]
    found = KeyMatcher(keys).find(rows)
    assert list(zip(found[0].tolist(), found[1].tolist(), strict=True)) == wanted


@pytest.mark.parametrize("kind", TYPES)
def test_one_column(kind: str) -> None:
    rng = random.Random(kind)
    for nulls in (False, True):
        keys = column(kind, 150, rng, nulls)
        rows = column(kind, 1000, rng, True)
        check([keys], [rows])
        # Parts of others, as readers give them.
        check([keys[20:80]], [rows[33:700]])


@pytest.mark.parametrize("seed", range(20))
def test_several_columns(seed: int) -> None:
    rng = random.Random(seed)
    kinds = rng.choices(list(TYPES), k=rng.randrange(2, 4))
    keys = [column(kind, 400, rng, True) for kind in kinds]
    rows = [
        pa.concat_arrays([column(kind, 500, rng, True), each]) for kind, each in zip(kinds, keys, strict=True)
    ]
    check(keys, rows)


def test_no_rows_and_no_match() -> None:
    check([pa.array([1])], [pa.array([], pa.int64())])
    check([pa.array([1])], [pa.array([2, 3])])
    check([pa.array([None], pa.int64())], [pa.array([2, None])])
    check([pa.array([1, 2]), pa.array(["a", "b"])], [pa.array([1, 2, 3]), pa.array(["b", "a", "a"])])


def test_many_rows() -> None:
    """More than are looked at together."""
    rng = np.random.default_rng(5)
    rows, keys = rng.integers(0, 1 << 40, 200_000), rng.integers(0, 1 << 40, 1000)
    rows[::400] = keys[:500]
    check([pa.array(keys)], [pa.array(rows)])
