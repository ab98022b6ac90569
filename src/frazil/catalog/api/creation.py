"""Where new tables, views and generic tables go and how they come to be."""

from __future__ import annotations

import uuid
from typing import Any
from uuid import UUID

from frazil.catalog.commits import Write, land, write_of
from frazil.catalog.documents import Document
from frazil.catalog.http import Request
from frazil.catalog.service import Catalog, Place
from frazil.catalog.storage import FullHierarchy, join, table_location
from frazil.catalog.store import namespaces, tabulars
from frazil.catalog.store.idempotency import Mark
from frazil.core.errors import CommitFailed, InvalidInput, NoSuchNamespace
from frazil.core.names import check_name, show, split_levels

Json = dict[str, Any]


async def free_place(catalog: Catalog, request: Request, name: str, kind: tabulars.Kind) -> Place:
    """The place of a name that must still be free, in a namespace that must exist."""
    levels = split_levels(request.params["namespace"], "namespace")
    place = await catalog.find(request.params["prefix"], levels, checked_name(name, "name", kind))
    if place.namespace_id is None:
        raise NoSuchNamespace(f"Namespace does not exist: {show(levels)}")
    if place.found is not None:
        raise tabulars.already_exists(levels, name, place.found.kind, kind)
    return place


def checked_name(name: str, field: str, kind: tabulars.Kind) -> str:
    """Lakekeeper has an error type of its own for names of generic tables, and refuses a plus in them."""
    if kind != "generic-table":
        return check_name(name, field)
    try:
        check_name(name, field)
    except InvalidInput as error:
        raise InvalidInput(error.message, kind="InvalidName") from None
    if "+" in name:
        raise InvalidInput(
            f"{field} {name!r} contains '+', which URLs confuse with a space; choose a name without",
            kind="InvalidName",
        )
    return name


async def location_for(
    catalog: Catalog, place: Place, requested: str | None, field: str = "location"
) -> tuple[str, bool]:
    """The location of a new tabular, and whether it was chosen rather than made unique by us."""
    warehouse = place.warehouse
    if requested is not None:
        warehouse.checked_location(requested, field)
        return requested.rstrip("/"), True
    namespace = await namespaces.get(catalog.database, warehouse.warehouse_id, place.levels)
    new_id = uuid.uuid4()
    if "location" in namespace.properties:
        return join(namespace.properties["location"].rstrip("/"), str(new_id)), True
    layout = warehouse.profile.storage_layout
    parents: list[tuple[str, UUID]] = []
    if isinstance(layout, FullHierarchy):
        ids = await namespaces.ids(catalog.database, warehouse.warehouse_id, place.levels)
        parents = list(zip(place.levels, ids, strict=True))
    location = table_location(warehouse.storage.base, layout, parents, place.name, new_id)
    # A fresh UUID right below the warehouse can neither contain nor lie in another table's location.
    return location, layout is not None


async def create(
    catalog: Catalog, place: Place, kind: tabulars.Kind, metadata: Json, *, chosen: bool, mark: Mark | None
) -> Document:
    """Land a new table or view at a free place."""
    write = write_of(place, kind, metadata, chosen=chosen)
    return await landed(catalog, write, mark)


async def landed(catalog: Catalog, write: Write, mark: Mark | None) -> Document:
    if not await land(catalog, [write], mark):
        raise CommitFailed(f"{show(write.place.levels, write.place.name)} was changed meanwhile; try again")
    return write.document


def requested_format_version(place: Place, properties: dict[str, str]) -> int:
    """The `format-version` property of a create request decides; else the warehouse."""
    text = properties.get("format-version")
    if text is None:
        return place.warehouse.default_format_version
    if text not in ("1", "2", "3"):
        raise InvalidInput(f"properties.format-version is {text!r}; legal are 1, 2 and 3")
    return int(text)
