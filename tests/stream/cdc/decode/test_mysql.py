"""MySQL's changes as Debezium documents them, decoded and put into the order of the server's log."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from tests.stream.cdc.changing import Event
from tests.stream.cdc.decode.connect import field, struct
from tests.stream.cdc.decode.messages import bare, batch, columns, decode, shape_of, with_schema
from tests.stream.cdc.mysql import SERVER, MySqlTable

from frazil.core.changes import Op
from frazil.core.errors import SourceChanged
from frazil.core.stamp import Mark
from frazil.stream.cdc.changes import Changes
from frazil.stream.cdc.order import admit
from frazil.stream.source import RawBatch

_COLUMNS = columns(id="int", word="string")
_T, _D, _C = "io.debezium.time.", "io.debezium.data.", "org.apache.kafka.connect.data."
_SERVERS = [pytest.param(SERVER, id="gtids"), pytest.param(f"{SERVER}:blue", id="tagged"), None]


def records(events: Sequence[Event]) -> RawBatch:
    headers = [[(name, text.decode()) for name, text in more.items()] for *_, more in events]
    return batch([value for _, value, _ in events], [key for key, *_ in events], headers)


def counted(
    events: Sequence[Event], mark: Mark | None = None
) -> tuple[list[tuple[Op, int | None]], Mark | None]:
    """What is done to which row by the changes that count, and the mark behind them."""
    found = decode(records(events), _COLUMNS)
    assert not found.bad
    rows, after = admit(found.order, mark, "customers-0")
    pairs = _done(found)
    return pairs if rows is None else [pairs[row] for row in rows], after


def _done(found: Changes) -> list[tuple[Op, int | None]]:
    ops, ids = found.order.column("op").to_pylist(), found.rows.column("id").to_pylist()
    return [(Op(op), number) for op, number in zip(ops, ids, strict=True)]


def worked(gtids: str | None) -> MySqlTable:
    """A table with changes of every kind, in three files of the log; its snapshot has been read."""
    source = MySqlTable(gtids=gtids, file=999_998)
    source.read(id=1, word="floe")
    source.read(id=2, word="nilas")
    with source.transaction():
        source.put(id=3, word="grease")
        source.put(id=1, word="floes")
        source.delete(2)
    source.rotate()
    source.insert({"id": 4, "word": "a"}, {"id": 5, "word": "b"}, {"id": 6, "word": "c"})
    source.change_key((3,), id=30, word="grease")
    source.rotate()
    source.truncate()
    source.put(id=7, word="after")
    return source


@pytest.mark.parametrize("gtids", _SERVERS)
def test_every_kind_of_change(gtids: str | None) -> None:
    source = worked(gtids)
    found = decode(records(source.events), _COLUMNS)
    assert not found.bad
    assert _done(found) == [
        (Op.READ, 1),
        (Op.READ, 2),
        (Op.CREATE, 3),
        (Op.UPDATE, 1),
        (Op.DELETE, 2),
        *((Op.CREATE, number) for number in (4, 5, 6)),
        (Op.DELETE, 3),
        (Op.CREATE, 30),
        (Op.TRUNCATE, None),
        (Op.CREATE, 7),
    ]
    # Tombstones change nothing; a delete has the row as it was.
    assert [100 + number for number, event in enumerate(source.events) if event[1] is None] == [105, 110]
    assert found.order.column("offset").to_pylist() == [*range(100, 105), *range(106, 110), 111, 112, 113]
    assert found.rows.to_pylist()[4] == {"id": 2, "word": "nilas"}
    line, first = (f"gtid:{gtids}", 21) if gtids else ("binlog:223344", 999_998)
    order = found.order.to_pylist()
    assert [row["line"] for row in order] == [None] * 2 + [line] * 10
    numbers = [row["at0"] - first for row in order[2:]]
    assert numbers == ([0, 0, 0, 1, 1, 1, 2, 2, 3, 4] if gtids else [0, 0, 0, *[1] * 5, 2, 2])
    places = [(row["at0"], row["at1"], row["at2"]) for row in order[2:]]
    assert places == sorted(places)
    # One statement, one event: its rows are told apart by their number in it.
    assert [at2 for _, _, at2 in places[3:6]] == [0, 1, 2]
    # Both halves of a changed key are one place.
    assert places[6] == places[7]


@pytest.mark.parametrize("gtids", _SERVERS)
def test_what_comes_again_is_left_out(gtids: str | None) -> None:
    """From wherever a connector goes back to: all is below the mark but what is the mark."""
    order = decode(records(worked(gtids).events), _COLUMNS).order
    _, mark = admit(order, None, "customers-0")
    for stopped in range(2, len(order) + 1):
        _, at = admit(order.slice(0, stopped), None, "customers-0")
        for back in range(2, stopped + 1):
            kept, end = admit(order.slice(back), at, "customers-0")
            rows = list(range(back, len(order))) if kept is None else (kept + back).tolist()
            assert end == mark
            assert [row for row in rows if row >= stopped] == list(range(stopped, len(order)))
            # The last change before it stopped, which is not below itself; of a changed key both halves.
            assert len(rows) - (len(order) - stopped) <= 2


@pytest.mark.parametrize("gtids", [SERVER, None], ids=["gtids", "files"])
def test_a_log_that_begins_anew(gtids: str | None) -> None:
    source = worked(gtids)
    _, mark = counted(source.events)
    source.events.clear()
    source.reset()
    source.put(id=8, word="lost")
    with pytest.raises(SourceChanged, match=r"behind customers-0 was reset.*younger"):
        counted(source.events, mark)


def _another_server(source: MySqlTable) -> None:
    source.server_id += 1


def _other_numbers(source: MySqlTable) -> None:
    source.gtids = SERVER.replace("3e11", "4f22")


def _no_more_gtids(source: MySqlTable) -> None:
    source.gtids = None


@pytest.mark.parametrize(
    ("gtids", "change"),
    [(None, _another_server), (SERVER, _other_numbers), (SERVER, _no_more_gtids)],
    ids=["server", "primary", "mode"],
)
def test_changes_that_are_counted_by_something_else(
    gtids: str | None, change: Callable[[MySqlTable], None]
) -> None:
    source = worked(gtids)
    change(source)
    source.put(id=8, word="elsewhere")
    with pytest.raises(SourceChanged, match="its changes were counted by"):
        counted(source.events)


def test_a_replica_goes_on_where_its_primary_ended() -> None:
    """With GTIDs, files and places of another server do not matter."""
    source = worked(SERVER)
    done, mark = counted(source.events)
    source.events.clear()
    source.file, source.pos, source.server_id = 1, 4, 5
    source.put(id=8, word="on")
    source.delete(8)
    after, _ = counted(source.events, mark)
    assert len(done) == 12
    assert after == [(Op.CREATE, 8), (Op.DELETE, 8)]


def _decimal(scale: int, precision: int) -> dict[str, Any]:
    more = {"scale": str(scale), "connect.decimal.precision": str(precision)}
    return field("bytes", f"{_C}Decimal", **more)


#: Column: Connect's type, a value on the wire, the table's type and the value there.
_KINDS: dict[str, tuple[dict[str, Any], Any, str, Any]] = {
    "id": (field("int32"), 1004, "int", 1004),
    "first_name": (field("string"), "Anne Marie", "string", "Anne Marie"),
    "active": (field("int16"), 1, "int", 1),
    "flag": (field("boolean"), True, "boolean", True),
    "bits": (field("bytes", f"{_D}Bits", length="10"), "qQI=", "string", "1010101001"),
    "credit": (_decimal(2, 10), "AeJA", "decimal(10, 2)", Decimal("1234.56")),
    # As `bigint.unsigned.handling.mode=precise` sends it.
    "ubig": (_decimal(0, 20), "AP//////////", "decimal(20, 0)", Decimal(2**64 - 1)),
    "born": (field("int32", f"{_T}Date"), 19782, "date", date(2024, 2, 29)),
    # Spark has no times: a table that is made of the messages has them as text.
    "wakes": (field("int64", f"{_T}MicroTime"), 47655000000, "string", "13:14:15.000000"),
    "seen": (
        field("int64", f"{_T}Timestamp"),
        1709212455123,
        "timestamp",
        datetime(2024, 2, 29, 13, 14, 15, 123000),  # noqa: DTZ001 - the database's own
    ),
    "seen6": (
        field("int64", f"{_T}MicroTimestamp"),
        1709212455123456,
        "timestamp",
        datetime(2024, 2, 29, 13, 14, 15, 123456),  # noqa: DTZ001
    ),
    "zoned": (
        field("string", f"{_T}ZonedTimestamp"),
        "2024-02-29T11:14:15Z",
        "timestamptz",
        datetime(2024, 2, 29, 11, 14, 15, tzinfo=UTC),
    ),
    "born_in": (field("int32", f"{_T}Year"), 1998, "int", 1998),
    "mood": (field("string", f"{_D}Enum", allowed="glad,sad"), "sad", "string", "sad"),
    "flags": (field("string", f"{_D}EnumSet", allowed="p,q"), "p,q", "string", "p,q"),
    "doc": (field("string", f"{_D}Json"), '{"a":1}', "string", '{"a":1}'),
    "raw": (field("bytes"), "3q2+7w==", "binary", b"\xde\xad\xbe\xef"),
}


_TEXTS = ("version", "connector", "name", "snapshot", "db", "sequence", "table", "gtid", "file", "query")


def _documented(op: str, before: Any, after: Any) -> tuple[str, str]:
    """Key and value, both with their schemas."""
    row = {name: kind for name, (kind, *_) in _KINDS.items()}
    source = MySqlTable().source(op)
    block = {name: field("string" if name in _TEXTS else "int64") for name in source}
    block |= {"row": field("int32"), "snapshot": field("string", f"{_D}Enum", allowed="true,false")}
    schema = struct(
        "dbserver1.inventory.customers.Envelope",
        before=struct("dbserver1.inventory.customers.Value", **row),
        after=struct("dbserver1.inventory.customers.Value", **row),
        source=struct("io.debezium.connector.mysql.Source", **block),
        transaction=struct("event.block", id=field("string"), total_order=field("int64")),
        op=field("string"),
        ts_ms=field("int64"),
    )
    payload = {"before": before, "after": after, "source": source, "transaction": None, "op": op, "ts_ms": 1}
    key = with_schema(struct("dbserver1.inventory.customers.Key", id=field("int32")), {"id": 1004})
    return key, with_schema(schema, payload)


def test_messages_with_their_schemas() -> None:
    wire = {name: value for name, (_, value, *_) in _KINDS.items()}
    truth = {name: value for name, (*_, value) in _KINDS.items()}
    nulls = dict.fromkeys(wire) | {"id": 1004}
    sent = [
        _documented("r", None, wire),
        _documented("c", None, wire),
        _documented("u", wire, nulls),
        _documented("d", wire, None),
        (_documented("t", None, None)[1], _documented("t", None, None)[1]),
    ]
    raw = batch([value for _, value in sent], [*(key for key, _ in sent[:-1]), None])
    expected = {name: kind for name, (_, _, kind, _) in _KINDS.items()}
    assert shape_of(raw) == expected
    found = decode(raw, columns(**expected))
    assert not found.bad
    assert found.order.column("op").to_pylist() == [Op.READ, Op.CREATE, Op.UPDATE, Op.DELETE, Op.TRUNCATE]
    assert found.rows.to_pylist() == [truth, truth, nulls, truth, dict.fromkeys(truth)]


def test_flat_rows_with_their_places() -> None:
    """As ExtractNewRecordState leaves them if it is to rewrite deletes and to add what tells the place."""
    source = worked(SERVER)
    plain, raw = [], []
    for key, value, _ in source.events:
        event = json.loads(value or b"{}")
        row = event and (event["after"] or event["before"])
        if row:
            plain.append((key, value))
            more = {f"__source_{name}": event["source"][name] for name in _ADDED}
            deleted = str(event["op"] == "d").lower()
            raw.append((key, bare({**row, "__op": event["op"], **more, "__deleted": deleted})))
    both = [
        decode(batch([value for _, value in each], [key for key, _ in each]), _COLUMNS)
        for each in (plain, raw)
    ]
    assert not both[1].bad
    assert len(both[1].order) == 11
    assert both[1].order.equals(both[0].order)
    assert both[1].rows.equals(both[0].rows)


_ADDED = ("ts_ms", "gtid", "file", "pos", "row", "server_id")
