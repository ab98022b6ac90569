"""A table's storage as a task sees it: files are written, listed and removed through pyarrow.

Paths go in and come out in the table's own spelling (`s3a://` stays `s3a://`), because Iceberg compares them
as text.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
from pyarrow import fs

from frazil.client import VendedCredentials
from frazil.client.translate.python import pyarrow_arguments
from frazil.core.errors import InvalidInput, StorageError, Unsupported

_DELETERS = 8
_CONNECT_SECONDS = 10.0
_ANSWER_SECONDS = 60.0
_REFUSED = re.compile(
    r"access_?denied|forbidden|(status|code):? 403|invalid_?access_?key|signature_?does_?not_?match"
    r"|expired_?token|authentication_?failed|permission_?denied|permission denied",
    re.IGNORECASE,
)
_SECRET = re.compile(r"key|secret|token")


class Inputs(Protocol):
    """Files to read from, wherever each of them lies."""

    def open_input(self, path: str) -> pa.NativeFile:
        """A file to read from, at any place in it."""

    def reading(self, path: str) -> contextlib.AbstractContextManager[None]:
        """Turns what the store says while an open file is read into StorageError."""


class FileStorage:
    """The files below one location. Keys are held, and shown nowhere."""

    def __init__(self, location: str, filesystem: fs.FileSystem, secrets: Iterable[str] = ()) -> None:
        self._location = location
        self._filesystem = filesystem
        self._secrets = tuple(sorted(secrets, key=len, reverse=True))
        self._local = isinstance(filesystem, fs.LocalFileSystem)

    def __repr__(self) -> str:
        return f"FileStorage({self._location!r})"

    @classmethod
    def of(cls, location: str, credentials: VendedCredentials | None) -> FileStorage:
        """The storage at `location`; local paths need no keys.

        >>> FileStorage.of("file:///lake/orders", None)
        FileStorage('file:///lake/orders')
        """
        if is_local(location):
            return cls(location, fs.LocalFileSystem())
        if credentials is None:
            raise Unsupported(
                f"there are no keys for {location}: switch vending on for its warehouse (on S3: sts-enabled "
                "and sts-role-arn in its profile), or give the keys"
            )
        kind, arguments = pyarrow_arguments(credentials)
        if kind == "S3FileSystem":
            # A small file is then one request instead of three.
            arguments |= {
                "allow_delayed_open": True,
                "connect_timeout": _CONNECT_SECONDS,
                # pyarrow's own 3 s are over before a busy store has answered.
                "request_timeout": _ANSWER_SECONDS,
            }
        secrets = [value for name, value in credentials.config.items() if value and _SECRET.search(name)]
        with _failures("open", location, secrets):
            return cls(location, getattr(fs, kind)(**arguments), secrets)

    def open_output(self, path: str) -> Output:
        """A new file, or an old one emptied. It is there for good when `close` has returned."""
        with self._failures("write", path):
            if self._local:
                folders = _make_directories(Path(_inner(path)).parent)
                return Output(self, path, pa.OSFile(_inner(path), "wb"), folders)
            return Output(self, path, self._filesystem.open_output_stream(_inner(path)), None)

    def open_input(self, path: str) -> pa.NativeFile:
        """A file to read from, at any place in it."""
        with self._failures("read", path):
            return self._filesystem.open_input_file(_inner(path))

    def reading(self, path: str) -> contextlib.AbstractContextManager[None]:
        """Turns what the store says while an open file is read into StorageError."""
        return self._failures("read", path)

    def delete(self, paths: Iterable[str]) -> None:
        """Remove files; those that are not there are fine. Tries all before it raises."""
        wanted = list(paths)
        if len(wanted) > 1 and not self._local:
            with ThreadPoolExecutor(min(_DELETERS, len(wanted))) as pool:
                failed = [error for error in pool.map(self._delete, wanted) if error]
        else:
            failed = [error for error in map(self._delete, wanted) if error]
        if failed:
            raise StorageError(f"{len(failed)} of {len(wanted)} files were not removed: {failed[0].message}")

    def list(self, prefix: str) -> Iterator[str]:
        """Every file whose path begins with `prefix`, at any depth. A place that does not exist has none."""
        folder = prefix[: prefix.rindex("/")]
        selector = fs.FileSelector(_inner(folder), allow_not_found=True, recursive=True)
        with self._failures("list", prefix):
            found = self._filesystem.get_file_info(selector)
        inner = _inner(folder).rstrip("/")
        for entry in found:
            path = folder + entry.path[len(inner) :]
            if entry.type == fs.FileType.File and path.startswith(prefix):
                yield path

    def size(self, path: str) -> int:
        """Bytes of a file; StorageError if there is none."""
        with self._failures("look at", path):
            size: int | None = self._filesystem.get_file_info(_inner(path)).size
        if size is None:
            raise StorageError(f"look at {path}: there is no such file")
        return size

    def _delete(self, path: str) -> StorageError | None:
        try:
            with self._failures("remove", path), contextlib.suppress(FileNotFoundError, NotADirectoryError):
                self._filesystem.delete_file(_inner(path))
        except StorageError as error:
            return error
        return None

    def _failures(self, operation: str, path: str) -> contextlib.AbstractContextManager[None]:
        return _failures(operation, path, self._secrets)


class Output:
    """An open file for pyarrow's writers (`sink`)."""

    def __init__(self, storage: FileStorage, path: str, sink: Any, folders: list[Path] | None) -> None:
        self._storage = storage
        self._folders = folders
        self.path = path
        self.sink = sink

    def guard(self) -> contextlib.AbstractContextManager[None]:
        """Turns what the store says inside it into StorageError."""
        return self._storage._failures("write", self.path)  # noqa: SLF001

    def close(self) -> int:
        """Make the file durable; its size."""
        with self.guard():
            size: int = self.sink.tell()
            self.sink.close()
            if self._folders is not None:
                _sync(_inner(self.path))
                for folder in self._folders:
                    _sync(folder)
        return size

    def discard(self) -> None:
        """Give the file up, as far as that goes; never raises."""
        with contextlib.suppress(Exception):
            self.sink.close()
        with contextlib.suppress(Exception):
            self._storage.delete([self.path])


def is_local(location: str) -> bool:
    """Whether it is a path of this machine, which needs no keys."""
    return location.startswith(("/", "file:"))


def _inner(path: str) -> str:
    """The path inside pyarrow's file system. What engines write is literal, so nothing is decoded."""
    if path.startswith("/"):
        return path
    scheme, _, rest = path.partition(":")
    if scheme == "file":
        found = rest.removeprefix("//")
        if not found.startswith("/"):
            raise InvalidInput(f"{path} is no local path; write file:///folder/…")
        return found
    authority, slash, key = rest.removeprefix("//").partition("/")
    # Azure: container@account.
    return authority.partition("@")[0] + slash + key


@contextlib.contextmanager
def _failures(operation: str, path: str, secrets: Iterable[str]) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        text = str(error)
        for secret in secrets:
            text = text.replace(secret, "…")
        if _REFUSED.search(text):
            text = f"the store refused it; the keys do not reach there, or have ended ({text})"
        # Not chained: the original may hold what was just taken out.
        raise StorageError(f"{operation} {path}: {text}") from None


def _make_directories(folder: Path) -> list[Path]:
    """Make what is missing of `folder`; the folders in which there are new names then, its own included."""
    changed = [folder]
    while not changed[-1].is_dir():
        changed.append(changed[-1].parent)
    folder.mkdir(parents=True, exist_ok=True)
    return changed


def _sync(path: str | Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
