"""Both CSV decoders over the same records."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from random import Random
from typing import get_args

import pyarrow as pa
from tests.stream.decode import generate
from tests.stream.decode.compare import exact

from frazil.core.schema import Field, Schema
from frazil.stream.config.model import Contract, ContractWord, CsvFormat, Timestamps
from frazil.stream.decode.csv import CsvDecoder
from frazil.stream.decode.csv_native import NativeRows
from frazil.stream.source import RawBatch

_PIECES = [
    b'"',
    b'""',
    b",",
    b";",
    b"\n",
    b"\r\n",
    b"\r",
    b"NULL",
    b"0",
    b"-",
    b"e5",
    b"\x80",
    b"\xc3",
    b" ",
    b"true",
]
_NAMES = ["id", "k", "x y", "é", 'quo"te', "a,b", "ID"]


def agree(
    schema: Schema,
    settings: CsvFormat,
    contract: Contract,
    records: Sequence[bytes | None],
    header: bytes | None = None,
) -> tuple[int, int]:
    """Same rows, same bad records; how many there were."""
    values = exact(pa.array([b"before", *records], pa.binary()))[1:]
    numbers = pa.array(range(len(values)), pa.int64())
    raw = RawBatch("t", 0, values, numbers, numbers, header=header)
    native, reference = CsvDecoder(schema, settings, contract), CsvDecoder(schema, settings, contract)
    assert isinstance(native._rows, NativeRows)
    reference._rows = reference._reference
    found, wanted = native.decode(raw), reference.decode(raw)
    found.rows.validate(full=True)
    assert [(str(one), one.fault) for one in found.bad] == [(str(one), one.fault) for one in wanted.bad]
    assert found.changes == wanted.changes
    assert found.rows.schema.equals(schema.to_arrow(), check_metadata=True)
    assert found.rows.equals(wanted.rows), f"{found.rows.to_pylist()} is not {wanted.rows.to_pylist()}"
    return len(found.rows), len(records) - len(found.rows)


def random_round(rng: Random) -> tuple[int, int]:
    names = rng.sample(_NAMES, rng.randint(1, 6))
    schema = Schema(tuple(Field(name, _type(rng), rng.random() < 0.3) for name in names)).with_fresh_ids()
    settings = CsvFormat(
        delimiter=rng.choice(",;"),
        quote=rng.choice(['"', '"', '"', "'", ""]),
        null=rng.choice(["", "NULL"]),
        timestamps=rng.choice(get_args(Timestamps)),
    )
    words = get_args(ContractWord)
    contract = Contract(columns=rng.choice(words), types=rng.choice(words))
    header, order = None, list(schema.fields)
    if rng.random() < 0.5:
        order = rng.sample(order, rng.randint(1, len(order))) + [Field("new", "string")] * rng.randint(0, 1)
        header = settings.delimiter.join(_written(rng, field.name, settings) for field in order).encode()
    records = [_record(rng, order, settings) for _ in range(rng.randint(0, 12))]
    spoilt = [_mutated(rng, one) if rng.random() < 0.3 else one for one in records]
    return agree(schema, settings, contract, [None if rng.random() < 0.01 else one for one in spoilt], header)


def fuzz(seed: int, seconds: float) -> None:
    """Random rounds for so long."""
    end = time.monotonic() + seconds
    rounds = good = bad = 0
    while time.monotonic() < end:
        found = random_round(Random(f"{seed}-{rounds}"))
        rounds, good, bad = rounds + 1, good + found[0], bad + found[1]
    print(f"{rounds} rounds, {good} good, {bad} bad")
    assert good > 100
    assert bad > 100


def _type(rng: Random) -> str:
    return rng.choice(generate._PRIMITIVES)


def _record(rng: Random, order: list[Field], settings: CsvFormat) -> bytes:
    fields = []
    for field in order:
        if rng.random() < 0.1:
            fields.append(rng.choice(["", settings.null]))
            continue
        assert isinstance(field.type, str)
        made = generate._primitive(rng, field.type, settings.timestamps)
        made = rng.choice(generate._NUMBERS) if rng.random() < 0.02 else made
        fields.append(_written(rng, json.loads(made) if made.startswith('"') else made, settings))
    end = rng.choice(["", "", "\n", "\r\n", "\r"])
    return (settings.delimiter.join(fields) + end).encode()


def _written(rng: Random, text: str, settings: CsvFormat) -> str:
    quote = settings.quote
    needed = quote and any(mark in text for mark in (quote, settings.delimiter, "\n", "\r"))
    if quote and (needed or rng.random() < 0.2):
        return quote + text.replace(quote, quote * 2) + quote
    return text


def _mutated(rng: Random, value: bytes) -> bytes:
    for _ in range(rng.randint(1, 3)):
        at = rng.randint(0, len(value))
        piece = rng.choice([rng.choice(_PIECES), bytes([rng.randrange(256)]), b""])
        value = value[:at] + piece + value[at + rng.choice([0, 0, 1, 1, 2, len(value)]) :]
    return value
