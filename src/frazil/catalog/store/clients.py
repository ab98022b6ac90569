"""Clients (programs that log in with a secret) in the database."""

from __future__ import annotations

from dataclasses import dataclass

from frazil.catalog.db import Connection, UniqueViolation
from frazil.core.errors import AlreadyExists, NotFound


@dataclass(frozen=True, slots=True)
class ClientRow:
    client_id: str
    secret: str
    secret_id: str
    created_at: int
    rotated_at: int | None


async def create(connection: Connection, client_id: str, secret: str, secret_id: str, now_ms: int) -> None:
    try:
        await connection.execute(
            "INSERT INTO client (client_id, secret, secret_id, created_at) VALUES ($1, $2, $3, $4)",
            client_id,
            secret,
            secret_id,
            now_ms,
        )
    except UniqueViolation as error:
        raise AlreadyExists(
            f"a client {client_id} exists already; for a new secret: frazil client rotate {client_id}"
        ) from error


async def find(connection: Connection, client_id: str) -> ClientRow | None:
    row = await connection.fetchrow(
        "SELECT client_id, secret, secret_id, created_at, rotated_at FROM client WHERE client_id = $1",
        client_id,
    )
    return ClientRow(row[0], row[1], row[2], row[3], row[4]) if row else None


async def list_all(connection: Connection) -> list[ClientRow]:
    rows = await connection.fetch(
        "SELECT client_id, secret, secret_id, created_at, rotated_at FROM client ORDER BY client_id"
    )
    return [ClientRow(row[0], row[1], row[2], row[3], row[4]) for row in rows]


async def any_exists(connection: Connection) -> bool:
    return await connection.fetchrow("SELECT 1 FROM client LIMIT 1") is not None


async def rotate(connection: Connection, client_id: str, secret: str, secret_id: str, now_ms: int) -> None:
    touched = await connection.execute(
        "UPDATE client SET secret = $2, secret_id = $3, rotated_at = $4 WHERE client_id = $1",
        client_id,
        secret,
        secret_id,
        now_ms,
    )
    if not touched:
        raise no_such(client_id)


async def delete(connection: Connection, client_id: str) -> None:
    if not await connection.execute("DELETE FROM client WHERE client_id = $1", client_id):
        raise no_such(client_id)


def no_such(client_id: str) -> NotFound:
    return NotFound(f"there is no client {client_id}; see: frazil client list")
