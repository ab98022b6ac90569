"""Real messages of Debezium for PostgreSQL and MariaDB; the truth is what was written to the databases."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from tests.stream.cdc.decode.messages import captured, columns, decode, shape_of

from frazil.core.changes import Op
from frazil.core.schema import Schema
from frazil.stream.cdc.changes import Changes
from frazil.stream.config.model import DebeziumFormat
from frazil.stream.decode.decoded import Fault

_CUSTOMERS = {
    "id": "int",
    "name": "string",
    "email": "string",
    "balance": "decimal(12, 2)",
    "rate": "string",
    "active": "boolean",
    "d": "date",
    "t": "time",
    "ts": "timestamp",
    "ts6": "timestamp",
    "tz": "timestamptz",
    "j": "string",
    "u": "uuid",
    "arr": "list<int>",
    "b": "binary",
    "iv": "long",
    "dbl": "double",
    "big": "long",
}
_ALICE: dict[str, Any] = {
    "id": 1,
    "name": "alice",
    "email": "a@x.io",
    "balance": Decimal("1234.56"),
    "rate": "3.14159265",
    "active": True,
    "d": date(2024, 2, 29),
    "t": time(13, 14, 15, 123456),
    "ts": datetime(2024, 2, 29, 13, 14, 15, 123000),  # noqa: DTZ001 - the database's own
    "ts6": datetime(2024, 2, 29, 13, 14, 15, 123456),  # noqa: DTZ001
    "tz": datetime(2024, 2, 29, 11, 14, 15, 123456, UTC),
    "j": '{"k": [1, 2]}',
    "u": UUID("11111111-2222-3333-4444-555555555555").bytes,
    "arr": [1, 2, None],
    "b": bytes.fromhex("deadbeef"),
    "iv": (26 * 3600 + 3 * 60 + 4) * 1_000_000,
    "dbl": 1.5,
    "big": 9007199254740993,
}
_BOB: dict[str, Any] = dict.fromkeys(_CUSTOMERS) | {
    "id": 2,
    "name": "bob",
    "balance": Decimal("-0.01"),
    "active": True,
    "d": date(1969, 12, 31),
    "t": time(0),
    "ts": datetime(1969, 12, 31, 23, 59, 59, 999000),  # noqa: DTZ001
    "ts6": datetime(1969, 12, 31, 23, 59, 59, 999999),  # noqa: DTZ001
    "tz": datetime(1969, 12, 31, 23, 59, 59, 999999, UTC),
    "dbl": "nan",
    "big": -(2**63),
}
_CAROL: dict[str, Any] = dict.fromkeys(_CUSTOMERS) | {
    "id": 3,
    "name": "carol",
    "email": "c@x.io",
    "balance": Decimal("99999999.99"),
    "rate": "0.0000000001",
    "active": True,
    "ts": datetime(2025, 6, 1),  # noqa: DTZ001
    "tz": datetime(2025, 6, 1, tzinfo=UTC),
}
_NEW_ALICE = _ALICE | {"email": "alice@new.io", "balance": Decimal("1234.66")}
#: Units of columns that are numbers when schemas are off.
_UNITS: Any = {"t": "us", "ts": "ms", "ts6": "us", "dt": "ms", "dt6": "us"}


def rows(found: Changes) -> list[dict[str, Any]]:
    assert not found.bad
    assert found.shape is None
    return [
        {name: "nan" if value != value else value for name, value in row.items()}
        for row in found.rows.to_pylist()
    ]


def order(found: Changes, *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in found.order.to_pylist()]


def loose(schema: Schema) -> DebeziumFormat:
    return DebeziumFormat(columns=schema, units=_UNITS)


@pytest.mark.parametrize("name", ["pg.customers", "pgs.customers"])
def test_postgresql_values(name: str) -> None:
    schema = columns(**_CUSTOMERS)
    found = decode(captured(name), schema, loose(schema), transactions=True)
    assert rows(found) == [_ALICE, _BOB, _CAROL, _NEW_ALICE, _BOB]
    at = (*("at0", "at1", "at2"), "line")
    assert order(found, "op", "offset", *at) == [
        (Op.READ, 100, 0, 0, 0, None),
        (Op.READ, 101, 0, 0, 0, None),
        # The first transaction after the snapshot: its pair begins with a null.
        (Op.CREATE, 102, 26771096, 26771096, 0, "lsn"),
        (Op.UPDATE, 103, 26771320, 26771320, 0, "lsn"),
        (Op.DELETE, 104, 26772432, 26772432, 0, "lsn"),
    ]
    assert order(found, "ts") == [(1794774841912,)] * 2 + [
        (1794774889403,),
        (1794774889404,),
        (1794774889405,),
    ]
    assert found.order.column("holes").null_count == 5
    assert found.transactions is not None
    assert found.transactions.to_pylist() == [None, None, "752", "753", "756"]


def test_the_columns_that_schemas_tell() -> None:
    raw = captured("pgs.customers")
    # Spark could not read a table with times of day.
    assert shape_of(raw) == _CUSTOMERS | {"t": "string"}
    found = decode(raw).shape
    assert found is not None
    assert found.key == ("id",)
    # A type of one's own, where the message tells another.
    assert shape_of(raw, DebeziumFormat(columns=columns(rate="decimal(20, 10)")))["rate"] == "decimal(20, 10)"


def test_variable_scales_into_a_decimal() -> None:
    for name in ("pg.customers", "pgs.customers"):
        raw = captured(name)
        wide = columns(**_CUSTOMERS | {"rate": "decimal(20, 10)"})
        found = decode(raw, wide, loose(wide))
        rates = [Decimal("3.1415926500"), None, Decimal("1E-10"), Decimal("3.1415926500"), None]
        assert found.rows.column("rate").to_pylist() == rates
        # Eight digits do not fit six.
        narrow = columns(**_CUSTOMERS | {"rate": "decimal(12, 6)"})
        bad = decode(raw, narrow, loose(narrow)).bad
        assert [(one.index, one.field, one.fault) for one in bad] == [
            (index, "rate", Fault.TYPE) for index in (0, 2, 3)
        ]


_ORDERS = {
    "id": "int",
    "customer_id": "int",
    "amount": "decimal(14, 4)",
    "note": "string",
    "status": "string",
}


def _order(
    number: int, customer: int | None, amount: str | None, note: str | None, status: str | None = None
) -> dict[str, Any]:
    known = None if amount is None else Decimal(amount)
    return {"id": number, "customer_id": customer, "amount": known, "note": note, "status": status}


_LONG = "x" * 10
_ORDER_ROWS = [
    _order(1, 1, "9.99", "first"),
    _order(2, 2, "19.90", None),
    _order(3, 1, "100.00", "txn"),
    _order(1, 1, "9.99", "upd"),
    # Of a delete there is the key alone.
    _order(2, None, None, None),
    # A new key: the old row goes, the new one comes.
    _order(3, None, None, None),
    _order(30, 1, "100.00", "txn"),
    _order(1, 1, "9.99", _LONG),
    _order(1, 1, "1.00", _LONG),
    _order(4, 1, "5.55", "after alter", "paid"),
    _order(5, 1, "5.5555", "after widen", "paid"),
    # A column went at the source.
    _order(6, 1, "6.00", None, "drop"),
]
_ORDER_OPS = [
    Op.READ,
    Op.READ,
    Op.CREATE,
    Op.UPDATE,
    Op.DELETE,
    Op.DELETE,
    Op.CREATE,
    *[Op.UPDATE] * 2,
    *[Op.CREATE] * 3,
]


def _short(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row | {"note": _LONG if (row["note"] or "").startswith(_LONG) else row["note"]} for row in found]


def test_postgresql_operations() -> None:
    """All kinds, with columns that came, grew and went."""
    schema = columns(**_ORDERS)
    found = decode(captured("pgs.orders"), schema, transactions=True)
    assert _short(rows(found)) == _ORDER_ROWS
    assert [one[0] for one in order(found, "op")] == _ORDER_OPS
    # Tombstones are left out.
    assert [one[0] for one in order(found, "offset")] == [100, 101, 102, 103, 104, 106, *range(108, 114)]
    at = [one[:2] for one in order(found, "at0", "at1")]
    assert at == sorted(at)
    assert at[2:7] == [
        (26771888, 26771888),
        (26771888, 26772024),
        (26771888, 26772112),
        (26772224, 26772224),
        (26772224, 26772224),
    ]
    assert found.transactions is not None
    assert found.transactions.to_pylist()[2:7] == ["754"] * 3 + ["755"] * 2


def test_a_decimal_that_got_another_scale() -> None:
    """A table cannot follow that: what does not fit is bad, what fits is taken."""
    schema = columns(**_ORDERS | {"amount": "decimal(10, 2)"})
    found = decode(captured("pgs.orders"), schema)
    (bad,) = found.bad
    assert (bad.index, bad.field, bad.fault) == (12, "amount", Fault.TYPE)
    assert [row["id"] for row in found.rows.to_pylist()] == [1, 2, 3, 1, 2, 3, 30, 1, 1, 4, 6]


def test_columns_that_the_table_lacks() -> None:
    raw = captured("pgs.orders")
    schema = columns(id="int", customer_id="int", amount="decimal(8, 2)", note="string")
    found = decode(raw, schema)
    assert not len(found.rows)
    assert found.shape is not None
    kinds = {field.name: field.type for field in found.shape.columns}
    assert kinds == {
        "id": "int", "customer_id": "int", "amount": "decimal(10, 2)", "note": "string", "status": "string",
    }  # fmt: skip
    assert [field.id for field in found.shape.columns] == [1, 2, 3, 4, 0]


def test_unchanged_values_that_were_left_out() -> None:
    """TOAST; and PostgreSQL's infinities, for which there is no date."""
    schema = columns(id="int", body="string", n="int", d="long", ts="long", num="decimal(10, 2)")
    for name in ("pg.docs", "pgs.docs"):
        found = decode(captured(name), schema, loose(schema))
        body = found.rows.column("body").to_pylist()
        assert body[0].startswith("c4ca4238a0b923820dcc509a6f75849b")
        assert body[1:] == [None, None]
        assert found.rows.column("n").to_pylist() == [1, 2, None]
        assert found.rows.column("num").to_pylist() == [Decimal("1.50"), Decimal("1.50"), None]
        assert found.order.column("holes").to_pylist() == [None, b"\x02", None]
        dates = columns(id="int", body="string", n="int", d="date", ts="timestamp", num="decimal(10, 2)")
        bad = decode(captured(name), dates, DebeziumFormat(columns=dates, units={"*": "us"})).bad
        assert [(one.index, one.field, one.fault) for one in bad] == [
            (0, "d", Fault.TYPE),
            (1, "d", Fault.TYPE),
        ]


def test_tables_without_a_key() -> None:
    for name in ("pg.nopk", "pgs.nopk"):
        shape = decode(captured(name)).shape
        assert shape is not None
        assert shape.key == ()
        found = decode(captured(name), columns(k="int", v="string"))
        assert rows(found) == [{"k": 1, "v": "a"}]


_MARIA = {
    "id": "int",
    "name": "string",
    "email": "string",
    "balance": "decimal(12, 2)",
    "active": "boolean",
    "d": "date",
    "t": "long",
    "dt": "timestamp",
    "dt6": "timestamp",
    "ts": "timestamptz",
    "e": "string",
    "s": "string",
    "j": "string",
    "b": "binary",
    "bits": "binary",
    "y": "int",
    "ubig": "decimal(20, 0)",
    "dbl": "double",
}


def test_mariadb_values() -> None:
    schema = columns(**_MARIA)
    found = decode(captured("maria.customers"), schema, loose(schema), transactions=True)
    alice: dict[str, Any] = {
        "id": 1,
        "name": "alice",
        "email": "a@x.io",
        "balance": Decimal("1234.56"),
        "active": True,
        "d": date(2024, 2, 29),
        "t": 47655123456,
        "dt": datetime(2024, 2, 29, 13, 14, 15, 123000),  # noqa: DTZ001
        "dt6": datetime(2024, 2, 29, 13, 14, 15, 123456),  # noqa: DTZ001
        "ts": datetime(2024, 2, 29, 13, 14, 15, 123456, UTC),
        "e": "x",
        "s": "p,r",
        "j": '{"k":[1,2]}',
        "b": bytes.fromhex("deadbeef"),
        "bits": b"\x01\x02",
        "y": 2024,
        # It comes as -1.
        "ubig": Decimal(2**64 - 1),
        "dbl": 1.5,
    }
    bob = dict.fromkeys(_MARIA) | {
        "id": 2,
        "name": "bob",
        "balance": Decimal("-0.01"),
        "active": True,
        "d": date(1969, 12, 31),
        "t": -3600_000_000,
        "dt": datetime(1969, 12, 31, 23, 59, 59, 999000),  # noqa: DTZ001
        "dt6": datetime(1969, 12, 31, 23, 59, 59, 999999),  # noqa: DTZ001
        "ubig": Decimal(0),
    }
    carol = dict.fromkeys(_MARIA) | {
        "id": 3,
        "name": "carol",
        "email": "c@x.io",
        "balance": Decimal("99999999.99"),
        "active": True,
        "dt": datetime(2025, 6, 1),  # noqa: DTZ001
        "ts": datetime(2025, 6, 1, tzinfo=UTC),
    }
    new_alice = alice | {"email": "alice@new.io", "balance": Decimal("1234.66")}
    assert rows(found) == [alice, bob, carol, new_alice, bob]
    assert order(found, "op", "line", "at0", "at1", "at2") == [
        (Op.READ, None, 0, 0, 0),
        (Op.READ, None, 0, 0, 0),
        (Op.CREATE, "gtid:0", 8, 3054, 0),
        (Op.UPDATE, "gtid:0", 9, 3495, 0),
        (Op.DELETE, "gtid:0", 12, 5057, 0),
    ]
    assert found.transactions is not None
    assert found.transactions.to_pylist() == [None, None, "0-7-8", "0-7-9", "0-7-12"]


def test_a_time_of_more_than_a_day_or_below_zero() -> None:
    """MariaDB has such; Iceberg has not. The delete of that row counts all the same."""
    schema = columns(**_MARIA | {"t": "time"})
    found = decode(captured("maria.customers"), schema, loose(schema))
    (bad,) = found.bad
    assert (bad.index, bad.field, bad.fault) == (1, "t", Fault.TYPE)
    last = found.rows.to_pylist()[-1]
    assert last == dict.fromkeys(_MARIA) | {"id": 2}


def test_mariadb_operations() -> None:
    schema = columns(**_ORDERS | {"amount": "decimal(10, 2)"})
    found = decode(captured("maria.orders"), schema, loose(schema))
    expected = [
        _order(1, 1, "9.99", "first"),
        _order(2, 2, "19.90", None),
        _order(3, 1, "100.00", "txn"),
        _order(1, 1, "9.99", "upd"),
        _order(2, 2, "19.90", None),
        _order(3, 1, "100.00", "txn"),
        _order(30, 1, "100.00", "txn"),
        _order(4, 1, "5.55", "after alter", "paid"),
    ]
    assert rows(found)[:8] == expected
    assert order(found, "op", "at0", "at1")[2:7] == [
        (Op.CREATE, 10, 3970),
        (Op.UPDATE, 10, 4177),
        (Op.DELETE, 10, 4396),
        (Op.DELETE, 11, 4666),
        (Op.CREATE, 11, 4666),
    ]


def test_a_new_table() -> None:
    raw = captured("maria.extra")
    assert shape_of(raw) == {"id": "long", "v": "string"}
    assert rows(decode(raw, columns(id="long", v="string"))) == [{"id": 1, "v": "new table"}]


def test_decimals_whose_scale_nobody_tells() -> None:
    """Schemas off, and no type declared: refused, with what can be done. Deletes need their key alone."""
    raw = captured("pg.orders")
    assert shape_of(raw) == {"id": "long", "customer_id": "long", "note": "string", "status": "string"}
    schema = columns(id="long", customer_id="long", note="string", status="string")
    found = decode(raw, schema)
    assert {(one.field, one.fault) for one in found.bad} == {("amount", Fault.TYPE)}
    assert "decimal.handling.mode" in found.bad[0].reason
    assert [row["id"] for row in found.rows.to_pylist()] == [2, 3]
    assert set(found.order.column("op").to_pylist()) == {Op.DELETE}


@pytest.mark.parametrize("name", ["maria.ddl", "pg.transaction", "pgs.transaction"])
def test_messages_that_are_no_changes(name: str) -> None:
    """About DDL and transactions: they make no table, unless it is said that they are rows."""
    found = decode(captured(name))
    assert (found.shape, found.bad) == (None, ())
    assert not len(decode(captured(name), columns(id="string")).rows)
    assert decode(captured(name), None, DebeziumFormat(envelope="flat")).shape is not None
