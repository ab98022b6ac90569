"""Answers that carry a metadata document: the stored bytes are spliced in, never parsed."""

from __future__ import annotations

from frazil.catalog.documents import Document
from frazil.catalog.http import Request, Response, json_bytes
from frazil.catalog.warehouses import Warehouse


def table_etag(request: Request, warehouse: Warehouse, document: Document, snapshots: str = "all") -> str:
    """Differs with all that an answer depends on: snapshots, delegation, the warehouse's settings."""
    asked = request.header("x-iceberg-access-delegation") or ""
    return document.etag(f"{snapshots}\n{asked}\n{warehouse.version}")


def table_answer(
    request: Request, warehouse: Warehouse, document: Document, snapshots: str = "all"
) -> Response:
    """LoadTableResult."""
    raw = document.raw if snapshots == "all" else document.refs
    body = b"".join(
        (
            b'{"metadata-location":',
            json_bytes(document.metadata_location),
            b',"metadata":',
            raw,
            b',"config":',
            warehouse.table_config,
            b"}",
        )
    )
    etag = table_etag(request, warehouse, document, snapshots)
    return Response(200, body, headers=[(b"etag", etag.encode())])


def commit_answer(request: Request, warehouse: Warehouse, document: Document) -> Response:
    """CommitTableResponse. Its ETag is that of a plain load."""
    body = b"".join(
        (
            b'{"metadata-location":',
            json_bytes(document.metadata_location),
            b',"metadata":',
            document.raw,
            b"}",
        )
    )
    return Response(200, body, headers=[(b"etag", table_etag(request, warehouse, document).encode())])


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


def matches(if_none_match: str | None, etag: str) -> bool:
    """Whether an `If-None-Match` header names the ETag."""
    if if_none_match is None:
        return False
    candidates = [candidate.strip().removeprefix("W/") for candidate in if_none_match.split(",")]
    return "*" in candidates or etag in candidates
