"""The Iceberg catalogs that the user named: their tables by name, and by the job that wrote them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TypeVar

from frazil.client.auth import ClientCredentials
from frazil.core.errors import FrazilError
from frazil.lineage.flink.config import Connection, IcebergCatalog
from frazil.lineage.flink.resolve.found import Found
from frazil.lineage.flink.resolve.platforms import Named
from frazil.lineage.iceberg import Access, IcebergReader, IcebergTable, TableName
from frazil.lineage.model import Evidence

T = TypeVar("T")


class IcebergCatalogs:
    """Several catalogs as one piece of evidence. One that does not answer is reported once, then left out.

    A table that may not be read is reported, too, and only it is left out.
    """

    def __init__(
        self, given: Mapping[str, IcebergCatalog], connection: Connection, failed: Callable[[str], None]
    ) -> None:
        self._readers = {
            name: IcebergReader(_access(one, connection), partial(self._unread, name))
            for name, one in given.items()
        }
        self._failed = failed
        self._broken: set[str] = set()
        self._lock = threading.Lock()

    def __bool__(self) -> bool:
        return bool(self._readers)

    @property
    def whole(self) -> bool:
        """Whether all catalogs answered: else there may be more tables than are known."""
        return not self._broken

    def at(self, path: tuple[str, ...]) -> Found | None:
        """The table of a full name whose catalog has the same name here."""
        catalog, name = path[0], (*path[1].split("."), path[2])
        table = self._asked(catalog, lambda reader: reader.table(name), None)
        if table is None:
            return None
        return _found(catalog, name, table, Evidence("catalog", f"iceberg_catalogs.{catalog} has it"))

    def written_by(self, job: str, since: int | None) -> list[Found]:
        """The tables that have snapshots of a Flink job, some of them not older than `since`."""
        found = []
        for catalog in self._readers:
            names: tuple[TableName, ...] = ()
            for name in self._asked(catalog, lambda reader: reader.written_by(job, since), names):
                table = self._asked(catalog, lambda reader, n=name: reader.table(n), None)  # type: ignore[misc]
                evidence = Evidence("snapshot", f"a snapshot of {'.'.join(name)} has flink.job-id {job}")
                found.append(_found(catalog, name, table, evidence))
        return found

    def named(self, wanted: tuple[str, ...]) -> Iterator[Found]:
        """The tables whose names end so, in all catalogs."""
        for catalog in self._readers:
            names: tuple[TableName, ...] = ()
            for name in self._asked(catalog, lambda reader: reader.named(wanted[-1]), names):
                if name[-len(wanted) :] == wanted:
                    table = self._asked(catalog, lambda reader, n=name: reader.table(n), None)  # type: ignore[misc]
                    yield _found(
                        catalog, name, table, Evidence("catalog", f"iceberg_catalogs.{catalog} has it")
                    )

    def tables(self) -> Iterator[tuple[str, TableName, IcebergTable]]:
        """Every table of every catalog."""
        for catalog in self._readers:
            names: list[TableName] = []
            for name in self._asked(catalog, lambda reader: list(reader.tables()), names):
                table = self._asked(catalog, lambda reader, n=name: reader.table(n), None)  # type: ignore[misc]
                if table is not None:
                    yield catalog, name, table

    def completed(self, found: Found) -> Found:
        """With columns, if it is a table of one of these catalogs that something else named."""
        if found.columns is not None or found.named.platform != "iceberg" or found.catalog is None:
            return found
        name = tuple(found.named.name.split("."))
        table = self._asked(found.catalog, lambda reader: reader.table(name), None)
        return found if table is None else _found(found.catalog, name, table, found.evidence)

    def check(self, catalog: str) -> None:
        """One question that every catalog answers."""
        names: list[TableName] = []
        self._asked(catalog, lambda reader: reader.namespaces(), names)

    def close(self) -> None:
        for reader in self._readers.values():
            reader.close()

    def _asked(self, catalog: str, ask: Callable[[IcebergReader], T], otherwise: T) -> T:
        reader = self._readers.get(catalog)
        if reader is None or catalog in self._broken:
            return otherwise
        try:
            return ask(reader)
        except FrazilError as error:
            with self._lock:
                known, self._broken = catalog in self._broken, self._broken | {catalog}
            if not known:
                self._failed(f"iceberg_catalogs.{catalog} at {reader.uri}: {error.message}")
            return otherwise

    def _unread(self, catalog: str, message: str) -> None:
        self._failed(f"iceberg_catalogs.{catalog}: {message}")


def _found(catalog: str, name: TableName, table: IcebergTable | None, evidence: Evidence) -> Found:
    named = Named("iceberg", ".".join(name))
    if table is None:
        return Found(named, evidence, catalog)
    columns = tuple(column.name for column in table.columns if "." not in column.name)
    fields: dict[str, tuple[str, ...]] = {}
    for column in table.columns:
        first, dot, rest = column.name.partition(".")
        if dot:
            fields[first] = (*fields.get(first, ()), rest)
    return Found(named, evidence, catalog, columns, fields=fields)


def _access(given: IcebergCatalog, connection: Connection) -> Access:
    credentials = None
    if given.credential is not None:
        client_id, _, secret = given.credential.partition(":")
        token_url = given.oauth2_server_uri or f"{given.uri}/v1/oauth/tokens"
        credentials = ClientCredentials(client_id, secret, token_url, given.scope)
    return Access(
        given.uri,
        given.warehouse,
        given.token,
        credentials,
        given.verify_ssl,
        float(connection.timeout_seconds),
        connection.max_retries,
    )
