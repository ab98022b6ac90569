"""Local disk.

A file is created under its final name with O_EXCL, written and fsynced. It may be seen half-written,
but nobody is told its name before `write_new` returns, and names carry a UUID, so a crash leaves an
orphan and never a file that a later write would meet. That saves the rename and a second fsync.

What must be on disk before a catalog row may point at the file: its bytes, its name, and the names of
directories made for it. On ext4, XFS and btrfs the fsync of a file that was just created commits its
name too (creation and first fsync share the journal); new directories are fsynced one by one.
"""

# Every commit passes here, and a Path costs more than the call it wraps.
# ruff: noqa: PTH102, PTH106, PTH108, PTH110, PTH112, PTH114, PTH120, PTH123
from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import AsyncIterator, Iterator, Sequence
from itertools import islice

from frazil.catalog.storage.base import READ_LIMIT, WALK_BATCH
from frazil.catalog.storage.locations import local_path, owned_file
from frazil.catalog.storage.profiles import LocalProfile
from frazil.catalog.storage.threads import WorkerThreads
from frazil.core.errors import AlreadyExists, InvalidInput, NotFound, StorageError

_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
# Neither a link nor a pipe may stand in for a file: one leads elsewhere, the other never ends.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
#: A directory can vanish between its making and the file's: others delete the last file in it. Each turn of
#: them undoes one of ours, so a few do not do where many come and go.
_ATTEMPTS = 100

# Shared by all local warehouses: threads wait on fsync, and the journal commits them together.
_DISK = WorkerThreads(8, "frazil-disk")


class LocalStorage:
    """Files below one directory."""

    def __init__(self, profile: LocalProfile) -> None:
        self._base = profile.base
        self._root = profile.path

    @property
    def base(self) -> str:
        return self._base

    async def read(self, location: str, *, limit: int = READ_LIMIT) -> bytes:
        path = self._path(location)
        return await _DISK.run(lambda: _read(self._without_links(path), limit))

    async def write_new(self, location: str, data: bytes) -> None:
        path = self._path(location)
        await _DISK.run(lambda: _write_new(self._without_links(path), data))

    async def delete(self, locations: Sequence[str]) -> list[tuple[str, str]]:
        return await _DISK.run(lambda: self._delete(locations))

    async def walk(self, location: str) -> AsyncIterator[list[str]]:
        folder = self._path(location)
        await _DISK.run(lambda: self._without_links(folder))
        found = _files_below(folder)
        while batch := await _DISK.run(lambda: list(islice(found, WALK_BATCH))):
            yield batch

    def is_missing(self, location: str) -> bool:
        # Asked at each load: the file is named by the catalog's own row, so nothing needs checking.
        return not os.path.exists(location.removeprefix("file:").replace("///", "/", 1))

    def client_config(self) -> dict[str, str]:
        return {}

    async def close(self) -> None:
        """Nothing is held open."""

    def _path(self, location: str) -> str:
        owned = owned_file(self._base, location)
        if owned is None:
            raise InvalidInput(f"location: {location[:200]!a} is not below {self._base}")
        return local_path(owned)

    def _without_links(self, path: str) -> str:
        """`path`, unless a symbolic link on the way leads out of the warehouse."""
        root = os.path.realpath(self._root)
        if f"{os.path.realpath(os.path.dirname(path))}/".startswith(f"{root}/"):
            return path
        raise InvalidInput(f"location: a symbolic link leads file://{path} out of the warehouse")

    def _delete(self, locations: Sequence[str]) -> list[tuple[str, str]]:
        failed = []
        folders = set()
        for location in locations:
            try:
                path = self._without_links(self._path(location))
                folders.add(os.path.dirname(path))
                os.unlink(path)
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                continue
            except InvalidInput as error:
                failed.append((location, error.message))
            except OSError as error:
                failed.append((location, _reason(error)))
        for folder in folders:
            self._remove_empty(folder)
        return failed

    def _remove_empty(self, folder: str) -> None:
        """An object store has no directories, so an emptied one goes with its last file."""
        while folder.startswith(self._root + "/"):
            try:
                os.rmdir(folder)
            except OSError:
                return
            folder = os.path.dirname(folder)


def _files_below(folder: str) -> Iterator[str]:
    """Whatever is not a directory; a link is named like a file and never followed."""
    if os.path.islink(folder):
        raise InvalidInput(f"location: file://{folder} is a symbolic link")
    folders = [folder]
    while folders:
        folder = folders.pop()
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                    else:
                        yield f"file://{entry.path}"
        except (FileNotFoundError, NotADirectoryError):
            # Never written to, or emptied and removed since it was seen.
            continue
        except OSError as error:
            raise _failure("list", folder, error) from None


def _read(path: str, limit: int) -> bytes:
    try:
        fd = os.open(path, _READ)
        with open(fd, "rb", buffering=0) as file:
            about = os.fstat(fd)
            if not stat.S_ISREG(about.st_mode):
                raise InvalidInput(f"location: file://{path} is not a regular file")
            if about.st_size > limit:
                raise InvalidInput(
                    f"location: file://{path} has {about.st_size} bytes, over the limit of {limit}"
                )
            return file.read(limit)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        raise NotFound(f"no file at file://{path}", kind="NoSuchFile") from None
    except OSError as error:
        raise _failure("read", path, error) from None


def _write_new(path: str, data: bytes) -> None:
    for _ in range(_ATTEMPTS):
        try:
            fd = os.open(path, _CREATE, 0o644)
        except FileNotFoundError:
            # Missing, or emptied and removed by a delete since the last turn of this loop.
            _make_directories(os.path.dirname(path))
            continue
        except FileExistsError:
            raise AlreadyExists(f"a file exists at file://{path}", kind="FileAlreadyExists") from None
        except OSError as error:
            raise _failure("write", path, error) from None
        return _fill(fd, path, data)
    raise StorageError(f"write file://{path}: its directory keeps disappearing")


def _fill(fd: int, path: str, data: bytes) -> None:
    try:
        try:
            written = os.write(fd, data)
            while written < len(data):
                written += os.write(fd, memoryview(data)[written:])
            os.fsync(fd)
        finally:
            os.close(fd)
    except OSError as error:
        # The name was ours alone (O_EXCL), so the torn file can go.
        with contextlib.suppress(OSError):
            os.unlink(path)
        raise _failure("write", path, error) from None


def _make_directories(folder: str) -> None:
    """Make `folder` and what is missing above it, each durable in its parent.

    Ends early where a delete removes them at the same time: the caller begins again.
    """
    missing = []
    while not os.path.isdir(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    for path in reversed(missing):
        try:
            os.mkdir(path, 0o755)
        except FileExistsError:
            pass
        except FileNotFoundError:
            return
        except OSError as error:
            raise _failure("create directory", path, error) from None
        # Also when somebody else made it: they may not have reached their fsync yet.
        if not _sync_directory(os.path.dirname(path)):
            return


def _sync_directory(path: str) -> bool:
    """Whether it was there."""
    try:
        fd = os.open(path, _DIRECTORY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
        return True
    except FileNotFoundError:
        return False
    except OSError as error:
        raise _failure("sync directory", path, error) from None


def _failure(operation: str, path: str, error: OSError) -> StorageError | InvalidInput:
    if error.errno == errno.ELOOP:
        return InvalidInput(f"location: file://{path} is a symbolic link")
    if error.errno == errno.ENAMETOOLONG:
        return InvalidInput(f"location: file://{path[:300]} has a name that is too long for the file system")
    return StorageError(f"{operation} file://{path}: {_reason(error)}")


def _reason(error: OSError) -> str:
    return error.strerror or type(error).__name__
