"""Rows as JSON: what the decoder of the log reads is what was written, for every type."""

from __future__ import annotations

import json
import random
import uuid
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from frazil.core.errors import InvalidInput
from frazil.core.schema import Field, Schema, parse_type
from frazil.hot.write.encode import JsonRows, Unwritable
from frazil.hot.write.fit import CHUNK, Fit
from frazil.stream.config.model import JsonFormat
from frazil.stream.decode.json import JsonDecoder
from frazil.stream.source import RawBatch

KINDS = {
    "flag": "boolean",
    "small": "int",
    "big": "long",
    "single": "float",
    "real": "double",
    "price": "decimal(15, 2)",
    "tiny": "decimal(38, 30)",
    "day": "date",
    "at": "timestamp",
    "moment": "timestamptz",
    'na"me\\ü': "string",
    "id": "uuid",
    "raw": "binary",
    "four": "fixed[4]",
    "list": "list<double>",
    "map": "map<string, decimal(9, 3)>",
    "row": "struct<a: int, b: struct<c: uuid, d: binary>, e: list<timestamptz>>",
}
SCHEMA = Schema(tuple(Field(name, parse_type(kind)) for name, kind in KINDS.items())).with_fresh_ids()
TEXT = 'na"me\\ü'


def decoded(values: pa.BinaryArray, schema: Schema = SCHEMA) -> pa.RecordBatch:
    none = pa.nulls(len(values), pa.int64())
    found = JsonDecoder(schema, JsonFormat()).decode(RawBatch("", 0, values, none, none))
    assert found.bad == ()
    return found.rows


def row(rng: random.Random) -> dict[str, Any]:
    """Values at the ends of their types among them; each may be null."""
    moment = rng.choice(
        list(map(datetime.fromisoformat, ["0001-01-01", "9999-12-31T23:59:59.999999", "1969-07-20T20:17"]))
    )
    moment += timedelta(microseconds=rng.randrange(10**6)) if moment.year == 1969 else timedelta()
    single = rng.choice([0.1, -0.0, 3.4028234663852886e38, 1e-45, 16777216.0, rng.gauss(0, 1e10)])
    text = rng.choice(
        ["", "plain", 'quo"te', "back\\slash", "line\nbreak\x00\x1f", "Ægir 🧊", "\u2028", "null"]
    )
    found = {
        "flag": rng.random() < 0.5,
        "small": rng.choice([-(2**31), 2**31 - 1, 0]),
        "big": rng.choice([-(2**63), 2**63 - 1, 7]),
        "single": pa.scalar(single, pa.float32()).as_py(),
        "real": rng.choice([1.7976931348623157e308, 5e-324, 0.1, -0.0, 1e22, rng.random()]),
        "price": rng.choice([Decimal("-9999999999999.99"), Decimal("0.00"), Decimal("12.50")]),
        "tiny": rng.choice([Decimal("1E-30"), Decimal("99999999.0"), Decimal(0)]),
        "day": rng.choice([date(1, 1, 1), date(9999, 12, 31), date(2024, 2, 29)]),
        "at": moment,
        "moment": moment.replace(tzinfo=UTC),
        TEXT: text,
        "id": uuid.UUID(int=rng.getrandbits(128)).bytes,
        "raw": rng.randbytes(rng.randrange(5)),
        "four": rng.randbytes(4),
        "list": rng.choice([[], [1.5, None, -0.0], [1e300]]),
        "map": rng.choice([[], [("k", Decimal("1.250")), ('"', None)]]),
        "row": rng.choice(
            [
                {"a": None, "b": None, "e": []},
                {"a": 1, "b": {"c": bytes(16), "d": b"\xff"}, "e": [None, moment.replace(tzinfo=UTC)]},
            ]
        ),
    }
    return {name: value if rng.random() > 0.15 else None for name, value in found.items()}


@pytest.mark.parametrize("seed", range(8))
def test_every_type_comes_back(seed: int) -> None:
    rng = random.Random(seed)
    rows = pa.RecordBatch.from_pylist([row(rng) for _ in range(300)], SCHEMA.to_arrow())
    assert decoded(JsonRows(SCHEMA).encode(rows)).equals(rows)


def test_no_rows_and_parts_of_a_longer_batch() -> None:
    rows = pa.RecordBatch.from_pylist([row(random.Random(1)) for _ in range(30)], SCHEMA.to_arrow())
    assert len(JsonRows(SCHEMA).encode(rows.slice(0, 0))) == 0
    assert decoded(JsonRows(SCHEMA).encode(rows.slice(11, 9))).equals(rows.slice(11, 9))


def test_keys_are_compact_and_have_one_text() -> None:
    schema = Schema((Field("n", "int"), Field("price", "decimal(9, 2)"), Field("at", "timestamptz")))
    fit = Fit(schema, "t")
    here = datetime(2024, 5, 1, 14, tzinfo=timezone(timedelta(hours=2)))
    same = [
        {"n": 1, "price": Decimal("1.5"), "at": here},
        {"price": 1.50, "n": 1, "at": datetime(2024, 5, 1, 12, tzinfo=UTC)},
        {"price": "1.500", "n": 1, "at": "2024-05-01 12:00Z"},
    ]
    (batch,) = fit.dicts(same)
    (text,) = set(JsonRows(schema, ["n", "price", "at"]).encode(batch).to_pylist())
    assert text == b'{"n":1,"price":"1.50","at":"2024-05-01T12:00:00.000000Z"}'


@pytest.mark.parametrize(
    ("name", "kind", "value"),
    [
        ("x", "double", float("nan")),
        ("x", "float", float("inf")),
        ("x", "list<double>", [1.0, float("nan")]),
        ("x", "struct<a: double>", {"a": float("-inf")}),
    ],
)
def test_what_json_has_no_word_for(name: str, kind: str, value: Any) -> None:
    schema = Schema((Field(name, parse_type(kind)),))
    rows = pa.RecordBatch.from_pylist([{name: None}, {name: value}], schema.to_arrow())
    with pytest.raises(Unwritable) as refused:
        JsonRows(schema).encode(rows)
    assert (refused.value.row, refused.value.column) == (1, name)
    with pytest.raises(
        InvalidInput, match=r"row 2 does not fit t, column 'x': .* is no number that JSON has"
    ):
        list(Fit(schema, "t").dicts([{name: None}, {name: value}]))


def test_years_that_json_cannot_have() -> None:
    schema = Schema((Field("x", "timestamp"),))
    nothing = pa.RecordBatch.from_arrays([pa.nulls(2, pa.timestamp("us"))], schema=schema.to_arrow())
    assert JsonRows(schema).encode(nothing).to_pylist() == [b'{"x":null}'] * 2
    rows = pa.RecordBatch.from_arrays([pa.array([0, 2**62], pa.timestamp("us"))], schema=schema.to_arrow())
    with pytest.raises(Unwritable, match="years 1 to 9999"):
        JsonRows(schema).encode(rows)


@pytest.mark.parametrize("kind", ["date", "list<date>", "struct<a: timestamp>"])
@pytest.mark.parametrize("far", [2_932_897, -719_163])
def test_days_that_json_cannot_have(kind: str, far: int) -> None:
    """Arrow's are of any year. In the log such a row would stop its table."""
    schema = Schema((Field("x", parse_type(kind)),))
    for days, good in ((far - 1 if far < 0 else far, False), (far + (1 if far < 0 else -1), True)):
        column: pa.Array = pa.array([0, days], pa.int32()).cast(pa.date32())
        if kind.startswith("list"):
            column = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), column)
        if kind.startswith("struct"):
            micros = pa.array([0, days * 86_400_000_000]).cast(pa.timestamp("us"))
            column = pa.StructArray.from_arrays([micros], names=["a"])
        (rows,) = Fit(schema, "t").arrow(pa.table({"x": column}))
        if good:
            assert decoded(JsonRows(schema).encode(rows), schema).num_rows == 2
            continue
        with pytest.raises(Unwritable) as refused:
            JsonRows(schema).encode(rows)
        assert (refused.value.row, refused.value.column) == (1, "x")


@pytest.mark.parametrize("kind", ["string", "list<string>"])
def test_text_that_is_none(kind: str) -> None:
    schema = Schema((Field("x", parse_type(kind)),))
    texts = pa.StringArray.from_buffers(
        2, pa.py_buffer(b"\x00\x00\x00\x00\x01\x00\x00\x00\x03\x00\x00\x00"), pa.py_buffer(b"a\xff\xfe")
    )
    column = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), texts) if "list" in kind else texts
    (rows,) = Fit(schema, "t").arrow(pa.table({"x": column}))
    with pytest.raises(Unwritable) as refused:
        JsonRows(schema).encode(rows)
    assert (refused.value.row, refused.value.column) == (1, "x")


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (
            {"id": 1, "label": "x"},
            "row 2 does not fit shop.t, column 'label': there is no such column; there are: id, name",
        ),
        ({"name": "x"}, "row 2 does not fit shop.t, column 'id': is missing"),
        ({"id": None}, "column 'id': is null"),
        ({"id": "1"}, "column 'id': "),
        ({"id": 1.5}, "column 'id': "),
        ({"id": 2**63}, "column 'id': "),
        ({"id": True}, "column 'id': "),
        ({"id": 1, "name": b"x"}, "column 'name': a value of Python's bytes; the column is of type string"),
        ({"id": 1, "name": 5}, "column 'name': "),
        ({"id": 1, "raw": "abcd"}, "column 'raw': a value of Python's str"),
        ({"id": 1, "at": datetime.fromisoformat("2024-01-01")}, "column 'at': "),
        ({"id": 1, "price": Decimal("1.005")}, "column 'price': "),
        ({"id": 1, "price": object()}, "a value of type object"),
        (5, "a int; expected a dict"),
    ],
)
def test_dicts_that_do_not_fit(bad: Any, message: str) -> None:
    fields = {"name": "string", "raw": "binary", "at": "timestamptz", "price": "decimal(9, 2)"}
    columns = (Field("id", "long", required=True), *(Field(name, kind) for name, kind in fields.items()))
    with pytest.raises(InvalidInput) as refused:
        list(Fit(Schema(columns), "shop.t").dicts([{"id": 1}, bad]))
    assert message in refused.value.message


def test_arrow_is_fitted_by_name_without_loss() -> None:
    schema = Schema((Field("id", "long", required=True), Field("name", "string"), Field("at", "timestamptz")))
    fit = Fit(schema, "t")
    given = pa.table({"name": pa.array(["a"]).dictionary_encode(), "id": pa.array([7], pa.int16())})
    (rows,) = fit.arrow(given)
    assert rows.to_pylist() == [{"id": 7, "name": "a", "at": None}]
    with pytest.raises(InvalidInput, match=r"row 2 does not fit t, column 'id'"):
        list(fit.arrow(pa.table({"id": [1.0, 1.5]})))
    with pytest.raises(InvalidInput, match="column 'other': there is no such column"):
        list(fit.arrow(pa.table({"id": [1], "other": [1]})))
    many = pa.table({"id": pa.array([*range(CHUNK + 3), None])})
    with pytest.raises(InvalidInput, match=f"row {CHUNK + 4} does not fit"):
        list(fit.arrow(many))


def test_other_readers_of_json_read_it_too() -> None:
    rows = pa.RecordBatch.from_pylist([row(random.Random(3)) for _ in range(50)], SCHEMA.to_arrow())
    for text in JsonRows(SCHEMA).encode(rows).to_pylist():
        assert list(json.loads(text)) == list(KINDS)
