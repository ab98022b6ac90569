"""A database followed by real engines."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from tests.stream.postgres.remote import Refused, Remote, Shop
from tests.stream.support import wait_until

from frazil.devstack.postgres import Postgres

A = "CREATE TABLE a (id int PRIMARY KEY, v text);"


def ops(records: list[Any]) -> list[tuple[str, int, Any]]:
    """Operation, number and key of each record."""
    return [
        (value["payload"]["op"], offset, key and key["payload"]["id"]) for _, _, offset, key, value in records
    ]


def series(first: int, last: int) -> str:
    return f"INSERT INTO a SELECT g, 'x' FROM generate_series({first}, {last}) g"


def test_rows_then_changes_and_the_slot_moves_only_behind_what_landed(shop: Shop, remote: Remote) -> None:
    shop.run(f"{A} {series(1, 5)}")
    # The server hears from the engine all the time: not what it received may count, but what landed.
    remote.open(shop.source("public.a", properties={"status.update.interval.ms": "100"}))
    remote.ask("begin")
    assert ops(remote.ask("take", count=5)) == [("r", n, n + 1) for n in range(5)]
    remote.ask("land")
    at = shop.confirmed()
    shop.run("UPDATE a SET v = 'y' WHERE id = 1")
    shop.run("DELETE FROM a WHERE id = 2")
    shop.run("TRUNCATE a")
    records = remote.ask("take", count=3)
    assert ops(records) == [("u", 0, 1), ("d", 1, 2), ("t", 2, None)]
    assert {topic for topic, *_ in records} == {f"{shop.name}.public.a"}
    # With its schema: types can be told.
    assert records[0][4]["schema"]["name"] == f"{shop.name}.public.a.Envelope"
    assert records[0][3]["schema"]["fields"][0]["type"] == "int32"
    # Rounds that do not land, heartbeats and time do not move it.
    assert len(remote.ask("take", count=4, seconds=2)) == 3
    assert shop.confirmed() == at
    remote.ask("land")
    assert shop.moves_past(at)


def test_changes_go_on_exactly_where_the_first_rows_end(shop: Shop, remote: Remote) -> None:
    """What a row does not say of itself (large values that did not change) is found only so."""
    shop.run(f"{A} {series(1, 200)}")
    remote.open(shop.source("public.a"))
    over = threading.Event()

    def work() -> None:
        for turn in range(10_000):
            if over.is_set():
                return
            shop.run(
                f"BEGIN; DELETE FROM a WHERE id = {turn + 1}; UPDATE a SET id = {turn + 1} WHERE id = "
                f"{turn + 2}; INSERT INTO a VALUES ({turn + 201}, 'x'); COMMIT"
            )

    rows: set[int] = set()
    busy = threading.Thread(target=work)
    busy.start()
    try:
        remote.ask("begin")
        changes = 0
        while changes < 300:
            for op, _, key in ops(remote.ask("take", count=1, most=40)):
                # A change of the rows as they are by now; nothing that they have in them already.
                assert (key in rows) == (op in "du"), (op, key, sorted(rows))
                (rows.discard if op == "d" else rows.add)(key)
                changes += op != "r"
            remote.ask("land")
    finally:
        over.set()
        busy.join()


def test_a_killed_process_goes_on_in_the_middle_of_a_transaction(
    shop: Shop, remotes: Callable[[], Remote]
) -> None:
    # Both have a row from the start: of a table of which nothing has landed, all rows would be read anew.
    shop.run(f"{A} CREATE TABLE b (id int PRIMARY KEY); {series(0, 0)}; INSERT INTO b VALUES (0)")
    source = shop.source("public.*")
    first = remotes()
    first.open(source)
    first.ask("begin")
    assert ops(first.ask("take", count=2)) == [("r", 0, 0)] * 2
    first.ask("land")
    shop.run(f"BEGIN; {series(1, 10)}; INSERT INTO b VALUES (1); COMMIT")
    shop.run(f"BEGIN; {series(11, 13)}; INSERT INTO b VALUES (2); COMMIT")
    taken = first.ask("take", count=8, most=8)
    stamp = first.ask("land")
    assert len(first.ask("take", count=7)) == 7
    first.kill()
    shop.let_go()
    # What was planned and did not land comes again; what landed does not.
    second = remotes()
    second.open(source)
    second.ask("begin", stamp=stamp)
    taken += second.ask("take", count=7)
    for name, ids in (("a", range(1, 14)), ("b", (1, 2))):
        mine = [record for record in taken if record[0] == f"{shop.name}.public.{name}"]
        assert ops(mine) == [("c", number, row) for number, row in enumerate(ids)]
    stamp = second.ask("land")
    second.kill()
    shop.let_go()
    shop.run("INSERT INTO a VALUES (14, 'z')")
    third = remotes()
    third.open(source)
    third.ask("begin", stamp=stamp)
    assert ops(third.ask("take", count=1)) == [("c", 13, 14)]


def test_a_new_table_and_new_columns_while_running(shop: Shop, remote: Remote) -> None:
    shop.run(f"{A} CREATE TABLE keyless (id int)")
    remote.open(shop.source("public.*"))
    remote.ask("begin")
    shop.run("INSERT INTO a VALUES (1, 'x')")
    remote.ask("take", count=1)
    remote.ask("land")
    shop.run("CREATE TABLE b (id int PRIMARY KEY, w text); INSERT INTO b VALUES (1, 'old')")
    # Updates of it would fail were it in the publication.
    shop.run("INSERT INTO keyless VALUES (1); UPDATE keyless SET id = 2")
    records = remote.ask("take", count=1)
    assert [(record[0], record[1], record[4]["payload"]["op"]) for record in records] == [
        (f"{shop.name}.public.b", 1, "r")
    ]
    remote.ask("land")
    shop.run("UPDATE b SET w = 'new'; ALTER TABLE b ADD COLUMN n int; INSERT INTO b VALUES (2, 'y', 7)")
    records = remote.ask("take", count=2)
    assert ops(records) == [("u", 0, 1), ("c", 1, 2)]
    assert [record[4]["payload"]["after"] for record in records] == [
        {"id": 1, "w": "new"},
        {"id": 2, "w": "y", "n": 7},
    ]
    columns = [[f["field"] for f in record[4]["schema"]["fields"][1]["fields"]] for record in records]
    assert columns == [["id", "w"], ["id", "w", "n"]]
    remote.ask("land")
    shop.run("DROP TABLE b; CREATE TABLE b (id int PRIMARY KEY); INSERT INTO b VALUES (3)")
    shop.run('CREATE TABLE "c d" (id int PRIMARY KEY); CREATE TABLE c_d (id int PRIMARY KEY)')
    shop.run("INSERT INTO a VALUES (2, 'z')")
    # The others go on.
    records = remote.ask("take", count=1)
    assert [(record[0], record[3]["payload"]["id"]) for record in records] == [(f"{shop.name}.public.a", 2)]
    wait_until(lambda: remote.ask("take", count=1) and len(remote.ask("troubles")) == 2, "both troubles")
    found = remote.ask("troubles")
    assert re.match(r"SourceChanged.*public.b was dropped and made again", found[f"{shop.name}.public.b"])
    assert re.match(r"InvalidConfig.*share the topic", found[f"{shop.name}.public.c_d"])


def test_a_snapshot_that_was_not_finished_begins_anew(shop: Shop, remote: Remote) -> None:
    shop.run(f"{A} {series(1, 5)}")
    source = shop.source("public.a")
    remote.open(source)
    remote.ask("begin")
    assert ops(remote.ask("take", count=3, most=3)) == [("r", n, n + 1) for n in range(3)]
    stamp = remote.ask("land")
    remote.ask("close")
    # One of the rows that landed: only its delete can take it away again.
    shop.run("DELETE FROM a WHERE id = 2")
    remote.open(source)
    remote.ask("begin", stamp=stamp)
    rows = remote.ask("take", count=4)
    assert ops(rows) == [("r", number, row) for number, row in zip(range(3, 7), (1, 3, 4, 5), strict=True)]
    stamp = remote.ask("land")
    assert ops(remote.ask("take", count=1)) == [("d", 0, 2)]
    remote.ask("close")
    remote.open(source)
    remote.ask("begin", stamp=stamp)
    assert ops(remote.ask("take", count=1)) == [("d", 0, 2)]
    # The server goes away and comes back: the next plan that finds it goes on.
    shop.server.restart()
    shop.run("DELETE FROM a WHERE id = 3")
    with pytest.raises(Refused, match="Unavailable"):
        remote.ask("take", count=2)
    found: list[Any] = []

    def went_on() -> bool:
        with suppress(Refused):
            found.extend(remote.ask("take", count=2))
        return bool(found)

    wait_until(went_on, "the server that is back")
    assert ops(found) == [("d", 0, 2), ("d", 1, 3)]


def test_a_bounded_run_ends_and_an_idle_slot_is_moved(shop: Shop, remote: Remote) -> None:
    shop.run(f"{A} {series(1, 1000)}")
    source = shop.source("public.a")
    remote.open(source)
    remote.ask("begin")
    remote.ask("goal")
    at = shop.log_end()
    # What other tables write: the server would keep it all for the slot.
    noise = "pg_logical_emit_message(false, 'other', repeat('x', 1000000))"
    shop.run(f"SELECT count({noise}) FROM generate_series(1, 20)")

    def moved() -> bool:
        remote.ask("take", count=1, seconds=0.1)
        return shop.confirmed() > at

    wait_until(moved, "the slot that is moved on")
    stamp = remote.ask("land")
    remote.ask("close")
    # That it was frazil itself is known afterwards.
    remote.open(source)
    remote.ask("begin", stamp=stamp)
    shop.run("UPDATE a SET v = 'y' WHERE id = 5")
    assert ops(remote.ask("take", count=1)) == [("u", 0, 5)]
    stamp = remote.ask("land")
    remote.ask("close")
    slot = f"frazil_{shop.name}"
    shop.run(f"UPDATE a SET v = 'lost'; SELECT pg_replication_slot_advance('{slot}', pg_current_wal_lsn())")
    remote.open(source)
    remote.ask("begin", stamp=stamp)
    with pytest.raises(Refused, match=r"SourceChanged.*was moved on by somebody else, or made anew"):
        remote.ask("take", count=1)
    shop.run(f"SELECT pg_drop_replication_slot('{slot}')")
    with pytest.raises(Refused, match=f"SourceChanged.*the slot {slot} is gone"):
        remote.ask("take", count=1)
    other = stamp.replace("postgresql:", "postgresql:9")
    remote.ask("begin", stamp=other)
    with pytest.raises(Refused, match=r"SourceChanged.*restored or failed over"):
        remote.ask("take", count=1)


def _begin(remote: Remote) -> None:
    remote.ask("begin")
    remote.ask("take", count=1)


def test_settings_that_cannot_work(
    shop: Shop, remote: Remote, remotes: Callable[[], Remote], postgres: Postgres
) -> None:
    shop.run(f"{A} CREATE TABLE keyless (id int)")

    def refused(match: str, *tables: str, **settings: Any) -> None:
        remote.open(shop.source(*(tables or ("public.a",)), **settings))
        with pytest.raises(Refused, match=match) as caught:
            _begin(remote)
        assert "s3cret" not in caught.value.message
        remote.ask("close")

    refused("NotAllowed.*password", password="s3cret-wrong")
    refused("InvalidConfig.*nowhere", database="nowhere")
    refused("Unavailable", port=1)
    refused("InvalidConfig.*public.keyless cannot be followed: it has no primary key", "public.keyless")
    shop.run("CREATE ROLE plain LOGIN PASSWORD 's3cret'")
    refused("NotAllowed.*may not follow changes.*REPLICATION", user="plain", password="s3cret")
    shop.run("ALTER ROLE plain REPLICATION")
    refused("InvalidConfig.*may not read it: GRANT SELECT", user="plain", password="s3cret")
    shop.run("GRANT SELECT ON a TO plain")
    refused("NotAllowed.*let the tables' owner run: CREATE PUBLICATION", user="plain", password="s3cret")
    other = Shop(postgres, f"{shop.name}_replica")
    remote.open(other.source("public.a"))
    with pytest.raises(Refused, match=r"InvalidConfig.*wal_level = replica.*logical"):
        remote.ask("begin")
    # With a publication of somebody else's making, these rights are enough.
    slot = f"frazil_{shop.name}"
    shop.run(f"CREATE PUBLICATION {slot} FOR TABLE a; INSERT INTO a VALUES (1, 'x')")
    remote.open(shop.source("public.a", user="plain", password="s3cret"))
    stamp = remote.ask("begin")
    assert ops(remote.ask("take", count=1)) == [("r", 0, 1)]
    remote.ask("land")
    shop.run("INSERT INTO a VALUES (2, 'x')")
    assert ops(remote.ask("take", count=1)) == [("c", 0, 2)]
    rival = remotes()
    rival.open(shop.source("public.a"))
    rival.ask("begin", stamp=stamp)
    with pytest.raises(Refused, match=f"Unavailable.*another process is reading the slot {slot}"):
        rival.ask("take", count=1)
