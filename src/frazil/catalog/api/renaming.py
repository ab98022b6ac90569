"""Renaming tables, views and generic tables."""

from __future__ import annotations

from frazil.catalog import wire
from frazil.catalog.api import idempotent
from frazil.catalog.api.creation import checked_name
from frazil.catalog.db import ForeignKeyViolation, UniqueViolation
from frazil.catalog.http import Request, Response, no_content
from frazil.catalog.service import Catalog, no_such, now_ms
from frazil.catalog.store import tabulars
from frazil.catalog.store.idempotency import Mark, is_rival
from frazil.core.errors import AlreadyExists, NoSuchNamespace
from frazil.core.names import check_levels, check_name, show


async def rename(catalog: Catalog, request: Request, kind: tabulars.Kind) -> Response:
    """The row keeps its id: a commit that runs meanwhile lands on the renamed table."""
    body, _ = request.json(wire.RenameTableRequest)
    prefix = request.params["prefix"]
    source_levels = check_levels(body.source.namespace, "source.namespace")
    target_levels = check_levels(body.destination.namespace, "destination.namespace")
    source_name = check_name(body.source.name, "source.name")
    target_name = checked_name(body.destination.name, "destination.name", kind)

    async def run(mark: Mark | None) -> Response:
        _, found = await catalog.load(prefix, source_levels, source_name, kind)
        target = await catalog.find(prefix, target_levels, target_name)
        if target.namespace_id is None:
            raise _no_namespace(target_levels)
        names = f"{show(source_levels, source_name)} to {show(target_levels, target_name)}"
        if target.found is not None and target.found.tabular_id != found.tabular_id:
            raise AlreadyExists(f"Cannot rename {names}. {tabulars.label(target.found.kind)} already exists")
        source = (found.tabular_id, found.namespace_id, source_name)
        try:
            async with catalog.database.transaction() as connection:
                if not await tabulars.rename(connection, source, target.namespace_id, target_name, now_ms()):
                    raise no_such(kind, source_levels, source_name)
                if mark is not None:
                    await mark.record(connection, 204, now_ms())
        except ForeignKeyViolation as error:
            raise _no_namespace(target_levels) from error
        except UniqueViolation as error:
            if is_rival(error):
                raise
            raise AlreadyExists(f"Cannot rename {names}. The name was taken meanwhile") from error
        return no_content()

    return await idempotent.once(catalog, request, run)


def _no_namespace(levels: tuple[str, ...]) -> NoSuchNamespace:
    return NoSuchNamespace(f"Namespace does not exist: {show(levels)}")
