"""What every kind of storage offers that can vend credentials."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class Access(StrEnum):
    """What a vended credential allows."""

    READ = "read"
    READ_WRITE = "read-write"


@dataclass(frozen=True, slots=True)
class Vended:
    """A credential that reaches `prefix` and nothing else, until it expires."""

    prefix: str
    #: Iceberg's property names (`s3.access-key-id`, …), the expiry among them.
    config: dict[str, str]
    expires_at_ms: int

    def __repr__(self) -> str:
        return f"Vended({self.prefix}, until {self.expires_at_ms})"


class Vendor(Protocol):
    """Makes credentials for the files of one warehouse. Asks the cloud at each call: see `cache`."""

    async def vend(self, location: str, access: Access) -> Vended:
        """A fresh credential for everything below `location`, a table's, without a trailing slash."""

    async def close(self) -> None:
        """Let go of connections."""
