"""What happens to fields that no column has, and to values that do not fit; the same for both decoders."""

from __future__ import annotations

import json
from typing import Any, get_args

import pyarrow as pa
import pytest
from tests.stream.decode.conftest import Make

from frazil.core.schema import (
    Field,
    ListType,
    MapType,
    Schema,
    SchemaChange,
    StructType,
    parse_type,
    show_type,
)
from frazil.stream.config.model import Contract, ContractWord, JsonFormat
from frazil.stream.decode.decoded import Decoded, Fault
from frazil.stream.decode.drift import MAX_FIELDS, MAX_LEVELS, MAX_NAME, settled

EVOLVE = Contract(columns="evolve", types="evolve")


def columns(text: str) -> Schema:
    kind = parse_type(f"struct<{text}>")
    assert isinstance(kind, StructType)
    return Schema(kind.fields)


def decode(
    make: Make, schema: Schema | str, contract: Contract, *records: Any, reserved: tuple[str, ...] = ()
) -> Decoded:
    texts = [one if isinstance(one, bytes) else json.dumps(one).encode() for one in records]
    schema = columns(schema) if isinstance(schema, str) else schema
    found = make(schema, JsonFormat(), contract, reserved).decode(pa.array(texts, pa.binary()))
    found.rows.validate(full=True)
    return found


def faults(found: Decoded) -> list[tuple[int, Fault, str | None]]:
    return [(bad.index, bad.fault, bad.field) for bad in found.bad]


def lacking(found: Decoded) -> dict[str, str]:
    """Paths to types; a widened one with a `>`."""
    assert len(found.rows) == 0
    return {".".join(change.path): ">" * change.widens + show_type(change.type) for change in found.changes}


# Fields that no column has.


def test_unknown_fields_left_out(make: Make) -> None:
    found = decode(make, "a: int, s: struct<b: int>", Contract(), {"x": 1, "a": 2, "s": {"y": {}, "b": 3}})
    assert found.rows.to_pylist() == [{"a": 2, "s": {"b": 3}}]
    assert (found.bad, found.changes) == ((), ())


@pytest.mark.parametrize("word", ["discard_row", "freeze"])
def test_unknown_fields_make_a_record_bad(make: Make, word: ContractWord) -> None:
    schema = "a: int, s: struct<b: int>, l: list<struct<c: int>>, m: map<string, struct<d: int>>"
    found = decode(
        make,
        schema,
        Contract(columns=word),
        {"a": 1, "m": {"x": {"d": 1}, "y": None}},
        {"a": 1, "x": None},
        {"s": {"b": 1, "x": 1}},
        {"l": [{}, {"c": 1, "x": 1}]},
        {"m": {"k": {"x": []}}},
        {"A": 1},
        {"a": 2},
    )
    assert faults(found) == [
        (1, Fault.UNKNOWN_FIELD, "x"),
        (2, Fault.UNKNOWN_FIELD, "s.x"),
        (3, Fault.UNKNOWN_FIELD, "l[1].x"),
        (4, Fault.UNKNOWN_FIELD, 'm["k"].x'),
        (5, Fault.UNKNOWN_FIELD, "A"),
    ]
    assert word in found.bad[0].reason
    assert [row["a"] for row in found.rows.to_pylist()] == [1, 2]
    assert found.changes == ()


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (b"true", "boolean"),
        (b"1", "long"),
        (b"-9223372036854775808", "long"),
        (b"9223372036854775808", "decimal(38, 0)"),
        (b"-" + b"9" * 38, "decimal(38, 0)"),
        (b"1.0", "double"),
        (b"1e3", "double"),
        (b'"2024-02-29T12:00:00Z"', "string"),
        (b'{"a":1,"b":{"c":"x"},"d":null}', "struct<a: long, b: struct<c: string>>"),
        (b"[1,null,2.5]", "list<double>"),
        (b'[[],[{"a":1},{"b":[true]},{}]]', "list<list<struct<a: long, b: list<boolean>>>>"),
    ],
)
def test_types_of_new_fields(make: Make, value: bytes, kind: str) -> None:
    assert lacking(decode(make, "a: int", EVOLVE, b'{"a":1,"x":%s}' % value)) == {"x": kind}
    assert lacking(decode(make, "l: list<struct<a: int>>", EVOLVE, b'{"l":[{"x":%s}]}' % value)) == {
        "l.element.x": kind
    }


@pytest.mark.parametrize("value", [None, {}, [], [None, [], {}], {"a": None, "b": {"c": []}}])
def test_values_that_say_nothing(make: Make, value: Any) -> None:
    """Neither a new column nor a bad record, whatever the field is called."""
    found = decode(make, "a: int", EVOLVE, {"a": 1, "x": value, "A": value, "": value})
    assert found.rows.to_pylist() == [{"a": 1}]
    assert (found.bad, found.changes) == ((), ())


def test_all_of_a_batch_at_once(make: Make) -> None:
    found = decode(
        make,
        "a: int, s: struct<b: int>",
        EVOLVE,
        {"a": 1},
        {"x": 1, "s": {"n": "t"}},
        {"x": 2.5, "y": {"p": 1}},
        {"y": {"q": [1]}, "z": []},
        {"a": 1 << 40, "y": {"p": 1 << 70}},
    )
    assert lacking(found) == {
        "x": "double",
        "s.n": "string",
        "y": "struct<p: decimal(38, 0), q: list<long>>",
        "a": ">long",
    }
    assert found.bad == ()


def test_the_first_record_decides(make: Make) -> None:
    records = [{"x": 1, "y": {"p": "t"}}, {"x": "text"}, {"y": {"p": [], "q": 1}}, {"y": {"p": True}}]
    found = decode(make, "a: int", EVOLVE, *records)
    assert lacking(found) == {"x": "long", "y": "struct<p: string, q: long>"}
    again = decode(make, "a: int, x: long, y: struct<p: string, q: long>", EVOLVE, *records)
    assert faults(again) == [(1, Fault.TYPE, "x"), (2, Fault.TYPE, "y.p"), (3, Fault.TYPE, "y.p")]
    assert again.changes == ()


def test_bad_records_change_nothing(make: Make) -> None:
    found = decode(
        make,
        "a: int, l: list<struct<b: int>>",
        EVOLVE,
        {"x": 1, "a": "text"},
        {"x": 1, "y": [1, "text"]},
        {"x": 1, "y": {"z": int("9" * 39)}},
        b'{"x":1,"y":[1e400]}',
        {"l": [{"y": 1}, {"y": "text"}]},
        b'{"x":1,"x":2}',
        b'{"y":{"z":1,"z":2}}',
        b'{"x":1',
        {"a": 1 << 63},
    )
    assert faults(found) == [
        (0, Fault.TYPE, "a"),
        (1, Fault.TYPE, "y[1]"),
        (2, Fault.TYPE, "y.z"),
        (3, Fault.TYPE, "y[0]"),
        (4, Fault.TYPE, "l.element.y"),
        (5, Fault.BROKEN, "x"),
        (6, Fault.BROKEN, "y.z"),
        (7, Fault.BROKEN, None),
        (8, Fault.TYPE, "a"),
    ]
    assert found.changes == ()
    assert len(found.rows) == 0


def test_names_that_no_column_can_have(make: Make) -> None:
    """Their records are taken out of the batch; those around them stay."""
    names = ["A", "S.b", "s.b", "_POS", "offset", "", "x`", "x\n", "x" * (MAX_NAME + 1)]
    records: list[Any] = [{"a": 0}]
    for number, name in enumerate(names, 1):
        records += [{name: 1}, {"a": number, name: None}]
    records.append({"s": {"B": 1}})
    found = decode(make, "a: int, s: struct<b: int>", EVOLVE, *records, reserved=("Offset",))
    assert [bad.index for bad in found.bad] == [*range(1, 2 * len(names), 2), len(records) - 1]
    assert {bad.fault for bad in found.bad} == {Fault.UNKNOWN_FIELD}
    assert (found.bad[0].field, found.bad[-1].field) == ("A", "s.B")
    assert "'a' is there" in found.bad[0].reason
    assert [row["a"] for row in found.rows.to_pylist()] == list(range(len(names) + 1))
    assert found.changes == ()


def test_new_names_beside_each_other(make: Make) -> None:
    records = [{"x": 1}, {"X": 1}, {"y": {"A": 1, "a": 1}}, {"y": {"A": 1}}, {"y": {"a": 1}}, {"y.A": 1}]
    found = decode(make, "a: int", EVOLVE, *records)
    assert lacking(found) == {"x": "long", "y": "struct<A: long>"}
    assert faults(found) == [
        (1, Fault.UNKNOWN_FIELD, "X"),
        (2, Fault.UNKNOWN_FIELD, "y.a"),
        (4, Fault.UNKNOWN_FIELD, "y.a"),
        (5, Fault.UNKNOWN_FIELD, "y.A"),
    ]


def test_bounds(make: Make) -> None:
    records: list[Any] = [{f"x{n}": 1} for n in range(MAX_FIELDS + 5)]
    found = decode(
        make, "a: int", EVOLVE, *records, dict.fromkeys((f"y{n}" for n in range(2 * MAX_FIELDS)), 1)
    )
    assert len(found.changes) == MAX_FIELDS - 1
    assert [bad.index for bad in found.bad] == list(range(MAX_FIELDS - 1, MAX_FIELDS + 6))
    assert {bad.fault for bad in found.bad} == {Fault.UNKNOWN_FIELD}
    deep: Any = 1
    for _ in range(MAX_LEVELS - 1):
        deep = {"x": deep}
    found = decode(make, "a: int", EVOLVE, {"x": deep}, {"x": [deep]})
    assert [bad.index for bad in found.bad] == [1]
    assert len(found.changes) == 1


def test_settled() -> None:
    """What several tasks found, as one list; what cannot be is left to the next time."""
    changes = [
        SchemaChange(("x",), "long"),
        SchemaChange(("a",), "long", widens=True),
        SchemaChange(("y",), StructType((Field("p", "long"),))),
        SchemaChange(("x",), "double"),
        SchemaChange(("X",), "double"),
        SchemaChange(("y",), StructType((Field("p", "string"), Field("q", "string")))),
        SchemaChange(("d",), "decimal(12, 2)", widens=True),
        SchemaChange(("d",), "decimal(11, 2)", widens=True),
    ]
    assert settled(columns("a: int, d: decimal(4, 2)"), changes) == (
        SchemaChange(("x",), "double"),
        SchemaChange(("a",), "long", widens=True),
        SchemaChange(("y",), StructType((Field("p", "long"), Field("q", "string")))),
        SchemaChange(("d",), "decimal(12, 2)", widens=True),
    )


# Values that do not fit.


@pytest.mark.parametrize("word", ["discard_row", "freeze"])
def test_values_make_a_record_bad(make: Make, word: ContractWord) -> None:
    found = decode(make, "a: int", Contract(types=word), {"a": 1}, {"a": 1.5}, {"a": 1 << 40}, {"a": {}})
    assert faults(found) == [(n, Fault.TYPE, "a") for n in (1, 2, 3)]


@pytest.mark.parametrize(
    ("kind", "value", "wide"),
    [
        ("int", b"2147483648", "long"),
        ("int", b"-9223372036854775808", "long"),
        ("float", b"1e39", "double"),
        ("decimal(4, 2)", b"100.00", "decimal(5, 2)"),
        ("decimal(4, 2)", b'"-123456.7"', "decimal(8, 2)"),
        ("decimal(4, 2)", b"1e35", "decimal(38, 2)"),
        ("int", b"9223372036854775808", None),
        ("int", b"1.5", None),
        ("int", b'"1"', None),
        ("long", b"9223372036854775808", None),
        ("double", b"1e400", None),
        ("decimal(4, 2)", b"1.005", None),
        ("decimal(4, 2)", b"1e36", None),
        ("string", b"1", None),
        ("timestamptz", b"1", None),
        ("list<int>", b"1", None),
        ("struct<a: int>", b"[]", None),
    ],
)
def test_wider(make: Make, kind: str, value: bytes, wide: str | None) -> None:
    for schema, template, path, place in [
        (f"x: {kind}", b'{"x":%s}', "x", "x"),
        (f"x: map<string, list<{kind}>>", b'{"x":{"k":[%s]}}', "x.value.element", 'x["k"][0]'),
    ]:
        found = decode(make, schema, EVOLVE, b"{}", template % value)
        if wide is None:
            assert faults(found) == [(1, Fault.TYPE, place)]
            assert found.changes == ()
        else:
            assert lacking(found) == {path: ">" + wide}
            assert found.bad == ()


def test_widest_of_a_batch(make: Make) -> None:
    schema = Schema((Field("d", "decimal(4, 2)", True), Field("i", "int", True)))
    records = [{"d": 1, "i": 1}, {"d": 100, "i": 1}, {"d": 100000, "i": 1 << 40}, {"d": 1000, "i": 1}]
    assert lacking(decode(make, schema, EVOLVE, *records)) == {"d": ">decimal(8, 2)", "i": ">long"}


LAX = Contract(types="discard_value")


@pytest.mark.parametrize(
    ("kind", "value", "wanted"),
    [
        ("int", "1.5", None),
        ("int", "1e2", None),
        ("long", '"1"', None),
        ("long", "9223372036854775808", None),
        ("double", "1e400", None),
        ("boolean", "0", None),
        ("string", '{"a":["\\\\ud83d\\\\ude00"]}'.replace("\\\\", "\\"), None),
        ("date", '"2024-02-30"', None),
        ("binary", '"x"', None),
        ("list<int>", "{}", None),
        ("list<int>", '[1,"x",2.5,null,3]', [1, None, None, None, 3]),
        ("list<list<int>>", '[[1],2,["x"]]', [[1], None, [None]]),
        ("map<string, int>", '{"a":1,"b":"x"}', [("a", 1), ("b", None)]),
        ("map<string, int>", "[]", None),
        ("struct<a: int, b: string>", '{"a":"x","b":"y"}', {"a": None, "b": "y"}),
        ("struct<a: int, b: string>", "1", None),
    ],
)
def test_values_left_out(make: Make, kind: str, value: str, wanted: Any) -> None:
    records = [b"{}", b'{"x":%s,"y":7}' % value.encode(), b'{"y":8}']
    found = decode(make, f"x: {kind}, y: int", LAX, *records)
    assert found.rows.to_pylist() == [{"x": None, "y": None}, {"x": wanted, "y": 7}, {"x": None, "y": 8}]
    assert (found.bad, found.changes) == ((), ())


def test_left_out_with_what_requires_it(make: Make) -> None:
    """The innermost optional value around it; where there is none the record is bad."""
    inner = StructType((Field("a", "int", True), Field("l", ListType("int", True)), Field("n", "string")))
    schema = Schema((Field("id", "int", True), Field("s", inner), Field("m", MapType("string", inner, True))))
    good = {"n": "kept", "l": [1], "a": 1}
    found = decode(
        make,
        schema,
        LAX,
        {"id": 1, "s": good | {"a": "x"}, "m": {"k": good}},
        {"id": 2, "s": good | {"l": [1, "x"]}, "m": {"k": good | {"a": {}}}},
        {"id": "x", "s": good},
        {"id": 3, "s": good},
    )
    assert found.rows.to_pylist() == [
        {"id": 1, "s": None, "m": [("k", good)]},
        {"id": 2, "s": good | {"l": None}, "m": None},
        {"id": 3, "s": good, "m": None},
    ]
    assert faults(found) == [(2, Fault.MISSING, "id")]


@pytest.mark.parametrize(
    ("record", "fault", "field"),
    [
        (b'{"s":{"b":"x"}}', Fault.MISSING, "s.a"),
        (b'{"s":{"a":null}}', Fault.MISSING, "s.a"),
        (b'{"s":{"b":"x","b":1,"a":1}}', Fault.BROKEN, "s.b"),
        (b'{"m":{"k":"x","k":1}}', Fault.BROKEN, 'm["k"]'),
        (b'{"m":{"k":"x"', Fault.BROKEN, None),
        (b'{"m":nul}', Fault.BROKEN, None),
        (b'{"m":01}', Fault.BROKEN, None),
        (b'{"m":["\\ud800"]}', Fault.BROKEN, None),
        (b'{"m":["\x80"]}', Fault.BROKEN, None),
        (b'{"m":' + b"[" * 64 + b"]" * 64 + b"}", Fault.BROKEN, None),
    ],
)
def test_no_more_than_values_are_left_out(make: Make, record: bytes, fault: Fault, field: str | None) -> None:
    inner = StructType((Field("a", "int", True), Field("b", "int")))
    found = decode(make, Schema((Field("s", inner), Field("m", MapType("string", "int")))), LAX, record, {})
    assert faults(found) == [(0, fault, field)]
    assert len(found.rows) == 1


def test_what_is_left_out_changes_nothing(make: Make) -> None:
    schema = Schema((Field("s", StructType((Field("a", "int", True),))),))
    contract = Contract(columns="evolve", types="discard_value")
    found = decode(make, schema, contract, {"s": {"x": 1, "a": "x"}}, {"s": {"a": "x", "x": 1}})
    assert found.rows.to_pylist() == [{"s": None}] * 2
    assert found.changes == ()


@pytest.mark.parametrize("columns_word", get_args(ContractWord))
@pytest.mark.parametrize("types_word", get_args(ContractWord))
def test_what_fits_is_the_same(make: Make, columns_word: ContractWord, types_word: ContractWord) -> None:
    """A field that is gone is null, whatever the contract."""
    found = decode(make, "a: int, b: string", Contract(columns=columns_word, types=types_word), {"a": 1}, {})
    assert found.rows.to_pylist() == [{"a": 1, "b": None}, {"a": None, "b": None}]
    assert (found.bad, found.changes) == ((), ())
