"""The two Avro decoders never differ, and they read what fastavro reads."""

from __future__ import annotations

import gc
import io
import json
import os
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import fastavro
import hatch_build
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tests.stream.decode import avro_generate as generate
from tests.stream.decode.avro_compare import agree, cuts, decoder, fuzz, random_round, raw
from tests.stream.decode.flaky import every_step_may_fail, flaky_module
from tests.stream.decode.sanitized import fuzz_sanitized

from frazil.core.errors import InvalidConfig
from frazil.core.schema import Field, Schema, StructType, parse_type
from frazil.stream.config.model import Contract
from frazil.stream.decode import avro
from frazil.stream.decode.avro import iceberg_schema

_SETTINGS = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
_WIDE: dict[str, Any] = {
    "type": "record",
    "name": "Wide",
    "fields": [
        {"name": "s", "type": ["null", "string"]},
        {"name": "l", "type": {"type": "array", "items": {"type": "map", "values": "string"}}},
        {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A", "BB"]}},
        {"name": "n", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "unknown", "type": ["null", "Wide"]},
    ],
}


@pytest.fixture(autouse=True)
def _built(native: Any) -> None:
    """Where it can be built it has to be there."""


@given(rng=st.randoms(use_true_random=True))
@settings(_SETTINGS, max_examples=250)
def test_random_records(rng: Random) -> None:
    random_round(rng)


@given(value=st.binary(max_size=60), seed=st.integers(0, 2**32))
@settings(_SETTINGS, max_examples=150)
def test_random_bytes(value: bytes, seed: int) -> None:
    document = generate.Avro(Random(seed)).record()
    columns = Schema((Field("id", "long"), Field("k", parse_type("list<struct<x: string, y: int>>"))))
    agree(columns, document, Contract(), [value, b"\x02" + value, value + b"\x00"])


@given(rng=st.randoms(use_true_random=True))
@settings(_SETTINGS, max_examples=150)
def test_fastavro_reads_the_same(rng: Random) -> None:
    document = generate.Avro(rng).record()
    text = json.dumps(document)
    assume("nanos" not in text)
    try:
        columns = iceberg_schema(text)
    except InvalidConfig:
        assume(False)
    records = [generate.encoded(document, generate.value(rng, document, {})) for _ in range(5)]
    parsed = fastavro.parse_schema(document)
    wanted = [fastavro.schemaless_reader(io.BytesIO(one), parsed, None) for one in records]
    found = decoder(columns, document).decode(raw(pa.array(records, pa.binary())))
    assert found.bad == ()
    kind = StructType(columns.fields)
    assert found.rows.to_pylist() == [generate.as_arrow_has_it(one, kind) for one in wanted]


def test_no_warnings(tmp_path: Path) -> None:
    strict = [*hatch_build.FLAGS, "-Werror", "-Wshadow", "-Wstrict-prototypes", "-Wpointer-arith", "-Wundef"]
    source = Path(hatch_build.__file__).parent / hatch_build.PACKAGE / "native" / "avro.c"
    assert hatch_build.compile_module(tmp_path / "_avro.abi3.so", [source], strict) is None


def test_cuts() -> None:
    cuts()


def test_disagreement_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record that only the native decoder refuses does not pass for bad data."""
    reader = decoder(Schema((Field("s", "string"),)), _WIDE)
    monkeypatch.setattr(avro, "read_record", lambda *_: {})
    with pytest.raises(RuntimeError, match="FRAZIL_NATIVE=0"):
        reader.decode(raw(pa.array([b"\xff"], pa.binary())))


def _records() -> list[bytes]:
    rng = Random(3)
    found = []
    for number in range(60):
        row: dict[str, Any] = {
            "s": "x" * (number % 50),
            "l": [{str(n): "v" * n for n in range(12)}],
            "e": "BB",
        }
        row |= {"n": Decimal(rng.randint(-999, 999)).scaleb(-2), "unknown": None}
        found.append(generate.encoded(_WIDE, row)[: -1 if number % 20 == 0 else None])
    return found


_COLUMNS = Schema(
    (
        Field("s", "string"),
        Field("l", parse_type("list<map<string, string>>")),
        Field("e", "string"),
        Field("n", "decimal(9, 2)"),
        Field("not_there", parse_type("struct<a: int, b: boolean>")),
    )
)


def test_memory_is_given_back() -> None:
    """Good and bad batches over and over; the first rounds fill what allocators keep."""
    values = pa.array(_records() * 20, pa.binary())
    reader = decoder(_COLUMNS, _WIDE)

    def rounds(count: int) -> int:
        for _ in range(count):
            reader.decode(raw(values))
            decoder(_COLUMNS, _WIDE)
        gc.collect()
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    before = rounds(20)
    assert rounds(40) - before < 4_000_000


def test_every_allocation_may_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from frazil.stream.decode import avro_native

    module = flaky_module("_avro", "avro.c", tmp_path)
    monkeypatch.setattr(avro_native, "_avro", module.module)
    values = pa.array(_records(), pa.binary())

    def read() -> None:
        found = decoder(_COLUMNS, _WIDE).decode(raw(values))
        assert len(found.rows) + len(found.bad) == len(values)

    assert every_step_may_fail(module, read) > 30


@pytest.mark.parametrize(
    "change", [{"offset": -1}, {"length": 4}, {"offsets": b"\0" * 8}, {"data": b"{"}, {"validity": b""}]
)
def test_wrong_buffers(change: dict[str, Any]) -> None:
    from frazil.stream import _avro

    layout = _avro.layout((17, 1, 0, 0, 0, ((1, 0, 4, 0, 0, ()),)))
    program = _avro.program(layout, [(11, 0, 0, 0, -1, (1,), ()), (15, 1, 0, 0, -1, (), ())])
    given: dict[str, Any] = {
        "data": b"\2\4\6",
        "offsets": bytes([0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0]),
        "validity": b"\7",
        "offset": 0,
        "length": 3,
    }
    assert _avro.decode(layout, ((1, program),), False, *given.values())[0][0] == 3
    with pytest.raises(ValueError, match="buffers"):
        _avro.decode(layout, ((1, program),), False, *(given | change).values())
    with pytest.raises(ValueError, match="buffers"):
        _avro.ids(*(given | change).values())
    with pytest.raises(ValueError, match="one program"):
        _avro.decode(layout, (), False, *given.values())


@pytest.mark.parametrize(
    "step",
    [
        (99, 1, 0, 0, -1, (), ()),
        (15, 2, 0, 0, -1, (), ()),
        (15, 0, 0, 0, -1, (), ()),
        (17, 1, 0, 0, -1, (), ()),
        (15, 1, 0, 0, 7, (), ()),
        (10, 1, 0, 0, -1, (0,), ()),
        (10, 1, 0, 0, -1, (5,), ()),
        (2, -1, -1, 0, -1, (), ()),
        (9, 1, 0, 0, -1, (0,), ()),
    ],
)
def test_wrong_programs(step: Any) -> None:
    from frazil.stream import _avro

    layout = _avro.layout((17, 1, 0, 0, 0, ((1, 0, 4, 0, 0, ()),)))
    with pytest.raises(ValueError, match="no schema makes"):
        _avro.program(layout, [step])
    with pytest.raises(ValueError, match="no schema makes"):
        _avro.layout((20, 0, 0, 0, 0, ()))
    with pytest.raises(TypeError):
        _avro.program(layout, [[]])  # type: ignore[list-item]


@pytest.mark.exhaustive
@pytest.mark.slow
def test_long_fuzz() -> None:
    fuzz(11, 120)


@pytest.mark.exhaustive
@pytest.mark.slow
def test_sanitizers(tmp_path: Path) -> None:
    """The same fuzz with every access checked."""
    fuzz_sanitized("_avro", "avro.c", "tests.stream.decode.avro_compare", tmp_path)
