"""Both Avro decoders over the same records."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from decimal import Decimal
from random import Random
from typing import Any, get_args
from unittest.mock import patch

import pyarrow as pa
from tests.stream.decode import avro_generate as generate
from tests.stream.decode.compare import exact

from frazil.core.errors import InvalidConfig
from frazil.core.schema import Schema
from frazil.stream.config.model import AvroFormat, Contract, ContractWord
from frazil.stream.decode.avro import AvroDecoder, iceberg_schema
from frazil.stream.decode.decoded import Decoded
from frazil.stream.source import RawBatch


def raw(values: pa.BinaryArray) -> RawBatch:
    zeros = pa.array([0] * len(values), pa.int64())
    return RawBatch("topic", 0, values, zeros, zeros)


def decoder(
    columns: Schema,
    document: Any,
    contract: Contract = Contract(),  # noqa: B008 - frozen
    *,
    native: bool = True,
) -> AvroDecoder:
    with patch.dict(os.environ, {"FRAZIL_NATIVE": "1" if native else "0"}):
        made = AvroDecoder(columns, AvroFormat(schema=json.dumps(document)), contract)
    assert (made._native is not None) is native
    return made


def agree(columns: Schema, document: Any, contract: Contract, records: Sequence[bytes | None]) -> Decoded:
    """Same rows, same bad records for the same reasons, same changes."""
    values = exact(pa.array([b"before the first record", *records], pa.binary()))[1:]
    found = decoder(columns, document, contract).decode(raw(values))
    wanted = decoder(columns, document, contract, native=False).decode(raw(values))
    found.rows.validate(full=True)
    assert [(str(one), one.fault) for one in found.bad] == [(str(one), one.fault) for one in wanted.bad]
    assert found.changes == wanted.changes
    assert found.rows.schema.equals(columns.to_arrow(), check_metadata=True)
    assert wanted.rows.schema.equals(columns.to_arrow(), check_metadata=True)
    # As text: what is not a number is not equal to itself.
    assert str(found.rows.to_pylist()) == str(wanted.rows.to_pylist())
    assert len(found.rows) + len(found.bad) == len(records)
    return found


def random_round(rng: Random) -> tuple[int, int]:
    """One schema and a batch for it, some of it spoilt, into a table that is its own or another."""
    document = generate.Avro(rng).record()
    records = [
        generate.encoded(document, generate.value(rng, document, {})) for _ in range(rng.randint(0, 9))
    ]
    try:
        own = iceberg_schema(json.dumps(document)).with_fresh_ids()
    except InvalidConfig:
        own = Schema(())
    columns = generate.bent(rng, own) if rng.random() < 0.7 or not own.fields else own
    words = get_args(ContractWord)
    contract = Contract(columns=rng.choice(["discard_value", *words]), types=rng.choice(words))
    spoilt = [generate.mutated(rng, one) if rng.random() < 0.3 else one for one in records]
    found = agree(columns, document, contract, [None if rng.random() < 0.01 else one for one in spoilt])
    return len(found.rows), len(found.bad)


def cuts() -> None:
    """Every beginning of a record at the very end of the data."""
    document = {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "l", "type": "long"},
            {"name": "s", "type": ["null", "string"]},
            {"name": "d", "type": "double"},
            {"name": "a", "type": {"type": "array", "items": {"type": "map", "values": "string"}}},
            {"name": "n", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        ],
    }
    row = {"l": 2**62, "s": "text é of some length", "d": 1.5, "a": [{"k": "v"}], "n": Decimal("12.34")}
    whole = generate.encoded(document, row)
    columns = iceberg_schema(json.dumps(document))
    for at in range(len(whole) + 1):
        assert len(agree(columns, document, Contract(), [whole[:at]]).bad) == int(at < len(whole))
    assert agree(columns, document, Contract(), [whole + b"\0"]).bad


def fuzz(seed: int, seconds: float) -> None:
    """Random rounds for so long."""
    cuts()
    end = time.monotonic() + seconds
    rounds = good = bad = 0
    while time.monotonic() < end:
        found = random_round(Random(f"{seed}-{rounds}"))
        rounds, good, bad = rounds + 1, good + found[0], bad + found[1]
    print(f"{rounds} rounds, {good} good, {bad} bad")
    assert good > 100
    assert bad > 100
