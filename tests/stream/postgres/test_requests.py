"""Somebody asks for the rows of a table, by a message in the log of the database."""

from __future__ import annotations

import base64
import json
import logging
import threading
from dataclasses import replace
from typing import Any, cast

import pytest
from tests.stream.postgres.remote import Refused, Remote, Shop
from tests.stream.postgres.test_follow import A, ops, series
from tests.stream.support import wait_until

from frazil.core.stamp import Stamp
from frazil.stream.postgres.database import Database
from frazil.stream.postgres.log import STREAM, Records, Schemas, TopicLog, TopicState
from frazil.stream.postgres.requests import REQUEST_PREFIX, asked
from frazil.stream.postgres.session import Session
from frazil.stream.postgres.source import Snapshot


def _rows(first: int, ids: range) -> list[tuple[str, int, int]]:
    return [("r", first + number, row) for number, row in enumerate(ids)]


def test_rows_come_again_in_their_place(shop: Shop, remote: Remote) -> None:
    shop.run(f"{A} {series(1, 4)}; CREATE TABLE b (id int PRIMARY KEY); INSERT INTO b VALUES (1)")
    remote.open(shop.source("public.*"))
    remote.ask("begin")
    remote.ask("take", count=5)
    remote.ask("land")
    shop.run("UPDATE a SET v = 'y' WHERE id = 1")
    remote.ask("ask", table="public.a")
    shop.run("DELETE FROM a WHERE id = 2; INSERT INTO a VALUES (5, 'new')")
    taken: list[Any] = []

    def all_taken() -> bool:
        taken.extend(remote.ask("take", count=1, seconds=0.2))
        remote.ask("land")
        return len(taken) >= 7

    wait_until(all_taken, "three changes and four rows")
    assert {record[0] for record in taken} == {f"{shop.name}.public.a"}, "of no other table"
    # Wherever the rows came: each change came once, and in the end every row is as in the database.
    assert [each for each in ops(taken) if each[0] != "r"] == [("u", 0, 1), ("d", 1, 2), ("c", 2, 5)]
    rows = [each for each in ops(taken) if each[0] == "r"]
    assert [number for _, number, _ in rows] == [4, 5, 6, 7]
    assert {row for *_, row in rows} == {1, 3, 4, 5}
    assert _after(taken) == {1: "y", 3: "x", 4: "x", 5: "new"}


def _after(records: list[Any]) -> dict[int, str]:
    found: dict[int, str] = {}
    for *_, key, value in records:
        after = value["payload"]["after"]
        found.pop(key["payload"]["id"], None)
        if after is not None:
            found[after["id"]] = after["v"]
    return found


def test_a_request_outlives_the_process_and_is_done_once(shop: Shop, remote: Remote) -> None:
    shop.run(f"{A} {series(1, 5)}")
    source = shop.source("public.a")
    remote.open(source)
    with pytest.raises(Refused, match=r"NotFound.*has not run yet"):
        remote.ask("ask", table="public.a")
    remote.ask("begin")
    remote.ask("take", count=5)
    stamp = remote.ask("land")

    def again() -> None:
        remote.ask("close")
        remote.open(source)
        remote.ask("begin", stamp=stamp)

    remote.ask("close")
    # Nobody listens: the slot keeps it.
    remote.ask("ask", table="public.a")
    again()
    assert ops(remote.ask("take", count=2, most=2)) == _rows(5, range(1, 3))
    stamp = remote.ask("land")
    again()
    assert ops(remote.ask("take", count=5)) == _rows(7, range(1, 6)), "what was begun is done anew"
    stamp = remote.ask("land")
    again()
    shop.run("UPDATE a SET v = 'y' WHERE id = 1")
    assert ops(remote.ask("take", count=1)) == [("u", 0, 1)], "and not once more"


def test_rows_come_while_transactions_never_stop(shop: Shop, remote: Remote) -> None:
    shop.run(f"{A} {series(1, 200)}")
    remote.open(shop.source("public.a"), whole=True)
    remote.ask("begin")
    remote.ask("take", count=200)
    remote.ask("land")
    over = threading.Event()

    def work() -> None:
        # One connection: there is always a transaction that has just begun to arrive.
        turn = "UPDATE a SET v = i::text WHERE id % 100 = i % 100; COMMIT; PERFORM pg_sleep(0.001);"
        while not over.is_set():
            shop.run(f"DO $$ BEGIN FOR i IN 1..500 LOOP {turn} END LOOP; END $$")

    busy = threading.Thread(target=work)
    busy.start()
    taken: list[Any] = []

    def rows_came() -> bool:
        some = remote.ask("take", count=1, seconds=0.2)
        remote.ask("land")
        changes = [record for record in some if record[1] == STREAM]
        assert len(changes) % 2 == 0, "each transaction has two"
        taken.extend(some)
        return sum(op == "r" for op, *_ in ops(taken)) == 200

    try:
        remote.ask("take", count=2)
        remote.ask("land")
        remote.ask("ask", table="public.a")
        wait_until(rows_came, "the rows that were asked for")
    finally:
        over.set()
        busy.join()


def _of_a(records: list[Any]) -> list[Any]:
    return [record for record in records if record[0].endswith(".a")]


def test_the_slot_waits_until_a_request_is_on_record(shop: Shop, remote: Remote) -> None:
    shop.run(f"{A} {series(1, 3)}; CREATE TABLE b (id int PRIMARY KEY)")
    source = shop.source("public.*", snapshot=Snapshot.NEVER)
    remote.open(source)
    remote.ask("begin")
    remote.ask("take", count=0)
    shop.run("INSERT INTO b VALUES (1)")
    remote.ask("take", count=1)
    stamps = [remote.ask("land")]
    remote.ask("ask", table="public.a")
    at = shop.log_end()
    shop.run("INSERT INTO b VALUES (2)")

    def rows_come() -> bool:
        if _of_a(remote.ask("take", count=1, seconds=0.2)):
            return True
        stamps.append(remote.ask("land"))
        return False

    wait_until(rows_come, "the rows that were asked for")
    stamp = stamps[-1]
    assert shop.confirmed() < at, "changes of the other table have landed, the rows have not"
    remote.ask("close")
    remote.open(source)
    remote.ask("begin", stamp=stamp)
    while not _of_a(remote.ask("take", count=1, most=1)):
        remote.ask("land")
    stamp = remote.ask("land")
    remote.ask("close")
    remote.open(source)
    remote.ask("begin", stamp=stamp)
    # Nothing of it lands, so that each time all comes that is there by then.
    wait_until(lambda: len(_of_a(remote.ask("take", count=1, seconds=0.2))) >= 3, "the rows, all anew")
    rows = ops(_of_a(remote.ask("take", count=3)))
    assert rows == _rows(1, range(1, 4)), "one of them is not all of them"
    remote.ask("land")
    shop.run("INSERT INTO b VALUES (3)")
    remote.ask("take", count=1)
    remote.ask("land")
    assert shop.moves_past(at)


def test_what_is_not_for_it_changes_nothing(shop: Shop, remote: Remote) -> None:
    shop.run(f"{A} {series(1, 2)}")
    remote.open(shop.source("public.a"))
    remote.ask("begin")
    remote.ask("take", count=2)
    remote.ask("land")
    mine = f"frazil_{shop.name}"
    contents: list[object] = [
        {"slot": "frazil_other", "schema": "public", "table": "a"},
        {"slot": mine, "schema": "public", "table": "nowhere"},
        {"slot": mine, "schema": "public", "table": "a", "more": 1},
        {"slot": mine, "schema": "public"},
        [],
    ]
    for content in contents:
        shop.run(f"SELECT pg_logical_emit_message(true, '{REQUEST_PREFIX}', '{json.dumps(content)}')")
    shop.run("SELECT pg_logical_emit_message(true, 'frazil.snapshot', '\\xff00'::bytea)")
    shop.run("UPDATE a SET v = 'y' WHERE id = 2")
    assert ops(remote.ask("take", count=1)) == [("u", 0, 2)]
    remote.ask("land")
    # A bounded run ends when the rows that were asked for before it have landed.
    remote.ask("ask", table="public.a")
    remote.ask("goal")
    assert '"next":[1,4]' in remote.ask("land")
    # An empty table has nothing to land: the run ends all the same, and the slot goes on.
    shop.run("DELETE FROM a")
    remote.ask("ask", table="public.a")
    at = shop.log_end()
    remote.ask("goal")
    shop.run("INSERT INTO a VALUES (7, 'x')")
    assert ops(remote.ask("take", count=1)) == [("c", 3, 7)]
    remote.ask("land")
    assert shop.moves_past(at)


def _message(content: str, prefix: str = REQUEST_PREFIX) -> bytes:
    source = {"sequence": '["70","77"]'}
    message = {"prefix": prefix, "content": content}
    return json.dumps({"op": "m", "source": source, "message": message}, separators=(",", ":")).encode()


def test_contents_are_written_as_columns_of_bytes_are(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    text = json.dumps({"slot": f"frazil_{shop.name}", "schema": "s", "table": "ü>?"}).encode()
    codes = {
        "hex": text.hex(),
        "base64-url-safe": base64.urlsafe_b64encode(text).decode(),
        "bytes": base64.b64encode(text).decode(),
    }
    for mode, written in codes.items():
        source = shop.source("s.*", properties={"binary.handling.mode": mode})
        found = asked(source, _message(written))
        assert found is not None
        assert (found[0].table, *found[1:]) == ("ü>?", 70, 77)
    assert asked(shop.source("s.*"), _message("", "frazil")) is None
    assert not caplog.records
    with caplog.at_level(logging.WARNING):
        assert asked(shop.source("s.*"), _message("%%")) is None
    assert "cannot be read is left out" in caplog.text


def test_a_request_that_came_while_rows_were_read_is_not_done_with_them() -> None:
    log = TopicLog("1", [0, 0], None, done=True)
    log.ask(70, 77)
    log.begin()
    log.ask(80, 88)
    log.end()
    state = TopicState.of(log.position(None, 90))
    assert (state.done, state.asked, log.bound(90)) == (False, 88, 70)
    log.begin()
    log.end()
    assert (TopicState.of(log.position(None, 90)).done, log.bound(90)) == (True, 90)
    log.ask(80, 88)
    assert not log.asking, "it was heard before"


def test_a_transaction_larger_than_the_memory_for_it_comes_to_its_end(shop: Shop) -> None:
    source = replace(shop.source("public.a"), buffer_bytes=1)
    stamp = Stamp(pipeline="p", epoch=1, round=0, token="t", source="s", positions={})
    log = TopicLog("1", [0, 0], None, done=True, found=True)
    log.streamed(Records([None] * 2, [b"{}"] * 2, Schemas(b"{}"), 0, [70, 70], [75, 77]))
    for whole, told, full in ((False, 70, True), (True, 70, False), (True, 80, True)):
        session = Session(source, Database(source), stamp, whole_transactions=whole)
        session._logs, session._told = {"a": log}, told
        assert session._full == full


def test_a_run_has_not_caught_up_while_a_request_waits(shop: Shop) -> None:
    source = shop.source("public.a")
    stamp = Stamp(pipeline="p", epoch=1, round=0, token="t", source="s", positions={})
    session = Session(source, Database(source), stamp)
    log = TopicLog("1", [0, 0], None, done=True)
    session._logs, session._stream, session.boundary = {"a": log}, cast("Any", object()), 90
    assert session.caught_up_to == 90
    log.ask(70, 77)
    assert session.caught_up_to == 0
