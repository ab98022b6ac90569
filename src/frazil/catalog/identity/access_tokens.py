"""Access tokens of our own: what the token endpoint issues to clients."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass

import jwt

from frazil.catalog.identity.bearer import Rejected, Unverified

#: HS256: those who issue these tokens and those who check them are replicas of one server.
_ALGORITHM = "HS256"
_TYPE = "at+jwt"
LIFETIME_SECONDS = 3600


@dataclass(frozen=True, slots=True)
class AccessToken:
    """What a checked token of ours says."""

    client_id: str
    secret_id: str
    expires_at: float


class AccessTokens:
    """Issues tokens for this server and its replicas, and checks them."""

    def __init__(self, key: bytes, server_id: str, leeway: int) -> None:
        self._key = key
        self._leeway = leeway
        #: Issuer and audience: a token of one server is good for nothing on another.
        self.issuer = f"urn:frazil:{server_id}"

    def issue(self, client_id: str, secret_id: str) -> str:
        now = int(time.time())
        claims = {
            "iss": self.issuer,
            "aud": self.issuer,
            "sub": client_id,
            "sid": secret_id,
            "iat": now,
            "exp": now + LIFETIME_SECONDS,
            "jti": secrets.token_urlsafe(12),
        }
        return jwt.encode(claims, self._key, algorithm=_ALGORITHM, headers={"typ": _TYPE})

    def verify(self, token: str, said: Unverified, *, expired: bool = False) -> AccessToken:
        """The token's content, or Rejected; with `expired` its end does not matter."""
        if said.algorithm != _ALGORITHM or said.kind != _TYPE:
            raise Rejected("it claims to be ours and is not of our kind")
        try:
            claims = jwt.decode(
                token,
                self._key,
                algorithms=[_ALGORITHM],
                issuer=self.issuer,
                audience=self.issuer,
                leeway=self._leeway,
                options={
                    "require": ["iss", "aud", "sub", "sid", "iat", "exp"],
                    "verify_exp": not expired,
                    "strict_aud": True,
                },
            )
        except jwt.InvalidTokenError as error:
            raise Rejected(f"it is not valid ({type(error).__name__})") from None
        return AccessToken(claims["sub"], claims["sid"], claims["exp"])
