"""Clients of our own token endpoint: logging in, renewing, and checking what they bring."""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass

from frazil.catalog.db import Database
from frazil.catalog.identity.access_tokens import AccessToken, AccessTokens
from frazil.catalog.identity.bearer import Rejected, Unverified, unverified
from frazil.catalog.identity.hashing import SecretChecker, hashed, new_secret
from frazil.catalog.store import clients as rows
from frazil.core.errors import InvalidInput

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True, slots=True)
class NewSecret:
    """A secret at the only time that it is known."""

    client_id: str
    secret: str

    def __repr__(self) -> str:
        return f"NewSecret({self.client_id!r})"


async def create_client(database: Database, name: str, now_ms: int) -> NewSecret:
    """A new client; AlreadyExists if there is one of that name."""
    secret = new_secret()
    await rows.create(database, checked_name(name), hashed(secret), str(uuid.uuid4()), now_ms)
    return NewSecret(name, secret)


async def rotate_client(database: Database, name: str, now_ms: int) -> NewSecret:
    """A new secret; the old one and the tokens that were got with it end."""
    secret = new_secret()
    await rows.rotate(database, checked_name(name), hashed(secret), str(uuid.uuid4()), now_ms)
    return NewSecret(name, secret)


def checked_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise InvalidInput(
            f"client name {name[:80]!r} is not 1 to 64 letters, digits, '.', '_' or '-', the first of them a "
            "letter or digit"
        )
    return name


class Clients:
    """What the server asks of the clients in its database."""

    def __init__(self, database: Database, tokens: AccessTokens) -> None:
        self.tokens = tokens
        self._database = database
        self._secrets = SecretChecker()

    async def login(self, client_id: str, secret: str) -> str | None:
        """An access token; None if there is no such client or its secret is another."""
        row = await rows.find(self._database, client_id) if _NAME.fullmatch(client_id) else None
        if not await self._secrets.matches(secret, row.secret if row else None):
            return None
        assert row is not None
        return self.tokens.issue(row.client_id, row.secret_id)

    async def renew(self, token: str, proven: str | None) -> tuple[str, str]:
        """The client, and a new token in exchange for one of ours; Rejected.

        `proven` is the client that gave its secret along: its token may be over already.
        """
        said = unverified(token)
        if said.issuer != self.tokens.issuer:
            raise Rejected("it was issued by somebody else")
        checked = self.tokens.verify(token, said, expired=proven is not None)
        if proven not in (None, checked.client_id):
            raise Rejected("it was issued to another client")
        row = await self._current(checked, same_secret=proven is None)
        return row.client_id, self.tokens.issue(row.client_id, row.secret_id)

    async def verify(self, token: str, said: Unverified) -> AccessToken:
        """The token's content if its client still exists with the same secret; Rejected."""
        checked = self.tokens.verify(token, said)
        await self._current(checked, same_secret=True)
        return checked

    async def _current(self, token: AccessToken, *, same_secret: bool) -> rows.ClientRow:
        row = await rows.find(self._database, token.client_id)
        if row is None:
            raise Rejected(f"its client {token.client_id} was deleted")
        if same_secret and row.secret_id != token.secret_id:
            raise Rejected(f"the secret of its client {token.client_id} was changed")
        return row

    async def exist(self) -> bool:
        return await rows.any_exists(self._database)

    def close(self) -> None:
        self._secrets.close()
