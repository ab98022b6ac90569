"""The two decoders never differ: not in a value, not in what is bad."""

from __future__ import annotations

import gc
import os
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.stream.decode import generate
from tests.stream.decode.sanitized import fuzz_sanitized

from frazil.core.schema import Field, Schema, parse_type
from frazil.stream.config.model import Contract, JsonFormat

#: Records that once were, or nearly were, decoded in two ways.
_CORPUS: list[tuple[str, bytes]] = [
    ("float", b'{"x":-1e39}'),
    ("float", b'{"x":3.40282356779733661637e38}'),
    ("float", b'{"x":3.40282356779733661638e38}'),
    ("decimal(38, 10)", b'{"x":1e27}'),
    ("decimal(38, 10)", b'{"x":1e28}'),
    ("decimal(4, 2)", b'{"x":0.00e-1000000001}'),
    ("decimal(4, 2)", b'{"x":1000000000000e-1000000001}'),
    ("decimal(4, 2)", b'{"x":1e18446744073709551616}'),
    ("string", b'{"x":"\\ud83d\\ude0'),
    ("string", b'{"x":"\\u00e9\xc3'),
    ("map<string, int>", b'{"x":{"":1,"":1}}'),
    ("map<string, int>", b'{"x":{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1,"h":1,"i":1,"a":1}}'),
    ("timestamptz", b'{"x":"2024-01-01T00:00:00.+01:00"}'),
    ("time", b'{"x":"12:00:00.9999999999999999999999"}'),
    ("long", b'{"x":10000000000000000000}'),
    ("long", b'{"x":-'),
    ("binary", b'{"x":"===="}'),
    ("struct<a: int>", b'{"x":{"a":1},"x":null}'),
]


@pytest.mark.usefixtures("native")
@given(rng=st.randoms(use_true_random=True))
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_random_records(rng: Random) -> None:
    from tests.stream.decode.compare import random_round

    random_round(rng)


@pytest.mark.usefixtures("native")
@given(value=st.binary(max_size=60) | st.text(max_size=40).map(str.encode), seed=st.integers(0, 2**32))
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_random_bytes(value: bytes, seed: int) -> None:
    from tests.stream.decode.compare import agree

    records = [value, b'{"id":' + value + b"}", b'{"k":"' + value + b'"}', b'{"y":' + value + b"}"]
    for contract in (Contract(), Contract(columns="evolve", types="discard_value")):
        agree(generate.schema(Random(seed)), "iso", records, contract)


@pytest.mark.usefixtures("native")
@pytest.mark.parametrize(("kind", "record"), _CORPUS)
def test_corpus(kind: str, record: bytes) -> None:
    from tests.stream.decode.compare import agree

    agree(Schema((Field("x", parse_type(kind)),)), "iso", [b'{"x":null}', record, b"{}"])


@pytest.mark.usefixtures("native")
def test_cuts() -> None:
    from tests.stream.decode.compare import cuts

    cuts()


def test_disagreement_is_said(native: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record that only the native decoder refuses does not pass for bad data."""
    from frazil.stream.decode.json_native import NativeReader
    from frazil.stream.decode.json_reference import ReferenceReader

    reader = NativeReader(Schema((Field("x", "int"),)), JsonFormat(), Contract())
    monkeypatch.setattr(ReferenceReader, "judge", lambda *_: (None, False))
    with pytest.raises(RuntimeError, match="FRAZIL_NATIVE=0"):
        reader.read(pa.array([b"x"], pa.binary()))


def test_nothing_new_is_no_matter_for_python(native: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fields that say nothing, and values that are left out, do not slow a batch down."""
    from frazil.stream.decode.json_native import NativeReader
    from frazil.stream.decode.json_reference import ReferenceReader

    contract = Contract(columns="evolve", types="discard_value")
    reader = NativeReader(Schema((Field("x", "int"),)), JsonFormat(), contract)
    judged: list[int] = []

    def judge(self: ReferenceReader, row: int, *_: Any) -> tuple[None, bool]:
        judged.append(row)
        return None, True

    monkeypatch.setattr(ReferenceReader, "judge", judge)
    nothing = b'{"n":null,"y":{"z":[]},"l":[null,{}],"x":"text"}'
    assert reader.read(pa.array([nothing, b'{"x":1}'], pa.binary())).rows.to_pylist() == [
        {"x": None},
        {"x": 1},
    ]
    assert judged == []
    reader.read(pa.array([nothing, b'{"y":{"z":[0]}}', b"{}", nothing], pa.binary()))
    assert judged == [1]


@pytest.mark.parametrize(
    "change", [{"offset": -1}, {"length": 4}, {"offsets": b"\0" * 8}, {"data": b"{"}, {"validity": b""}]
)
def test_wrong_buffers(native: Any, change: dict[str, Any]) -> None:
    plan = native.plan((17, 1, 0, 0, 0, ((1, 0, 4, 0, 0, ()),)), (b"", ((b"x", ()),)))
    given = {
        "data": b"{}{}{}",
        "offsets": bytes([0, 0, 0, 0, 2, 0, 0, 0, 4, 0, 0, 0, 6, 0, 0, 0]),
        "validity": b"\7",
    }
    given |= {"offset": 0, "length": 3}  # type: ignore[dict-item]
    assert native.decode(plan, *given.values(), 0, False)[0][0] == 3
    with pytest.raises(ValueError, match="buffers"):
        native.decode(plan, *(given | change).values(), 0, False)


@pytest.mark.parametrize(
    ("columns", "names"),
    [
        ((20, 0, 0, 0, 0, ()), (b"", ())),
        ((1, 0, 4, 0, 0, ((),)), (b"", ((),))),
        ((5, 0, 16, 39, 0, ()), (b"", ())),
        ((17, 1, 0, 0, 0, ((1, 0, 4, 0, 0, ()),)), (b"", ())),
    ],
)
def test_wrong_plans(native: Any, columns: Any, names: Any) -> None:
    with pytest.raises(ValueError, match="plan"):
        native.plan(columns, names)
    with pytest.raises(TypeError):
        native.plan([], (b"", ()))


@pytest.mark.usefixtures("native")
def test_memory_is_given_back() -> None:
    """Good and bad batches over and over; the first rounds fill what allocators keep."""
    from frazil.stream.decode.json_native import NativeReader

    rng = Random(3)
    columns = Schema(
        (Field("s", "string"), Field("l", parse_type("list<map<string, string>>")), Field("n", "double"))
    )
    reader = NativeReader(columns, JsonFormat(), Contract())
    records = [generate.record(rng, columns, "iso") + (b"x" if n % 50 == 0 else b"") for n in range(1000)]
    values = pa.array(records, pa.binary())

    def rounds(count: int) -> int:
        for _ in range(count):
            reader.read(values)
            NativeReader(columns, JsonFormat(), Contract())
        gc.collect()
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    before = rounds(20)
    assert rounds(40) - before < 4_000_000


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.usefixtures("native")
def test_long_fuzz() -> None:
    from tests.stream.decode.compare import fuzz

    fuzz(11, 120)


@pytest.mark.exhaustive
@pytest.mark.slow
def test_sanitizers(tmp_path: Path) -> None:
    fuzz_sanitized("_json", "json.c", "tests.stream.decode.compare", tmp_path, 90)
