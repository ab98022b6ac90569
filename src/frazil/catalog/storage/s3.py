"""S3 and what speaks its protocol."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from obstore.store import S3Store

from frazil.catalog.aws.partitions import partition_of
from frazil.catalog.storage.credentials import S3AccessKey, S3Credential
from frazil.catalog.storage.objects import RETRIES, Opened, client_options
from frazil.catalog.storage.profiles import S3Profile

if TYPE_CHECKING:
    from obstore.store import S3Config
    from obstore.store import S3Credential as Keys


def open_s3(profile: S3Profile, credential: S3Credential) -> Opened:
    """The bucket of a profile; nothing is contacted yet."""
    endpoint = profile.endpoint or f"https://s3.{profile.region}.{partition_of(profile.region).domain}"
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
        credential_provider=_provider(profile, credential),
    )
    root = f"s3://{profile.bucket}/"
    return Opened(store, root, profile.base, credential.secrets(), _client_config(profile))


def _client_config(profile: S3Profile) -> dict[str, str]:
    config = {"s3.region": profile.region, "client.region": profile.region, "region": profile.region}
    config["s3.path-style-access"] = "true" if profile.path_style_access else "false"
    if profile.endpoint:
        config["s3.endpoint"] = profile.endpoint
    return config


def _provider(
    profile: S3Profile, credential: S3Credential
) -> Callable[[], Keys] | Callable[[], Coroutine[Any, Any, Keys]] | None:
    if profile.assume_role_arn is not None:
        return _assumed(profile, credential)
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


def _assumed(profile: S3Profile, credential: S3Credential) -> Callable[[], Coroutine[Any, Any, Keys]]:
    # Imported late: a warehouse with plain keys never loads an HTTP client.
    from frazil.catalog.aws.own_keys import AssumedKeys, own_keys

    source = own_keys(profile, credential)
    assert isinstance(source, AssumedKeys)

    async def provide() -> Keys:
        session = await source.session()
        return {
            "access_key_id": session.keys.access_key_id,
            "secret_access_key": session.keys.secret_access_key,
            "token": session.keys.session_token,
            "expires_at": datetime.fromtimestamp(session.expires_at_ms / 1000, UTC),
        }

    return provide
