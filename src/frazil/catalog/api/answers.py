"""Answers that carry a metadata document: the stored bytes are spliced in, never parsed."""

from __future__ import annotations

from frazil.catalog.api.delegation import Delegated, choose, variant
from frazil.catalog.documents import Document
from frazil.catalog.http import Request, Response, json_bytes
from frazil.catalog.warehouses import Warehouse

#: Credentials must not lie about in a proxy.
NO_STORE = (b"cache-control", b"no-store")


def table_etag(warehouse: Warehouse, document: Document, given: str, snapshots: str = "all") -> str:
    """Differs with all that an answer depends on: snapshots, delegation, the warehouse's settings."""
    return document.etag(f"{snapshots}\n{given}\n{warehouse.version}")


def table_answer(
    warehouse: Warehouse, document: Document, delegated: Delegated, snapshots: str = "all"
) -> Response:
    """LoadTableResult."""
    parts = [
        b'{"metadata-location":',
        json_bytes(document.metadata_location),
        b',"metadata":',
        document.raw if snapshots == "all" else document.refs,
        *_delegated(delegated),
    ]
    etag = table_etag(warehouse, document, delegated.variant, snapshots)
    return Response(200, b"".join(parts), headers=[(b"etag", etag.encode()), *_caching(delegated)])


def staged_answer(metadata: bytes, delegated: Delegated) -> Response:
    """LoadTableResult of a table that is only staged: it has no metadata file yet."""
    body = b"".join([b'{"metadata":', metadata, *_delegated(delegated)])
    return Response(200, body, headers=_caching(delegated))


def commit_answer(request: Request, warehouse: Warehouse, document: Document) -> Response:
    """CommitTableResponse.

    Its ETag is that of a load that vends nothing. One that vends never has it: a caller that compares
    would be left with the credentials of its last load.
    """
    body = b"".join(
        (
            b'{"metadata-location":',
            json_bytes(document.metadata_location),
            b',"metadata":',
            document.raw,
            b"}",
        )
    )
    etag = table_etag(warehouse, document, variant(request, choose(request, warehouse)))
    return Response(200, body, headers=[(b"etag", etag.encode())])


def view_answer(document: Document) -> Response:
    """LoadViewResult."""
    body = b"".join(
        (
            b'{"metadata-location":',
            json_bytes(document.metadata_location),
            b',"metadata":',
            document.raw,
            b',"config":{}}',
        )
    )
    return Response(200, body)


def generic_answer(document: Document, name: str, delegated: Delegated) -> Response:
    """LoadGenericTableResponse. The stored document is its `table` without what may change."""
    parts = [
        b'{"table":{"name":',
        json_bytes(name),
        b',"protected":false,',
        document.raw[1:],
        *_delegated(delegated),
    ]
    return Response(200, b"".join(parts), headers=_caching(delegated))


def credentials_answer(delegated: Delegated) -> Response:
    """LoadCredentialsResponse."""
    body = b"".join((b'{"storage-credentials":', delegated.credentials or b"[]", b"}"))
    return Response(200, body, headers=[NO_STORE])


def matches(if_none_match: str | None, etag: str) -> bool:
    """Whether an `If-None-Match` header names the ETag."""
    if if_none_match is None:
        return False
    candidates = [candidate.strip().removeprefix("W/") for candidate in if_none_match.split(",")]
    return "*" in candidates or etag in candidates


def _delegated(delegated: Delegated) -> tuple[bytes, ...]:
    if delegated.credentials:
        return (b',"config":', delegated.config, b',"storage-credentials":', delegated.credentials, b"}")
    return (b',"config":', delegated.config, b"}")


def _caching(delegated: Delegated) -> list[tuple[bytes, bytes]]:
    return [NO_STORE] if delegated.credentials else []
