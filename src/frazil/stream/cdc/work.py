"""What the driver tells the tasks of a round of changes, and what they report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from frazil.core.schema import Schema
from frazil.core.stamp import Mark
from frazil.lake.files import DataFile, WriteTarget
from frazil.stream.cdc.changes import Shape
from frazil.stream.cdc.transactions import Tail
from frazil.stream.config.model import DebeziumFormat, JsonFormat
from frazil.stream.sizes import LARGEST
from frazil.stream.source import Reader
from frazil.stream.tasks import Failure, SliceReport

if TYPE_CHECKING:
    from frazil.stream.outlets import Keys


@dataclass(frozen=True)
class Place:
    """A table's files of one round; what comes behind the prefix makes their names the task's own."""

    table: str
    target: WriteTarget
    prefix: str


@dataclass(frozen=True)
class LaneWork:
    """What tasks must know of one lane in one round."""

    #: The topic.
    name: str
    pipeline: str
    format: DebeziumFormat | JsonFormat
    #: The columns that changes are decoded into; None: there is no table yet, and its shape is asked for.
    schema: Schema | None
    key: tuple[str, ...]
    #: By partition.
    marks: tuple[Mark | None, ...]
    #: The table of rows as they are now; None: there is none.
    rows: Place | None = None
    #: The table of all changes.
    log: Place | None = None
    #: The table of bad records; None: the first one stops the lane.
    letters: Place | None = None
    #: The last truncate: changes from before it are of rows that are gone.
    floor: Mark | None = None
    #: A column that marks rows as deleted, instead of removing them.
    soft_delete: str | None = None
    #: Whether to tell in which transaction what was read ends.
    transactions: bool = False
    #: Half of a changed key is taken as it is, rather than cut off.
    halves: bool = False
    #: The columns that changes are spread by, with their transforms.
    spread: tuple[tuple[str, str], ...] = ()
    #: Whether the topic has several partitions.
    several: bool = False
    buckets: int = 1
    #: Which of all buckets is its first.
    first: int = 0
    #: Rows only come: they are written where they are read.
    inserts: bool = False
    #: The column that the watermark follows, if the table has it.
    event_time: str | None = None

    @property
    def sequence_by(self) -> str | None:
        """A column that orders the changes of a key."""
        return sequence_column(self.format)


def sequence_column(format: DebeziumFormat | JsonFormat) -> str | None:  # noqa: A002 - the settings' own word
    """Plain rows have none: the log orders them."""
    return format.sequence_by if isinstance(format, DebeziumFormat) else None


@dataclass(frozen=True)
class Job:
    """All that a round's tasks read and write. Sent by broadcast: the reader may hold secrets."""

    reader: Reader
    lanes: Mapping[str, LaneWork]
    keys: Keys = field(repr=False)
    buckets: int = 1
    #: Bytes of a change above which it is bad.
    largest: int = LARGEST


@dataclass(frozen=True)
class LaneReport:
    """What one task did for one lane."""

    lane: str
    slices: tuple[SliceReport, ...] = ()
    #: The highest changes, by partition.
    marks: Mapping[int, Mark] = field(default_factory=dict)
    #: By table.
    files: Mapping[str, tuple[DataFile, ...]] = field(default_factory=dict)
    #: Arrow streams: the keys whose rows in the table go, and rows with holes, which are in `holes`; what
    #: fills them is in the table under the keys in `origins`.
    keys: bytes | None = None
    patches: bytes | None = None
    holes: Sequence[bytes | None] = ()
    origins: bytes | None = None
    #: Where a column orders changes: what keys and patches have there.
    key_values: pa.Int64Array | None = None
    patch_values: pa.Int64Array | None = None
    #: All rows that were there before went, and where in the order of commits, if that is known.
    truncated: bool = False
    floor: Mark | None = None
    #: Rows that came (or came anew) and that went.
    upserted: int = 0
    deleted: int = 0
    #: The table is not there or lacks columns.
    shape: Shape | None = None
    #: The round must end before this record, or be folded in one bucket: the key of a row was changed.
    cut: tuple[str, int, int] | None = None
    alone: bool = False
    #: The record with half of a changed key that was taken as it is.
    half: tuple[str, int, int] | None = None
    #: The transactions at the end, by partition.
    tails: Mapping[int, Tail] = field(default_factory=dict)
    failure: Failure | None = None

    @property
    def redone(self) -> bool:
        """Nothing of the round can land as it is."""
        return bool(self.failure or self.shape or self.cut or self.alone)
