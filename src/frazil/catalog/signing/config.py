"""What a client is told so that it sends its S3 requests here to be signed."""

from __future__ import annotations

from frazil.catalog.api.config import base_uri
from frazil.catalog.http import Request
from frazil.catalog.service import Catalog, now_ms
from frazil.catalog.signing import staged
from frazil.catalog.vending import Access
from frazil.catalog.warehouses import Warehouse


def signer_config(
    catalog: Catalog,
    request: Request,
    warehouse: Warehouse,
    tabular_id: str | None,
    location: str,
    access: Access,
) -> dict[str, str]:
    """The `config` of a table whose files are reached by remote signing; no id: the table is staged.

    Empty where the warehouse does not sign.
    """
    if warehouse.signer is None:
        return {}
    uri = f"{base_uri(catalog, request)}/catalog"
    endpoint = _endpoint(catalog, warehouse.warehouse_id, tabular_id, location, access)
    return {
        "s3.remote-signing-enabled": "true",
        # Iceberg's Java client up to 1.11 and PyIceberg, and Iceberg's Java client since.
        "s3.signer.uri": uri,
        "s3.signer.endpoint": endpoint,
        "signer.uri": uri,
        "signer.endpoint": endpoint,
        # PyIceberg signs remotely only with this one.
        "s3.signer": "S3V4RestSigner",
        "py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO",
    }


def _endpoint(
    catalog: Catalog, warehouse_id: str, tabular_id: str | None, location: str, access: Access
) -> str:
    if tabular_id is None:
        of = f"staged/{staged.seal(catalog.secrets, warehouse_id, location, now_ms())}"
    else:
        of = f"tabular-id/{tabular_id}"
    # Whoever takes "read/" out asks for more than was handed out: the endpoint judges each request anew.
    read = "read/" if access is Access.READ else ""
    return f"v1/signer/{warehouse_id}/{of}/{read}v1/aws/s3/sign"
