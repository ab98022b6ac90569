from __future__ import annotations

import json
import struct
import uuid
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from frazil.core.errors import InvalidInput, Unsupported
from frazil.core.schema import arrow_type
from frazil.lake.metrics import single_value
from frazil.lake.transforms import json_values, result_type, transformed

LONGS = [0, 1, -1, 34, -34, 10, -10, 2**31 - 1, -(2**31)]
MICROS = [0, 1, -1, 1_510_871_468_000_000, -86_400_000_001, -86_400_000_000, 253_402_300_800_000_000]
TEXTS = ["", "iceberg", "a", "ab", "abc", "🦊🦊🦊é🦊", "\U0010ffff", "é", "\u0000x"]
BYTES = [b"", b"\x00\x01\x02\x03", b"\xff" * 20, b"abc"]
LONG_TYPES = ("long", "time", "timestamp", "timestamptz")
#: Values as Arrow takes them.
VALUES: dict[str, list[Any]] = {
    "boolean": [True, False],
    "int": LONGS,
    "long": [*LONGS, 2**63 - 1, -(2**62)],
    "float": [1.5, -0.0, 0.0, 3.4e38],
    "double": [1.5, -0.0, 0.0, 1e-300],
    "decimal(9, 2)": [Decimal(n) / 100 for n in (0, 1, -1, 1420, -1420, 127, 128, -128, -129, 65050)],
    "decimal(18, 4)": [Decimal(n) / 10_000 for n in (0, 5, -5, 10**17, -(10**17))],
    "decimal(38, 10)": [Decimal(n).scaleb(-10) for n in (0, 1, -7, 10**20, -(10**20) - 3)],
    "date": [0, 1, -1, 17_486, -365, -366, -719_528, -719_529, 2_932_897],
    "time": [0, 81_068_000_000, 86_399_999_999],
    "timestamp": MICROS,
    "timestamptz": MICROS,
    "string": TEXTS,
    "uuid": [uuid.UUID(int=0).bytes, uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7").bytes, b"\xff" * 16],
    "fixed[4]": [b"\x00\x01\x02\x03", b"\xff\xfe\x80\x00"],
    "binary": BYTES,
}
BUCKETED = [kind for kind in VALUES if kind not in ("boolean", "float", "double")]
CASES = [
    *(("identity", kind) for kind in VALUES),
    *(("void", kind) for kind in ("long", "string")),
    *((f"bucket[{n}]", kind) for kind in BUCKETED for n in (1, 7, 128)),
    *((word, kind) for word in ("year", "month", "day") for kind in ("date", "timestamp", "timestamptz")),
    *(("hour", kind) for kind in ("timestamp", "timestamptz")),
    *(
        (f"truncate[{n}]", kind)
        for kind in VALUES
        if kind in ("int", "long", "string", "binary") or kind.startswith("decimal")
        for n in (1, 3, 100)
    ),
]


def arrays(kind: str) -> pa.Array:
    return pa.array([*VALUES[kind], None], arrow_type(kind))


def serialized(kind: str, values: pa.Array) -> list[bytes | None]:
    """In Iceberg's binary form, from the number that Parquet would hold."""
    if kind in ("date", "time", "timestamp", "timestamptz"):
        values = values.view(pa.int32() if kind == "date" else pa.int64())
    found = []
    for value in values.to_pylist():
        if isinstance(value, Decimal):
            value = int(value.scaleb(-value.as_tuple().exponent))  # type: ignore[operator]
        value = value.encode() if isinstance(value, str) else value
        found.append(None if value is None else single_value(kind, value))
    return found


class Java:
    """Iceberg's own transforms and parser; what they give comes back in the binary form."""

    def __init__(self, spark: SparkSession) -> None:
        jvm: Any = spark.sparkContext._jvm
        self._jvm = jvm
        self._gateway: Any = spark.sparkContext._gateway
        self._iceberg = jvm.org.apache.iceberg

    def transformed(self, word: str, kind: str, data: list[bytes | None]) -> tuple[str, list[bytes | None]]:
        source = self._type(kind)
        transform = self._iceberg.transforms.Transforms.fromString(source, word)
        result = transform.getResultType(source).toString()
        values = [None if item is None else self._apply(transform.bind(source), kind, item) for item in data]
        return result, [self._bytes(result, value) for value in values]

    def from_json(self, kind: str, text: str) -> bytes | None:
        return self._bytes(kind, self._iceberg.SingleValueParser.fromJson(self._type(kind), text))

    def _apply(self, function: Any, kind: str, data: bytes) -> Any:
        if kind in LONG_TYPES:
            # A small number would cross as an Integer, so that it becomes a Long over there.
            longs = self._gateway.new_array(self._jvm.long, 1)
            longs[0] = struct.unpack("<q", data)[0]
            (value,) = self._jvm.java.util.stream.LongStream.of(longs).boxed().map(function).toArray()
            return value
        buffer = self._jvm.java.nio.ByteBuffer.wrap(data)
        return function.apply(self._iceberg.types.Conversions.fromByteBuffer(self._type(kind), buffer))

    def _type(self, kind: str) -> Any:
        return self._iceberg.types.Types.fromPrimitiveString(kind)

    def _bytes(self, kind: str, value: Any) -> bytes | None:
        if value is None:
            return None
        if isinstance(value, int | float):
            return single_value(kind, value)
        buffer = self._iceberg.types.Conversions.toByteBuffer(self._type(kind), value)
        return bytes(buffer.array())[: buffer.limit()]


@pytest.fixture(scope="module")
def java(spark: SparkSession) -> Java:
    return Java(spark)


@pytest.mark.parametrize(("word", "kind"), CASES)
def test_values_are_those_of_iceberg(java: Java, word: str, kind: str) -> None:
    values = arrays(kind)
    result, expected = java.transformed(word, kind, serialized(kind, values))
    ours = transformed(word, values)
    assert result_type(word, kind) == result
    assert serialized(result, ours) == expected
    for text, value in zip(json_values(result, ours), expected, strict=True):
        assert java.from_json(result, json.dumps(text)) == value


def test_what_cannot_be() -> None:
    with pytest.raises(Unsupported, match=r"'zorder'\. It knows identity"):
        transformed("zorder", pa.array([1]))
    with pytest.raises(InvalidInput, match="partition value nan"):
        json_values("double", pa.array([float("nan")]))
