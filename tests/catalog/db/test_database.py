"""What the catalog relies on is the same on both databases."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from frazil.catalog import db
from frazil.catalog.db import Database, ForeignKeyViolation, UniqueViolation
from frazil.catalog.db.connect import masked
from frazil.core.errors import InvalidConfig, ServiceError

INSERT = "INSERT INTO child (id, parent, place, number) VALUES ($1, $2, $3, $4)"


async def count(database: Database, table: str = "child") -> int:
    row = await database.fetchrow(f"SELECT count(*) FROM {table}")
    assert row is not None
    return int(row[0])


@pytest.fixture
async def filled(database: Database) -> Database:
    await database.execute("INSERT INTO parent VALUES ($1)", "p")
    assert await database.execute(INSERT, "a", "p", "here", 2**63 - 1) == 1
    return database


async def test_rows_come_back_as_they_were_sent(filled: Database) -> None:
    strange = "quote ' \" \\ % $1 ? 🧊 e\u0301 \u202e"
    await filled.execute(INSERT, strange, "p", None, -(2**63))
    row = await filled.fetchrow("SELECT id, place, number FROM child WHERE id = $1", strange)
    assert row is not None
    assert (row["id"], row[1], row["number"]) == (strange, None, -(2**63))
    assert await filled.fetchrow("SELECT 1 FROM child WHERE id = $1", "none") is None
    rows = await filled.fetch("SELECT number FROM child ORDER BY number")
    assert [row[0] for row in rows] == [-(2**63), 2**63 - 1]


async def test_execute_counts_rows(filled: Database) -> None:
    await filled.execute(INSERT, "b", "p", "there", 1)
    assert await filled.execute("UPDATE child SET number = $1", 7) == 2
    assert await filled.execute("UPDATE child SET number = $1 WHERE id = $2", 7, "none") == 0
    assert await filled.execute("DELETE FROM child") == 2


async def test_parameters_may_repeat_and_come_in_any_order(filled: Database) -> None:
    row = await filled.fetchrow("SELECT id FROM child WHERE place = $2 AND id = $1 AND id = $1", "a", "here")
    assert row is not None


async def test_a_unique_violation_names_table_and_column(filled: Database) -> None:
    with pytest.raises(UniqueViolation) as caught:
        await filled.execute(INSERT, "b", "p", "here", 1)
    assert caught.value.constraint == "child.place"
    async with filled.transaction() as connection:
        assert await connection.execute(INSERT, "c", "p", "third", 1) == 1
    assert await count(filled) == 2


async def test_a_foreign_key_violation_both_ways(filled: Database) -> None:
    with pytest.raises(ForeignKeyViolation):
        await filled.execute(INSERT, "b", "none", "x", 1)
    with pytest.raises(ForeignKeyViolation):
        await filled.execute("DELETE FROM parent WHERE id = $1", "p")
    assert await count(filled, "parent") == 1


async def insert_all(database: Database, *rows: tuple[str, str, str], fail: bool = False) -> None:
    async with database.transaction() as connection:
        for number, row in enumerate(rows, 1):
            await connection.execute(INSERT, *row, 1)
            found = await connection.fetchrow("SELECT count(*) FROM child")
            assert found is not None
            assert found[0] == 1 + number, "a transaction sees its own rows"
        if fail:
            raise RuntimeError


async def test_violations_are_translated_inside_transactions_too(filled: Database) -> None:
    with pytest.raises(UniqueViolation):
        await insert_all(filled, ("b", "p", "other"), ("c", "p", "here"))
    with pytest.raises(ForeignKeyViolation):
        await insert_all(filled, ("b", "p", "other"), ("c", "none", "x"))
    assert await count(filled) == 1


async def test_a_block_that_raises_leaves_nothing(filled: Database) -> None:
    with pytest.raises(RuntimeError):
        await insert_all(filled, ("b", "p", "there"), fail=True)
    assert await count(filled) == 1
    await insert_all(filled, ("b", "p", "there"))
    assert await count(filled) == 2


async def test_a_cancelled_block_leaves_nothing(filled: Database) -> None:
    inside = asyncio.Event()

    async def work() -> None:
        async with filled.transaction() as connection:
            await connection.execute(INSERT, "b", "p", "there", 1)
            inside.set()
            await asyncio.sleep(60)

    task = asyncio.create_task(work())
    await inside.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await count(filled) == 1
    await filled.execute(INSERT, "b", "p", "there", 1)
    assert await count(filled) == 2


async def test_a_cancelled_commit_happened_or_not(filled: Database) -> None:
    """Whichever it was, all rows of the block agree, and the next transaction can start."""
    for attempt in range(20):

        async def work(attempt: int = attempt) -> None:
            async with filled.transaction() as connection:
                await connection.execute(INSERT, f"x{attempt}", "p", f"x{attempt}", 1)
                await connection.execute(INSERT, f"y{attempt}", "p", f"y{attempt}", 1)

        task = asyncio.create_task(work())
        for _ in range(attempt):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        found = await filled.fetch("SELECT id FROM child WHERE id IN ($1, $2)", f"x{attempt}", f"y{attempt}")
        assert len(found) in (0, 2), attempt
        if not task.cancelled():
            assert len(found) == 2
    await filled.execute(INSERT, "last", "p", "last", 1)


async def test_readers_do_not_see_an_open_transaction(filled: Database) -> None:
    async with filled.transaction() as connection:
        await connection.execute(INSERT, "b", "p", "there", 1)
        assert await count(filled) == 1
    assert await count(filled) == 2


async def test_writers_take_turns(filled: Database) -> None:
    async def work(number: int) -> None:
        async with filled.transaction() as connection:
            row = await connection.fetchrow("SELECT count(*) FROM parent")
            assert row is not None
            await connection.execute("INSERT INTO parent VALUES ($1)", f"p{number}")

    await asyncio.gather(*(work(number) for number in range(40)))
    assert await count(filled, "parent") == 41


async def test_a_script_is_one_transaction(filled: Database) -> None:
    with pytest.raises(Exception, match=r"(?i)child"):
        await filled.run_script("CREATE TABLE fresh (id TEXT);\nCREATE TABLE child (id TEXT);\n")
    with pytest.raises(Exception, match="fresh"):
        await filled.fetchrow("SELECT 1 FROM fresh")


@pytest.mark.parametrize(
    "bad", ["mysql://x/y", "", "catalog.db", "sqlite://relative.db", "sqlite:", "http://x"]
)
async def test_urls_of_no_database(bad: str) -> None:
    with pytest.raises(InvalidConfig, match="sqlite"):
        await db.connect(bad)


async def test_a_server_that_is_not_there() -> None:
    with pytest.raises(ServiceError, match="cannot connect to PostgreSQL") as caught:
        await db.connect("postgresql://me:hunter2@127.0.0.1:9/none")
    assert "hunter2" not in str(caught.value)


async def test_a_sqlite_file_that_cannot_be_opened(tmp_path: Path) -> None:
    (tmp_path / "catalog.db").write_bytes(b"this is not a database, it is a text file, and a long one" * 100)
    with pytest.raises(InvalidConfig, match=r"catalog\.db"):
        await db.connect(f"sqlite://{tmp_path}/catalog.db")


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://me:secret@host:5432/db", "postgresql://me:***@host:5432/db"),
        ("postgresql://me:p%40ss@host/db?sslmode=require", "postgresql://me:***@host/db?sslmode=require"),
        ("postgresql://me@host/db", "postgresql://me@host/db"),
        ("postgresql://host/db", "postgresql://host/db"),
        ("sqlite:///tmp/x.db", "sqlite:///tmp/x.db"),
        ("postgresql://me:a@b@host/db", "postgresql://me:***@host/db"),
    ],
)
def test_passwords_are_masked(url: str, shown: str) -> None:
    assert masked(url) == shown


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:pw-secret@host/db?password=secret&x=a@b",
        "postgresql://host/db?user=me&password=secret",
        "postgresql://me:secret@[::1/db",
        "postgresql://:secret@host/db",
        "postgres://me:secret#x@host/db",
        "postgresql://me:secret/x@host/db",
    ],
)
def test_no_part_of_a_secret_is_shown(url: str) -> None:
    assert "secret" not in masked(url)
