"""Generic tables: everything in a warehouse that is not Iceberg's, by Lakekeeper's API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from frazil.client.access import Access, access_headers
from frazil.client.answers import (
    GenericTable,
    GenericTableIdentifier,
    GenericTablePage,
    StorageCredentials,
    decoded,
)
from frazil.client.catalog import rename_body
from frazil.client.credentials import VendedCredentials, chosen
from frazil.client.flow import Flow, Listing, M, Resource, listing, operation
from frazil.client.naming import NamespaceLike, levels, segment
from frazil.client.paging import pages
from frazil.core.errors import AlreadyExists, NoSuchGenericTable, NoSuchNamespace
from frazil.core.names import check_name, show


class GenericTablesApi(Resource[M]):
    """Generic tables: a name, a format, a place, and keys that reach this place only."""

    @operation
    def create(
        self,
        namespace: NamespaceLike,
        name: str,
        format: str,  # noqa: A002 (the API's word)
        *,
        base_location: str | None = None,
        doc: str | None = None,
        properties: Mapping[str, str] | None = None,
        schema: object = None,
        statistics: object = None,
        exist_ok: bool = True,
        vended: bool = False,
    ) -> Flow[GenericTable]:
        """Create a generic table.

        One that exists with the same format is returned as it is; with `exist_ok=False` it is an error, as is
        a table or view of this name or another format in any case.
        """
        access = Access.of(vended=vended)
        body: dict[str, Any] = {"name": check_name(name, "name"), "format": format}
        optional: dict[str, Any] = {"base-location": base_location, "doc": doc, "properties": properties}
        optional |= {"schema": schema, "statistics": statistics}
        body |= {key: value for key, value in optional.items() if value is not None}
        try:
            answer = yield from self._session.generic(
                "POST", _path(namespace), body, headers=access_headers(access), repeatable=exist_ok
            )
        except AlreadyExists as error:
            if not exist_ok:
                raise
            return (yield from self._existing(namespace, name, format, access, error))
        return decoded(answer, GenericTable)

    @listing
    def list(self, namespace: NamespaceLike) -> Listing[GenericTableIdentifier]:
        """The generic tables of a namespace."""
        return pages(self._session.generic, _path(namespace), GenericTablePage, lambda page: page.identifiers)

    @operation
    def load(
        self, namespace: NamespaceLike, name: str, *, vended: bool = False, read_only: bool = False
    ) -> Flow[GenericTable]:
        """A generic table; with `vended`, also keys for its files (`read_only`: for reading only)."""
        return (yield from self._load(namespace, name, Access.of(vended=vended, read_only=read_only)))

    @operation
    def exists(self, namespace: NamespaceLike, name: str) -> Flow[bool]:
        """Whether there is such a generic table."""
        try:
            yield from self._load(namespace, name, Access.NONE)
        except (NoSuchGenericTable, NoSuchNamespace):
            return False
        return True

    @operation
    def credentials(
        self, namespace: NamespaceLike, name: str, *, read_only: bool = False, location: str | None = None
    ) -> Flow[VendedCredentials]:
        """Short-lived keys for the files of a generic table."""
        headers = access_headers(Access.of(vended=True, read_only=read_only))
        answer = yield from self._session.generic(
            "GET", f"{_path(namespace, name)}/credentials", headers=headers
        )
        what = f"generic table {show(levels(namespace), name)}"
        return chosen(decoded(answer, StorageCredentials).storage_credentials, location, what)

    @operation
    def rename(
        self, namespace: NamespaceLike, name: str, new_namespace: NamespaceLike, new_name: str
    ) -> Flow[None]:
        """Give a generic table another name or namespace; its files stay where they are."""
        yield from self._session.generic(
            "POST", "/generic-tables/rename", rename_body(namespace, name, new_namespace, new_name)
        )

    @operation
    def drop(
        self, namespace: NamespaceLike, name: str, *, purge: bool = False, force: bool = False
    ) -> Flow[None]:
        """Drop a generic table; its files are deleted only with `purge`. `force` overrides protection."""
        # Said in any case: the API's own default is to purge.
        query = [("purgeRequested", "true" if purge else "false")]
        query += [("force", "true")] if force else []
        yield from self._session.generic("DELETE", _path(namespace, name), query=query)

    def _load(self, namespace: NamespaceLike, name: str, access: Access) -> Flow[GenericTable]:
        headers = access_headers(access)
        answer = yield from self._session.generic("GET", _path(namespace, name), headers=headers)
        return decoded(answer, GenericTable)

    def _existing(
        self, namespace: NamespaceLike, name: str, wanted: str, access: Access, error: AlreadyExists
    ) -> Flow[GenericTable]:
        shown = show(levels(namespace), name)
        try:
            found = yield from self._load(namespace, name, access)
        except NoSuchGenericTable:
            raise AlreadyExists(
                f"{shown} exists, but as a table or view, not as a generic table; choose another name",
                kind=error.kind,
            ) from None
        if found.format != wanted:
            raise AlreadyExists(
                f"{shown} exists with the format {found.format!r}, not {wanted!r}; choose another name, or "
                "drop it first",
                kind=error.kind,
            )
        return found


def _path(namespace: NamespaceLike, name: str | None = None) -> str:
    root = f"/namespaces/{segment(*levels(namespace))}/generic-tables"
    return root if name is None else f"{root}/{segment(check_name(name, 'name'))}"
