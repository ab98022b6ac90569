"""Batches: order, the place of a bad record, what is left of a batch without them, slices, schemas."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pyarrow as pa
import pytest
from tests.stream.decode.conftest import Make, raw_batch

from frazil.core.errors import InvalidConfig
from frazil.core.schema import Field, ListType, MapType, Schema, StructType, parse_type
from frazil.stream.config.model import Contract, JsonFormat
from frazil.stream.decode.decoded import Fault, Undecodable
from frazil.stream.decode.json import JsonDecoder

_ORDERS = Schema(
    (
        Field("id", "long", True),
        Field("paid", "boolean"),
        Field("note", "string"),
        Field(
            "items",
            parse_type("list<struct<sku: string, tags: map<string, list<int>>, price: decimal(10, 2)>>"),
        ),
    )
).with_fresh_ids()


def binary(records: list[Any]) -> pa.BinaryArray:
    texts = [one if one is None or isinstance(one, bytes) else json.dumps(one).encode() for one in records]
    return pa.array(texts, pa.binary())


def order(number: int) -> dict[str, Any]:
    items = [
        {"sku": f"s{n}", "tags": {"a": [n, None], "b": None}, "price": "1.50"} for n in range(number % 4)
    ]
    full = {
        "id": number,
        "paid": number % 3 == 0,
        "note": None if number % 5 == 0 else "é" * (number % 40),
        "items": items,
    }
    return {key: value for key, value in full.items() if key == "id" or (number + len(key)) % 7}


def rows(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    batch.validate(full=True)
    return json.loads(json.dumps(batch.to_pylist(), default=str))  # type: ignore[no-any-return]


def wanted(number: int) -> dict[str, Any]:
    made = {"paid": None, "note": None, "items": None} | order(number)
    items = made["items"]
    if items is not None:
        items = [one | {"tags": [["a", one["tags"]["a"]], ["b", None]]} for one in items]
    return {key: items if key == "items" else made[key] for key in ("id", "paid", "note", "items")}


def test_many(make: Make) -> None:
    decoder = make(_ORDERS, JsonFormat())
    batch = decoder.rows(binary([order(n) for n in range(3000)]))
    assert batch.schema.equals(_ORDERS.to_arrow(), check_metadata=True)
    assert rows(batch) == [wanted(n) for n in range(3000)]


def test_bad_ones_leave_nothing_behind(make: Make) -> None:
    """Rows are taken back however far they got: nulls, text, and children included."""
    spoilt = [
        b'{"id":1,"paid":true,"note":"abc","items":[{"sku":"x","tags":{"a":[1,2],"b":[null]},"price":1}',
        None,
        b"",
        b"[]",
        b'{"id":1,"paid":null,"note":null,"items":null}x',
        b'{"id":1,"note":"abc\\u00',
        b'{"items":[]}',
        b'{"id":1,"items":[null,{"sku":"a","tags":{"k":[1],"k":[2]}}]}',
        b'{"id":1,"paid":null,"paid":null}',
    ]
    records: list[Any] = []
    places = []
    for n in range(300):
        records.append(order(n))
        if n % 3:
            places.append(len(records))
            records.append(spoilt[n % len(spoilt)])
    decoder = make(_ORDERS, JsonFormat())
    batch, bad = decoder.split(binary(records))
    assert rows(batch) == [wanted(n) for n in range(300)]
    assert [one.index for one in bad] == places
    with pytest.raises(Undecodable) as caught:
        decoder.rows(binary(records))
    assert caught.value.index == places[0]


def test_slices_and_nulls(make: Make) -> None:
    decoder = make(_ORDERS, JsonFormat())
    values = binary([None, {"id": 1}, {"id": 2}, None, {"id": 3}, b"x"])
    assert [row["id"] for row in rows(decoder.rows(values[1:3]))] == [1, 2]
    with pytest.raises(Undecodable, match="without a value") as caught:
        decoder.rows(values[1:])
    assert caught.value.index == 2
    assert caught.value.field is None
    batch, bad = decoder.split(values[2:])
    assert ([row["id"] for row in rows(batch)], [one.index for one in bad]) == ([2, 3], [1, 3])


@pytest.mark.parametrize("values", [binary([]), binary([{"id": 1}])[1:], pa.array([], pa.binary())])
def test_empty(make: Make, values: pa.BinaryArray) -> None:
    batch = make(_ORDERS, JsonFormat()).rows(values)
    assert batch.schema.equals(_ORDERS.to_arrow(), check_metadata=True)
    batch.validate(full=True)
    assert len(batch) == 0


def test_all_bad(make: Make) -> None:
    batch, bad = make(_ORDERS, JsonFormat()).split(binary([None] * 70))
    batch.validate(full=True)
    assert (len(batch), len(bad)) == (0, 70)


def test_null_struct_with_required_fields(make: Make) -> None:
    inner = StructType((Field("a", "int", True), Field("b", StructType((Field("c", "string", True),)), True)))
    schema = Schema((Field("s", inner), Field("l", ListType(inner)))).with_fresh_ids()
    batch = make(schema, JsonFormat()).rows(
        binary([{}, {"s": {"a": 1, "b": {"c": "x"}}}, {"s": None, "l": [None]}])
    )
    batch.validate(full=True)
    assert batch.to_pylist() == [
        {"s": None, "l": None},
        {"s": {"a": 1, "b": {"c": "x"}}, "l": None},
        {"s": None, "l": [None]},
    ]
    sink = pa.BufferOutputStream()
    import pyarrow.parquet as pq

    pq.write_table(pa.table(batch), sink)
    assert pq.read_table(pa.BufferReader(sink.getvalue())).to_pylist() == batch.to_pylist()


def test_names(make: Make) -> None:
    """Found whatever they are made of, wherever they stand, escaped or not; never by another case."""
    names = [
        "a",
        "A",
        "eight888",
        "seven77",
        "nine99999",
        "a much longer name",
        'quo"te',
        "back\\slash",
        "é",
        "",
        "\n",
    ]
    schema = Schema(tuple(Field(name, "int") for name in names))
    decoder = make(schema, JsonFormat())
    row = {name: n for n, name in enumerate(names)}
    backwards = dict(reversed(row.items()))
    units = {name: "".join(f"\\u{ord(mark):04x}" for mark in name) for name in names}
    escaped = "{" + ",".join(f'"{units[name]}":{n}' for name, n in row.items()) + "}"
    raw = json.dumps(row, ensure_ascii=False).encode()
    spaced = json.dumps(backwards, indent=3).encode()
    batch = decoder.rows(
        binary([row, backwards, escaped.encode(), raw, spaced, {"Eight888": 1, "eight8888": 2}])
    )
    assert batch.to_pylist() == [row] * 5 + [dict.fromkeys(names)]
    for name in names:
        with pytest.raises(Undecodable, match="twice"):
            decoder.rows(binary([raw[:-1] + b"," + json.dumps({name: 1})[1:].encode()]))


def test_many_columns(make: Make) -> None:
    schema = Schema(tuple(Field(f"column_{n}", "int") for n in range(500)))
    row = {f"column_{n}": n for n in range(0, 500, 3)}
    batch = make(schema, JsonFormat()).rows(binary([row, dict(reversed(row.items()))]))
    assert batch.to_pylist() == [{f"column_{n}": row.get(f"column_{n}") for n in range(500)}] * 2


def test_large_maps(make: Make) -> None:
    decoder = make(Schema((Field("m", MapType("string", "int")),)), JsonFormat())
    full = {f"key{n}": n for n in range(5000)}
    assert decoder.rows(binary([{"m": full}])).to_pylist() == [{"m": list(full.items())}]
    twice = json.dumps({"m": full})[:-2] + ',"key77":1}}'
    with pytest.raises(Undecodable, match="twice") as caught:
        decoder.rows(binary([twice.encode()]))
    assert caught.value.field == 'm["key77"]'


def test_reasons(make: Make) -> None:
    decoder = make(_ORDERS, JsonFormat())
    long = {"id": "x" * 500}
    records = [
        long,
        {"id": 1, "items": [{}, {"price": 1.005}]},
        b'{"id":1',
        {"paid": True},
        {"id": 1, "paid": 0},
    ]
    _, bad = decoder.split(binary(records))
    assert [one.field for one in bad] == ["id", "items[1].price", None, "id", "paid"]
    faults = [Fault.TYPE, Fault.TYPE, Fault.BROKEN, Fault.MISSING, Fault.TYPE]
    assert [one.fault for one in bad] == faults
    assert "x" * 100 + "…" in bad[0].reason
    assert "x" * 101 not in bad[0].reason
    assert bad[1].reason == "found 1.005, expected a number that is exactly a decimal(10, 2)"
    assert '{"id":1' in bad[2].reason
    assert "required" in bad[3].reason
    assert bad[4].reason == "found 0, expected true or false"
    assert str(bad[4]) == "record 4 of the batch, field 'paid': found 0, expected true or false"
    again = pickle.loads(pickle.dumps(bad[4]))
    assert (again.index, again.field, again.reason, again.fault) == (4, "paid", bad[4].reason, Fault.TYPE)


@pytest.mark.parametrize(
    ("record", "fault", "field"),
    [
        (None, Fault.EMPTY, None),
        (b"", Fault.EMPTY, None),
        (b" ", Fault.BROKEN, None),
        (b"[]", Fault.BROKEN, None),
        (b"null", Fault.BROKEN, None),
        (b"\xff", Fault.BROKEN, None),
        (b'{"x":NaN}', Fault.BROKEN, None),
        (b'{"id":1,"x":"\\ud800"}', Fault.BROKEN, None),
        (b'{"id":1,"x":' + b"[" * 70 + b"]" * 70 + b"}", Fault.BROKEN, None),
        (b'{"id":1,"id":1}', Fault.BROKEN, "id"),
        (b'{"id":1,"items":[{"tags":{"k":[],"k":[]}}]}', Fault.BROKEN, 'items[0].tags["k"]'),
        (b'{"id":1.0}', Fault.TYPE, "id"),
        (b'{"id":1,"items":{}}', Fault.TYPE, "items"),
        (b'{"id":1,"items":[1]}', Fault.TYPE, "items[0]"),
        (b"{}", Fault.MISSING, "id"),
        (b'{"id":null}', Fault.MISSING, "id"),
    ],
)
def test_faults(make: Make, record: bytes | None, fault: Fault, field: str | None) -> None:
    _, bad = make(_ORDERS, JsonFormat()).split(binary([record]))
    assert [(one.fault, one.field) for one in bad] == [(fault, field)]


def test_pickled(make: Make) -> None:
    decoder = pickle.loads(pickle.dumps(make(_ORDERS, JsonFormat(), Contract(columns="freeze")).decoder))
    assert len(decoder.decode(raw_batch(binary([order(1)]))).rows) == 1


@pytest.mark.parametrize("kind", ["map<int, string>", "list<map<uuid, int>>", "struct<m: map<long, int>>"])
def test_map_keys_are_strings(kind: str) -> None:
    with pytest.raises(InvalidConfig, match="keys are strings"):
        JsonDecoder(Schema((Field("c", parse_type(kind)),)), JsonFormat())


@pytest.mark.parametrize("kind", [pa.large_binary(), pa.binary_view(), pa.int64()])
def test_only_arrays_of_binary(make: Make, kind: pa.DataType) -> None:
    with pytest.raises(TypeError, match="binary"):
        make(_ORDERS, JsonFormat()).rows(pa.array([], kind))


@pytest.mark.parametrize("name", ['quo"te', "back\\slash", "line\n"])
def test_names_that_have_to_be_escaped(make: Make, name: str) -> None:
    decoder = make(Schema((Field(name, "int"),)), JsonFormat())
    assert decoder.rows(binary([{name: 1}])).to_pylist() == [{name: 1}]
    with pytest.raises(Undecodable, match="not JSON"):
        decoder.rows(binary([b'{"%s":1}' % name.encode()]))


def test_null_over_bytes(make: Make) -> None:
    """A null is one whatever bytes lie under it."""
    _, offsets, data = binary([{"id": 1}, {"id": 2}]).buffers()
    values = pa.Array.from_buffers(pa.binary(), 2, [pa.py_buffer(b"\1"), offsets, data])
    with pytest.raises(Undecodable, match="without a value") as caught:
        make(_ORDERS, JsonFormat()).rows(values)
    assert caught.value.index == 1
