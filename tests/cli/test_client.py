"""`frazil client` on a database, with and without a running server."""

from __future__ import annotations

import json
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.cli.running import frazil

from frazil.catalog.identity.clients import checked_name
from frazil.core.errors import InvalidInput

pytestmark = pytest.mark.services


def client(data_dir: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command, *rest = arguments
    return frazil("client", command, "--data-dir", str(data_dir), *rest)


def ok(data_dir: Path, *arguments: str) -> str:
    done = client(data_dir, *arguments)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def refused(data_dir: Path, *arguments: str) -> str:
    failed = client(data_dir, *arguments)
    assert failed.returncode == 1
    assert failed.stdout == ""
    assert failed.stderr.startswith("frazil: ")
    assert "Traceback" not in failed.stderr
    return failed.stderr


def rows(data_dir: Path) -> list[Any]:
    with closing(sqlite3.connect(data_dir / "catalog.db")) as database:
        return database.execute("SELECT client_id, secret, secret_id FROM client ORDER BY 1").fetchall()


def test_a_client_s_life(tmp_path: Path) -> None:
    assert json.loads(ok(tmp_path, "list", "--json")) == []
    empty = client(tmp_path, "list")
    assert (empty.returncode, empty.stdout) == (0, "")
    assert f"none in sqlite://{tmp_path}/catalog.db" in empty.stderr
    shown = ok(tmp_path, "create", "etl")
    secret = shown.split()[3]
    assert secret.startswith("frz_")
    assert len(secret) >= 40
    assert "credential=etl:" in shown
    assert f"known in sqlite://{tmp_path}/catalog.db" in shown
    assert shown.count(secret) == 1
    made = json.loads(ok(tmp_path, "create", "bi.reader-2", "--json"))
    assert set(made) == {"client-id", "client-secret"}
    before = rows(tmp_path)
    assert [name for name, _, _ in before] == ["bi.reader-2", "etl"]
    assert secret not in str(before)
    rotated = json.loads(ok(tmp_path, "rotate", "etl", "--json"))
    assert rotated["client-secret"] != secret
    after = rows(tmp_path)
    assert after[0] == before[0]
    assert not set(after[1][1:]) & set(before[1][1:])
    listed = json.loads(ok(tmp_path, "list", "--json"))
    assert [(entry["client-id"], entry["rotated-at"] is None) for entry in listed] == [
        ("bi.reader-2", True),
        ("etl", False),
    ]
    text = ok(tmp_path, "list")
    assert "etl" in text
    assert "frz_" not in text
    assert "scrypt" not in text
    asked = client(tmp_path, "delete", "bi.reader-2")
    assert (asked.returncode, asked.stdout) == (2, "")
    assert "Delete the client bi.reader-2? Say --yes if you mean it" in asked.stderr
    assert len(rows(tmp_path)) == 2
    assert ok(tmp_path, "delete", "bi.reader-2", "--yes") == "deleted client bi.reader-2\n"
    assert [name for name, _, _ in rows(tmp_path)] == ["etl"]


def test_the_last_client_is_not_deleted_by_mistake(tmp_path: Path) -> None:
    ok(tmp_path, "create", "only")
    assert "--last" in refused(tmp_path, "delete", "only", "--yes")
    assert len(rows(tmp_path)) == 1
    ok(tmp_path, "delete", "only", "--last", "--yes")
    assert rows(tmp_path) == []


@pytest.mark.parametrize("name", ["", "a:b", "a b", "-a", ".a", "é", "x" * 65, "a\nb", "a/b", "a\n"])
def test_names_that_are_none(name: str) -> None:
    with pytest.raises(InvalidInput, match="letters, digits"):
        checked_name(name)


def test_a_name_that_is_none_changes_nothing(tmp_path: Path) -> None:
    for command in ("create", "rotate"):
        assert "letters, digits" in refused(tmp_path, command, "--", "-a:b")
    assert rows(tmp_path) == []


def test_what_is_not_there_and_what_is(tmp_path: Path) -> None:
    assert "no client nobody" in refused(tmp_path, "rotate", "nobody")
    assert "no client nobody" in refused(tmp_path, "delete", "nobody", "--yes")
    ok(tmp_path, "create", "etl")
    before = rows(tmp_path)
    assert "exists already" in refused(tmp_path, "create", "etl")
    assert rows(tmp_path) == before


def test_a_database_that_waits_for_a_migration(postgres_url: Callable[[], str]) -> None:
    import asyncio

    import asyncpg

    url = postgres_url()
    environment = {"FRAZIL_DATABASE_URL": url}
    assert frazil("client", "create", "etl", environment=environment).returncode == 0

    async def forget() -> None:
        connection = await asyncpg.connect(url)
        await connection.execute("INSERT INTO server (singleton, server_id) VALUES (1, 'x')")
        await connection.execute("DELETE FROM schema_version WHERE version > 2")
        await connection.close()

    asyncio.run(forget())
    failed = frazil("client", "list", environment=environment)
    assert failed.returncode == 1
    assert "frazil migrate" in failed.stderr
