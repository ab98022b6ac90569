"""Pure functions on location strings: is it ours, what is above it, where does a table go.

Two strictnesses. `inside` judges a place that a caller chose and refuses whatever two readers could
understand differently. `owned_file` judges the path of one file that some engine wrote; engines
percent-encode partition values, and what they wrote is the literal key, so nothing is decoded.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from urllib.parse import unquote
from uuid import UUID

from frazil.catalog.storage.layout import DefaultLayout, FullHierarchy, StorageLayout
from frazil.core.errors import InvalidInput

# Other spellings of a warehouse's scheme, which engines write in file paths.
_ALIASES = {"s3": ("s3a", "s3n"), "abfss": ("abfs", "wasbs")}
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*):")
_SAFE = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.")
_DECODE_ROUNDS = 4
_LOCATION_LIMIT = 900
_SEGMENT_LIMIT = 200


def join(base: str, *segments: str) -> str:
    """`base` with segments below it."""
    return "/".join((base, *segments))


def inside(base: str, location: str, *, alternatives: bool = False, field: str = "location") -> str:
    """The canonical form of a caller's `location`, which must lie strictly below `base`.

    >>> inside("s3://lake/wh", "s3://lake/wh/t/")
    's3://lake/wh/t'
    """
    scheme, _ = _split(base)
    given = _canonical(location, scheme, alternatives, field)
    given = given.removesuffix("/")
    shown = _shown(location)
    for segment in _split(given)[1].split("/"):
        problem = _segment_problem(segment)
        if problem:
            raise InvalidInput(f"{field}: {shown} {problem}")
    if len(given.encode()) > _LOCATION_LIMIT:
        raise InvalidInput(f"{field}: {shown} is longer than {_LOCATION_LIMIT} bytes")
    if not given.startswith(base + "/"):
        raise InvalidInput(f"{field}: {shown} is not below the warehouse's location {base}")
    return given


def owned_file(base: str, location: str) -> str | None:
    """The canonical form of a file's location if it is below `base`, else None."""
    scheme, _ = _split(base)
    try:
        given = _canonical(location, scheme, True, "location")
    except InvalidInput:
        return None
    prefix, path = _split(given)
    segments = path.split("/")
    if scheme == "file":
        # Doubled slashes name the same file to POSIX; in an object store they are another key.
        segments = [s for s in segments if s]
    if any(s in ("", ".", "..") or "\0" in s for s in segments):
        return None
    if scheme == "abfss" and "\\" in path:
        # Azure takes it for a slash in some places.
        return None
    root = "file:///" if scheme == "file" else f"{prefix}://"
    canonical = root + "/".join(segments)
    return canonical if canonical.startswith(base + "/") else None


def ancestors(location: str, base: str) -> list[str]:
    """Every place strictly between `base` and `location`, outermost first.

    >>> ancestors("s3://lake/wh/a/b/c", "s3://lake/wh")
    ['s3://lake/wh/a', 's3://lake/wh/a/b']
    """
    if not location.startswith(base + "/"):
        raise InvalidInput(f"location: {_shown(location)} is not below {base}")
    segments = location[len(base) + 1 :].split("/")
    return [join(base, *segments[:n]) for n in range(1, len(segments))]


def local_path(location: str) -> str:
    """The path of a canonical `file:///` location."""
    return location[len("file://") :]


def escape(name: str) -> str:
    """A name as one path segment, injectively, readable for ordinary names.

    The escape character is '~' and not '%': engines disagree on whether a percent in a location is
    literal, and '~2F' means the same to one that decodes and to one that does not.
    """
    if not name:
        return "~"
    out = []
    for position, byte in enumerate(name.encode("utf-8", "surrogatepass")):
        plain = byte in _SAFE and not (position == 0 and byte == 0x2E)
        out.append(chr(byte) if plain else f"~{byte:02X}")
    escaped = "".join(out)
    if len(escaped) <= _SEGMENT_LIMIT:
        return escaped
    # '~~' cannot come out of the loop above, so a shortened name never equals an unshortened one.
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{escaped[:100]}~~{digest}"


def table_location(
    base: str,
    layout: StorageLayout | None,
    namespace: Sequence[tuple[str, UUID]],
    name: str,
    uuid: UUID,
) -> str:
    """The default location of a new table or view; `namespace` is (name, uuid) from the outermost in."""
    if layout is None or isinstance(layout, DefaultLayout):
        return join(base, str(uuid))
    segments = []
    if isinstance(layout, FullHierarchy):
        segments = [_fill(layout.namespace, level, level_uuid) for level, level_uuid in namespace]
    location = join(base, *segments, _fill(layout.tabular, name, uuid))
    if len(location.encode()) > _LOCATION_LIMIT:
        raise InvalidInput(
            f"name: the storage layout would give a location longer than {_LOCATION_LIMIT} bytes; "
            "give a location in the request or use shorter names"
        )
    return location


def _fill(template: str, name: str, uuid: UUID) -> str:
    # A name cannot hold a raw '{' after escaping, so the order of replacement does not matter.
    return template.replace("{uuid}", str(uuid)).replace("{name}", escape(name))


def _split(location: str) -> tuple[str, str]:
    scheme, _, rest = location.partition("://")
    return scheme, rest.removeprefix("/") if scheme == "file" else rest


def _canonical(location: str, scheme: str, alternatives: bool, field: str) -> str:
    """Spell `location` with the warehouse's own scheme, or refuse it."""
    shown = _shown(location)
    if scheme == "file":
        return _canonical_file(location, field)
    match = _SCHEME.match(location)
    given = match.group(1) if match else ""
    if given == scheme and location.startswith(f"{scheme}://"):
        return location
    if given in _ALIASES.get(scheme, ()) and location.startswith(f"{given}://"):
        if alternatives:
            return f"{scheme}://{_host_of_scheme(given, location[len(given) + 3 :])}"
        raise InvalidInput(
            f"{field}: {shown} has the scheme {given}, which this warehouse accepts only with "
            f"allow-alternative-protocols. Legal: {scheme}"
        )
    raise InvalidInput(f"{field}: {shown} has the wrong scheme. Legal: {scheme}")


def _host_of_scheme(scheme: str, rest: str) -> str:
    """wasbs:// goes to the blob service of an account, abfss:// to the same files at its dfs service."""
    if scheme != "wasbs":
        return rest
    authority, slash, path = rest.partition("/")
    return f"{authority.replace('.blob.', '.dfs.', 1)}{slash}{path}"


def _canonical_file(location: str, field: str) -> str:
    path = location
    if location.startswith("file:"):
        path = location[len("file:") :]
        if path.startswith("///"):
            path = path[2:]
    if not path.startswith("/") or path.startswith("//"):
        raise InvalidInput(f"{field}: {_shown(location)} is not an absolute local path or file:/// URL")
    return f"file://{path}"


def _segment_problem(segment: str) -> str | None:
    """Why a caller's path segment is refused, also as somebody would read it who decodes percents."""
    seen = segment
    for _ in range(_DECODE_ROUNDS):
        problem = _plain_problem(seen)
        if problem:
            return problem
        decoded = unquote(seen, errors="surrogateescape")
        if decoded == seen:
            return None
        seen = decoded
    return "is percent-encoded too many times over"


def _plain_problem(segment: str) -> str | None:
    if segment == "":
        return "has an empty path segment"
    if segment in (".", ".."):
        return f"has a {segment!r} segment, plain or percent-encoded"
    for character in segment:
        if character in "/\\?#":
            return f"holds {character!r}, plain or percent-encoded"
        if ord(character) < 0x20 or 0x7F <= ord(character) < 0xA0 or 0xD800 <= ord(character) < 0xE000:
            return "holds a control character or is not valid UTF-8"
    return None


def _shown(location: str) -> str:
    return ascii(location[:200])
