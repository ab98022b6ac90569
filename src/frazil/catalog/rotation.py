"""Another key for the stored secrets.

The database names the key that its secrets are sealed with by a fingerprint, and both change in one
transaction. Whoever writes a secret compares the fingerprint under the same lock, so a server that still
has the old key cannot add anything that the new one does not open.
"""

from __future__ import annotations

from frazil.catalog.db import Connection, Database
from frazil.catalog.secrets import SecretBox
from frazil.catalog.store import warehouses
from frazil.core.errors import InvalidConfig, Unavailable


async def key_in_force(connection: Connection) -> str | None:
    """The fingerprint of the key that the database's secrets are sealed with; None before the first start."""
    row = await connection.fetchrow("SELECT secret_key FROM server")
    return row[0] if row else None


async def require_key(connection: Connection, secrets: SecretBox) -> None:
    """Called with the lock of `lock_places`, before a secret is stored."""
    if await key_in_force(connection) != secrets.fingerprint():
        raise Unavailable(
            "the key that seals stored credentials was rotated since this server started; nothing was "
            "changed. Restart the server with the new key and try again"
        )


async def reseal(database: Database, old: SecretBox, new: SecretBox) -> int | None:
    """Seal everything anew and say how much; None if `new` is in force already."""
    async with database.transaction() as connection:
        await warehouses.lock_places(database, connection)
        before = await key_in_force(connection)
        if before == new.fingerprint():
            return None
        if before != old.fingerprint():
            raise InvalidConfig(
                f"the stored credentials are sealed with the key {before}, and neither the present key "
                f"({old.fingerprint()}) nor the new one ({new.fingerprint()}) is that; nothing was changed"
            )
        rows = await connection.fetch(
            "SELECT warehouse_id, storage_credential FROM warehouse WHERE storage_credential IS NOT NULL"
        )
        for warehouse_id, sealed in ((row[0], row[1]) for row in rows):
            context = warehouse_id.encode()
            # The version stays: servers that run go on with what they have opened until they are restarted.
            await connection.execute(
                "UPDATE warehouse SET storage_credential = $2 WHERE warehouse_id = $1",
                warehouse_id,
                new.seal(old.open(sealed, context), context),
            )
        await connection.execute("UPDATE server SET secret_key = $1", new.fingerprint())
        return len(rows)
