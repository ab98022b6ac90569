"""Azure Data Lake Storage, through the blob service, which serves the same files."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from obstore.exceptions import BaseError
from obstore.store import AzureStore

from frazil.catalog.clouds.azure import azure_tokens
from frazil.catalog.storage.credentials import AzCredential, AzSharedAccessKey
from frazil.catalog.storage.object_errors import reason
from frazil.catalog.storage.objects import RETRIES, Opened, client_options
from frazil.catalog.storage.profiles import AdlsProfile
from frazil.core.errors import InvalidConfig

if TYPE_CHECKING:
    from obstore.store import AzureAccessKey, AzureBearerToken, AzureConfig, AzureCredential

_Provide = Callable[[], Coroutine[Any, Any, "AzureCredential"]]


def open_adls(profile: AdlsProfile, credential: AzCredential) -> Opened:
    """The file system of a profile; nothing is contacted yet."""
    root = f"abfss://{profile.filesystem}@{profile.account_name}.{profile.host}/"
    provide: _Provide
    if isinstance(credential, AzSharedAccessKey):
        key, close = credential.key, None

        async def provide() -> AzureAccessKey:
            return {"access_key": key, "expires_at": None}

    else:
        tokens = azure_tokens(credential, profile.authority_host)
        close = tokens.close

        async def provide() -> AzureBearerToken:
            token = await tokens.token()
            return {"token": token.value, "expires_at": token.expiry}

    store = adls_store(profile, provide)
    return Opened(store, root, profile.base, credential.secrets(), client_config(profile), close)


def adls_store(profile: AdlsProfile, provide: _Provide) -> AzureStore:
    """obstore's view of the file system, with credentials from `provide` and from nowhere else."""
    endpoint = profile.blob_endpoint
    config: AzureConfig = {
        "account_name": profile.account_name,
        "endpoint": endpoint,
        "use_emulator": False,
        "skip_signature": False,
    }
    try:
        return AzureStore(
            profile.filesystem,
            config=config,
            client_options=client_options(endpoint),
            retry_config=RETRIES,
            credential_provider=provide,
        )
    except BaseError as error:
        raise InvalidConfig(
            f"the server's environment has an AZURE_ variable that is wrong: {reason(error)}"
        ) from None


def client_config(profile: AdlsProfile) -> dict[str, str]:
    """What a client needs beside the location; Java's clients take all from that."""
    return {"adls.account-name": profile.account_name}
