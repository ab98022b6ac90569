"""The last change of each key, holes filled from the ones before; against a dictionary."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.core.changes import ORDER, Op
from frazil.stream.cdc.fold import Folded, fold

SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.string()), ("a", pa.string()), ("b", pa.int64())])
_HOLE = "hole"


def tables(changes: list[dict[str, Any]]) -> tuple[pa.Table, pa.Table]:
    rows: list[dict[str, Any]] = []
    order: list[dict[str, Any]] = []
    for number, change in enumerate(changes):
        values = {name: change.get(name) for name in SCHEMA.names}
        mask = sum(1 << at for at, name in enumerate(SCHEMA.names) if values[name] == _HOLE)
        rows.append({name: None if value == _HOLE else value for name, value in values.items()})
        order.append(
            {"op": int(change["op"]), "offset": number, "line": None, "at0": 0, "at1": 0, "at2": 0, "ts": 0}
            | {"holes": bytes([mask]) if mask else None}
        )
    return pa.Table.from_pylist(rows, SCHEMA), pa.Table.from_pylist(order, ORDER)


def seen(folded: Folded, key: list[str]) -> dict[Any, Any]:
    """By key: the row, holes marked, or None if it is gone."""
    found: dict[Any, Any] = {tuple(row.values()): None for row in folded.deleted.to_pylist()}
    for row in folded.rows.to_pylist():
        found[tuple(row[name] for name in key)] = row
    for row, mask in zip(folded.patches.to_pylist(), folded.holes.to_pylist(), strict=True):
        for at, name in enumerate(SCHEMA.names):
            if mask[0] >> at & 1:
                assert row[name] is None
                row[name] = _HOLE
        found[tuple(row[name] for name in key)] = row
    assert len(found) == len(folded.rows) + len(folded.patches) + len(folded.deleted)
    assert {tuple(row.values()) for row in folded.keys.to_pylist()} == set(found)
    return found


_VALUE = st.sampled_from([_HOLE, None, "x", "y"])
_CHANGES = st.lists(
    st.fixed_dictionaries(
        {
            "op": st.sampled_from([Op.CREATE, Op.UPDATE, Op.DELETE]),
            "id": st.integers(0, 2),
            "part": st.sampled_from([None, "p", "q"]),
            "a": _VALUE,
            "b": st.sampled_from([_HOLE, None, 1, 2]),
        }
    ),
    min_size=1,
    max_size=12,
)


@settings(max_examples=300, deadline=None)
@given(_CHANGES, st.booleans())
def test_as_a_dictionary(changes: list[dict[str, Any]], composite: bool) -> None:
    key = ["id", "part"] if composite else ["id"]
    expected: dict[Any, Any] = {}
    for change in changes:
        at = tuple(change[name] for name in key)
        # A source leaves values out only of rows that are there.
        gone = expected.get(at, True) is None
        row = {name: change[name] for name in SCHEMA.names}
        if change["op"] is Op.DELETE or (gone and _HOLE in row.values()):
            change["op"], change["a"], change["b"] = Op.DELETE, None, None
            expected[at] = None
            continue
        before = expected.get(at) or {}
        expected[at] = {
            name: before.get(name, _HOLE) if value == _HOLE else value for name, value in row.items()
        }
    assert seen(fold(*tables(changes), key), key) == expected


def test_a_key_that_was_changed() -> None:
    """What the row lacks is found under its old key: in the round, or in the table."""
    changes: list[dict[str, Any]] = [
        {"op": Op.UPDATE, "id": 1, "a": "x", "b": _HOLE},
        {"op": Op.DELETE, "id": 1},
        {"op": Op.CREATE, "id": 2, "a": _HOLE, "b": _HOLE},
        {"op": Op.DELETE, "id": 2},
        {"op": Op.CREATE, "id": 3, "a": _HOLE, "b": _HOLE},
    ]
    rows, order = tables(changes)
    order = order.set_column(2, "line", pa.array(["lsn"] * 5))
    order = order.set_column(3, "at0", pa.array([1, 2, 2, 3, 3]))
    folded = fold(rows, order, ["id"])
    assert seen(folded, ["id"]) == {
        (1,): None,
        (2,): None,
        (3,): {"id": 3, "part": None, "a": "x", "b": _HOLE},
    }
    assert folded.origins.to_pylist() == [{"id": 1}]


@pytest.mark.parametrize("width", [9, 200])
def test_holes_of_wide_tables(width: int) -> None:
    schema = pa.schema([("id", pa.int64()), *((f"c{n}", pa.int64()) for n in range(width))])
    rows = pa.Table.from_pylist([{"id": 1, "c0": 7}, {"id": 1, f"c{width - 1}": 8}], schema)
    masks = []
    for filled in ({0, 1}, {0, width}):
        bits = [int(at not in filled) for at in range(width + 1)]
        masks.append(sum(bit << at for at, bit in enumerate(bits)).to_bytes(-(-(width + 1) // 8), "little"))
    order = tables([{"op": Op.UPDATE}] * 2)[1].set_column(7, "holes", pa.array(masks, pa.binary()))
    folded = fold(rows, order, ["id"])
    assert folded.patches.to_pylist()[0] == {"id": 1, "c0": 7, f"c{width - 1}": 8} | {
        f"c{n}": None for n in range(1, width - 1)
    }
    left = int.from_bytes(folded.holes[0].as_py(), "little")
    assert {at for at in range(width + 1) if left >> at & 1} == set(range(2, width))
