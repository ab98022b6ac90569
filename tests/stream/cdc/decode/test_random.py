"""Random rows and operations through every encoding: what comes out is what went in."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from random import Random
from typing import Any
from uuid import UUID

import pytest
from tests.stream.cdc.decode.connect import (
    array,
    avro_schema,
    avro_value,
    envelope_schema,
    field,
    json_value,
    mapping,
    struct,
)
from tests.stream.cdc.decode.messages import (
    Registered,
    bare,
    batch,
    columns,
    decode,
    envelope,
    with_schema,
)

from frazil.core.changes import Op
from frazil.devstack.registry import SchemaRegistry
from frazil.stream.config.model import DebeziumFormat, Registry

_T, _D, _C = "io.debezium.time.", "io.debezium.data.", "org.apache.kafka.connect.data."
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001
_OPS = {"c": Op.CREATE, "r": Op.READ, "u": Op.UPDATE, "d": Op.DELETE, "t": Op.TRUNCATE}


@dataclass(frozen=True)
class _Kind:
    """A random value: as it is written, and as the table has it."""

    wire: dict[str, Any]
    column: str
    make: Callable[[Random], tuple[Any, Any]]
    unit: str = ""


def _text(rng: Random) -> str:
    return "".join(rng.choice('aZ09 "\\\n\té€🙂=') for _ in range(rng.randrange(12)))


def _decimal(rng: Random) -> tuple[bytes, Decimal]:
    number = rng.randrange(-(10 ** rng.randrange(1, 19)), 10 ** rng.randrange(1, 19))
    return number.to_bytes(number.bit_length() // 8 + 1, signed=True), Decimal(number).scaleb(-4)


def _moment(rng: Random) -> tuple[int, datetime]:
    micros = rng.randrange(-62135596800000000, 253402300800000000)
    return micros, _EPOCH + timedelta(microseconds=micros)


def _zoned(rng: Random) -> tuple[str, datetime]:
    moment = (_moment(rng)[1]).replace(tzinfo=UTC)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z"), moment


def _time(rng: Random) -> tuple[int, time]:
    micros = rng.randrange(86_400_000_000)
    return micros, (_EPOCH + timedelta(microseconds=micros)).time()


def _date(rng: Random) -> tuple[int, date]:
    days = rng.randrange(-719162, 2932897)
    return days, date(1970, 1, 1) + timedelta(days)


def _double(rng: Random) -> tuple[float, float]:
    value = rng.choice([rng.uniform(-1e9, 1e9), 0.0, math.inf, 5.0])
    return value, value


def _uuid(rng: Random) -> tuple[str, bytes]:
    found = UUID(int=rng.getrandbits(128))
    return str(found), found.bytes


def _same(make: Callable[[Random], Any]) -> Callable[[Random], tuple[Any, Any]]:
    def both(rng: Random) -> tuple[Any, Any]:
        value = make(rng)
        return value, value

    return both


def _map(rng: Random) -> tuple[dict[str, int], list[tuple[str, int]]]:
    found = {_text(rng): rng.randrange(9) for _ in range(rng.randrange(4))}
    return found, list(found.items())


_KINDS = [
    _Kind(field("boolean"), "boolean", _same(lambda rng: rng.random() < 0.5)),
    _Kind(field("int32"), "int", _same(lambda rng: rng.randrange(-(2**31), 2**31))),
    _Kind(field("int64"), "long", _same(lambda rng: rng.randrange(-(2**63), 2**63))),
    _Kind(field("double"), "double", _double),
    _Kind(field("string"), "string", _same(_text)),
    _Kind(field("bytes"), "binary", _same(lambda rng: rng.randbytes(rng.randrange(9)))),
    _Kind(
        field("bytes", f"{_C}Decimal", scale="4", **{"connect.decimal.precision": "19"}),
        "decimal(19, 4)",
        _decimal,
    ),
    _Kind(field("int64", f"{_T}MicroTimestamp"), "timestamp", _moment, "us"),
    _Kind(field("string", f"{_T}ZonedTimestamp"), "timestamptz", _zoned),
    _Kind(field("int64", f"{_T}MicroTime"), "time", _time, "us"),
    _Kind(field("int32", f"{_T}Date"), "date", _date),
    _Kind(field("string", f"{_D}Uuid"), "uuid", _uuid),
    _Kind(array(field("int32")), "list<int>", _same(lambda rng: [rng.choice([None, 7]) for _ in range(3)])),
    _Kind(mapping(field("int32")), "map<string, int>", _map),
    _Kind(
        struct("n.S", a=field("int32"), b=field("string")),
        "struct<a: int, b: string>",
        _same(lambda rng: {"a": rng.choice([None, 1]), "b": _text(rng)}),
    ),
]


def _messages(rng: Random, kinds: list[_Kind], count: int) -> tuple[list[Any], list[Any], list[Any]]:
    """Envelopes as they are written, keys, and (offset, operation, row) as they are to be read."""
    sent: list[Any] = []
    keys: list[Any] = []
    expected: list[Any] = []
    for place in range(count):
        op = rng.choice("ccruudtm_")
        made = [(None, None) if rng.random() < 0.2 else kind.make(rng) for kind in kinds]
        row = {"id": place, **{f"c{n}": one[0] for n, one in enumerate(made)}}
        truth: dict[str, Any] = {"id": place, **{f"c{n}": one[1] for n, one in enumerate(made)}}
        keys.append(None if op in "tm" else {"id": place})
        if op == "_":
            sent.append(None)
            continue
        full = rng.random() < 0.5
        before = row if op == "d" and full else None
        sent.append(envelope(row if op in "cru" else None, op, before, sequence=f'["{place}","{place}"]'))
        if op != "m":
            gone = op == "t" or (op == "d" and not full)
            truth = dict.fromkeys(truth) if gone else truth
            expected.append((100 + place, _OPS[op], truth | ({"id": place} if op == "d" else {})))
    return sent, keys, expected


def _check(seed: int, registry: SchemaRegistry) -> None:
    rng = Random(seed)
    kinds = rng.sample(_KINDS, rng.randrange(1, len(_KINDS)))
    sent, keys, expected = _messages(rng, kinds, 60)
    row = struct("t.Value", id=field("int32"), **{f"c{n}": kind.wire for n, kind in enumerate(kinds)})
    schema, key = envelope_schema(row), {**struct("t.Key", id=field("int32")), "optional": False}
    avro, avro_key = avro_schema(schema), avro_schema(key)
    writer = Registered(registry, f"cdc-random-{seed}")
    kinds_of = columns(id="int", **{f"c{n}": kind.column for n, kind in enumerate(kinds)})
    units: Any = {f"c{n}": kind.unit for n, kind in enumerate(kinds) if kind.unit}
    written = [None if one is None else json_value(schema, one) for one in sent]
    encodings = [
        (
            batch(
                [None if one is None else bare(one) for one in written], [one and bare(one) for one in keys]
            ),
            DebeziumFormat(columns=kinds_of, units=units),
        ),
        (
            batch(
                [None if one is None else with_schema(schema, one) for one in written],
                [one and with_schema(key, one) for one in keys],
            ),
            DebeziumFormat(),
        ),
        (
            batch(
                [None if one is None else writer.framed(avro, avro_value(schema, one)) for one in sent],
                [one and writer.framed(avro_key, one) for one in keys],
            ),
            DebeziumFormat("avro", Registry(registry.url)),
        ),
    ]
    for raw, settings in encodings:
        found = decode(raw, kinds_of, settings)
        assert not found.bad, (seed, settings.encoding, str(found.bad[0]))
        assert found.shape is None
        order = found.order.to_pylist()
        got = [
            (one["offset"], one["op"], row) for one, row in zip(order, found.rows.to_pylist(), strict=True)
        ]
        assert got == expected, (seed, settings.encoding)
        for one in order:
            place = one["offset"] - 100
            at = (None, 0, 0) if one["op"] == Op.READ else ("lsn", place, place)
            assert (one["line"], one["at0"], one["at1"]) == at
            assert one["holes"] is None


@pytest.mark.parametrize("seed", range(8))
def test_random(seed: int, registry: SchemaRegistry) -> None:
    _check(seed, registry)


def test_random_without_the_native_decoders(
    registry: SchemaRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FRAZIL_NATIVE", "0")
    _check(99, registry)


@pytest.mark.exhaustive
def test_random_at_length(registry: SchemaRegistry) -> None:
    for seed in range(1000, 1300):
        _check(seed, registry)
