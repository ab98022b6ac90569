"""Where changes stand in the order of commits, and what is done."""

from __future__ import annotations

from typing import Any

import pytest
from tests.stream.cdc.decode.messages import bare, batch, columns, decode, envelope

from frazil.core.changes import Op
from frazil.stream.config.model import DebeziumFormat

_COLUMNS = columns(id="int", v="string")
_UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


def placed(*sources: dict[str, Any]) -> list[tuple[Any, ...]]:
    found = decode(batch([bare(envelope({"id": 1}, "u", **one)) for one in sources]), _COLUMNS)
    assert not found.bad
    return [tuple(row.values())[2:6] for row in found.order.to_pylist()]


def test_postgresql() -> None:
    """The pair alone counts: positions of changes go backwards where transactions overlap."""
    assert placed(
        {"sequence": '["100","90"]', "lsn": 90},
        {"sequence": '["100", "95"]', "lsn": 95},
        {"sequence": '[null,"95"]', "lsn": 95},
        {"sequence": '["9223372036854775807","1"]'},
        {"sequence": None, "lsn": 90},
        {"lsn": 90},
        {"sequence": "what"},
        {"sequence": '["1","x"]'},
        {"sequence": '["100","90"]', "snapshot": "incremental"},
    ) == [
        ("lsn", 100, 90, 0),
        ("lsn", 100, 95, 0),
        ("lsn", 95, 95, 0),
        ("lsn", 2**63 - 1, 1, 0),
        *[(None, 0, 0, 0)] * 5,
    ]


def test_a_repetition_after_a_restart_is_not_newer() -> None:
    """One that stopped in its first transaction goes on with the slot's beginning instead of the null."""
    first, again, later = placed(
        {"sequence": '[null,"26771096"]'},
        {"sequence": '["26738792","26771096"]'},
        {"sequence": '["26771320","26771320"]'},
    )
    assert again <= first < later


def test_mysql_and_mariadb() -> None:
    place = {"file": "binlog.000012", "pos": 4177, "row": 2, "server_id": 7}
    assert placed(
        {**place, "gtid": "0-7-10"},
        {**place, "gtid": "3-7-11"},
        {**place, "gtid": f"{_UUID}:23"},
        {**place, "gtid": f"{_UUID}:blue:24"},
        {**place, "gtid": "what"},
        {**place, "gtid": None},
        place,
        {**place, "file": "nothing"},
    ) == [
        ("gtid:0", 10, 4177, 2),
        ("gtid:3", 11, 4177, 2),
        (f"gtid:{_UUID}", 23, 4177, 2),
        (f"gtid:{_UUID}:blue", 24, 4177, 2),
        (None, 0, 0, 0),
        ("binlog:7", 12, 4177, 2),
        ("binlog:7", 12, 4177, 2),
        (None, 0, 0, 0),
    ]


@pytest.mark.parametrize("snapshot", ["true", "first", "last", "incremental", "false", None])
def test_reads_have_no_place(snapshot: str | None) -> None:
    source = {"sequence": '["100","90"]', "snapshot": snapshot}
    found = decode(batch([bare(envelope({"id": 1}, "r", **source))]), _COLUMNS)
    (row,) = found.order.to_pylist()
    assert row["op"] == Op.READ
    assert (row["line"], row["at0"], row["ts"]) == (None, 0, 1_700_000_000_000)


def test_operations() -> None:
    values = [
        bare(envelope({"id": 1, "v": "a"}, "c")),
        bare(envelope({"id": 1, "v": "b"}, "u", {"id": 1, "v": "a"})),
        # Of the row as it was, as much as is told.
        bare(envelope(None, "d", {"id": 1, "v": "b"})),
        bare(envelope(None, "d", None)),
        bare(envelope(None, "t")),
        bare(envelope(None, "m")),
        None,
    ]
    keys = [bare({"id": 1}), bare({"id": 1}), bare({"id": 1}), bare({"id": 2}), None, None, bare({"id": 1})]
    found = decode(batch(values, keys), _COLUMNS)
    assert not found.bad
    assert found.order.column("op").to_pylist() == [Op.CREATE, Op.UPDATE, Op.DELETE, Op.DELETE, Op.TRUNCATE]
    assert found.order.column("offset").to_pylist() == [100, 101, 102, 103, 104]
    pairs = [tuple(row.values()) for row in found.rows.to_pylist()]
    assert pairs == [(1, "a"), (1, "b"), (1, "b"), (2, None), (None, None)]


def test_transactions() -> None:
    ids = ["754:26771888", "0-7-10", f"{_UUID}:5", None]
    values = [{**envelope({"id": 1}), "transaction": one and {"id": one}} for one in ids]
    found = decode(batch([bare(one) for one in values]), _COLUMNS, transactions=True)
    assert found.transactions is not None
    assert found.transactions.to_pylist() == ["754", *ids[1:]]
    assert decode(batch([bare(values[0])]), _COLUMNS).transactions is None


def test_a_column_that_orders() -> None:
    schema = columns(id="int", n="long", at="timestamptz", day="date")
    rows = [
        {"id": 1, "n": 5, "at": "1970-01-01T00:00:01Z", "day": "1970-01-03"},
        {"id": 1, "n": None, "at": None, "day": None},
    ]
    raw = batch([bare(row) for row in rows], [bare({"id": 1})] * 2)
    for name, at in (("n", 5), ("at", 1_000_000), ("day", 2)):
        found = decode(raw, schema, DebeziumFormat(envelope="flat", sequence_by=name)).order.to_pylist()
        assert [(row["line"], row["at0"], row["at1"]) for row in found] == [("column", at, 0), (None, 0, 0)]
