"""Exactly the files that a table's metadata document reaches, in an order that survives a crash.

Files come in phases: data and delete files, then manifests, then manifest lists, then statistics and
metadata files. What a phase was read from is not deleted before the phase is over, so a run that died
is resumed by starting over: a manifest that is missing then was deleted in a later phase than its
files, so they are gone already.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import islice
from typing import Any

from frazil.catalog.storage.base import Storage
from frazil.catalog.storage.locations import owned_file
from frazil.catalog.storage.manifests import UnreadableAvro, live_file_paths, manifest_paths
from frazil.core.errors import InvalidInput, NotFound

BATCH = 1000
_PREFETCH = 4
_REMEMBERED = 100_000


class Phase(IntEnum):
    """The kinds of files, in the order in which they may be deleted."""

    FILES = 1
    MANIFESTS = 2
    MANIFEST_LISTS = 3
    METADATA = 4


@dataclass(frozen=True)
class Skipped:
    """A file that is left alone, and why."""

    location: str
    reason: str


@dataclass(frozen=True)
class Batch:
    """At most `BATCH` locations of one phase. A location may come again in a later batch."""

    phase: Phase
    locations: tuple[str, ...]
    skipped: tuple[Skipped, ...] = ()


@dataclass
class _Collector:
    """Sorts the locations of a phase into ours and skipped, and cuts batches."""

    base: str
    phase: Phase
    locations: list[str] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    # Forgotten when full: deleting a file twice is harmless, remembering every file is not.
    seen: set[str] = field(default_factory=set)

    def add(self, found: Iterable[str]) -> None:
        for location in found:
            if location in self.seen:
                continue
            if len(self.seen) >= _REMEMBERED:
                self.seen.clear()
            self.seen.add(location)
            owned = owned_file(self.base, location)
            if owned is None:
                self.skip(location, "outside the warehouse")
            else:
                self.locations.append(owned)

    def skip(self, location: str, reason: str) -> None:
        self.skipped.append(Skipped(location, reason))

    def cut(self, *, last: bool = False) -> Iterator[Batch]:
        while len(self.locations) >= BATCH or len(self.skipped) >= BATCH or (last and self._pending()):
            yield Batch(self.phase, tuple(self.locations[:BATCH]), tuple(self.skipped[:BATCH]))
            del self.locations[:BATCH], self.skipped[:BATCH]

    def _pending(self) -> bool:
        return bool(self.locations or self.skipped)


async def reachable_files(
    storage: Storage, metadata: Mapping[str, Any], metadata_location: str | None = None
) -> AsyncIterator[Batch]:
    """Batches of what `metadata` reaches; `metadata_location` is the file of the document itself.

    A manifest that cannot be decoded is skipped and kept, and its files with it. StorageError comes
    through: nothing of a later phase was given out before it.
    """
    lists = _distinct(s["manifest-list"] for s in _snapshots(metadata) if s.get("manifest-list"))
    manifests: dict[str, None] = {}
    files = _Collector(storage.base, Phase.FILES)
    kept = set()
    async for location, data in _read_all(storage, lists, files):
        try:
            manifests.update(dict.fromkeys(await asyncio.to_thread(_all_manifests, data)))
        except UnreadableAvro as error:
            kept.add(location)
            files.skip(location, f"not a readable manifest list: {error}")
    for snapshot in _snapshots(metadata):
        manifests.update(dict.fromkeys(snapshot.get("manifests") or ()))
    async for location, data in _read_all(storage, list(manifests), files):
        paths = live_file_paths(data)
        try:
            while chunk := await asyncio.to_thread(_next_chunk, paths):
                files.add(chunk)
                for batch in files.cut():
                    yield batch
        except UnreadableAvro as error:
            kept.add(location)
            files.skip(location, f"not a readable manifest: {error}")
    for batch in files.cut(last=True):
        yield batch
    phases: list[tuple[Phase, Iterable[str]]] = [
        (Phase.MANIFESTS, (m for m in manifests if m not in kept)),
        (Phase.MANIFEST_LISTS, (m for m in lists if m not in kept)),
        (Phase.METADATA, metadata_files(metadata, metadata_location)),
    ]
    for phase, locations in phases:
        collector = _Collector(storage.base, phase)
        collector.add(locations)
        for batch in collector.cut(last=True):
            yield batch


def metadata_files(metadata: Mapping[str, Any], metadata_location: str | None) -> list[str]:
    """Statistics, older metadata files, and the document itself, in that order."""
    found = [s["statistics-path"] for s in metadata.get("statistics") or ()]
    found += [s["statistics-path"] for s in metadata.get("partition-statistics") or ()]
    found += [entry["metadata-file"] for entry in metadata.get("metadata-log") or ()]
    return _distinct([*found, metadata_location] if metadata_location else found)


def _snapshots(metadata: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return metadata.get("snapshots") or ()


def _all_manifests(data: bytes) -> list[str]:
    return list(manifest_paths(data))


def _next_chunk(paths: Iterator[str]) -> list[str]:
    return list(islice(paths, BATCH))


def _distinct(locations: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(locations))


async def _read_all(
    storage: Storage, locations: Sequence[str], notes: _Collector
) -> AsyncIterator[tuple[str, bytes]]:
    """Each location's bytes in order, a few read ahead; foreign and missing ones are noted."""
    ahead: deque[tuple[str, asyncio.Task[bytes]]] = deque()
    rest = iter(locations)
    try:
        while True:
            for location in islice(rest, _PREFETCH - len(ahead)):
                if owned_file(storage.base, location) is None:
                    notes.skip(location, "outside the warehouse, not read")
                else:
                    ahead.append((location, asyncio.ensure_future(storage.read(location))))
            if not ahead:
                return
            location, task = ahead.popleft()
            try:
                data = await task
            except NotFound:
                notes.skip(location, "missing: deleted before, its files with it")
            except InvalidInput as error:
                notes.skip(location, error.message)
            else:
                yield location, data
    finally:
        for _, task in ahead:
            task.cancel()
