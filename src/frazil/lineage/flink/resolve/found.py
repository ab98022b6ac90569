"""What a piece of evidence says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from frazil.lineage.flink.resolve.ddl import TableDef
from frazil.lineage.flink.resolve.platforms import Named
from frazil.lineage.model import Evidence


@dataclass(frozen=True)
class Found:
    """A dataset, what told it, and its columns where they are known."""

    named: Named
    evidence: Evidence
    #: The Flink catalog it is in, by which the user may have given it an instance.
    catalog: str | None = None
    #: Those that an INSERT fills, as they are declared.
    columns: tuple[str, ...] | None = None
    #: The same as the sink is given them, where that is another order; None for one that cannot be told.
    written: tuple[str | None, ...] | None = None
    #: Those that can only be read: computed, or metadata of the record.
    virtual: tuple[str, ...] = ()
    fields: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def fits(self, columns: tuple[str, ...] | None) -> bool:
        """Whether a query with these columns can write here: as many, by position."""
        return columns is None or self.columns is None or len(columns) == len(self.columns)


def found_table(named: Named, table: TableDef | None, evidence: Evidence, catalog: str | None) -> Found:
    """With the columns of a definition, if there is one."""
    if table is None:
        return Found(named, evidence, catalog)
    virtual = tuple(column.name for column in table.columns or () if not column.stored)
    return Found(
        named,
        evidence,
        catalog,
        table.stored_columns(),
        written=table.written_columns(),
        virtual=virtual,
        fields=table.nested(),
    )
