"""The Iceberg API of a warehouse: namespaces, tables, views."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal

from frazil.client.access import Access, access_headers
from frazil.client.answers import (
    CatalogConfig,
    Namespace,
    NamespacePage,
    PropertyChanges,
    StorageCredentials,
    Table,
    TableIdentifier,
    TablePage,
    decoded,
)
from frazil.client.credentials import VendedCredentials, chosen
from frazil.client.flow import Flow, Listing, M, Resource, listing, operation
from frazil.client.naming import NamespaceLike, levels, segment
from frazil.client.paging import pages
from frazil.core.errors import AlreadyExists, NoSuchNamespace, NotFound
from frazil.core.names import LEVEL_SEPARATOR, check_name, show

if TYPE_CHECKING:
    from frazil.core.partitioning import PartitionField
    from frazil.core.schema import Schema


class NamespacesApi(Resource[M]):
    """Namespaces. One is written with dots between its levels, or given as a list of them."""

    @operation
    def create(
        self,
        namespace: NamespaceLike,
        properties: Mapping[str, str] | None = None,
        *,
        parents: bool = False,
        exist_ok: bool = False,
    ) -> Flow[Namespace]:
        """Create a namespace.

        The parent of a nested one must exist, or is created with `parents`. With `exist_ok`, one that exists
        is returned as it is, with the properties that it has.
        """
        try:
            return (yield from self._create(levels(namespace), dict(properties or {}), parents))
        except AlreadyExists:
            if not exist_ok:
                raise
        return (yield from self._get(namespace))

    @listing
    def list(self, parent: NamespaceLike | None = None) -> Listing[tuple[str, ...]]:
        """The namespaces directly below `parent`, or the top ones."""
        query = [] if parent is None else [("parent", LEVEL_SEPARATOR.join(levels(parent)))]
        return pages(self._session.catalog, "/namespaces", NamespacePage, lambda page: page.namespaces, query)

    @operation
    def get(self, namespace: NamespaceLike) -> Flow[Namespace]:
        """A namespace with its properties."""
        return (yield from self._get(namespace))

    @operation
    def exists(self, namespace: NamespaceLike) -> Flow[bool]:
        """Whether there is such a namespace."""
        return (yield from _exists(self._session.catalog("HEAD", _path(namespace))))

    @operation
    def drop(self, namespace: NamespaceLike) -> Flow[None]:
        """Drop a namespace that is empty."""
        yield from self._session.catalog("DELETE", _path(namespace))

    @operation
    def update_properties(
        self,
        namespace: NamespaceLike,
        updates: Mapping[str, str] | None = None,
        removals: Iterable[str] = (),
    ) -> Flow[PropertyChanges]:
        """Set and remove properties of a namespace."""
        body = {"updates": dict(updates or {}), "removals": [*removals]}
        path = f"{_path(namespace)}/properties"
        return decoded((yield from self._session.catalog("POST", path, body)), PropertyChanges)

    def _get(self, namespace: NamespaceLike) -> Flow[Namespace]:
        return decoded((yield from self._session.catalog("GET", _path(namespace))), Namespace)

    def _create(self, path: tuple[str, ...], properties: dict[str, str], parents: bool) -> Flow[Namespace]:
        """Parents are created only when the server misses them: one may exist and not be ours to create."""
        body = {"namespace": path, "properties": properties}
        try:
            return decoded((yield from self._session.catalog("POST", "/namespaces", body)), Namespace)
        except NoSuchNamespace:
            if not parents or len(path) == 1:
                raise
        with suppress(AlreadyExists):
            yield from self._create(path[:-1], {}, parents)
        return (yield from self._create(path, properties, parents=False))


class TablesApi(Resource[M]):
    """Iceberg tables. To write rows, use an engine or PyIceberg; this is for looking after them."""

    @listing
    def list(self, namespace: NamespaceLike) -> Listing[TableIdentifier]:
        """The tables of a namespace."""
        path = f"{_path(namespace)}/tables"
        return pages(self._session.catalog, path, TablePage, lambda page: page.identifiers)

    @operation
    def load(
        self,
        namespace: NamespaceLike,
        name: str,
        *,
        vended: bool = False,
        read_only: bool = False,
        snapshots: Literal["all", "refs"] = "all",
    ) -> Flow[Table]:
        """A table's metadata; with `vended`, also keys for its files (`read_only`: for reading only)."""
        query = [("snapshots", snapshots)]
        headers = access_headers(Access.of(vended=vended, read_only=read_only))
        path = _path(namespace, "tables", name)
        return decoded((yield from self._session.catalog("GET", path, query=query, headers=headers)), Table)

    @operation
    def create(
        self,
        namespace: NamespaceLike,
        name: str,
        schema: Schema,
        partitioning: Sequence[PartitionField] = (),
        properties: Mapping[str, str] | None = None,
        *,
        key: Sequence[str] = (),
        format_version: int = 2,
    ) -> Flow[Table]:
        """Make an empty table in a namespace that exists.

        `key`: required columns that tell its rows apart (Iceberg's identifier fields).
        """
        # It needs Arrow, which the client does without.
        from frazil.core.partitioning import bind

        numbered = schema.with_fresh_ids()
        identifiers = [numbered.field(column).id for column in key]
        body = {
            "name": check_name(name, "name"),
            "schema": {**numbered.to_json(), "identifier-field-ids": identifiers},
            "partition-spec": bind(partitioning, numbered).to_json(),
            "properties": {**(properties or {}), "format-version": str(format_version)},
        }
        path, headers = f"{_path(namespace)}/tables", access_headers(Access.NONE)
        return decoded((yield from self._session.catalog("POST", path, body, headers=headers)), Table)

    @operation
    def exists(self, namespace: NamespaceLike, name: str) -> Flow[bool]:
        """Whether there is such a table."""
        return (yield from _exists(self._session.catalog("HEAD", _path(namespace, "tables", name))))

    @operation
    def credentials(
        self, namespace: NamespaceLike, name: str, *, read_only: bool = False, location: str | None = None
    ) -> Flow[VendedCredentials]:
        """Short-lived keys for the files of a table, or for those at `location` if it has several places."""
        headers = access_headers(Access.of(vended=True, read_only=read_only))
        path = f"{_path(namespace, 'tables', name)}/credentials"
        answer = yield from self._session.catalog("GET", path, headers=headers)
        what = f"table {show(levels(namespace), name)}"
        return chosen(decoded(answer, StorageCredentials).storage_credentials, location, what)

    @operation
    def register(
        self, namespace: NamespaceLike, name: str, metadata_location: str, *, overwrite: bool = False
    ) -> Flow[Table]:
        """Make a table of a metadata file that exists already."""
        body: dict[str, Any] = {"name": name, "metadata-location": metadata_location}
        if overwrite:
            body["overwrite"] = True
        path = f"{_path(namespace)}/register"
        headers = access_headers(Access.NONE)
        return decoded((yield from self._session.catalog("POST", path, body, headers=headers)), Table)

    @operation
    def rename(
        self, namespace: NamespaceLike, name: str, new_namespace: NamespaceLike, new_name: str
    ) -> Flow[None]:
        """Give a table another name or namespace; its files stay where they are."""
        yield from self._session.catalog(
            "POST", "/tables/rename", rename_body(namespace, name, new_namespace, new_name)
        )

    @operation
    def drop(self, namespace: NamespaceLike, name: str, *, purge: bool = False) -> Flow[None]:
        """Drop a table; its files are deleted only with `purge`."""
        query = [("purgeRequested", "true" if purge else "false")]
        yield from self._session.catalog("DELETE", _path(namespace, "tables", name), query=query)


class ViewsApi(Resource[M]):
    """Iceberg views."""

    @listing
    def list(self, namespace: NamespaceLike) -> Listing[TableIdentifier]:
        """The views of a namespace."""
        path = f"{_path(namespace)}/views"
        return pages(self._session.catalog, path, TablePage, lambda page: page.identifiers)

    @operation
    def exists(self, namespace: NamespaceLike, name: str) -> Flow[bool]:
        """Whether there is such a view."""
        return (yield from _exists(self._session.catalog("HEAD", _path(namespace, "views", name))))


class CatalogApi(Resource[M]):
    """The catalog as a whole."""

    @operation
    def config(self) -> Flow[CatalogConfig]:
        """What the server tells clients of this warehouse."""
        return (yield from self._session.config())


def rename_body(
    namespace: NamespaceLike, name: str, new_namespace: NamespaceLike, new_name: str
) -> dict[str, Any]:
    """The body of a rename, for tables of all kinds."""
    return {
        "source": {"namespace": levels(namespace), "name": name},
        "destination": {"namespace": levels(new_namespace), "name": check_name(new_name, "new name")},
    }


def _path(namespace: NamespaceLike, kind: str | None = None, name: str = "") -> str:
    root = f"/namespaces/{segment(*levels(namespace))}"
    return root if kind is None else f"{root}/{kind}/{segment(check_name(name, 'name'))}"


def _exists(request: Flow[Any]) -> Flow[bool]:
    try:
        yield from request
    except NotFound:
        return False
    return True
