"""Opens the database that a URL names."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

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
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        return SqliteDatabase(path)
    if scheme in ("postgresql", "postgres"):
        from frazil.catalog.db.postgres import PostgresDatabase

        return await PostgresDatabase.open(url)
    raise InvalidConfig(f"database URL scheme {scheme!r} is not known; use sqlite:// or postgresql://")


def masked(url: str) -> str:
    """The URL without its password, for logs and `--show-config`."""
    parts = urlsplit(url)
    if parts.password is None:
        return url
    host = parts.netloc.rpartition("@")[2]
    return parts._replace(netloc=f"{parts.username}:***@{host}").geturl()
