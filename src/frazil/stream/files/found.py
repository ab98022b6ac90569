"""A file as a listing shows it, and the place that is listed and read."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from frazil.core.errors import BadRecord, RoundFailed


@dataclass(frozen=True)
class FoundFile:
    """One version of a file."""

    #: In the spelling of the source's location.
    path: str
    #: Another one whenever the content is another.
    version: str
    size: int
    #: Microseconds since 1970.
    modified: int


class OpenFile(Protocol):
    """One version of a file, to be read from. Any read ends with RoundFailed once that version is gone."""

    #: Microseconds since 1970. This and the size are known after the first read.
    @property
    def modified(self) -> int: ...

    @property
    def size(self) -> int: ...

    def read(self, start: int, end: int) -> bytes:
        """The bytes from `start` up to `end`, not fewer."""

    def close(self) -> None: ...


class Place(Protocol):
    """The folder or bucket of a source."""

    def list(self) -> Iterator[FoundFile]:
        """Every file at any depth that is to be taken: no hidden or empty ones.

        NotFound: there is no such place. NotAllowed, StorageError: it does not let itself be read.
        """

    def open(self, path: str, version: str) -> OpenFile:
        """RoundFailed if the file is gone or has another version."""

    def is_settled(self, file: FoundFile, now: float) -> bool:
        """Whether nobody is writing to the file any more; `now` in seconds since 1970."""


def changed(path: str) -> RoundFailed:
    return RoundFailed(
        f"the file {path} was overwritten while it was to be read. Nothing was written; the next round reads "
        "its new version"
    )


def vanished(path: str) -> RoundFailed:
    return RoundFailed(
        f"the file {path} was removed before it was read. Nothing was written; the next round goes on "
        "without it"
    )


def broken(path: str, reason: str) -> BadRecord:
    return BadRecord(
        f"the file {path} {reason}. Nothing was written. Correct or remove it; the pipeline then goes on"
    )


class Seekable(io.RawIOBase):
    """An open file for readers that jump in it."""

    def __init__(self, file: OpenFile, size: int) -> None:
        super().__init__()
        self._file = file
        self._size = size
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = base + offset
        return self._at

    def tell(self) -> int:
        return self._at

    def size(self) -> int:
        return self._size

    def read(self, size: int | None = -1) -> bytes:
        end = self._size if size is None or size < 0 else min(self._size, self._at + size)
        if end <= self._at:
            return b""
        data = self._file.read(self._at, end)
        self._at = end
        return data

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)
