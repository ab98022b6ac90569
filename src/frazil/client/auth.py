"""Who the client says it is: a token as it was given, or one from an OAuth2 token endpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from time import monotonic
from urllib.parse import urlencode

import msgspec

from frazil.client.address import check_url
from frazil.client.exchange import Retry, exchange
from frazil.client.failures import sentence
from frazil.client.flow import Answer, Flow, Request
from frazil.core.errors import (
    CommitStateUnknown,
    FrazilError,
    InvalidConfig,
    Unauthenticated,
    Unavailable,
    Unsupported,
)

#: Where a server issues tokens itself.
OWN_TOKEN_PATH = "/catalog/v1/oauth/tokens"  # noqa: S105 (a path)
#: Seconds before its end at which a token is renewed; of a short-lived one, a quarter of its life.
_MARGIN = 60.0


@dataclass(frozen=True)
class ClientCredentials:
    """OAuth2 client credentials. Without a `token_url`, the catalog server itself issues the tokens."""

    client_id: str
    client_secret: str = field(repr=False)
    token_url: str | None = None
    scope: str | None = None

    def __post_init__(self) -> None:
        if not self.client_id or not self.client_secret:
            raise InvalidConfig("client credentials need a client id and a client secret")
        if self.token_url is not None:
            check_url(self.token_url, "the token URL", "an http:// or https:// URL")


class StaticToken:
    """A token that somebody else renews."""

    renewable = False

    def __init__(self, token: str, origin: str) -> None:
        if not token.isascii() or not token.isprintable() or " " in token:
            raise InvalidConfig(f"the token from {origin} is not one word of printable ASCII")
        self._token = token
        self._origin = origin

    def ready(self, refused: str | None) -> str | None:
        return self._token

    def renew(self, refused: str | None) -> Flow[str]:
        yield from ()
        return self._token

    def explained(self, error: Unauthenticated) -> FrazilError:
        return Unauthenticated(
            f"{sentence(error.message)} The token from {self._origin} was refused: get a new one, or let the "
            "client get its own with OAUTH_CLIENT_ID and OAUTH_CLIENT_SECRET",
            kind=error.kind,
        )

    def iceberg_properties(self) -> dict[str, str]:
        return {"rest.auth.type": "oauth2", "token": self._token, "token-refresh-enabled": "false"}


@dataclass(frozen=True, slots=True)
class _Issued:
    token: str = field(repr=False)
    renew_at: float
    expires_at: float


class _TokenAnswer(msgspec.Struct, frozen=True):
    access_token: str
    token_type: str = "bearer"  # noqa: S105 (a kind of token)
    expires_in: float | None = None


class OAuthTokens:
    """Tokens by client credentials, each kept until shortly before it expires."""

    renewable = True

    def __init__(self, credentials: ClientCredentials, retry: Retry) -> None:
        self._credentials = credentials
        self._retry = retry
        self._issued: _Issued | None = None

    def ready(self, refused: str | None) -> str | None:
        issued = self._issued
        if issued is None or issued.token == refused or monotonic() >= issued.renew_at:
            return None
        return issued.token

    def renew(self, refused: str | None) -> Flow[str]:
        """While the token endpoint is away, the old token serves until its very end."""
        try:
            answer = yield from exchange(self._request(), self._retry)
        except (Unavailable, CommitStateUnknown) as error:
            old = self._issued
            if old is not None and old.token != refused and monotonic() < old.expires_at:
                return old.token
            # Another server than the catalog's may be the one that is away.
            kind = error.kind if self._credentials.token_url is None else None
            raise Unavailable(
                f"no token could be had from {self._where}: {error.message}", kind=kind
            ) from None
        except FrazilError as error:
            raise self._refused(error) from None
        self._issued = _issued(answer)
        return self._issued.token

    def explained(self, error: Unauthenticated) -> FrazilError:
        return Unauthenticated(
            f"{sentence(error.message)} The server refused a token that {self._where} had just issued for "
            f"the client {self._credentials.client_id!r}: check issuer, audience and scope",
            kind=error.kind,
        )

    def iceberg_properties(self) -> dict[str, str]:
        """Without token exchange, which most servers do not offer: an old token is replaced by a new one."""
        given = self._credentials
        if ":" in given.client_id:
            raise Unsupported(
                f"Iceberg's clients cannot use the client id {given.client_id!r}: it has a colon"
            )
        found = {
            "rest.auth.type": "oauth2",
            "credential": f"{given.client_id}:{given.client_secret}",
            "token-exchange-enabled": "false",
            # Left out, it would be `catalog`; without a value it counts as left out (RFC 6749, 3.2).
            "scope": given.scope or "",
        }
        return found | ({"oauth2-server-uri": given.token_url} if given.token_url is not None else {})

    @property
    def _where(self) -> str:
        return self._credentials.token_url or OWN_TOKEN_PATH

    def _request(self) -> Request:
        given = self._credentials
        form = {"grant_type": "client_credentials", "client_id": given.client_id}
        form["client_secret"] = given.client_secret
        if given.scope:
            form["scope"] = given.scope
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
        return Request("POST", self._where, headers=headers, body=urlencode(form).encode(), repeatable=True)

    def _refused(self, error: FrazilError) -> Unauthenticated:
        return Unauthenticated(
            f"{self._where} gave no token for the client {self._credentials.client_id!r}: "
            f"{sentence(error.message)} "
            "Check OAUTH_TOKEN_URL, OAUTH_CLIENT_ID, OAUTH_CLIENT_SECRET and OAUTH_SCOPE"
        )


def _issued(answer: Answer) -> _Issued:
    try:
        found = msgspec.json.decode(answer.body, type=_TokenAnswer, strict=False)
    except msgspec.DecodeError:
        # The text of the error could repeat a part of the token.
        raise Unauthenticated("the token endpoint's answer is not that of OAuth2") from None
    if found.token_type.lower() != "bearer":
        raise Unauthenticated(f"the token endpoint issued a token of type {found.token_type!r}, not bearer")
    if found.expires_in is None:
        return _Issued(found.access_token, float("inf"), float("inf"))
    now = monotonic()
    margin = min(_MARGIN, found.expires_in / 4)
    return _Issued(found.access_token, now + found.expires_in - margin, now + found.expires_in)


def authorizer_for(
    token: str | None, oauth: ClientCredentials | None, environment: Mapping[str, str], retry: Retry
) -> StaticToken | OAuthTokens | None:
    """What was given, else what the environment says; there, `TOKEN` wins over `OAUTH_*`."""
    if token is not None and oauth is not None:
        raise InvalidConfig("give a token or client credentials, not both")
    if token is not None:
        return StaticToken(token, "the argument token")
    if oauth is not None:
        return OAuthTokens(oauth, retry)
    if environment.get("TOKEN"):
        return StaticToken(environment["TOKEN"].strip(), "the environment variable TOKEN")
    found = _from_environment(environment)
    return None if found is None else OAuthTokens(found, retry)


def _from_environment(environment: Mapping[str, str]) -> ClientCredentials | None:
    client_id, secret = environment.get("OAUTH_CLIENT_ID"), environment.get("OAUTH_CLIENT_SECRET")
    if not client_id and not secret:
        return None
    if not client_id or not secret:
        missing = "OAUTH_CLIENT_SECRET" if client_id else "OAUTH_CLIENT_ID"
        raise InvalidConfig(f"{missing} is not set, but the other half of the client credentials is")
    return ClientCredentials(
        client_id, secret, environment.get("OAUTH_TOKEN_URL") or None, environment.get("OAUTH_SCOPE") or None
    )
