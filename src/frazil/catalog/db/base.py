"""What the catalog asks of a database.

SQL is written once, in the part of the language that SQLite and PostgreSQL share, with `$1`, `$2`, …
for parameters. Identifiers, JSON and names are text, times are milliseconds, documents are bytes.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Any, Literal, Protocol

from frazil.core.errors import CommitStateUnknown

Dialect = Literal["sqlite", "postgresql"]


class Row(Protocol):
    """A result row: columns by position or by name."""

    def __getitem__(self, key: int | str, /) -> Any: ...


class Connection(Protocol):
    """Runs statements; inside `Database.transaction` all of them take effect or none."""

    async def fetchrow(self, sql: str, *args: object) -> Row | None:
        """The first row of a query, or None."""
        ...

    async def fetch(self, sql: str, *args: object) -> list[Row]:
        """All rows of a query."""
        ...

    async def execute(self, sql: str, *args: object) -> int:
        """Run a statement that writes; the number of rows it touched."""
        ...


class Database(Connection, Protocol):
    """A pool of connections. Statements outside a transaction commit on their own."""

    dialect: Dialect

    def transaction(self) -> AbstractAsyncContextManager[Connection]:
        """Commits when the block ends, rolls back when it raises."""
        ...

    async def run_script(self, script: str) -> None:
        """Run several statements (a migration) in one transaction, one process at a time."""
        ...

    async def close(self) -> None: ...


class UniqueViolation(Exception):
    """A unique index refused a row; `constraint` is `table.column`, the index's last column."""

    def __init__(self, constraint: str) -> None:
        super().__init__(f"unique constraint on {constraint}")
        self.constraint = constraint


class ForeignKeyViolation(Exception):
    """A row that is referred to does not exist, or still is referred to."""


class OutcomeUnknown(CommitStateUnknown):
    """The connection broke after a write was sent and before its answer came."""
