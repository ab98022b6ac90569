"""What a signed request may touch, and whether a key lies inside it."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from urllib.parse import unquote

from frazil.core.errors import NotAllowed

_READINGS = 4


@dataclass(frozen=True, slots=True)
class Reach:
    """One table's part of a bucket."""

    bucket: str
    #: With the slash at its end: `t1/` does not hold what lies in `t10/`.
    prefix: str
    write: bool

    @classmethod
    def of(cls, location: str, *, write: bool) -> Reach:
        """The reach of the table at `location`, an `s3://` location without a trailing slash."""
        bucket, _, key = location.removeprefix("s3://").partition("/")
        return cls(bucket, f"{key}/", write)

    def check(self, key: str, what: str) -> None:
        """NotAllowed unless `key` lies inside, however often a reader decodes it."""
        problem = _problem(key)
        if problem:
            raise NotAllowed(f"{what} {shown(key)} {problem}")
        if not key.startswith(self.prefix):
            raise self._outside(key, what)
        self._check_readings(key, what)

    def _check_readings(self, key: str, what: str) -> None:
        """Engines percent-encode partition values, so a key may hold `%2F`; it must not lead out by it."""
        inside, seen = self.prefix, key
        for _ in range(_READINGS):
            if "%" not in seen:
                return
            before, seen, inside = seen, unquote(seen, errors="replace"), unquote(inside, errors="replace")
            if seen == before:
                return
            if not f"{_resolved(seen)}/".startswith(f"{_resolved(inside)}/"):
                raise self._outside(key, what)
        raise NotAllowed(f"{what} {shown(key)} is percent-encoded too many times over")

    def _outside(self, key: str, what: str) -> NotAllowed:
        return NotAllowed(f"{what} {shown(key)} is not below s3://{self.bucket}/{self.prefix}")


def shown(text: str) -> str:
    """What the caller sent, short and harmless in a message."""
    return ascii(text if len(text) <= 200 else f"{text[:200]}…")


def _problem(key: str) -> str | None:
    """Why two readers could take a key for different ones."""
    if any(ord(character) < 0x20 or character in "\\\x7f" for character in key):
        return "holds a backslash or a control character"
    segments = key.split("/")
    if "" in segments[:-1]:
        return "has an empty path segment"
    if "." in segments or ".." in segments:
        return "has a '.' or '..' segment"
    return None


def _resolved(key: str) -> str:
    return posixpath.normpath("/" + key.replace("\\", "/").lstrip("/"))
