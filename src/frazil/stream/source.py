"""What every source has: slices to read, and records as they came."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True, order=True)
class Slice:
    """A bounded part of a log: offsets from `start` up to, not including, `end`.

    A slice ends by position: there may be fewer records in it than offsets (transaction markers, gaps).
    """

    topic: str
    partition: int
    start: int
    end: int

    def __len__(self) -> int:
        return self.end - self.start


@dataclass(frozen=True)
class RawBatch:
    """Records of one slice, undecoded, in offset order."""

    topic: str
    partition: int
    #: Null for a record without a value.
    values: pa.BinaryArray
    offsets: pa.Int64Array
    #: Milliseconds since 1970.
    timestamps: pa.Int64Array
    #: Only when asked for.
    keys: pa.BinaryArray | None = None

    def __len__(self) -> int:
        return len(self.values)
