"""What stands before a message in a record: the id of its schema, and which message of the schema it is."""

from __future__ import annotations

from dataclasses import dataclass

from frazil.stream.registry import HEADER_BYTES, split_header

_MAX_PATH = 64


@dataclass(frozen=True)
class Frame:
    #: The bytes themselves.
    prefix: bytes
    schema_id: int
    #: The number of a message in the file, of one nested in it, ….
    path: tuple[int, ...]


def frame_of(record: bytes) -> Frame | None:
    """None if the record does not begin with one."""
    header = split_header(record)
    if header is None:
        return None
    at = HEADER_BYTES
    numbers: list[int] = []
    while not numbers or len(numbers) <= numbers[0]:
        found = _zigzag(record, at)
        if found is None or not 0 <= found[0] < 2**31 or (not numbers and found[0] > _MAX_PATH):
            return None
        numbers.append(found[0])
        at = found[1]
    return Frame(record[:at], header[0], tuple(numbers[1:]) or (0,))


def _zigzag(record: bytes, at: int) -> tuple[int, int] | None:
    """A zigzag varint and the place after it."""
    value = 0
    for shift in range(0, 35, 7):
        if at >= len(record):
            return None
        byte = record[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value >> 1 ^ -(value & 1), at
    return None
