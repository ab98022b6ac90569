"""Messages that cannot be taken never stop the others."""

from __future__ import annotations

import struct as binary
from typing import Any

import pytest
from tests.stream.cdc.decode.connect import array, avro_schema, envelope_schema, field, struct
from tests.stream.cdc.decode.messages import (
    Registered,
    bare,
    batch,
    columns,
    decode,
    envelope,
    shape_of,
    with_schema,
)

from frazil.core.errors import InvalidConfig
from frazil.core.schema import show_type
from frazil.devstack.registry import SchemaRegistry
from frazil.stream.cdc.decode import change_decoder
from frazil.stream.config.model import DebeziumFormat, Registry
from frazil.stream.decode.decoded import Fault

_COLUMNS = columns(id="int", v="string")
_GOOD = bare(envelope({"id": 1, "v": "a"}))


@pytest.mark.parametrize(
    ("value", "fault", "name"),
    [
        ("", Fault.BROKEN, None),
        ("no", Fault.BROKEN, None),
        ("[]", Fault.BROKEN, None),
        (_GOOD[:-1], Fault.BROKEN, None),
        ('{"op":"c","after":{"id":1},"source":{"ts_ms":"x"}}', Fault.BROKEN, None),
        (bare(envelope(None, "c")), Fault.BROKEN, "after"),
        (bare(envelope({"id": 1}, "x")), Fault.BROKEN, "op"),
        (bare(envelope({"id": 1}, "cc")), Fault.BROKEN, "op"),
        (bare({**envelope({"id": 1}), "op": None}), Fault.BROKEN, "op"),
        (bare(envelope({"id": "x"})), Fault.TYPE, "id"),
        (bare(envelope({"id": 2**40})), Fault.TYPE, "id"),
        (bare(envelope({"id": 1, "v": [1]})), Fault.TYPE, "v"),
        (bare(envelope([1])), Fault.BROKEN, None),
        (bare(envelope({"v": "a"})), Fault.MISSING, "id"),
        (bare(envelope({"id": None, "v": "a"})), Fault.MISSING, "id"),
    ],
)
@pytest.mark.parametrize("native", ["1", "0"])
def test_json(
    monkeypatch: pytest.MonkeyPatch, native: str, value: str, fault: Fault, name: str | None
) -> None:
    monkeypatch.setenv("FRAZIL_NATIVE", native)
    keys = [bare({"id": 1})] * 4
    found = decode(batch([_GOOD, value, value, _GOOD], keys), _COLUMNS)
    assert found.shape is None
    assert [(one.index, one.fault, one.field) for one in found.bad] == [(1, fault, name), (2, fault, name)]
    assert found.order.column("offset").to_pylist() == [100, 103]


def test_many_ways_to_write_a_value() -> None:
    """More of them than are read together."""
    schema = columns(**{f"c{n}": "double" for n in range(5)})
    rows = [{f"c{n}": "NaN" if place >> n & 1 else float(place) for n in range(5)} for place in range(32)]
    rows += rows
    values = [bare(envelope(row)) for row in rows]
    values[7] = bare(envelope({"c0": "what"}))
    values[40] = bare(envelope({"c0": True}))
    found = decode(batch(values), schema)
    assert [(one.index, one.field) for one in found.bad] == [(7, "c0"), (40, "c0")]
    expected = [tuple(map(str, row.values())) for place, row in enumerate(rows) if place not in (7, 40)]
    assert [tuple(map(str, row.values())) for row in found.rows.to_pylist()] == [
        tuple(one.lower() for one in row) for row in expected
    ]


def test_schemas_that_change_and_are_missing() -> None:
    """In one batch: two schemas, none, and none that holds."""
    first = envelope_schema(struct("t.Value", id=field("int32")))
    second = envelope_schema(struct("t.Value", v=field("string"), id=field("int64")))
    values = [
        with_schema(first, envelope({"id": 1})),
        bare(envelope({"id": 2, "v": "b"})),
        with_schema(second, envelope({"id": 3, "v": "c"})),
        with_schema(first, envelope({"id": 4})),
        None,
        '{"schema":{"type":"struct"',
        with_schema(second, envelope({"id": 5, "v": None})),
    ]
    schema = columns(id="long", v="string")
    found = decode(batch(values), schema)
    assert [tuple(row.values()) for row in found.rows.to_pylist()] == [
        (1, None), (2, "b"), (3, "c"), (4, None), (5, None),
    ]  # fmt: skip
    assert found.order.column("offset").to_pylist() == [100, 101, 102, 103, 106]
    assert [(one.index, one.fault) for one in found.bad] == [(5, Fault.BROKEN)]


def test_avro(registry: SchemaRegistry) -> None:
    """Not framed, cut off, of a schema that nobody knows."""
    writer = Registered(registry, "cdc-bad")
    schema = avro_schema(envelope_schema(struct("t.Value", id=field("int32"), v=field("string"))))
    good = writer.framed(schema, envelope({"id": 1, "v": "a"}))
    unknown = binary.pack(">BI", 0, 2**31) + good[5:]
    values = [good, b"", b"\1", good[:-3], unknown, None, good]
    found = decode(batch(values), _COLUMNS, DebeziumFormat("avro", Registry(registry.url)))
    faults = [Fault.BROKEN, Fault.BROKEN, Fault.BROKEN, Fault.UNKNOWN_SCHEMA]
    assert [(one.index, one.fault) for one in found.bad] == list(zip((1, 2, 3, 4), faults, strict=True))
    assert found.order.column("offset").to_pylist() == [100, 106]
    with pytest.raises(InvalidConfig, match="registry"):
        change_decoder(DebeziumFormat("avro"), _COLUMNS)


def test_keys_in_avro(registry: SchemaRegistry) -> None:
    writer = Registered(registry, "cdc-keys")
    schema = avro_schema(envelope_schema(struct("t.Value", id=field("int32"), v=field("string"))))
    key = avro_schema({**struct("t.Key", id=field("int32")), "optional": False})
    values = [writer.framed(schema, envelope({"id": n, "v": "a"})) for n in (1, 2)]
    values += [writer.framed(schema, envelope(None, "d", before)) for before in ({"id": 1, "v": "a"}, None)]
    keys = [writer.framed(key, {"id": n}) for n in (1, 2, 1, 2)]
    settings = DebeziumFormat("avro", Registry(registry.url))
    shape = decode(batch(values, keys), None, settings).shape
    assert shape is not None
    assert shape.key == ("id",)
    found = decode(batch(values, keys), _COLUMNS, settings)
    assert [tuple(row.values()) for row in found.rows.to_pylist()] == [
        (1, "a"),
        (2, "a"),
        (1, "a"),
        (2, None),
    ]


def test_a_key_of_ones_own() -> None:
    """Not that of the message: then a delete needs its row."""
    values = [_GOOD, bare(envelope(None, "d", {"id": 1, "v": "a"})), bare(envelope(None, "d", {"id": 1}))]
    found = decode(batch(values, [bare({"id": 1})] * 3), _COLUMNS, key=("v",))
    assert [(one.index, one.field, one.fault) for one in found.bad] == [(2, "v", Fault.MISSING)]
    assert found.rows.column("v").to_pylist() == ["a", "a"]
    # Fields of the message's key that are no columns.
    routed = decode(batch([_GOOD], [bare({"id": 1, "__dbz__physicalTableIdentifier": "t"})]), _COLUMNS)
    assert routed.bad[0].field == "__dbz__physicalTableIdentifier"
    assert "`key`" in routed.bad[0].reason


def test_a_delete_counts_whatever_its_row_is() -> None:
    values = [
        bare(envelope(None, "d", row)) for row in ({"id": 1, "v": 5.5}, {"id": 1, "v": [1]}, [7], {"id": "x"})
    ]
    found = decode(batch(values, [bare({"id": 9})] * 4), _COLUMNS)
    assert not found.bad
    assert found.rows.column("id").to_pylist() == [9] * 4


def test_types_that_have_no_form() -> None:
    """A map whose keys are no texts: said by column, with what can be done."""
    odd = {"type": "map", "keys": field("int16"), "values": field("double"), "optional": True}
    schema = envelope_schema(struct("t.Value", id=field("int32"), m=odd, l=array(field("int32"))))
    raw = batch([with_schema(schema, envelope({"id": 1, "m": [[1, 2.0]], "l": [1]}))])
    assert shape_of(raw) == {"id": "int", "l": "list<int>"}
    found = decode(raw, columns(id="int", l="list<int>"))
    assert found.bad[0].field == "m"
    assert "column.exclude.list" in found.bad[0].reason


def test_times_without_a_unit() -> None:
    values = [bare(envelope({"id": 1, "at": 1_000_000}))]
    schema = columns(id="int", at="timestamp")
    (bad,) = decode(batch(values), schema).bad
    assert bad.field == "at"
    assert "`units`" in bad.reason
    for units, second in (({"at": "us"}, 1), ({"*": "ms"}, 1000), ({"*": "ms", "at": "us"}, 1)):
        found = decode(batch(values), schema, DebeziumFormat(units=units))  # type: ignore[arg-type]
        assert found.rows.column("at").cast("int64").to_pylist() == [second * 1_000_000]


def test_decimals_without_schemas() -> None:
    """The connector's mode is a setting where texts could be either."""
    schema = columns(id="int", d="decimal(10, 2)")
    texts: list[Any] = ["1234", 12.5, None, {"scale": 1, "value": "AQ=="}, 7]
    raw = batch([bare(envelope({"id": 1, "d": text})) for text in texts])
    precise = [None if one is None else str(one) for one in decode(raw, schema).rows.column("d").to_pylist()]
    # Three bytes: d7 6d f8.
    assert precise == ["-26588.24", "12.50", None, "0.10", "7.00"]
    mode = DebeziumFormat(decimals="string")
    assert [str(one) for one in decode(raw, schema, mode).rows.column("d").to_pylist()] == [
        "1234.00", "12.50", "None", "0.10", "7.00",
    ]  # fmt: skip


def test_columns_that_come_without_schemas() -> None:
    rows: list[Any] = [
        {"id": 1, "v": "a"},
        {"id": 2, "v": "b", "n": 5, "big": 2**40, "o": {"x": 1, "y": [True]}, "nothing": None},
        {"id": 3, "n": 1.5, "rate": {"scale": 2, "value": "AQ=="}},
    ]
    raw = batch([bare(envelope(row)) for row in rows], [bare({"id": row["id"]}) for row in rows])
    shape = decode(raw, _COLUMNS).shape
    assert shape is not None
    kinds = {
        "id": "int", "v": "string", "n": "double", "big": "long", "rate": "string",
        "o": "struct<x: long, y: list<boolean>>",
    }  # fmt: skip
    assert {one.name: show_type(one.type) for one in shape.columns} == kinds
    found = decode(raw, shape.columns.with_fresh_ids())
    assert found.rows.column("n").to_pylist() == [None, 5.0, 1.5]
    assert found.rows.column("rate").to_pylist() == [None, None, "0.01"]
    # A field inside a struct that is there.
    more = batch([bare(envelope({"id": 4, "o": {"z": "q"}}))])
    inner = decode(more, shape.columns.with_fresh_ids()).shape
    assert inner is not None
    assert show_type(inner.columns.field("o").type) == "struct<x: long, y: list<boolean>, z: string>"
