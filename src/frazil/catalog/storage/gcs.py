"""Google Cloud Storage."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from obstore.exceptions import BaseError
from obstore.store import GCSStore

from frazil.catalog.clouds.google import OBJECTS_SCOPE, google_tokens
from frazil.catalog.storage.credentials import GcsCredential
from frazil.catalog.storage.object_errors import reason
from frazil.catalog.storage.objects import RETRIES, Opened, client_options
from frazil.catalog.storage.profiles import GcsProfile
from frazil.core.errors import InvalidConfig

if TYPE_CHECKING:
    from obstore.store import GCSCredential as Bearer

_ENDPOINT = "https://storage.googleapis.com"
_Provide = Callable[[], Coroutine[Any, Any, "Bearer"]]


def open_gcs(profile: GcsProfile, credential: GcsCredential) -> Opened:
    """The bucket of a profile; nothing is contacted yet."""
    provide, close = _nobody, None
    if not profile.emulated:
        tokens = google_tokens(credential, OBJECTS_SCOPE)
        close = tokens.close

        async def provide() -> Bearer:
            token = await tokens.token()
            return {"token": token.value, "expires_at": token.expiry}

    return Opened(
        gcs_store(profile, provide),
        f"gs://{profile.bucket}/",
        profile.base,
        credential.secrets(),
        client_config(profile),
        close,
    )


def gcs_store(profile: GcsProfile, provide: _Provide) -> GCSStore:
    """obstore's view of the bucket, with tokens from `provide` and from nowhere else."""
    endpoint = profile.endpoint or _ENDPOINT
    try:
        return GCSStore(
            profile.bucket,
            config={"base_url": endpoint, "skip_signature": False},
            client_options=client_options(endpoint),
            retry_config=RETRIES,
            credential_provider=provide,
        )
    except BaseError as error:
        # It reads the key file that GOOGLE_SERVICE_ACCOUNT names, though nothing uses it here.
        raise InvalidConfig(
            f"the server's environment has a GOOGLE_ variable that is wrong: {reason(error)}"
        ) from None


def client_config(profile: GcsProfile) -> dict[str, str]:
    """What a client needs to find the bucket."""
    config = {}
    if profile.endpoint:
        config["gcs.service.host"] = profile.endpoint
    if profile.emulated:
        config["gcs.no-auth"] = "true"
    return config


async def _nobody() -> Bearer:
    """An emulator asks for no token and is trusted with none."""
    return {"token": "none", "expires_at": None}
