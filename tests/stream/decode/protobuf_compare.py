"""Both Protobuf decoders over the same records."""

from __future__ import annotations

import time
from collections.abc import Sequence
from random import Random
from typing import get_args

import pyarrow as pa
from tests.stream.decode import protobuf_generate as generate
from tests.stream.decode.compare import exact
from tests.stream.decode.conftest import raw_batch

from frazil.core.schema import Schema
from frazil.stream.config.model import Contract, ContractWord, ProtobufFormat
from frazil.stream.decode.protobuf import ProtobufDecoder
from frazil.stream.decode.protobuf_descriptors import message_of_text
from frazil.stream.decode.protobuf_text import parse_proto


def agree(text: str, schema: Schema, contract: Contract, records: Sequence[bytes | None]) -> tuple[int, int]:
    """Same rows, same bad records; how many there were."""
    settings = ProtobufFormat(
        descriptors=generate.descriptor_set(parse_proto(text, "t.proto")), message="test.Record"
    )
    raw = raw_batch(exact(pa.array([b"before", *records], pa.binary()))[1:])
    native, reference = (ProtobufDecoder(schema, settings, contract) for _ in range(2))
    assert native._rows != native._by_reference
    reference._rows = reference._by_reference
    found, wanted = native.decode(raw), reference.decode(raw)
    found.rows.validate(full=True)
    assert [(str(one), one.fault) for one in found.bad] == [(str(one), one.fault) for one in wanted.bad]
    assert found.changes == wanted.changes
    assert found.rows.schema.equals(schema.to_arrow(), check_metadata=True)
    assert wanted.rows.schema.equals(schema.to_arrow(), check_metadata=True)
    # As text: a NaN is one.
    assert repr(found.rows.to_pylist()) == repr(wanted.rows.to_pylist())
    return len(found.rows), len(found.bad)


def random_round(rng: Random) -> tuple[int, int]:
    """One file, a table for its message, and a batch, some of it spoilt."""
    text = generate.proto(rng)
    message = message_of_text(text, {}, [0])
    words = get_args(ContractWord)
    contract = Contract(columns=rng.choice(words), types=rng.choice(words))
    records = [generate.record(rng, message) for _ in range(rng.randint(0, 12))]
    spoilt = [generate.mutated(rng, one) if rng.random() < 0.2 else one for one in records]
    values = [None if rng.random() < 0.01 else one for one in spoilt]
    return agree(text, generate.table(rng, message), contract, values)


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
