"""Values that the source left out because they did not change."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from tests.stream.cdc.decode.connect import array, field, mapping, struct
from tests.stream.cdc.decode.messages import all_encodings, bare, batch, columns, decode, envelope

from frazil.devstack.registry import SchemaRegistry
from frazil.stream.config.model import DebeziumFormat

_MARK = "__debezium_unavailable_value"
#: `UUID.nameUUIDFromBytes` of Java.
_UUID = "b68a35a7-17ad-35b3-af2a-ae46edb4545a"
_OTHER = "11111111-2222-3333-4444-555555555555"
_D = "io.debezium.data."
#: Connect's type, what stands for a value, a real value, and that in the table, by its type.
_CASES: dict[str, tuple[dict[str, Any], Any, Any, str, Any]] = {
    "id": (field("int32"), 1, 1, "int", 1),
    "text": (field("string"), _MARK, f"{_MARK}s", "string", f"{_MARK}s"),
    "json": (field("string", f"{_D}Json"), _MARK, "{}", "string", "{}"),
    "hstore": (field("string", f"{_D}Json"), f'{{"{_MARK}":"{_MARK}"}}', "{}", "string", "{}"),
    "data": (field("bytes"), _MARK.encode(), b"x" * 28, "binary", b"x" * 28),
    "texts": (array(field("string")), [_MARK], ["a"], "list<string>", ["a"]),
    "two": (array(field("string")), [_MARK], [_MARK, "a"], "list<string>", [_MARK, "a"]),
    "ints": (array(field("int32")), list(_MARK.encode()), [95] * 28, "list<int>", [95] * 28),
    "longs": (array(field("int64")), list(_MARK.encode()), [], "list<long>", []),
    "blobs": (array(field("bytes")), [_MARK.encode()], [b""], "list<binary>", [b""]),
    "uuids": (array(field("string", f"{_D}Uuid")), [_UUID], [_OTHER], "list<uuid>", [UUID(_OTHER).bytes]),
    "map": (mapping(field("string")), {_MARK: _MARK}, {"a": _MARK}, "map<string, string>", [("a", _MARK)]),
    "last": (field("string"), _MARK, "z", "string", "z"),
}


@pytest.mark.parametrize("encoding", ["json", "avro"])
def test_all_forms(registry: SchemaRegistry, encoding: str) -> None:
    row = struct("t.Value", **{name: case[0] for name, case in _CASES.items()})
    gone = {name: case[1] for name, case in _CASES.items()}
    real = {name: case[2] for name, case in _CASES.items()}
    one = {**real, "last": _MARK}
    schema = columns(**{name: case[3] for name, case in _CASES.items()})
    raw, settings = all_encodings(registry, "cdc-holes", row, [gone, real, one, gone], "uuuu")[encoding]
    found = decode(raw, schema, settings)
    assert not found.bad
    rows = found.rows.to_pylist()
    assert rows[0] == rows[3] == dict.fromkeys(_CASES) | {"id": 1}
    assert rows[1] == {name: case[4] for name, case in _CASES.items()}
    assert rows[2] == rows[1] | {"last": None}
    every = (2 ** len(_CASES) - 2).to_bytes(2, "little")
    last = (2 ** (len(_CASES) - 1)).to_bytes(2, "little")
    assert found.order.column("holes").to_pylist() == [every, None, last, every]


def test_without_schemas() -> None:
    schema = columns(id="int", note="string", data="binary", amount="decimal(5, 2)")
    values = [
        {"id": 1, "note": _MARK, "data": base64.b64encode(_MARK.encode()).decode(), "amount": "AQ=="},
        {"id": 2, "note": "n", "data": "AQ==", "amount": None},
    ]
    found = decode(batch([bare(envelope(one, "u")) for one in values]), schema)
    assert not found.bad
    assert found.order.column("holes").to_pylist() == [b"\x06", None]


def test_another_placeholder() -> None:
    values = [bare(envelope({"id": 1, "v": text}, "u")) for text in (_MARK, "gone", "\x01\x02")]
    schema = columns(id="int", v="string")
    for placeholder, place in (("gone", 1), ("hex:0102", 2)):
        found = decode(batch(values), schema, DebeziumFormat(placeholder=placeholder))
        assert [one is not None for one in found.order.column("holes").to_pylist()] == [
            n == place for n in range(3)
        ]


def test_required_columns_may_be_left_out() -> None:
    """They are not missing: the row has them already."""
    plain = columns(id="int", v="string")
    schema = replace(plain, fields=(plain.fields[0], replace(plain.fields[1], required=True)))
    values = [bare(envelope({"id": 1, "v": text}, "u")) for text in (_MARK, None, "a")]
    found = decode(batch(values), schema)
    assert [(one.index, one.field) for one in found.bad] == [(1, "v")]
    assert found.rows.column("v").to_pylist() == [None, "a"]
    # Nor does a delete need them.
    gone = decode(batch([bare(envelope(None, "d", {"id": 1}))], [bare({"id": 1})]), schema)
    assert (gone.bad, gone.rows.to_pylist()) == ((), [{"id": 1, "v": None}])
