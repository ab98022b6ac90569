"""Both decoders over the same records."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Sequence
from random import Random
from typing import Literal, get_args

import pyarrow as pa
from tests.stream.decode import generate

from frazil.core.schema import Field, Schema
from frazil.stream.config.model import Contract, JsonFormat
from frazil.stream.decode.native import NativeReader
from frazil.stream.decode.reference import ReferenceReader

Timestamps = Literal["iso", "s", "ms", "us"]


def exact(values: pa.BinaryArray) -> pa.BinaryArray:
    """With no spare byte behind the data, where a sanitizer would not see a step too far."""
    validity, offsets, data = values.buffers()
    used = offsets.to_pybytes()[: 4 * (len(values) + 1)]
    size = int.from_bytes(used[-4:], "little")
    tight = (ctypes.c_char * size).from_buffer_copy(data.to_pybytes()[:size])
    return pa.Array.from_buffers(pa.binary(), len(values), [validity, offsets, pa.py_buffer(tight)])


def agree(columns: Schema, timestamps: Timestamps, records: Sequence[bytes | None]) -> tuple[int, int]:
    """Same rows, same bad records; how many were good and bad."""
    settings, contract = JsonFormat(timestamps), Contract()
    values = exact(pa.array([b"before the first record", *records], pa.binary()))[1:]
    found = NativeReader(columns, settings, contract).read(values)
    wanted = ReferenceReader(columns, settings, contract).read(values)
    found.rows.validate(full=True)
    assert [one.args for one in found.bad] == [one.args for one in wanted.bad]
    for one in (found, wanted):
        assert one.rows.schema.equals(columns.to_arrow(), check_metadata=True)
    assert found.rows.equals(wanted.rows), f"{found.rows.to_pylist()} is not {wanted.rows.to_pylist()}"
    return len(found.rows), len(found.bad)


def random_round(rng: Random) -> tuple[int, int]:
    """One schema and a batch for it, some of it spoilt."""
    timestamps = rng.choice(get_args(Timestamps))
    columns = generate.schema(rng)
    records = [generate.record(rng, columns, timestamps) for _ in range(rng.randint(0, 12))]
    spoilt = [generate.mutated(rng, one) if rng.random() < 0.3 else one for one in records]
    return agree(columns, timestamps, [None if rng.random() < 0.01 else one for one in spoilt])


def cuts() -> None:
    """Every beginning of a record at the very end of the data."""
    columns = Schema((Field("k", "long"), Field("timestamp", "double"), Field("a_long_name", "string")))
    whole = '{"k":1234567890,"timestamp":1.5e10,"a_long_name":"text é \\u00e9 of some length"}'.encode()
    for at in range(len(whole) + 1):
        agree(columns, "iso", [whole[:at]])
    for before in range(8):
        agree(columns, "iso", [b"x" * before, b'{"k":1}'])


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
