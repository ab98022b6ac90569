"""Idempotency keys: recorded in the transaction of the change they stand for."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from frazil.catalog.db import Connection, Database, UniqueViolation

#: How long a key is honoured; `/v1/config` announces it.
LIFETIME = "PT30M"
#: Kept longer than announced, so that a slow client's last retry still finds its key.
_KEPT_MS = 40 * 60 * 1000


@dataclass(frozen=True, slots=True)
class Mark:
    """A key together with the request that carries it."""

    warehouse_id: str
    key: str
    request: str

    async def record(self, connection: Connection, status: int, now_ms: int, answer: str = "") -> None:
        await connection.execute(
            "INSERT INTO idempotency (idempotency_key, warehouse_id, request, status, answer, created_at) "
            "VALUES ($1, $2, $3, $4, $5, $6)",
            self.key,
            self.warehouse_id,
            self.request,
            status,
            answer,
            now_ms,
        )


@dataclass(frozen=True, slots=True)
class Recorded:
    request: str
    status: int
    answer: str


async def recorded(connection: Connection, mark: Mark) -> Recorded | None:
    row = await connection.fetchrow(
        "SELECT request, status, answer FROM idempotency WHERE warehouse_id = $1 AND idempotency_key = $2",
        mark.warehouse_id,
        mark.key,
    )
    return Recorded(row[0], row[1], row[2]) if row else None


async def forget_old(database: Database, now_ms: int) -> int:
    """Remove keys whose lifetime is over."""
    return await database.execute("DELETE FROM idempotency WHERE created_at < $1", now_ms - _KEPT_MS)


def digest(caller: str, method: str, path: str, body: bytes) -> str:
    """What makes two requests the same; somebody else's request never is."""
    parts = (caller.encode(), method.encode(), path.encode(), body)
    return hashlib.blake2b(b"\n".join(parts), digest_size=16).hexdigest()


def is_rival(error: UniqueViolation) -> bool:
    return error.constraint == "idempotency.idempotency_key"
