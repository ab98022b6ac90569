"""Commits to one table and to many at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from frazil.catalog import wire
from frazil.catalog.api import idempotent
from frazil.catalog.api.answers import commit_answer
from frazil.catalog.commits import MAX_ATTEMPTS, Write, backoff, land, too_many_rivals, write_of
from frazil.catalog.documents import Document
from frazil.catalog.http import Request, Response, Routes, no_content
from frazil.catalog.metadata import apply_updates, check_requirements, writes_of_updates
from frazil.catalog.service import Catalog, no_such, now_ms
from frazil.catalog.store import tabulars
from frazil.catalog.store.idempotency import Mark
from frazil.catalog.warehouses import Warehouse, checked_id
from frazil.core.errors import InvalidInput
from frazil.core.names import check_levels, check_name, name_key, namespace_key, show, split_levels

routes = Routes("/catalog/v1", tag="Commits")

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Change:
    """One table's part of a commit."""

    levels: tuple[str, ...]
    name: str
    requirements: list[Json]
    updates: list[Json]

    @property
    def creates(self) -> bool:
        return any(requirement.get("type") == "assert-create" for requirement in self.requirements)


@routes.add(
    "POST",
    "/{prefix}/namespaces/{namespace}/tables/{table}",
    body=wire.CommitTableRequest,
    headers=(idempotent.HEADER,),
    answer=wire.CommitTableResponse,
    errors=(400, 404, 409, 422, 500, 503),
)
async def update_table(catalog: Catalog, request: Request) -> Response:
    """Commit updates to a table, or create a staged one."""
    body, raw = request.json(wire.CommitTableRequest)
    levels = split_levels(request.params["namespace"], "namespace")
    name = check_name(request.params["table"], "table")
    if body.identifier is not None:
        same = namespace_key(body.identifier.namespace) == namespace_key(levels)
        if not same or name_key(body.identifier.name) != name_key(name):
            raise InvalidInput("identifier names another table than the path")
    change = Change(levels, name, raw["requirements"], raw["updates"])

    async def run(mark: Mark | None) -> Response:
        ((warehouse, document),) = await commit(catalog, request.params["prefix"], [change], mark, 200)
        return commit_answer(request, warehouse, document)

    async def again(tabular_id: str) -> Response:
        warehouse, document = await catalog.load_again(request.params["prefix"], tabular_id)
        return commit_answer(request, warehouse, document)

    return await idempotent.once(catalog, request, run, again)


@routes.add(
    "POST",
    "/{prefix}/transactions/commit",
    body=wire.CommitTransactionRequest,
    headers=(idempotent.HEADER,),
    status=204,
    errors=(400, 404, 409, 422, 500, 503),
)
async def commit_transaction(catalog: Catalog, request: Request) -> Response:
    """Commit updates to several tables: all of them or none."""
    body, raw = request.json(wire.CommitTransactionRequest)
    changes = []
    for index, (typed, change) in enumerate(zip(body.table_changes, raw["table-changes"], strict=True)):
        field = f"table-changes[{index}].identifier"
        levels = check_levels(typed.identifier.namespace, f"{field}.namespace")
        name = check_name(typed.identifier.name, f"{field}.name")
        changes.append(Change(levels, name, change["requirements"], change["updates"]))
    if not changes:
        raise InvalidInput("table-changes must not be empty")
    keys = [(namespace_key(change.levels), name_key(change.name)) for change in changes]
    if len(set(keys)) < len(keys):
        raise InvalidInput("table-changes names a table twice; put all its updates into one change")

    async def run(mark: Mark | None) -> Response:
        await commit(catalog, request.params["prefix"], changes, mark, 204)
        return no_content()

    return await idempotent.once(catalog, request, run)


async def commit(
    catalog: Catalog, prefix: str, changes: Sequence[Change], mark: Mark | None, status: int
) -> list[tuple[Warehouse, Document]]:
    """Read, check, apply, land; again from the start when another commit came between."""
    warehouse_id = checked_id(prefix)
    keys = [(warehouse_id, namespace_key(change.levels), name_key(change.name)) for change in changes]
    before = [catalog.documents.get(key) for key in keys]
    async with catalog.turn(keys):
        for change, key, document in zip(changes, keys, before, strict=True):
            _refuse_early(catalog.documents.get(key), document, change)
        for attempt in range(MAX_ATTEMPTS):
            writes = [await _prepare(catalog, prefix, change) for change in changes]
            if mark is None and all(write.unchanged for write in writes):
                return [(w.place.warehouse, w.place.found.document) for w in writes if w.place.found]
            if await land(catalog, writes, mark, status):
                return [(write.place.warehouse, write.document) for write in writes]
            await backoff(catalog, attempt)
    raise too_many_rivals([show(change.levels, change.name) for change in changes])


def _refuse_early(now: Document | None, before: Document | None, change: Change) -> None:
    """A commit that waited for another one of this process mostly lost to it; that needs no look-up.

    What the other left behind was the current state while this commit was waiting, so a requirement
    that it breaks is broken. If nothing was left, an old copy proves nothing.
    """
    if now is not None and now is not before and "table-uuid" in now.parsed:
        check_requirements(change.requirements, now.parsed)


async def _prepare(catalog: Catalog, prefix: str, change: Change) -> Write:
    place = await catalog.find(prefix, change.levels, change.name)
    found = place.found
    if found is not None and found.kind != "table":
        if change.creates:
            raise tabulars.already_exists(change.levels, change.name, found.kind, "table")
        raise no_such("table", change.levels, change.name)
    if found is None and not change.creates:
        raise no_such("table", change.levels, change.name)
    before = found.document.parsed if found else None
    check_requirements(change.requirements, before)
    after = apply_updates(
        before,
        change.updates,
        now_ms=now_ms(),
        metadata_location=found.document.metadata_location if found else None,
    )
    return write_of(place, "table", after, chosen=True, jobs=writes_of_updates(change.updates))
