"""What every source has: slices to read, and records as they came.

The driver's side of a source is a `Feed`; what tasks get is its `Reader`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from frazil.core.schema import Schema
from frazil.core.stamp import Position, Stamp
from frazil.stream.config.model import Limits
from frazil.stream.decode.text import FIRST_MICROS, LAST_MICROS

if TYPE_CHECKING:
    from frazil.stream.rounds import RoundPlan

#: What Kafka says of a record that has none.
NO_TIMESTAMP = -1


@dataclass(frozen=True, order=True)
class Slice:
    """A bounded part of a log: offsets from `start` up to, not including, `end`.

    A slice ends by position: there may be fewer records in it than offsets (transaction markers, gaps). Of a
    file `topic` is the path, and offsets are bytes.
    """

    topic: str
    partition: int
    start: int
    end: int
    #: Of a file: which of those that had this name.
    version: str = ""

    def __len__(self) -> int:
        return self.end - self.start


@dataclass(frozen=True)
class RawBatch:
    """Records of one slice, undecoded, in offset order."""

    topic: str
    partition: int
    #: Null for a record without a value. Of a source that has columns (`rows`), all null.
    values: pa.BinaryArray
    #: Of a file, the number of the line or row, counted from 0.
    offsets: pa.Int64Array
    #: Milliseconds since 1970, as whoever sent the record had it.
    timestamps: pa.Int64Array
    #: Only when asked for.
    keys: pa.BinaryArray | None = None
    #: Lists of (key, value), only when asked for.
    headers: pa.ListArray | None = None
    #: Rows of a source that has columns already: decoding is bringing them into the schema.
    rows: pa.RecordBatch | None = None
    #: Where the slice begins that it is of.
    slice_start: int = 0
    #: Of a file whose first line names the columns: that line.
    header: bytes | None = None

    def __len__(self) -> int:
        return len(self.values)

    def times(self) -> pa.TimestampArray:
        """The timestamps as columns have them; null where there is none, or one beyond the year 9999, as of a
        producer that counts something else than milliseconds: no engine could show it."""
        shown = pc.and_(
            pc.greater_equal(self.timestamps, FIRST_MICROS // 1000),
            pc.less_equal(self.timestamps, LAST_MICROS // 1000),
        )
        told = pc.and_(shown, pc.not_equal(self.timestamps, NO_TIMESTAMP))
        found = pc.if_else(told, self.timestamps, None)
        return found.cast(pa.timestamp("ms", "UTC")).cast(pa.timestamp("us", "UTC"))


class Reader(Protocol):
    """Reads slices inside tasks. Sent by broadcast, so that it may hold secrets; cheap to unpickle."""

    def read(self, slices: Sequence[Slice]) -> Iterator[RawBatch]:
        """Every record of the slices; in offset order within a slice, and each batch of one slice."""


#: Whether a bounded run has read what was there when it began.
Goal: TypeAlias = Callable[[Stamp, "RoundPlan"], bool]


class Feed(Protocol):
    """A source as the driver sees it. For one thread."""

    def first(self) -> tuple[str, dict[str, Position]]:
        """Identity and positions of a pipeline that never ran."""

    def schema(self) -> Schema | None:
        """The columns of a source that has them; None: records must be decoded."""

    def goal(self) -> Goal:
        """For a bounded run: what is there now."""

    def plan(self, stamp: Stamp, limits: Limits, parallelism: int) -> RoundPlan:
        """The next round after the stamp; SourceChanged if the source does not go on where that left off."""

    def confirm(self, stamp: Stamp, plan: RoundPlan) -> None:
        """After reading: the source must still be what it was when the round was planned."""

    def reader(self, stamp: Stamp) -> Reader:
        """What tasks read with; `stamp` is the pipeline's newest, whose positions name what is read."""

    def landed(self, plan: RoundPlan) -> None:
        """A round was committed: for feeds that remember what was taken."""

    def ledger(self, plan: RoundPlan) -> Mapping[str, pa.Table]:
        """Rows that tables of the feed's own get in the same commit, by table (`namespace.name`)."""
