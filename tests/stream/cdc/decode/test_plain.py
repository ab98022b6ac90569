"""Rows of hot tables: plain JSON, deleted by their keys."""

from __future__ import annotations

import json
import random
from typing import Any

import pyarrow as pa
import pytest
from tests.stream.cdc.decode.messages import batch, columns

from frazil.core.changes import ORDER, Op
from frazil.core.schema import Field, Schema
from frazil.stream.cdc.changes import Changes
from frazil.stream.cdc.decode.decoder import change_decoder
from frazil.stream.cdc.fold import fold
from frazil.stream.cdc.order import admit
from frazil.stream.config.model import JsonFormat
from frazil.stream.decode.decoded import Fault

_COLUMNS = Schema(
    (
        Field("region", "string", required=True, id=1),
        Field("id", "long", required=True, id=2),
        Field("price", "decimal(10, 2)", required=True, id=3),
        Field("note", "string", id=4),
    )
)
_KEY = ("id", "region")


def _row(number: int, **more: Any) -> str:
    return json.dumps({"id": number, "region": "eu", "price": "1.50", **more})


def _key(number: int) -> str:
    return json.dumps({"id": number, "region": "eu"}, separators=(",", ":"))


def _ops(changes: Changes) -> list[tuple[int, int]]:
    return list(zip(changes.order["offset"].to_pylist(), changes.order["op"].to_pylist(), strict=True))


def _decode(values: Any, keys: Any = None, key: tuple[str, ...] = _KEY) -> Changes:
    return change_decoder(JsonFormat(), _COLUMNS, key).decode(batch(values, keys))


def test_values_replace_and_records_without_one_delete_in_the_order_of_the_log() -> None:
    found = _decode([_row(1), None, _row(2, note="x", other=[1, {}])], [_key(1), _key(1), _key(2)])
    assert _ops(found) == [(100, Op.UPDATE), (101, Op.DELETE), (102, Op.UPDATE)]
    assert found.order.schema == ORDER
    assert found.rows.column("id").to_pylist() == [1, 1, 2]
    assert found.rows.column("region").to_pylist() == ["eu"] * 3
    assert [str(one) for one in found.rows.column("price").to_pylist()] == ["1.50", "None", "1.50"]
    assert found.rows.column("note").to_pylist() == [None, None, "x"]
    assert [one.nullable for one in found.rows.schema] == [True] * 4
    assert found.rows.schema.field("note").metadata == {b"PARQUET:field_id": b"4"}
    assert found.bad == ()
    assert found.shape is None


def test_nothing_but_the_log_orders_them_so_that_all_count() -> None:
    found = _decode([_row(1), None], [_key(1), _key(1)])
    assert admit(found.order, None, "t-0") == (None, None)


def test_what_is_wrong_is_told_by_record() -> None:
    values = [
        _row(1),
        '{"region": "eu", "price": 1}',
        '{"id": null, "region": "eu", "price": 1}',
        '{"id": 4, "region": "eu"}',
        "no JSON",
        None,
        None,
        None,
        None,
        '{"id": "nine", "region": "eu", "price": 1}',
    ]
    keys = [None, None, None, None, None, None, '{"id":6}', "[6]", _key(8), None]
    found = _decode(values, keys)
    assert _ops(found) == [(100, Op.UPDATE), (108, Op.DELETE)]
    assert [(one.index, one.field, one.fault) for one in found.bad] == [
        (1, "id", Fault.MISSING),
        (2, "id", Fault.MISSING),
        (3, "price", Fault.MISSING),
        (4, None, Fault.BROKEN),
        (5, None, Fault.EMPTY),
        (6, "region", Fault.MISSING),
        (7, None, Fault.BROKEN),
        (9, "id", Fault.TYPE),
    ]
    reasons = {one.index: one.reason for one in found.bad}
    assert reasons[5] == (
        "a record without a value deletes the row that its key names, and it has no key; give it one, "
        "a JSON object of id, region"
    )
    assert reasons[6].startswith("in the record's key: ")


def test_in_several_partitions_each_record_of_a_keyed_table_has_a_key() -> None:
    """Else the newest change of a row may be in any of them."""
    values, keys = [_row(1), _row(2), None, None, "no"], [_key(1), None, _key(3), None, None]
    several = change_decoder(JsonFormat(), _COLUMNS, _KEY, several=True)
    found = several.decode(batch(values, keys))
    assert _ops(found) == [(100, Op.UPDATE), (102, Op.DELETE)]
    assert found.rows.column("id").to_pylist() == [1, 3]
    assert [(one.index, one.field, one.fault) for one in found.bad] == [
        (index, None, Fault.EMPTY) for index in (1, 3, 4)
    ]
    for told in (
        "in another one than the other changes of its row",
        "a JSON object of id, region",
        "docs/hot.md",
    ):
        assert told in found.bad[0].reason
    assert len(several.decode(batch(values[:2])).bad) == 2
    assert several.decode(batch(values[:1], keys[:1])).bad == ()
    assert change_decoder(JsonFormat(), _COLUMNS, (), several=True).decode(batch(values[:2])).bad == ()


def test_a_key_is_needed_also_where_the_column_is_optional() -> None:
    found = change_decoder(JsonFormat(), columns(id="long", v="string"), ("id",)).decode(
        batch(['{"v": "x"}', '{"id": 1}', None], [None, None, '{"id":null}'])
    )
    assert _ops(found) == [(101, Op.UPDATE)]
    assert [(one.index, one.field, one.fault) for one in found.bad] == [
        (0, "id", Fault.MISSING),
        (2, "id", Fault.MISSING),
    ]


def test_without_a_key_all_rows_come_and_there_is_nothing_to_delete() -> None:
    found = _decode([_row(1), None, _row(1)], [None, _key(1), None], key=())
    assert _ops(found) == [(100, Op.CREATE), (102, Op.CREATE)]
    (bad,) = found.bad
    assert (bad.index, bad.fault) == (1, Fault.EMPTY)
    assert "no key by which one could be deleted" in bad.reason


@pytest.mark.parametrize("values", [[], [None], [None, None], ["no"], [_row(3)]])
def test_few_records(values: list[str | None]) -> None:
    found = _decode(values, [_key(number) for number in range(len(values))])
    assert len(found.rows) == len(found.order) == len(values) - len(found.bad)
    assert _decode(values).rows.schema == found.rows.schema


def test_nested_values_and_every_type_of_a_key() -> None:
    kinds = {
        "a": "int",
        "b": "boolean",
        "c": "date",
        "d": "timestamptz",
        "e": "decimal(5, 1)",
        "f": "uuid",
        "g": "binary",
        "h": "time",
    }
    schema = columns(**kinds, items="list<struct<n: int, tags: map<string, string>>>")
    name = {
        "a": 1,
        "b": True,
        "c": "2024-02-29",
        "d": "2024-02-29T12:00:00.000001Z",
        "e": "12.5",
        "f": "00000000-0000-0000-0000-00000000000a",
        "g": "AAE=",
        "h": "12:00:01",
    }
    row = json.dumps({**name, "items": [{"n": 1, "tags": {"k": "v"}}, None]})
    decoder = change_decoder(JsonFormat(), schema, tuple(kinds))
    found = decoder.decode(batch([row, None], [None, json.dumps(name)]))
    assert found.bad == ()
    first, second = found.rows.select(list(kinds)).to_pylist()
    assert first == second
    assert found.rows.column("items")[1].as_py() is None


def test_many_random_records_become_what_a_dictionary_becomes() -> None:
    chance = random.Random(8)
    decoder = change_decoder(JsonFormat(), _COLUMNS, _KEY)
    for _ in range(50):
        model: dict[int, str] = {}
        values: list[str | None] = []
        keys = []
        for _ in range(chance.randrange(1, 60)):
            number = chance.randrange(8)
            keys.append(_key(number))
            if chance.random() < 0.3:
                model.pop(number, None)
                values.append(None)
            else:
                model[number] = str(chance.random())
                values.append(_row(number, note=model[number]))
        found = decoder.decode(batch(values, keys))
        folded = fold(pa.Table.from_batches([found.rows]), pa.Table.from_batches([found.order]), _KEY)
        notes = folded.rows.column("note").to_pylist()
        assert dict(zip(folded.rows.column("id").to_pylist(), notes, strict=True)) == model
