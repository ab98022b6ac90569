"""A file that is one JSON array: its elements, found without reading the whole of it at once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from frazil.core.errors import BadRecord
from frazil.stream.files.found import broken
from frazil.stream.files.lines import Numbered, check_length

_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
#: An object without others in it, a text, or what structures the rest; a quote alone is a text cut off.
_TOKEN = re.compile(rb'\{[^{}"\[\]]*+(?:%b[^{}"\[\]]*+)*+\}|%b|[{}\[\],"]' % (_STRING, _STRING), re.DOTALL)
_BLANK = b" \t\r\n"


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
        #: What belongs to no element yet; at first the opening bracket is in it.
        self._rest = b""
        self._opened = False
        self._closed = False

    def feed(self, chunk: bytes) -> list[bytes]:
        data = self._rest + chunk
        if self._closed:
            self._rest = data.strip(_BLANK)
            return self._nothing_behind()
        begin = 0
        if not self._opened:
            begin = data.find(b"[") + 1
            self._opened = begin > 0
        found, begin, self._closed = self._elements(data, begin) if self._opened else ([], 0, False)
        self._rest = data[begin:]
        check_length(self._path, len(self._rest), "element")
        if self._closed:
            self._rest = self._rest.strip(_BLANK)
            self._nothing_behind()
        return found

    def end(self) -> None:
        if not self._closed:
            raise self._broken("it ends before the array does: it is cut off, or a bracket is missing")

    def _elements(self, data: bytes, begin: int) -> tuple[list[bytes], int, bool]:
        """Complete ones, where the rest begins, and whether the array ended.

        An element that is not complete is scanned again with what follows.
        """
        found: list[bytes] = []
        depth = 0
        for token in _TOKEN.finditer(data, begin):
            mark = token[0]
            if mark in (b"{", b"["):
                depth += 1
            elif mark == b'"':
                break
            elif mark in (b"}", b"]") and depth:
                depth -= 1
            elif mark == b"}":
                raise self._broken("a bracket is closed that was not opened")
            elif mark in (b",", b"]") and not depth:
                element = data[begin : token.start()].strip(_BLANK)
                begin, closed = token.end(), mark == b"]"
                # Nothing before the end: the array is empty, or ends with a comma. Both are harmless.
                if not (element or closed):
                    raise self._broken("two commas follow each other")
                found += [element] if element else []
                if closed:
                    return found, begin, True
        return found, begin, False

    def _nothing_behind(self) -> list[bytes]:
        if self._rest:
            raise self._broken("there is something behind the end of the array")
        return []

    def _broken(self, reason: str) -> BadRecord:
        return broken(self._path, f"begins as a JSON array, but {reason}")
