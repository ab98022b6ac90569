"""S3 and what speaks its protocol."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from obstore.store import S3Store

from frazil.catalog.storage.credentials import S3AccessKey, S3Credential
from frazil.catalog.storage.objects import RETRIES, Opened, client_options
from frazil.catalog.storage.profiles import S3Profile

if TYPE_CHECKING:
    from obstore.store import S3Config
    from obstore.store import S3Credential as Keys


def open_s3(profile: S3Profile, credential: S3Credential) -> Opened:
    """The bucket of a profile; nothing is contacted yet."""
    endpoint = profile.endpoint or f"https://s3.{profile.region}.amazonaws.com"
    if not profile.path_style_access:
        scheme, _, host = endpoint.partition("://")
        endpoint = f"{scheme}://{profile.bucket}.{host}"
    config: S3Config = {
        "region": profile.region,
        "endpoint": endpoint,
        "aws_endpoint_url_s3": endpoint,
        "virtual_hosted_style_request": not profile.path_style_access,
        "skip_signature": False,
    }
    if profile.aws_kms_key_arn:
        config["sse_kms_key_id"] = profile.aws_kms_key_arn
        config["server_side_encryption"] = "aws:kms"
    store = S3Store(
        profile.bucket,
        config=config,
        client_options=client_options(endpoint),
        retry_config=RETRIES,
        credential_provider=_provider(credential),
    )
    root = f"s3://{profile.bucket}/"
    return Opened(store, root, profile.base, credential.secrets(), _client_config(profile))


def _client_config(profile: S3Profile) -> dict[str, str]:
    config = {"s3.region": profile.region, "client.region": profile.region, "region": profile.region}
    config["s3.path-style-access"] = "true" if profile.path_style_access else "false"
    if profile.endpoint:
        config["s3.endpoint"] = profile.endpoint
    return config


def _provider(credential: S3Credential) -> Callable[[], Keys] | None:
    if not isinstance(credential, S3AccessKey):
        return None
    access_key_id, secret_access_key = credential.access_key_id, credential.secret_access_key

    def provide() -> Keys:
        return {
            "access_key_id": access_key_id,
            "secret_access_key": secret_access_key,
            "token": None,
            "expires_at": None,
        }

    return provide
