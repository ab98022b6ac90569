"""Do vended credentials really work, and only where they should?

A store whose STS takes a session policy and forgets it hands out the keys to everything. That shows only
when a session is tried, so it is, before a warehouse may use it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar, runtime_checkable
from uuid import uuid4

from frazil.catalog.storage import Storage, join
from frazil.catalog.vending.base import Access, Vended, Vendor
from frazil.core.errors import FrazilError, InvalidInput, NotAllowed, StorageError

T = TypeVar("T")

_CONTENT = b"frazil vending probe"
#: Lakekeeper's names.
VENDING_CHECKS = (
    "vended-credentials-issued",
    "vended-credentials-read-write",
    "vended-credentials-scope-enforced",
)


class Trial(Protocol):
    """What a vended credential can do, tried; NotAllowed where the store refuses."""

    async def write(self, location: str, data: bytes) -> None:
        """Write a file."""

    async def read(self, location: str) -> bytes:
        """The content of a file."""

    async def delete(self, location: str) -> None:
        """Delete a file."""

    async def list(self, location: str) -> None:
        """List what lies below a location."""


@runtime_checkable
class TriedVendor(Vendor, Protocol):
    """A vendor whose credentials can be tried."""

    def trial(self, vended: Vended) -> Trial:
        """The storage as the holder of the credential sees it."""


class VendingProbe:
    """Three checks, each of which needs the one before."""

    def __init__(self, storage: Storage, vendor: TriedVendor) -> None:
        self._storage = storage
        self._vendor = vendor
        root = join(storage.base, f"frazil-probe-{uuid4()}")
        # Like a table and one whose name begins with its name.
        self._inside, self._sibling = join(root, "t1"), join(root, "t10")
        self._file = join(self._inside, "probe")
        self._secret, self._intruder = join(self._sibling, "secret"), join(self._sibling, "intruder")
        self._writer: Trial | None = None
        self._reader: Trial | None = None

    @property
    def checks(self) -> dict[str, Callable[[], Awaitable[None]]]:
        """The checks by name, in their order."""
        return dict(zip(VENDING_CHECKS, (self.issued, self.read_write, self.scope_enforced), strict=True))

    async def issued(self) -> None:
        """Credentials are given, to read and write and to read only."""
        self._writer = self._vendor.trial(await self._vendor.vend(self._inside, Access.READ_WRITE))
        self._reader = self._vendor.trial(await self._vendor.vend(self._inside, Access.READ))

    async def read_write(self) -> None:
        """They work inside."""
        assert self._writer is not None
        assert self._reader is not None
        await _allowed("write", self._writer.write(self._file, _CONTENT))
        for session in (self._writer, self._reader):
            if await _allowed("read", session.read(self._file)) != _CONTENT:
                raise StorageError(f"read {self._file}: the bytes are not those that were written")
        await _allowed("list", self._writer.list(self._inside))
        await _allowed("delete", self._writer.delete(self._file))

    async def scope_enforced(self) -> None:
        """They work nowhere else, and the one for reading does not write."""
        assert self._writer is not None
        assert self._reader is not None
        writer, reader = self._writer, self._reader
        await self._storage.write_new(self._secret, _CONTENT)
        try:
            await _refused("read", self._secret, writer.read(self._secret))
            await _refused("list", self._sibling, writer.list(self._sibling))
            await _refused("list", self._storage.base, writer.list(self._storage.base))
            await _refused("write", self._intruder, writer.write(self._intruder, _CONTENT))
            await _refused("delete", self._secret, writer.delete(self._secret))
            await _refused("write", f"{self._file} with read access", reader.write(self._file, _CONTENT))
        finally:
            await self._storage.delete([self._secret, self._intruder, self._file])


async def require_vending(storage: Storage, vendor: Vendor | None) -> None:
    """Raise for the first check that fails; nothing to do where nothing is vended."""
    if not isinstance(vendor, TriedVendor):
        return
    for name, check in VendingProbe(storage, vendor).checks.items():
        try:
            await check()
        except FrazilError as error:
            raise InvalidInput(
                f"storage-profile: vending was tried and the check {name} failed: {error.message}",
                kind="StorageValidationFailed",
            ) from error


async def _allowed(what: str, attempt: Awaitable[T]) -> T:
    try:
        return await attempt
    except NotAllowed as error:
        raise StorageError(f"the store refuses to {what} with a vended credential: {error.message}") from None


async def _refused(what: str, where: str, attempt: Awaitable[object]) -> None:
    try:
        await attempt
    except NotAllowed:
        return
    raise NotAllowed(
        f"a credential vended for another prefix could {what} {where}: the store does not enforce session "
        "policies, so vending would open the whole warehouse. Set sts-enabled (adls: sas-enabled) to false",
        kind="ScopeNotEnforced",
    )
