"""Rows behind Debezium's ExtractNewRecordState."""

from __future__ import annotations

from typing import Any

import pytest
from tests.stream.cdc.decode.connect import avro_schema, field, struct
from tests.stream.cdc.decode.messages import (
    Registered,
    bare,
    batch,
    columns,
    decode,
    shape_of,
    with_schema,
)

from frazil.core.changes import Op
from frazil.devstack.registry import SchemaRegistry
from frazil.stream.cdc.changes import Changes
from frazil.stream.config.model import DebeziumFormat, Registry
from frazil.stream.decode.decoded import Fault

_COLUMNS = columns(id="int", v="string")
_META = {"__deleted": "string", "__op": "string", "__source_ts_ms": "int64", "__source_sequence": "string"}
_SCHEMA = {
    **struct("t.Value", id=field("int32"), v=field("string"), **{n: field(k) for n, k in _META.items()}),
    "optional": False,
}
_KEY = {**struct("t.Key", id=field("int32")), "optional": False}


def _row(number: int, text: str | None, op: str, deleted: str = "false") -> dict[str, Any]:
    meta = {"__op": op, "__source_ts_ms": 77, "__source_sequence": f'["50","{number}"]'}
    return {"id": number, "v": text, "__deleted": deleted, **meta}


_ROWS = [_row(1, "a", "c"), _row(2, "b", "u"), _row(3, None, "d", "true"), _row(4, "d", "r")]


def encoded(registry: SchemaRegistry) -> dict[str, Any]:
    """Each with a tombstone behind the delete."""
    writer = Registered(registry, "cdc-flat")
    value, key = avro_schema(_SCHEMA), avro_schema(_KEY)

    def both(rows: list[Any], keys: list[Any]) -> Any:
        return batch([*rows[:3], None, *rows[3:]], [*keys[:3], keys[2], *keys[3:]])

    keys = [{"id": row["id"]} for row in _ROWS]
    return {
        "bare": (both([bare(row) for row in _ROWS], [bare(one) for one in keys]), DebeziumFormat()),
        "schemas": (
            both([with_schema(_SCHEMA, row) for row in _ROWS], [with_schema(_KEY, one) for one in keys]),
            DebeziumFormat(),
        ),
        "avro": (
            both([writer.framed(value, row) for row in _ROWS], [writer.framed(key, one) for one in keys]),
            DebeziumFormat("avro", Registry(registry.url)),
        ),
    }


def _check(found: Changes) -> None:
    assert not found.bad
    assert [tuple(row.values()) for row in found.rows.to_pylist()] == [
        (1, "a"),
        (2, "b"),
        (3, None),
        (4, "d"),
    ]
    assert [tuple(row.values()) for row in found.order.to_pylist()] == [
        (Op.CREATE, 100, "lsn", 50, 1, 0, 77, None),
        (Op.UPDATE, 101, "lsn", 50, 2, 0, 77, None),
        (Op.DELETE, 102, "lsn", 50, 3, 0, 77, None),
        (Op.READ, 104, None, 0, 0, 0, 77, None),
    ]


@pytest.mark.parametrize("encoding", ["bare", "schemas", "avro"])
def test_fields_beside_the_columns(registry: SchemaRegistry, encoding: str) -> None:
    raw, settings = encoded(registry)[encoding]
    kind = "long" if encoding == "bare" else "int"
    shape = decode(raw, None, settings).shape
    assert shape is not None
    assert {one.name: one.type for one in shape.columns} == {"id": kind, "v": "string"}
    assert shape.key == ("id",)
    _check(decode(raw, _COLUMNS, settings))


def test_headers() -> None:
    rows = [{"id": row["id"], "v": row["v"]} for row in _ROWS if row["id"] != 3]
    names = ("__op", "__source_ts_ms", "__source_sequence")
    headers = [[("other", "x"), *((name, str(row[name])) for name in names)] for row in _ROWS]
    # A JSON converter for headers quotes texts.
    headers[1] = [(name, f'"{text}"' if name == "__op" else text) for name, text in headers[1]]
    values = [bare(rows[0]), bare(rows[1]), None, bare(rows[2])]
    keys = [bare({"id": row["id"]}) for row in _ROWS]
    found = decode(batch(values, keys, headers), _COLUMNS)
    assert not found.bad
    assert [tuple(row.values())[:6] for row in found.order.to_pylist()] == [
        (Op.CREATE, 100, "lsn", 50, 1, 0),
        (Op.UPDATE, 101, "lsn", 50, 2, 0),
        (Op.DELETE, 102, "lsn", 50, 3, 0),
        (Op.READ, 103, None, 0, 0, 0),
    ]


def test_rows_alone() -> None:
    """Nothing is said besides: an update, without a place; a message without a value deletes by its key."""
    values = [bare({"id": 1, "v": "a"}), None, bare({"id": 2, "v": "b"}), None]
    keys = [bare({"id": 1}), bare({"id": 1}), bare({"id": 2}), None]
    found = decode(batch(values, keys), _COLUMNS)
    assert [tuple(row.values())[:3] for row in found.order.to_pylist()] == [
        (Op.UPDATE, 100, None),
        (Op.DELETE, 101, None),
        (Op.UPDATE, 102, None),
    ]
    assert [tuple(row.values()) for row in found.rows.to_pylist()] == [(1, "a"), (1, None), (2, "b")]
    # Without a key nobody knows what it deletes.
    assert [(one.index, one.field, one.fault) for one in found.bad] == [(3, "id", Fault.MISSING)]


def test_the_setting_decides() -> None:
    """A table with columns called like the envelope's fields."""
    raw = batch([bare({"op": "c", "after": "noon", "id": 1})])
    settings = DebeziumFormat(envelope="flat")
    assert shape_of(raw, settings) == {"op": "string", "after": "string", "id": "long"}
    assert decode(raw, columns(id="int", op="string", after="string"), settings).rows.to_pylist() == [
        {"id": 1, "op": "c", "after": "noon"}
    ]


def test_a_column_called_schema() -> None:
    """Its row only begins like a message that carries its schema."""
    raw = batch([bare({"schema": text, "id": 1}) for text in ("a", "b")] + [bare({"id": 2, "schema": "c"})])
    found = decode(raw, columns(id="int", schema="string"))
    assert not found.bad
    assert found.rows.column("schema").to_pylist() == ["a", "b", "c"]


def test_positions_by_their_short_names() -> None:
    values = [
        {"id": 1, "v": "a", "__sequence": '["5","6"]', "__ts_ms": 9},
        {"id": 1, "v": "a", "__gtid": "0-7-8", "__pos": 3, "__row": 1},
    ]
    for value, at in zip(values, (("lsn", 5, 6, 0), ("gtid:0", 8, 3, 1)), strict=True):
        (row,) = decode(batch([bare(value)]), _COLUMNS).order.to_pylist()
        assert (row["line"], row["at0"], row["at1"], row["at2"]) == at
        # That is when the connector wrote it.
        assert row["ts"] == 0


def test_a_lone_position_is_none() -> None:
    """`lsn` goes backwards where transactions overlap: taken for an order, it would drop changes."""
    found = decode(batch([bare({"id": 1, "v": "a", "__lsn": 5, "__op": "u"})]), _COLUMNS)
    assert found.order.column("line").to_pylist() == [None]
