"""Which files were taken, in 16 bytes for each: a hash of the path and the version."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

#: 128 bits: among ten million files, two with the same hash are as good as impossible.
_BYTES = 16
_KIND = f"S{_BYTES}"
#: So many new ones are kept aside before all are sorted again.
_ASIDE = 100_000

Keys = npt.NDArray[np.bytes_]


def file_key(path: str, version: str) -> bytes:
    """Lengths come first, so that no other path and version make the same text."""
    text = f"{len(path)}:{path}{version}"
    return hashlib.blake2b(text.encode(), digest_size=_BYTES).digest()


def path_key(path: str) -> bytes:
    return hashlib.blake2b(path.encode(), digest_size=_BYTES, person=b"path").digest()


def empty_keys(count: int) -> Keys:
    return np.zeros(count, _KIND)


class KeySet:
    """A set of keys: most of them in a sorted array."""

    def __init__(self, keys: Keys) -> None:
        self._sorted = np.sort(keys)
        self._aside: set[bytes] = set()

    def add(self, keys: Iterable[bytes]) -> None:
        self._aside.update(keys)
        if len(self._aside) > _ASIDE:
            self._sorted = np.sort(np.concatenate([self._sorted, np.array([*self._aside], _KIND)]))
            self._aside = set()

    def has(self, keys: Sequence[bytes]) -> list[bool]:
        """For each of them, whether it is in the set."""
        if not keys:
            return []
        wanted = np.array(keys, _KIND)
        at = np.searchsorted(self._sorted, wanted)
        found = np.zeros(len(keys), bool)
        inside = at < len(self._sorted)
        found[inside] = self._sorted[at[inside]] == wanted[inside]
        return [hit or key in self._aside for hit, key in zip(found.tolist(), keys, strict=True)]


class Taken:
    """The files that a pipeline took."""

    def __init__(self, files: Keys, paths: Keys) -> None:
        self._count = len(files)
        self._files = KeySet(files)
        self._paths = KeySet(paths)

    def __len__(self) -> int:
        return self._count

    def add(self, files: Sequence[tuple[str, str]]) -> None:
        """Paths and versions."""
        self._count += len(files)
        self._files.add(file_key(path, version) for path, version in files)
        self._paths.add(path_key(path) for path, _ in files)

    def has_versions(self, files: Sequence[bytes]) -> list[bool]:
        return self._files.has(files)

    def has_paths(self, paths: Sequence[str]) -> list[bool]:
        """Whether any version of it was taken."""
        return self._paths.has([path_key(path) for path in paths])
