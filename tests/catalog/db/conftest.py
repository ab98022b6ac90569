"""A database of each dialect with one small table pair in it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from frazil.catalog import db
from frazil.catalog.db import Database

DIALECTS = [
    pytest.param("sqlite", id="sqlite"),
    pytest.param("postgresql", marks=pytest.mark.services, id="postgresql"),
]


@pytest.fixture(params=DIALECTS)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database."""
    if request.param == "sqlite":
        return f"sqlite://{tmp_path}/deep/er/catalog.db"
    make: Callable[[], str] = request.getfixturevalue("postgres_url")
    return make()


@pytest.fixture
async def database(url: str) -> AsyncIterator[Database]:
    """Two tables: one to break every constraint of."""
    opened = await db.connect(url)
    await opened.run_script(
        "CREATE TABLE parent (id TEXT PRIMARY KEY);\n"
        "CREATE TABLE child (id TEXT NOT NULL PRIMARY KEY, parent TEXT REFERENCES parent (id), "
        "place TEXT, number BIGINT, CONSTRAINT child__place UNIQUE (parent, place));\n"
    )
    yield opened
    await opened.close()
