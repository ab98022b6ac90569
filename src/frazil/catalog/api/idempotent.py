"""Runs a mutation at most once for each `Idempotency-Key`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from frazil.catalog.db import UniqueViolation
from frazil.catalog.http import Request, Response
from frazil.catalog.http.errors import error_body, status_of
from frazil.catalog.service import Catalog, now_ms
from frazil.catalog.store.idempotency import Mark, Recorded, digest, is_rival, recorded
from frazil.catalog.warehouses import checked_id
from frazil.core.errors import (
    Conflict,
    FrazilError,
    InvalidInput,
    NotFound,
    Unprocessable,
)
from frazil.core.names import is_uuid

HEADER = "Idempotency-Key"
Again = Callable[[str], Awaitable[Response]]


async def once(
    catalog: Catalog,
    request: Request,
    run: Callable[[Mark | None], Awaitable[Response]],
    again: Again | None = None,
) -> Response:
    """`run` must record the mark in the transaction of its change.

    A repeated request gets the recorded answer or, where the answer may hold more than fits to be
    stored, what `again` makes of the present state of the tabular whose id was recorded.
    """
    mark = _mark(request)
    if mark is None:
        return await run(None)
    before = await recorded(catalog.database, mark)
    if before is None:
        try:
            return await run(mark)
        except UniqueViolation as error:
            if not is_rival(error):
                raise
        except (NotFound, Conflict) as error:
            if await _record_refusal(catalog, mark, error):
                raise
        except InvalidInput:
            # Not recorded, but the same request may have landed meanwhile and be in its own way.
            if await recorded(catalog.database, mark) is None:
                raise
        before = await recorded(catalog.database, mark)
        assert before is not None, "a rival holds the key"
    return await _replay(before, mark, again)


async def _replay(before: Recorded, mark: Mark, again: Again | None) -> Response:
    if before.request != mark.request:
        raise Unprocessable(f"{HEADER} {mark.key} was used for another request; make a new key")
    if before.status < 300 and again is not None:
        return await again(before.answer)
    return Response(before.status, before.answer.encode())


async def _record_refusal(catalog: Catalog, mark: Mark, error: FrazilError) -> bool:
    """A 404 or 409 is final too.

    False when the same request, sent twice, was settled meanwhile: then that answer holds. It may have
    landed, and then this refusal is only the echo of its own effect. A failure to record comes through
    for the same reason: the caller cannot be told "refused" before that is ruled out.
    """
    status = status_of(error)
    answer = error_body(status, error.kind, error.message).decode()
    try:
        await mark.record(catalog.database, status, now_ms(), answer)
    except UniqueViolation:
        return False
    return True


def _mark(request: Request) -> Mark | None:
    key = request.header(HEADER.lower())
    if key is None:
        return None
    if not is_uuid(key):
        raise InvalidInput(f"{HEADER} {key[:80]!r} is not a UUID")
    path = f"{request.path}?{request.query_string}"
    same = digest(request.principal.id, request.method, path, request.body)
    return Mark(checked_id(request.params["prefix"]), key.lower(), same)


def answer_text(value: object) -> str:
    """A small answer in the form in which it is recorded."""
    return msgspec.json.encode(value).decode()
