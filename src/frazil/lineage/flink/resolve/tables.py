"""Every table of the catalogs that can be asked, with its columns: what include_catalog_metadata is for."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from frazil.lineage.flink.resolve.catalogs import GatewayCatalogs, by_catalog
from frazil.lineage.flink.resolve.ddl import Column
from frazil.lineage.flink.resolve.found import Found
from frazil.lineage.flink.resolve.platforms import Named
from frazil.lineage.flink.resolve.snapshots import IcebergCatalogs
from frazil.lineage.model import Dataset, Evidence
from frazil.lineage.tables import CatalogTable, Database, TableColumn


def catalog_tables(
    gateway: GatewayCatalogs | None, iceberg: IcebergCatalogs, dataset: Callable[[Found], Dataset]
) -> Iterator[CatalogTable]:
    """The tables of the gateway's catalogs, then those of Iceberg catalogs that it does not see."""
    seen: set[Dataset] = set()
    for table in _through_gateway(gateway, dataset) if gateway is not None else ():
        seen.add(table.dataset)
        yield table
    for catalog, name, loaded in iceberg.tables():
        found = Found(Named("iceberg", ".".join(name)), Evidence("catalog", catalog), catalog)
        known = dataset(found)
        if known not in seen:
            database = Database(catalog, ".".join(name[:-1]))
            yield CatalogTable(known, database, loaded.columns, loaded.key)


def _through_gateway(gateway: GatewayCatalogs, dataset: Callable[[Found], Dataset]) -> Iterator[CatalogTable]:
    for path in gateway.all_tables():
        found, table = by_catalog(gateway, path), gateway.table(path)
        if not isinstance(found, Found) or table is None:
            continue
        known = dataset(found)
        columns = tuple(part for column in table.columns or () for part in _flattened(column))
        database = Database(path[0], path[1])
        yield CatalogTable(known, database, columns, table.primary_key)


def _flattened(column: Column) -> Iterator[TableColumn]:
    """Of a field inside a ROW, only the name is read."""
    yield TableColumn(column.name, column.type or "computed", column.nullable)
    for name in column.fields:
        yield TableColumn(f"{column.name}.{name}", "")
