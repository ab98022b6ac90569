"""The files of a dataset: each has a number, is there as a whole or not at all, and says how far it goes.

A file's stamp is the metadata of its object; one that is too large for that lies in an object of its own,
written first. On a local disk it is a file beside it. Both are below `_frazil/`, where engines do not look.
"""

from __future__ import annotations

import contextlib
import os
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import msgspec
import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, NotFoundError, PreconditionError

from frazil.core.errors import HistoryChanged, StorageError, Unsupported
from frazil.core.failpoints import reach
from frazil.core.stamp import Stamp
from frazil.stream.files.s3 import open_bucket

if TYPE_CHECKING:
    from collections.abc import Iterable

    from obstore import GetResult

    from frazil.client import VendedCredentials

_HIDDEN = "_frazil"
_DIGITS = 12
#: S3 takes 2 KB of metadata.
_METADATA_BYTES = 1500
_ALIASES = {"client.region": "s3.region"}
_SETTINGS = frozenset(
    {
        "s3.endpoint",
        "s3.region",
        "s3.access-key-id",
        "s3.secret-access-key",
        "s3.session-token",
        "s3.path-style-access",
    }
)


class Taken(Exception):
    """There is a file of that number already."""


class Place(Protocol):
    def newest(self, stem: str, after: int) -> int:
        """The highest number of a file beyond `after`, else `after`."""

    def stamp(self, name: str) -> Stamp:
        """Of the file of that name; HistoryChanged if there is none."""

    def written_at(self, name: str) -> datetime:
        """When the file of that name was put."""

    def put(self, name: str, data: bytes, stamp: Stamp) -> None:
        """Write the file, which must not be there (Taken)."""


def file_name(stem: str, number: int, extension: str) -> str:
    return f"{stem}-{number:0{_DIGITS}d}.{extension}"


def newest_stamp(place: Place, stem: str, extension: str, after: int = 0) -> tuple[int, Stamp | None]:
    """The highest number of a file and its stamp; None: there is none beyond `after`."""
    while True:
        number = place.newest(stem, after)
        if number == after:
            return number, None
        try:
            return number, place.stamp(file_name(stem, number, extension))
        except HistoryChanged:
            # What lies beside a file is removed when that is not the newest any more.
            if place.newest(stem, number) == number:
                raise


def is_local(location: str) -> bool:
    """A folder, for which there are no keys."""
    return location.startswith(("/", "file:"))


def place_of(location: str, credentials: VendedCredentials | None) -> Place:
    """Where the files of a generic table are."""
    if is_local(location):
        return Folder(Path("/" + location.removeprefix("file:").lstrip("/")))
    if credentials is None or not location.startswith(("s3://", "s3a://")):
        raise Unsupported(
            f"a dataset at {location} cannot be written: datasets are written to S3 with vended keys, and to "
            "local folders"
        )
    return Bucket(location, credentials)


def _number(name: str, stem: str) -> int | None:
    match = re.fullmatch(rf"{re.escape(stem)}-(\d{{{_DIGITS},}})\.[a-z]+", name)
    return None if match is None else int(match[1])


def _highest(names: Iterable[str], stem: str, after: int) -> int:
    return max((number for name in names if (number := _number(name, stem)) is not None), default=after)


def _outdated(sides: Iterable[str], name: str) -> list[str]:
    """What lies beside files before that one: only the newest is asked how far it goes."""
    stem = name.rpartition("-")[0]
    own = _number(name, stem) or 0
    return [side for side in sides if (_number(side.rpartition("-")[0], stem) or own) < own]


class Bucket:
    """A prefix of a bucket."""

    def __init__(self, location: str, credentials: VendedCredentials) -> None:
        self._location = location.rstrip("/")
        bucket, _, prefix = location.partition("://")[2].partition("/")
        self._prefix = prefix.strip("/")
        given = {_ALIASES.get(name, name): value for name, value in credentials.config.items()}
        settings = {name: value for name, value in given.items() if name in _SETTINGS}
        self._secrets = [value for name, value in settings.items() if "key" in name or "token" in name]
        self._store = open_bucket(bucket, settings)

    def newest(self, stem: str, after: int) -> int:
        # Names are in the order of their numbers, so what was seen before is left out.
        offset = self._key(f"{stem}-{after:0{_DIGITS}d}")
        names: list[str] = []
        try:
            for page in obstore.list(self._store, self._prefix or None, offset=offset):
                names += [meta["path"].removeprefix(f"{self._prefix}/") for meta in page]
        except (BaseError, OSError) as error:
            raise self._failed("list", "", error) from None
        return max(after, _highest(names, stem, after))

    def stamp(self, name: str) -> Stamp:
        attributes = {str(key): str(value) for key, value in self._head(name).attributes.items()}
        text = attributes.get("frazil-stamp")
        if text is None and "frazil-token" in attributes:
            text = self._read(name, self._side(name, attributes["frazil-token"]))
        if text is None:
            raise _nameless(f"{self._location}/{name}")
        return Stamp.decode(text)

    def put(self, name: str, data: bytes, stamp: Stamp) -> None:
        text = _ascii(stamp)
        attributes = {"frazil-stamp": text}
        try:
            if len(text) > _METADATA_BYTES:
                attributes = {"frazil-token": stamp.token}
                obstore.put(self._store, self._side(name, stamp.token), text.encode())
            reach("dataset.before")
            obstore.put(
                self._store,
                self._key(name),
                data,
                attributes=attributes,
                mode="create",
                use_multipart=False,
            )
            reach("dataset.after")
        except (AlreadyExistsError, PreconditionError):
            raise Taken from None
        except (BaseError, OSError) as error:
            raise self._failed("write", name, error) from None
        if "frazil-token" in attributes:
            self._forget(name)

    def _forget(self, name: str) -> None:
        hidden = self._key(_HIDDEN)
        # The file is there: what cannot be removed now is removed with the next one.
        with contextlib.suppress(BaseError, OSError):
            pages = obstore.list(self._store, hidden)
            names = [meta["path"].removeprefix(f"{hidden}/") for page in pages for meta in page]
            if old := [f"{hidden}/{side}" for side in _outdated(names, name)]:
                obstore.delete(self._store, old)

    def written_at(self, name: str) -> datetime:
        return self._head(name).meta["last_modified"]

    def _head(self, name: str) -> GetResult:
        try:
            return obstore.get(self._store, self._key(name), options={"head": True})
        except (NotFoundError, FileNotFoundError):
            raise _nameless(f"{self._location}/{name}") from None
        except (BaseError, OSError) as error:
            raise self._failed("look at", name, error) from None

    def _read(self, name: str, key: str) -> str:
        try:
            return bytes(obstore.get(self._store, key).bytes()).decode()
        except (NotFoundError, FileNotFoundError):
            raise _nameless(f"{self._location}/{name}") from None
        except (BaseError, OSError) as error:
            raise self._failed("read", key, error) from None

    def _key(self, name: str) -> str:
        return f"{self._prefix}/{name}" if self._prefix else name

    def _side(self, name: str, token: str) -> str:
        return self._key(f"{_HIDDEN}/{name}-{token}.json")

    def _failed(self, what: str, name: str, error: Exception) -> StorageError:
        said = str(error).partition("\n\nDebug source")[0][:500]
        for secret in self._secrets:
            said = said.replace(secret, "…")
        return StorageError(f"{what} {self._location}/{name}: {said}")


class Folder:
    """A local folder. The name of a file is given to data that is complete, which is possible once."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def newest(self, stem: str, after: int) -> int:
        names = [path.name for path in self._root.iterdir()] if self._root.is_dir() else []
        return max(after, _highest(names, stem, after))

    def stamp(self, name: str) -> Stamp:
        file = self._root / name
        for data in (self._root / _HIDDEN).glob(f"{name}-*.data"):
            if file.exists() and data.samefile(file):
                return Stamp.decode(data.with_suffix(".json").read_text())
        raise _nameless(str(file))

    def written_at(self, name: str) -> datetime:
        return datetime.fromtimestamp((self._root / name).stat().st_mtime, UTC)

    def put(self, name: str, data: bytes, stamp: Stamp) -> None:
        hidden = self._root / _HIDDEN
        hidden.mkdir(parents=True, exist_ok=True)
        side = hidden / f"{name}-{stamp.token}"
        _write(side.with_name(side.name + ".json"), _ascii(stamp).encode())
        complete = side.with_name(side.name + ".data")
        _write(complete, data)
        reach("dataset.before")
        try:
            os.link(complete, self._root / name)
        except FileExistsError:
            raise Taken from None
        _sync(self._root)
        reach("dataset.after")
        self._forget(name)

    def _forget(self, name: str) -> None:
        hidden = self._root / _HIDDEN
        for side in _outdated([path.name for path in hidden.iterdir()], name):
            (hidden / side).unlink(missing_ok=True)


def _ascii(stamp: Stamp) -> str:
    """Metadata of objects is ASCII."""
    text = msgspec.json.encode(stamp).decode()
    return "".join(char if char.isascii() else _escaped(char) for char in text)


def _escaped(char: str) -> str:
    pair = char.encode("utf-16-be")
    return "".join(f"\\u{pair[at : at + 2].hex()}" for at in range(0, len(pair), 2))


def _nameless(path: str) -> HistoryChanged:
    return HistoryChanged(
        f"{path} does not say how far it goes: it was not written by frazil, or in another format, or what "
        f"lies below {_HIDDEN}/ was removed. Give the pipeline another name to begin anew beside it"
    )


def _write(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
