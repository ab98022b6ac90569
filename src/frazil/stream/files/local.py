"""A folder on a disk that the driver and all tasks see."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from frazil.core.errors import InvalidConfig, NotAllowed, NotFound, StorageError
from frazil.stream.files.found import FoundFile, changed, vanished
from frazil.stream.files.names import is_hidden

_logger = logging.getLogger(__name__)

#: A file is taken when its last change is so many seconds ago. Programs that write in pieces are given time,
#: and a later change cannot hide behind the same time of modification.
SETTLE_SECONDS = 1.0


class LocalFolder:
    """The files below a folder. Links to files are followed, links to folders are not."""

    def __init__(self, location: str) -> None:
        self._location = location.rstrip("/")
        self._root = _inner(location)
        self._warned: set[str] = set()

    def list(self) -> Iterator[FoundFile]:
        if not Path(self._root).is_dir():
            raise NotFound(
                f"there is no folder {self._root} to take files from: make it, or correct the path"
            )
        folders = [""]
        while folders:
            folder = folders.pop()
            try:
                with os.scandir(self._root + folder) as entries:
                    for entry in entries:
                        if is_hidden(entry.name) or self._is_odd(folder, entry.name):
                            continue
                        if entry.is_dir(follow_symlinks=False):
                            folders.append(f"{folder}/{entry.name}")
                        else:
                            yield from self._file(f"{folder}/{entry.name}", entry)
            except FileNotFoundError:
                continue  # removed just now
            except OSError as error:
                raise StorageError(f"list the folder {self._root}{folder}: {error.strerror}") from None

    def open(self, path: str, version: str) -> LocalFile:
        return LocalFile(path, _inner(path), version)

    def is_settled(self, file: FoundFile, now: float) -> bool:
        # A time far in the future is somebody's clock; what is being written now has the time of now.
        return abs(now - file.modified / 1e6) >= SETTLE_SECONDS

    def _file(self, behind: str, entry: os.DirEntry[str]) -> Iterator[FoundFile]:
        try:
            found = entry.stat()
        except FileNotFoundError:
            return  # removed just now, or a link to nothing
        if stat.S_ISREG(found.st_mode) and found.st_size:
            yield FoundFile(
                self._location + behind, version_of(found), found.st_size, found.st_mtime_ns // 1000
            )

    def _is_odd(self, folder: str, name: str) -> bool:
        try:
            name.encode()
        except UnicodeEncodeError:
            shown = ascii(f"{self._root}{folder}/{name}")
            if shown not in self._warned:
                self._warned.add(shown)
                _logger.warning("%s is left out: its name is not UTF-8", shown)
            return True
        return False


class LocalFile:
    """An open file. Once opened it stays the same also when its name is given to another."""

    def __init__(self, path: str, inner: str, version: str) -> None:
        self._path = path
        self._version = version
        try:
            self._descriptor = os.open(inner, os.O_RDONLY | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            raise vanished(path) from None
        except PermissionError:
            raise NotAllowed(
                f"the file {path} cannot be read: permission denied. Let this user read it"
            ) from None
        except OSError as error:
            raise StorageError(f"read {path}: {error.strerror}") from None
        try:
            found = self._check()
        except BaseException:
            self.close()
            raise
        self.modified = found.st_mtime_ns // 1000
        self.size = found.st_size

    def read(self, start: int, end: int) -> bytes:
        parts = []
        try:
            while start < end:
                part = os.pread(self._descriptor, end - start, start)
                if not part:
                    raise changed(self._path)  # it is shorter now
                parts.append(part)
                start += len(part)
        except OSError as error:
            raise StorageError(f"read {self._path}: {error.strerror}") from None
        # After reading: then what was read is of the version that is wanted.
        self._check()
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def close(self) -> None:
        os.close(self._descriptor)

    def _check(self) -> os.stat_result:
        found = os.fstat(self._descriptor)
        if version_of(found) != self._version:
            raise changed(self._path)
        return found


def version_of(found: os.stat_result) -> str:
    return f"{found.st_mtime_ns}-{found.st_size}-{found.st_ino}"


def _inner(location: str) -> str:
    path = location.removeprefix("file://") if location.startswith("file://") else location
    if not path.startswith("/"):
        raise InvalidConfig(f"'{location}' is no folder: write an absolute path or file:///folder")
    return path.rstrip("/")
