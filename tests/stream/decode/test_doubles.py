"""Every double is the nearest one, as Python's own `float` finds it."""

from __future__ import annotations

import math
import struct
from random import Random

import pyarrow as pa
import pytest
from tests.stream.decode.conftest import Make

from frazil.core.schema import Field, Schema
from frazil.stream.config.model import JsonFormat

_SCHEMA = Schema((Field("x", "double"),))

HARD = [
    "9007199254740993",
    "9007199254740992",
    "9007199254740995",
    "1e22",
    "1e23",
    "8.5e22",
    "1e-22",
    "1e-23",
    "0.1",
    "0.3",
    "2.2250738585072011e-308",
    "2.2250738585072012e-308",
    "2.2250738585072014e-308",
    "4.9406564584124654e-324",
    "2.4703282292062327e-324",
    "2.4703282292062328e-324",
    "5e-324",
    "1.7976931348623157e308",
    "1.7976931348623158e308",
    "179769313486231570000e288",
    "7.2057594037927933e16",
    "72057594037927945",
    "9214843084008499",
    "0.500000000000000166533453693773481063544750213623046875",
    "3.518437208883201171875e13",
    "62.5364939768271845828",
    "8.10109172351e-10",
    "1.50000000000000011102230246251565",
    "6929495644600919.5",
    "3.08984926168550152811e-32",
    "104110013277974872254e-225",
    "12345e0",
    "12345678.9012345678901234567890",
    "0.0000000000000000000000000000000000000000000000000000000000000000000000000000000001e80",
    "123456789012345678",
    "1234567890123456789",
    "12345678901234567890",
    "18446744073709551616",
    "99999999999999999999",
    "0." + "0" * 400 + "1",
    "1" + "0" * 308,
    "1" + "0" * 300 + "e-300",
    "2.00000000000000022204460492503130808472633361816406250",
    "2.0000000000000002220446049250313080847263336181640625" + "0" * 800 + "1",
    "1.00000000000000011102230246251565404236316680908203125",
    "1.00000000000000011102230246251565404236316680908203124",
    "-0.0",
    "-0",
    "0e-999",
]


def check(make: Make, texts: list[str]) -> None:
    values = pa.array([b'{"x":%s}' % text.encode() for text in texts], pa.binary())
    found = make(_SCHEMA, JsonFormat()).rows(values).column("x").to_pylist()
    wrong = [
        (text, one)
        for text, one in zip(texts, found, strict=True)
        if struct.pack("<d", one) != struct.pack("<d", float(text))
    ]
    assert not wrong


def test_hard_ones(make: Make) -> None:
    check(make, HARD)
    check(make, [f"-{text}" for text in HARD if not text.startswith("-")])


@pytest.mark.parametrize("count", [20_000, pytest.param(2_000_000, marks=pytest.mark.exhaustive)])
def test_random_bits(make: Make, count: int) -> None:
    rng = Random(5)
    texts: list[str] = []
    while len(texts) < count:
        one = struct.unpack("<d", rng.randbytes(8))[0]
        if math.isfinite(one):
            texts += [repr(one), f"{one:.{rng.randint(0, 25)}e}"]
    check(make, [text for text in texts if math.isfinite(float(text))])


def test_halfway_between_two(make: Make) -> None:
    """The exact middle of two neighbours, and a hair to either side."""
    rng = Random(6)
    texts = []
    for _ in range(300):
        low = abs(struct.unpack("<d", rng.randbytes(8))[0])
        if not math.isfinite(low) or low > 1e300:
            continue
        (a, b), (c, d) = low.as_integer_ratio(), math.nextafter(low, math.inf).as_integer_ratio()
        scale = max(b, d) * 2
        digits = str((a * (scale // b) + c * (scale // d)) // 2 * 5 ** (scale.bit_length() - 1))
        exponent = -(scale.bit_length() - 1)
        texts += [f"{digits}e{exponent}", f"{digits}1e{exponent - 1}", f"{int(digits) - 1}e{exponent}"]
    assert len(texts) > 500
    check(make, texts)


def test_decimals_of_every_length(make: Make) -> None:
    rng = Random(7)
    check(
        make,
        [
            f"{rng.randrange(10**whole)}.{rng.randrange(10**part):0{part}}e{rng.randint(-30, 30)}"
            for whole in range(1, 24)
            for part in range(1, 24)
            for _ in range(8)
        ],
    )
