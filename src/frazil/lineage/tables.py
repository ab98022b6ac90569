"""Tables of catalogs with their columns, whatever engine or catalog told them."""

from __future__ import annotations

from dataclasses import dataclass

from frazil.lineage.model import Dataset


@dataclass(frozen=True)
class TableColumn:
    """A column, or a field inside one, its name then written with dots."""

    name: str
    #: In the words of whoever told it.
    type: str
    nullable: bool = True


@dataclass(frozen=True)
class Database:
    """A database or namespace of a catalog: what holds tables, of any platform."""

    catalog: str
    name: str


@dataclass(frozen=True)
class CatalogTable:
    """A table that a catalog has."""

    dataset: Dataset
    database: Database
    columns: tuple[TableColumn, ...] = ()
    primary_key: tuple[str, ...] = ()
