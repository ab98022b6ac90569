"""One SQL layer for SQLite and PostgreSQL."""

from frazil.catalog.db.base import (
    Connection,
    Database,
    Dialect,
    ForeignKeyViolation,
    OutcomeUnknown,
    Row,
    UniqueViolation,
)
from frazil.catalog.db.connect import connect
from frazil.catalog.db.migrate import bring_up_to_date, migrate, migrations, schema_state

__all__ = [
    "Connection",
    "Database",
    "Dialect",
    "ForeignKeyViolation",
    "OutcomeUnknown",
    "Row",
    "UniqueViolation",
    "bring_up_to_date",
    "connect",
    "migrate",
    "migrations",
    "schema_state",
]
