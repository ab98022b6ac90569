from __future__ import annotations

import asyncio
import stat
from collections.abc import Callable
from pathlib import Path

import asyncpg
import pytest

from frazil.core.errors import ServiceError
from frazil.devstack import debian, postgres
from frazil.devstack.postgres import Postgres

pytestmark = pytest.mark.services


async def value(url: str, sql: str) -> object:
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetchval(sql)
    finally:
        await connection.close()


async def test_databases_are_separate_and_need_the_password(postgres_url: Callable[[], str]) -> None:
    first, second = postgres_url(), postgres_url()
    assert await value(first, "SELECT current_database()") != await value(second, "SELECT current_database()")
    password = first.split(":")[2].split("@")[0]
    with pytest.raises(asyncpg.InvalidPasswordError):
        await value(first.replace(password, "wrong"), "SELECT 1")


def test_a_crash_loses_nothing_committed() -> None:
    with Postgres() as server:
        url = server.url
        server.execute("CREATE TABLE kept (id int); INSERT INTO kept VALUES (7)", "frazil")
        server.kill()
        assert not server.running
        server.start()
        assert asyncio.run(value(url, "SELECT id FROM kept")) == 7
        server.restart()
        assert server.url == url
        assert server.execute("SHOW fsync") == "on"
        directory = server.directory
    assert not directory.exists()


def test_the_password_is_private_and_on_no_command_line(postgres: Postgres) -> None:
    kept = postgres.directory / "password"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert kept.read_text().strip() not in Path(f"/proc/{postgres.pid}/cmdline").read_text()


def test_odd_database_names_are_refused(postgres: Postgres) -> None:
    with pytest.raises(ServiceError, match="no plain database name"):
        postgres.create_database('x"; DROP DATABASE frazil; --')


def test_refused_sql_is_explained(postgres: Postgres) -> None:
    with pytest.raises(ServiceError, match="nowhere"):
        postgres.execute("SELECT * FROM nowhere")


def test_without_postgresql_the_package_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(postgres, "_newest", lambda root, candidates: None)
    monkeypatch.setenv("FRAZIL_DEVSTACK_INSTALL", "0")
    monkeypatch.setenv("FRAZIL_CACHE_DIR", str(tmp_path))
    with pytest.raises(ServiceError, match="apt-get install postgresql"):
        postgres.find_installation()
    assert not debian.installing_allowed()
