"""Who the server is to Azure: a warehouse's application, or the identity of the machine."""

from __future__ import annotations

import os
import time
from pathlib import Path
from urllib.parse import urlencode

from frazil.catalog.clouds.http import CloudClient
from frazil.catalog.clouds.tokens import Token, Tokens, parse_token
from frazil.catalog.storage.credentials import AzClientCredentials, AzSystemIdentity
from frazil.core.errors import InvalidConfig

_RESOURCE = "https://storage.azure.com/"
_SCOPE = f"{_RESOURCE}.default"
_ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_METADATA = "http://169.254.169.254/metadata/identity/oauth2/token"
_PUBLIC_AUTHORITY = "https://login.microsoftonline.com"


class ClientSecretTokens(Tokens):
    """Tokens of an application that knows its secret."""

    def __init__(self, credential: AzClientCredentials, authority: str) -> None:
        super().__init__(CloudClient(credential.secrets()))
        self._url = f"{authority}/{credential.tenant_id}/oauth2/v2.0/token"
        self._credential = credential

    async def _ask(self) -> Token:
        now = time.time()
        what = f"token for the client {self._credential.client_id}"
        form = {
            "grant_type": "client_credentials",
            "client_id": self._credential.client_id,
            "client_secret": self._credential.client_secret,
            "scope": _SCOPE,
        }
        return parse_token(what, await self._client.send_json(what, "POST", self._url, form=form), now)


class WorkloadTokens(Tokens):
    """Tokens of a workload of Kubernetes, for the token that Kubernetes puts into a file."""

    def __init__(self, token_file: str, environment: dict[str, str]) -> None:
        super().__init__(CloudClient())
        self._file = Path(token_file)
        authority = environment.get("AZURE_AUTHORITY_HOST") or _PUBLIC_AUTHORITY
        try:
            self._client_id = environment["AZURE_CLIENT_ID"]
            self._url = f"{authority.rstrip('/')}/{environment['AZURE_TENANT_ID']}/oauth2/v2.0/token"
        except KeyError as missing:
            raise InvalidConfig(
                f"AZURE_FEDERATED_TOKEN_FILE is set, so {missing.args[0]} is needed"
            ) from None

    async def _ask(self) -> Token:
        now = time.time()
        what = f"token for the workload identity {self._client_id}"
        try:
            assertion = self._file.read_text().strip()
        except OSError as error:
            raise InvalidConfig(f"AZURE_FEDERATED_TOKEN_FILE: {error.strerror}: {self._file}") from None
        form = {
            "grant_type": "client_credentials",
            "client_id": self._client_id,
            "client_assertion_type": _ASSERTION_TYPE,
            "client_assertion": assertion,
            "scope": _SCOPE,
        }
        answer = await self._client.send_json(what, "POST", self._url, form=form, secrets=(assertion,))
        return parse_token(what, answer, now)


class MetadataTokens(Tokens):
    """Tokens of the managed identity of this machine."""

    def __init__(self, client_id: str | None) -> None:
        super().__init__(CloudClient())
        query = {"api-version": "2018-02-01", "resource": _RESOURCE}
        if client_id:
            query["client_id"] = client_id
        self._url = f"{_METADATA}?{urlencode(query)}"

    async def _ask(self) -> Token:
        now = time.time()
        what = "token for the identity of this machine"
        headers = {"Metadata": "true"}
        return parse_token(what, await self._client.send_json(what, "GET", self._url, headers=headers), now)


def azure_tokens(credential: AzClientCredentials | AzSystemIdentity, authority: str) -> Tokens:
    """The tokens of a stored credential."""
    if isinstance(credential, AzClientCredentials):
        return ClientSecretTokens(credential, authority)
    environment = dict(os.environ)
    if token_file := environment.get("AZURE_FEDERATED_TOKEN_FILE"):
        return WorkloadTokens(token_file, environment)
    return MetadataTokens(environment.get("AZURE_CLIENT_ID"))
