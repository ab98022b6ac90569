"""The OAuth2 token endpoint, for clients that the server itself knows.

The REST spec calls it deprecated, and it is what `credential` of every Iceberg client calls.
"""

from __future__ import annotations

import base64
import binascii
import logging
from typing import Literal
from urllib.parse import parse_qsl

import msgspec

from frazil.catalog.http import Request, Response, Routes, json_bytes
from frazil.catalog.identity import Clients, Rejected, client_principal
from frazil.catalog.identity.access_tokens import LIFETIME_SECONDS
from frazil.catalog.service import Catalog

routes = Routes("/catalog/v1/oauth", tag="Authentication")

CLIENT_CREDENTIALS = "client_credentials"
TOKEN_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"  # noqa: S105
_ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105
_JWT = "urn:ietf:params:oauth:token-type:jwt"
_SCOPE = "catalog"
_FORM = "application/x-www-form-urlencoded"
_MOST_FIELDS = 32

_log = logging.getLogger(__name__)


class TokenRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Other fields are ignored, as RFC 6749 asks."""

    grant_type: str
    scope: str = ""
    client_id: str | None = None
    client_secret: str | None = None
    subject_token: str | None = None
    subject_token_type: str | None = None
    actor_token: str | None = None
    requested_token_type: str | None = None


class TokenResponse(msgspec.Struct, frozen=True, kw_only=True):
    access_token: str
    token_type: Literal["bearer"] = "bearer"  # noqa: S105
    expires_in: int = LIFETIME_SECONDS
    issued_token_type: str = _ACCESS_TOKEN
    #: One for all: what a client may do is not decided by its token.
    scope: str = _SCOPE


class OAuthError(msgspec.Struct, frozen=True):
    error: str
    error_description: str


class _Refused(Exception):
    def __init__(self, error: str, description: str, status: int = 400) -> None:
        super().__init__(description)
        self.answer = OAuthError(error, description)
        self.status = status


@routes.add(
    "POST",
    "/tokens",
    form=TokenRequest,
    answer=TokenResponse,
    errors=(400, 401),
    error=OAuthError,
    public=True,
)
async def get_token(catalog: Catalog, request: Request) -> Response:
    """An access token for a client's name and secret, or in exchange for one that is not over yet."""
    try:
        form = _form(request)
        if form.grant_type == CLIENT_CREDENTIALS:
            client_id, token = await _login(catalog.guard.clients, request, form)
        elif form.grant_type == TOKEN_EXCHANGE:
            client_id, token = await _exchange(catalog.guard.clients, request, form)
        else:
            raise _Refused(
                "unsupported_grant_type",
                f"grant_type {form.grant_type[:80]!r} is not {CLIENT_CREDENTIALS} or {TOKEN_EXCHANGE}",
            )
    except _Refused as refusal:
        return _answer(refusal.answer, refusal.status)
    request.principal = client_principal(client_id)
    return _answer(TokenResponse(access_token=token))


async def _login(clients: Clients, request: Request, form: TokenRequest) -> tuple[str, str]:
    client_id, secret = _credentials(request, form)
    if client_id is None or secret is None:
        raise _Refused(
            "invalid_request", "client_id and client_secret are missing; Iceberg's credential is name:secret"
        )
    token = await clients.login(client_id, secret)
    if token is None:
        _log.info("request %s: a client could not log in", request.id)
        raise _Refused("invalid_client", "there is no such client, or its secret is another", 401)
    return client_id, token


async def _exchange(clients: Clients, request: Request, form: TokenRequest) -> tuple[str, str]:
    """How Iceberg's Java client renews: by its token alone or, once that is over, with its secret too."""
    if form.subject_token is None or form.subject_token_type not in (_ACCESS_TOKEN, _JWT):
        raise _Refused("invalid_request", f"subject_token is missing, or its type is not {_ACCESS_TOKEN}")
    if form.actor_token is not None or form.requested_token_type not in (None, _ACCESS_TOKEN):
        raise _Refused("invalid_request", "only the renewal of this server's own access tokens is offered")
    proven = None
    if _credentials(request, form)[1] is not None:
        proven, _ = await _login(clients, request, form)
    try:
        return await clients.renew(form.subject_token, proven)
    except Rejected as reason:
        _log.info("request %s: a token was not renewed: %s", request.id, reason)
        description = "the subject_token is not an access token of this server, or not valid any more"
        raise _Refused("invalid_grant", description) from None


def _form(request: Request) -> TokenRequest:
    media_type = (request.header("content-type") or "").partition(";")[0].strip().lower()
    if media_type != _FORM:
        raise _Refused("invalid_request", f"Content-Type must be {_FORM}")
    try:
        pairs = parse_qsl(
            request.body.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=_MOST_FIELDS
        )
    except ValueError:
        raise _Refused("invalid_request", "the body is not a form in percent-encoded UTF-8") from None
    # RFC 6749: a parameter without a value counts as left out.
    fields = {name: value for name, value in pairs if value}
    if len(dict(pairs)) != len(pairs):
        raise _Refused("invalid_request", "a parameter is given twice")
    if "grant_type" not in fields:
        raise _Refused("invalid_request", "grant_type is missing")
    return msgspec.convert(fields, TokenRequest)


def _credentials(request: Request, form: TokenRequest) -> tuple[str | None, str | None]:
    """The client's name and secret, from the form or from HTTP Basic, but not from both."""
    scheme, _, encoded = (request.header("authorization") or "").partition(" ")
    if scheme.lower() != "basic":
        # A bearer token may come along, even one that is over: clients send what they have.
        return form.client_id, form.client_secret
    try:
        text = base64.b64decode(encoded.strip(), validate=True).decode("utf-8")
    except (binascii.Error, UnicodeDecodeError):
        raise _Refused("invalid_request", "the Basic credentials are not base64 of name:secret") from None
    client_id, colon, secret = text.partition(":")
    if not colon or form.client_secret is not None or form.client_id not in (None, client_id):
        raise _Refused("invalid_request", "give the client's name and secret once: as Basic or as form")
    return client_id, secret


def _answer(value: TokenResponse | OAuthError, status: int = 200) -> Response:
    headers = [(b"cache-control", b"no-store")]
    if status == 401:
        headers.append((b"www-authenticate", b'Basic realm="frazil"'))
    return Response(status, json_bytes(value), headers=headers)
