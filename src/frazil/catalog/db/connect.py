"""Opens the database that a URL names."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

from frazil.catalog.db.base import Database
from frazil.core.errors import InvalidConfig


async def connect(url: str) -> Database:
    """`sqlite:///path/to/file` or `postgresql://user:password@host:port/database`."""
    scheme = url.partition(":")[0]
    if scheme == "sqlite":
        from frazil.catalog.db.sqlite import SqliteDatabase

        path = Path(url.removeprefix("sqlite://"))
        if not path.is_absolute():
            raise InvalidConfig("a SQLite URL has an absolute path: sqlite:///home/me/catalog.db")
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            return SqliteDatabase(path)
        except (OSError, sqlite3.DatabaseError) as error:
            raise InvalidConfig(f"{path} cannot be opened as a SQLite database: {error}") from error
    if scheme in ("postgresql", "postgres"):
        from frazil.catalog.db.postgres import PostgresDatabase

        return await PostgresDatabase.open(url)
    raise InvalidConfig(f"database URL scheme {scheme!r} is not known; use sqlite:// or postgresql://")


def masked(url: str) -> str:
    """The URL without its password, for logs and `--show-config`.

    It is not parsed: what is not quite a URL may hold a password too.
    """
    scheme, separator, rest = url.partition("://")
    userinfo, at, place = rest.rpartition("@")
    if ":" in userinfo:
        userinfo = f"{userinfo.partition(':')[0]}:***"
    return re.sub(r"(?i)(pass[a-z]*=)[^&]*", r"\1***", f"{scheme}{separator}{userinfo}{at}{place}")
