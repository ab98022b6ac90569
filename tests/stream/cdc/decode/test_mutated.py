"""Broken messages of every kind among good ones: nothing is raised, and the good ones are what they were."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest
from tests.stream.cdc.decode.messages import captured, columns, decode

from frazil.stream.cdc.changes import Changes
from frazil.stream.config.model import DebeziumFormat
from frazil.stream.source import RawBatch

_COLUMNS = columns(id="int", customer_id="int", amount="decimal(14, 4)", note="string", status="string")


def mutated(rng: Random, value: bytes) -> bytes:
    place = rng.randrange(len(value))
    kind = rng.randrange(5)
    if kind == 0:
        return value[:place]
    if kind == 1:
        return value[:place] + bytes([rng.randrange(256)]) + value[place + 1 :]
    if kind == 2:
        other = rng.randrange(len(value))
        return value[: min(place, other)] + value[max(place, other) :]
    if kind == 3:
        return (
            value[:place]
            + rng.choice([b'"', b"{", b"}", b"null", b"\\", b"[[[", b"1e999", b"\xff"])
            + value[place:]
        )
    return value + value[place:]


def _rows(found: Changes, offsets: set[int]) -> list[object]:
    pairs = zip(found.order.to_pylist(), found.rows.to_pylist(), strict=True)
    return [(order, row) for order, row in pairs if order["offset"] in offsets]


@pytest.mark.parametrize("native", ["1", "0"])
@pytest.mark.parametrize("name", ["pg.orders", "pgs.orders", "maria.orders"])
def test_mutations(name: str, native: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRAZIL_NATIVE", native)
    rng = Random(name)
    raw = captured(name)
    settings = DebeziumFormat(columns=_COLUMNS)
    truth = decode(raw, _COLUMNS, settings)
    assert not truth.bad
    for _ in range(40):
        values, keys = raw.values.to_pylist(), (raw.keys or pa.array([])).to_pylist()
        spoilt = set(rng.sample(range(len(values)), 3))
        for place in spoilt:
            which = values if values[place] is not None and rng.random() < 0.8 else keys
            which[place] = mutated(rng, which[place])
        broken = RawBatch(
            raw.topic,
            0,
            pa.array(values, pa.binary()),
            raw.offsets,
            raw.timestamps,
            pa.array(keys, pa.binary()),
        )
        found = decode(broken, _COLUMNS, settings)
        if found.shape is not None:
            # The name of a column was hit: a new column, or a schema of its own.
            continue
        good = {100 + place for place in range(len(values)) if place not in spoilt}
        assert _rows(found, good) == _rows(truth, good)
        assert {one.index for one in found.bad} <= spoilt
