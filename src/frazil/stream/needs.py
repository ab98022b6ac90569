"""What a round lacks: the driver provides it and runs the round again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from frazil.core.schema import SchemaChange, parse_type, show_type


@dataclass(frozen=True)
class Needs:
    """Columns that the records have and the table has not; tables that rows are for and that are not known.

    Plain text, so that it passes through Spark's errors as well.
    """

    #: (names from the top, type, whether it widens a column)
    columns: tuple[tuple[tuple[str, ...], str, bool], ...] = ()
    tables: tuple[str, ...] = ()

    @classmethod
    def of(cls, changes: Iterable[SchemaChange] = (), tables: Iterable[str] = ()) -> Needs:
        columns = dict.fromkeys((change.path, show_type(change.type), change.widens) for change in changes)
        return cls(tuple(columns), tuple(dict.fromkeys(tables)))

    def __bool__(self) -> bool:
        return bool(self.columns or self.tables)

    def __or__(self, other: Needs) -> Needs:
        return Needs(
            tuple(dict.fromkeys(self.columns + other.columns)),
            tuple(dict.fromkeys(self.tables + other.tables)),
        )

    def changes(self) -> tuple[SchemaChange, ...]:
        return tuple(SchemaChange(path, parse_type(kind), widens) for path, kind, widens in self.columns)


class Lacking(Exception):
    """Ends a task that cannot go on without them."""

    def __init__(self, needs: Needs) -> None:
        super().__init__(needs)
        self.needs = needs
