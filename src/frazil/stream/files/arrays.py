"""A file that is one JSON array: its elements, found without reading the whole of it at once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from frazil.core.errors import BadRecord
from frazil.stream.files.found import broken
from frazil.stream.files.lines import Numbered, check_length

_ESCAPED = re.compile(rb"\\.", re.DOTALL)
_BLANK = b" \t\r\n"
_QUOTE, _COMMA, _END = b'",]'
#: By character, what it does to the depth.
_STEPS = np.zeros(256, np.int8)
_STEPS[list(b"[{")] = 1
_STEPS[list(b"]}")] = -1


def elements(path: str, chunks: Iterable[bytes]) -> Iterator[Numbered]:
    """The elements of the array, each as it is written. BadRecord: the brackets do not fit."""
    scanner = _Scanner(path)
    number = 0
    for chunk in chunks:
        found = scanner.feed(chunk)
        yield pa.array(found, pa.binary()), np.arange(number, number + len(found))
        number += len(found)
    scanner.end()


class _Scanner:
    def __init__(self, path: str) -> None:
        self._path = path
        #: What belongs to no complete element yet; after the end, what is behind it.
        self._rest = b""
        self._opened = False
        self._closed = False

    def feed(self, chunk: bytes) -> list[bytes]:
        self._rest += chunk
        if not self._opened:
            begin = self._rest.find(b"[") + 1
            if not begin:
                return []
            self._opened = True
            self._rest = self._rest[begin:]
        found = [] if self._closed else self._elements(self._rest)
        if self._closed and self._rest.strip(_BLANK):
            raise self._broken("there is something behind the end of the array")
        check_length(self._path, len(self._rest), "element")
        return found

    def end(self) -> None:
        if not self._closed:
            raise self._broken("it ends before the array does: it is cut off, or a bracket is missing")

    def _elements(self, data: bytes) -> list[bytes]:
        """Complete ones. One that is not is looked at again with what follows."""
        # Escaped characters end no text.
        octets = np.frombuffer(_ESCAPED.sub(b"..", data) if b"\\" in data else data, np.uint8)
        inside = (np.cumsum(octets == _QUOTE, dtype=np.uint8) & 1).astype(bool)
        steps = _STEPS[octets]
        steps[inside] = 0
        depth = np.cumsum(steps, dtype=np.int32)
        ends = np.flatnonzero((octets == _COMMA) & (depth == 0) & ~inside)
        closing = np.flatnonzero(depth < 0)[:1].tolist()
        if closing:
            self._close(octets[closing[0]])
            ends = np.append(ends[ends < closing[0]], closing)
        found, begin = [], 0
        for end in ends.tolist():
            found.append(data[begin:end].strip(_BLANK))
            begin = end + 1
        self._rest = data[begin:]
        if self._closed and not found[-1]:
            # The array is empty, or ends with a comma. Both are harmless.
            found.pop()
        if not all(found):
            raise self._broken("two commas follow each other")
        return found

    def _close(self, mark: int) -> None:
        if mark != _END:
            raise self._broken("a bracket is closed that was not opened")
        self._closed = True

    def _broken(self, reason: str) -> BadRecord:
        return broken(self._path, f"begins as a JSON array, but {reason}")
