"""Deletion vectors, and the Puffin files that hold them, as the specs of Iceberg and Puffin have them."""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import numpy.typing as npt
from pyroaring import BitMap64

from frazil.core.errors import StorageError
from frazil.lake.storage import FileStorage

#: Places of rows in a data file, as Arrow counts them.
Positions = npt.NDArray[np.int64]

_MAGIC = bytes.fromhex("D1D33964")
_WORD = 4
_PUFFIN = b"PFA1"
_NO_FLAGS = bytes(4)
_KIND = "deletion-vector-v1"
#: The field of positions in rows, which is what a vector is about.
_ROW_POSITION = 2147483645
#: Known only once the commit landed.
_UNKNOWN = -1


@dataclass(frozen=True)
class Vector:
    """Where the vector of a data file lies in its Puffin file."""

    references: str
    offset: int
    length: int
    records: int


def bitmap_of(positions: Positions) -> BitMap64:
    # Of an array of Python's own, it takes the memory as it is; of any other, number by number.
    return BitMap64(array("Q", positions.astype(np.uint64, copy=False).tobytes()))


def positions_of(bitmap: BitMap64) -> Positions:
    return np.asarray(bitmap.to_array(), dtype=np.int64)


def encoded(bitmap: BitMap64) -> bytes:
    """A blob: length, magic and bitmap, checksum.

    >>> blob = encoded(BitMap64([1, 5]))
    >>> blob[:12].hex(), len(blob)
    ('00000024d1d3396401000000', 44)
    """
    packed = bitmap.copy()
    packed.run_optimize()
    body = _MAGIC + packed.serialize()
    return len(body).to_bytes(_WORD, "big") + body + zlib.crc32(body).to_bytes(_WORD, "big")


def decoded(blob: bytes, what: str) -> BitMap64:
    """StorageError: `what` is damaged."""
    body = blob[_WORD:-_WORD]
    if int.from_bytes(blob[:_WORD], "big") != len(body) or not body.startswith(_MAGIC):
        raise StorageError(f"read {what}: this is no deletion vector")
    if zlib.crc32(body) != int.from_bytes(blob[-_WORD:], "big"):
        raise StorageError(f"read {what}: the deletion vector is damaged, its checksum is another")
    return BitMap64.deserialize(body[len(_MAGIC) :])


def write_vectors(
    storage: FileStorage, path: str, vectors: Sequence[tuple[str, BitMap64]]
) -> tuple[int, list[Vector]]:
    """One file with a vector for each data file; its size, and where the vectors are."""
    output = storage.open_output(path)
    try:
        with output.guard():
            output.sink.write(_PUFFIN)
            placed = []
            for references, bitmap in vectors:
                blob = encoded(bitmap)
                placed.append(Vector(references, output.sink.tell(), len(blob), len(bitmap)))
                output.sink.write(blob)
            output.sink.write(_footer(placed))
        return output.close(), placed
    except BaseException:
        output.discard()
        raise


def _footer(vectors: Iterable[Vector]) -> bytes:
    blobs = [
        {
            "type": _KIND,
            "fields": [_ROW_POSITION],
            "snapshot-id": _UNKNOWN,
            "sequence-number": _UNKNOWN,
            "offset": vector.offset,
            "length": vector.length,
            "properties": {
                "referenced-data-file": vector.references,
                "cardinality": str(vector.records),
            },
        }
        for vector in vectors
    ]
    payload = msgspec.json.encode({"blobs": blobs, "properties": {"created-by": "frazil"}})
    return _PUFFIN + payload + len(payload).to_bytes(_WORD, "little") + _NO_FLAGS + _PUFFIN
