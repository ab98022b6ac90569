"""What takes rows of data files away: a vector or a file of positions for each, folded with the old ones."""

from __future__ import annotations

import itertools
import threading
from dataclasses import dataclass
from typing import Any

from pyroaring import BitMap64

from frazil.lake.deletion_vector import write_vectors
from frazil.lake.delta import DeleteFile
from frazil.lake.live import Target
from frazil.lake.manifests import ContentFile
from frazil.lake.position_deletes import write_positions
from frazil.lake.storage import FileStorage

#: The first format version with deletion vectors.
VECTORS = 3


@dataclass(frozen=True)
class Removed:
    """Parts of a `RowDelta`."""

    deletes: tuple[DeleteFile, ...]
    #: In the JSON of the REST spec.
    replaced: tuple[dict[str, Any], ...]
    removed: tuple[dict[str, Any], ...]


class Removals:
    """Collects what goes, data file by data file, each once. For many threads."""

    def __init__(self, storage: FileStorage, prefix: str, format_version: int) -> None:
        """`prefix`: what names of files begin with, place and directory included; nobody else has it."""
        self._storage = storage
        self._prefix = prefix
        self._format_version = format_version
        #: Held by the thread that changes what is below.
        self._lock = threading.Lock()
        self._vectors: list[tuple[Target, BitMap64]] = []
        self._numbers = itertools.count()
        self._deletes: list[DeleteFile] = []
        self._replaced: list[ContentFile] = []
        self._removed: list[ContentFile] = []

    def take(self, target: Target, fresh: BitMap64, own: BitMap64, shared: BitMap64) -> None:
        """One vector, or one file of positions, for all rows of the data file that are gone.

        `own`, `shared`: those that are gone already, as `DeletedRows.positions` gives them. What it replaces
        goes with the same commit: a data file with two vectors cannot be read.
        """
        old = [*target.own, *([target.vector] if target.vector is not None else [])]
        gone = own | shared | fresh
        written = None
        if len(gone) < target.file.records and self._format_version < VECTORS:
            written = self._written(target, own | fresh)
        with self._lock:
            self._replaced += old
            if len(gone) >= target.file.records:
                self._removed.append(target.file)
            elif written is not None:
                self._deletes.append(written)
            else:
                # Where there is a vector, nobody looks at files of positions.
                self._vectors.append((target, gone))

    def close(self) -> Removed:
        """Write what is left to write."""
        self._write_vectors()
        return Removed(
            tuple(self._deletes),
            tuple(file.to_json() for file in self._replaced),
            tuple(file.to_json() for file in self._removed),
        )

    def _written(self, target: Target, positions: BitMap64) -> DeleteFile:
        file = target.file
        path = f"{self._prefix}-d{next(self._numbers):03d}.parquet"
        size = write_positions(self._storage, path, file.path, positions)
        return DeleteFile(
            path, size, len(positions), file.spec_id, dict(file.partition), file.path, "parquet"
        )

    def _write_vectors(self) -> None:
        if not self._vectors:
            return
        path = f"{self._prefix}.puffin"
        bitmaps = [(target.file.path, bitmap) for target, bitmap in self._vectors]
        size, placed = write_vectors(self._storage, path, bitmaps)
        for (target, _), at in zip(self._vectors, placed, strict=True):
            file = target.file
            self._deletes.append(
                DeleteFile(
                    path,
                    size,
                    at.records,
                    file.spec_id,
                    dict(file.partition),
                    file.path,
                    "puffin",
                    at.offset,
                    at.length,
                )
            )
