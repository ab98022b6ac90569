"""Values that the source left out because they did not change (PostgreSQL's TOAST), by what Debezium writes
in their place: the placeholder as text or bytes; in a list its only element, of integers its bytes one by
one, of uuids the one that is made of it; in a map its only key and value."""

from __future__ import annotations

import hashlib
import json
import uuid

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.stream.cdc.decode.trouble import Mask, mask_of, spans
from frazil.stream.cdc.decode.wire import UUID, Wire


class Placeholder:
    """What stands for a value that was left out."""

    def __init__(self, text: str) -> None:
        self._bytes = bytes.fromhex(text[4:]) if text.startswith("hex:") else text.encode()
        self._text = self._bytes.decode(errors="replace")
        #: Of an hstore that is written as JSON.
        self._object = json.dumps({self._text: self._text}, separators=(",", ":"))
        digest = bytearray(hashlib.md5(self._bytes, usedforsecurity=False).digest())
        self._uuid = str(uuid.UUID(bytes=bytes(digest), version=3))

    def holes(self, values: pa.Array, wire: Wire) -> Mask | None:
        """Which values of a column were left out; None: none were."""
        found: Mask | None = None
        if pa.types.is_string(values.type):
            found = _either(_equal(values, self._text), _equal(values, self._object))
        elif pa.types.is_binary(values.type):
            found = _equal(values, self._bytes)
        elif wire.kind == "array":
            found = self._list(values, wire.inner[0][1])
        elif wire.kind == "map":
            found = self._map(values)
        return found if found is not None and found.any() else None

    def _list(self, values: pa.ListArray, element: Wire) -> Mask | None:
        lengths = np.diff(np.asarray(values.offsets))
        if element.kind in ("int", "long"):
            found = (lengths == len(self._bytes)) & mask_of(values.is_valid())
            for place in np.flatnonzero(found):
                found[place] = values[int(place)].as_py() == list(self._bytes)
            return np.asarray(found, bool)
        if element.kind not in ("string", "bytes"):
            return None
        mark = self._bytes if element.kind == "bytes" else self._text
        mark = self._uuid if element.logical == UUID else mark
        single = lengths == 1
        if not single.any():
            return None
        offsets = np.asarray(values.offsets)[:-1]
        inside = mask_of(pc.equal(values.values, pa.scalar(mark, values.values.type)))
        found = np.zeros(len(values), bool)
        found[single] = inside[offsets[single]]
        return found & mask_of(values.is_valid())

    def _map(self, values: pa.MapArray) -> Mask:
        offsets = np.asarray(values.offsets)
        found = (np.diff(offsets) == 1) & mask_of(values.is_valid())
        for place in np.flatnonzero(found):
            found[place] = values[int(place)].as_py() == [(self._text, self._text)]
        return np.asarray(found, bool)


def _equal(values: pa.Array, mark: str | bytes) -> Mask | None:
    """Lengths first: most columns have no value as long."""
    size = len(mark.encode() if isinstance(mark, str) else mark)
    candidates = np.diff(spans(values)[1]) == size
    if not candidates.any():
        return None
    return mask_of(pc.equal(values, pa.scalar(mark, values.type)))


def _either(first: Mask | None, second: Mask | None) -> Mask | None:
    if first is None or second is None:
        return second if first is None else first
    return first | second


def packed(holes: dict[int, Mask], rows: int, columns: int) -> pa.Array:
    """As `core.changes.ORDER` has them: bits by column, null where a row has none."""
    if not holes:
        return pa.nulls(rows, pa.binary())
    bits = np.zeros((rows, columns), bool)
    for column, mask in holes.items():
        bits[:, column] = mask
    packed_bits = np.packbits(bits, axis=1, bitorder="little")
    width = packed_bits.shape[1]
    offsets = np.arange(rows + 1, dtype=np.int32) * width
    valid = np.packbits(bits.any(axis=1), bitorder="little")
    buffers = [valid.tobytes(), offsets, np.ascontiguousarray(packed_bits)]
    return pa.Array.from_buffers(pa.binary(), rows, [pa.py_buffer(one) for one in buffers])
