"""Lines and CSV records of a file, as Arrow arrays of bytes without the line ends."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from frazil.stream.files.found import broken

MB = 1024 * 1024
#: One line, CSV record, element of an array, or file of the raw format.
LARGEST_RECORD = 64 * MB
_LINE_END = 10

#: Records, and the number of each in the file.
Numbered = tuple[pa.BinaryArray, npt.NDArray[np.int64]]


def lines(path: str, chunks: Iterable[bytes]) -> Iterator[Numbered]:
    """Every line that is not empty; empty ones are counted."""
    rest, number = b"", 0
    for chunk in _ended(chunks):
        data = rest + chunk if rest else chunk
        end = data.rfind(b"\n") + 1
        rest = data[end:]
        check_length(path, len(rest), "line")
        count, found = _split(data[:end], number)
        number += count
        yield found


def csv_records(path: str, chunks: Iterable[bytes], delimiter: str, quote: str) -> Iterator[Numbered]:
    """Every record that is not an empty line. Quoted fields may hold line ends, as RFC 4180 has it."""
    rest, number = b"", 0
    scanner = _QuoteScanner(delimiter.encode(), quote.encode())
    for chunk in _ended(chunks):
        data = rest + chunk if rest else chunk
        end = data.rfind(b"\n") + 1
        if scanner.is_plain(data[:end]):
            rest = data[end:]
            count, found = _split(data[:end], number)
        else:
            records, end = scanner.records(data)
            rest = data[end:]
            count, found = len(records), _of_list(records, number)
        check_length(path, len(rest), "record")
        number += count
        yield found
    if rest:
        # An unclosed quote may have kept lines together: the decoder says what is wrong with them.
        yield _of_list([_without_end(rest)], number)


def _ended(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The chunks that are not empty, with a line end behind the last one."""
    before = b""
    for chunk in chunks:
        if chunk and before:
            yield before
        before = chunk or before
    if before:
        yield before if before.endswith(b"\n") else before + b"\n"


def check_length(path: str, length: int, what: str) -> None:
    if length > LARGEST_RECORD:
        raise broken(path, f"has a {what} of more than {LARGEST_RECORD // MB} MB")


def _split(data: bytes, number: int) -> tuple[int, Numbered]:
    """How many lines there are, and those that are not empty. `data` ends with a line end."""
    if b"\r\n" in data:
        data = data.replace(b"\r\n", b"\n")
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == _LINE_END)
    count = len(ends)
    # The line ends are taken out, so each line ends that much earlier.
    offsets = np.zeros(count + 1, np.int32)
    offsets[1:] = ends - np.arange(count)
    filled = np.flatnonzero(np.diff(offsets))
    if len(filled) < count:
        offsets = np.concatenate([offsets[:1], offsets[1:][filled]])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data.replace(b"\n", b""))]
    values = pa.BinaryArray.from_buffers(pa.binary(), len(filled), buffers)
    return count, (values, filled + number)


def _of_list(records: list[bytes], number: int) -> Numbered:
    filled = [at for at, record in enumerate(records) if record]
    values = pa.array([records[at] for at in filled], pa.binary())
    return values, np.array(filled, np.int64) + number


def _without_end(record: bytes) -> bytes:
    return record.removesuffix(b"\n").removesuffix(b"\r")


class _QuoteScanner:
    """Finds where records end. A quote opens a field only at its beginning, so 5" stays what it is."""

    def __init__(self, delimiter: bytes, quote: bytes) -> None:
        self._quote = quote
        self._opening = delimiter + quote

    def is_plain(self, data: bytes) -> bool:
        """Whether every line is surely a record: none has an odd number of quotes."""
        if not self._quote or self._quote not in data:
            return True
        if len(self._quote) > 1:
            return False
        octets = np.frombuffer(data, np.uint8)
        ends = np.flatnonzero(octets == _LINE_END)
        seen = np.cumsum(octets == self._quote[0], dtype=np.int32)[ends]
        return not (seen & 1).any()

    def records(self, data: bytes) -> tuple[list[bytes], int]:
        """Complete records, and where the rest begins."""
        found, begin, at, inside = [], 0, 0, False
        while (end := data.find(b"\n", at)) >= 0:
            inside = self._is_open(data[at:end], inside, begins=at == begin)
            at = end + 1
            if not inside:
                found.append(_without_end(data[begin:at]))
                begin = at
        return found, begin

    def _is_open(self, line: bytes, inside: bool, *, begins: bool) -> bool:
        """Whether a quoted field goes on behind this line."""
        size, at = len(self._quote), 0
        if begins and line.startswith(self._quote):
            inside, at = True, size
        while True:
            if not inside:
                at = line.find(self._opening, at)
                if at < 0:
                    return False
                inside, at = True, at + len(self._opening)
            at = line.find(self._quote, at)
            if at < 0:
                return True
            doubled = line.startswith(self._quote, at + size)
            inside, at = doubled, at + size * (1 + doubled)
