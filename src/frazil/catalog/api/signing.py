"""The S3 signer of the Iceberg REST spec, for stores that cannot vend credentials.

A signature is as good as a key for the one request it is for, so every request is judged by itself:
whose table, which keys, reading or writing.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from frazil.catalog import wire
from frazil.catalog.api.delegation import ACCESS_HEADER, requested_access
from frazil.catalog.http import Request, Response, Routes, json_bytes
from frazil.catalog.service import Catalog, now_ms
from frazil.catalog.signing import Reach, S3Signer, Wanted, allowed, staged, understood
from frazil.catalog.storage import ancestors
from frazil.catalog.store import locations, tabulars
from frazil.catalog.vending import Access
from frazil.catalog.warehouses import Warehouse, checked_id
from frazil.core.errors import NoSuchTable, NotAllowed
from frazil.core.names import is_uuid, split_levels

routes = Routes("/catalog/v1", tag="Remote signing")

_BY_ID = "/signer/{prefix}/tabular-id/{tabular_id}"
_STAGED = "/signer/{prefix}/staged/{staged}"
_SIGN = "/v1/aws/s3/sign"
_READ = f"/read{_SIGN}"


class RemoteSignRequest(msgspec.Struct, frozen=True):
    """A request to an object store, before it is signed."""

    region: str
    uri: str
    method: str
    headers: dict[str, list[str]]
    properties: dict[str, str] | None = None
    body: str | None = None
    provider: str | None = None


class RemoteSignResult(msgspec.Struct, frozen=True):
    """The URL to send the request to, and the headers to add to it."""

    uri: str
    headers: dict[str, list[str]]


_ABOUT: Mapping[str, object] = {
    "body": RemoteSignRequest,
    "headers": (ACCESS_HEADER,),
    "answer": RemoteSignResult,
    "errors": (400, 403, 404),
}


@routes.add("POST", "/{prefix}/namespaces/{namespace}/tables/{table}/sign", **_ABOUT)
async def sign_for_table(catalog: Catalog, request: Request) -> Response:
    """Sign a request to the files of a table."""
    levels = split_levels(request.params["namespace"], "namespace")
    warehouse, found = await catalog.load(request.params["prefix"], levels, request.params["table"], "table")
    return await _signed_at(warehouse, request, found.location, requested_access(request))


@routes.add("POST", _BY_ID + _SIGN, **_ABOUT)
async def sign_for_tabular(catalog: Catalog, request: Request) -> Response:
    """Sign a request to the files of the table or generic table with this id."""
    return await _for_tabular(catalog, request, requested_access(request))


@routes.add("POST", _BY_ID + _READ, **_ABOUT)
async def sign_read_for_tabular(catalog: Catalog, request: Request) -> Response:
    """Sign a request that reads files of the table or generic table with this id."""
    return await _for_tabular(catalog, request, Access.READ)


@routes.add("POST", _STAGED + _SIGN, **_ABOUT)
async def sign_for_staged(catalog: Catalog, request: Request) -> Response:
    """Sign a request to the files of a staged table."""
    return await _for_staged(catalog, request, requested_access(request))


@routes.add("POST", _STAGED + _READ, **_ABOUT)
async def sign_read_for_staged(catalog: Catalog, request: Request) -> Response:
    """Sign a request that reads files of a staged table."""
    return await _for_staged(catalog, request, Access.READ)


@routes.add("POST", "/{prefix}" + _SIGN, **_ABOUT)
async def sign_by_location(catalog: Catalog, request: Request) -> Response:
    """Sign a request to the files of whichever table they belong to."""
    warehouse = await catalog.warehouses.get(request.params["prefix"])
    signer, wanted = _wanted(warehouse, request)
    base = warehouse.storage.base
    place = f"s3://{signer.bucket}/{wanted.keys[0]}"
    found = None
    if place.startswith(f"{base}/"):
        above = [*ancestors(place.rstrip("/"), base), place.rstrip("/")]
        found = await locations.placed_at(catalog.database, warehouse.warehouse_id, above)
    if found is None or found.kind == "view":
        raise NotAllowed(f"no table of this warehouse lies at {place[:200]!a}")
    return await _signed(signer, wanted, found.location, requested_access(request))


async def _for_tabular(catalog: Catalog, request: Request, access: Access) -> Response:
    warehouse_id = checked_id(request.params["prefix"])
    tabular_id = request.params["tabular_id"]
    found = None
    if is_uuid(tabular_id):
        found = await locations.placed(catalog.database, warehouse_id, tabular_id.lower())
    if found is None or found.kind == "view":
        raise NoSuchTable(f"there is no table with the id {tabular_id[:100]!a} in warehouse {warehouse_id}")
    warehouse = catalog.warehouses.held(warehouse_id)
    if warehouse is None or warehouse.version != found.warehouse_version:
        warehouse = await catalog.warehouses.get(warehouse_id)
    return await _signed_at(warehouse, request, found.location, access)


async def _for_staged(catalog: Catalog, request: Request, access: Access) -> Response:
    warehouse = await catalog.warehouses.get(request.params["prefix"])
    key = request.params["staged"]
    location = staged.unseal(catalog.secrets, warehouse.warehouse_id, key, now_ms())
    found = await locations.placed_at(catalog.database, warehouse.warehouse_id, [location])
    if found is None:
        above = ancestors(location, warehouse.storage.base)
        await tabulars.refuse_overlap(catalog.database, warehouse.warehouse_id, location, above, "")
    return await _signed_at(warehouse, request, location, access)


async def _signed_at(warehouse: Warehouse, request: Request, location: str, access: Access) -> Response:
    signer, wanted = _wanted(warehouse, request)
    return await _signed(signer, wanted, location, access)


def _wanted(warehouse: Warehouse, request: Request) -> tuple[S3Signer, Wanted]:
    if warehouse.signer is None:
        raise NotAllowed(
            f"warehouse {warehouse.name!r} does not sign requests: it is not on S3, or its storage profile "
            "has remote-signing-enabled false",
            kind="RemoteSigningDisabled",
        )
    body, _ = request.json(RemoteSignRequest)
    provider = body.provider or "s3"
    if provider.lower() != "s3":
        raise NotAllowed(f"provider: {provider[:50]!a} is not signed. Legal: s3")
    content = None if body.body is None else wire.check_text(body.body, "body")
    known = warehouse.signer.places
    return warehouse.signer, understood(body.method, body.uri, body.headers, content, known)


async def _signed(signer: S3Signer, wanted: Wanted, location: str, access: Access) -> Response:
    judged = allowed(wanted, Reach.of(location, write=access is not Access.READ))
    added = await signer.sign(judged)
    answer = RemoteSignResult(judged.url, {name: [value] for name, value in added.items()})
    # "private" would let Iceberg's client give the signature to any other caller in the same process.
    return Response(200, json_bytes(answer), headers=[(b"cache-control", b"no-cache")])
