"""Rows that come and rows that go, in one commit of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from frazil.lake.files import DataFile

if TYPE_CHECKING:
    from frazil.lake.table import LakeTable


@dataclass(frozen=True)
class DeleteFile:
    """Positions in one data file whose rows are gone; written, and not yet part of the table."""

    path: str
    #: Of the whole file, which may hold deletion vectors for many data files.
    size: int
    #: Rows that it takes away, those that older ones took away included.
    records: int
    #: Those of the data file.
    spec_id: int
    partition: dict[int, Any]
    #: The data file.
    references: str
    #: `puffin` for a deletion vector, `parquet` for a file of positions.
    format: str
    #: Where the deletion vector lies in its file; None for a file of positions.
    offset: int | None = None
    length: int | None = None


@dataclass(frozen=True)
class RowDelta:
    """What a table gets and loses."""

    #: The snapshot that the rows to go were looked up in; None: the table had none.
    base: int | None
    rows: Sequence[DataFile] = ()
    deletes: Sequence[DeleteFile] = ()
    #: Content files of `base`, in the JSON of the REST spec: delete files that `deletes` replace, and data
    #: files that go as a whole.
    replaced: Sequence[dict[str, Any]] = ()
    removed: Sequence[dict[str, Any]] = ()
    #: Every row of `base` goes; `deletes`, `replaced` and `removed` are empty then.
    truncates: bool = False
    #: Rows that were to come and do not, because what the table has is newer.
    late: int = 0
    #: Data files that come as well, in the JSON of the REST spec: those of another branch.
    copied: Sequence[dict[str, Any]] = ()
    #: What else the snapshot says of itself, beside the stamp.
    summary: Mapping[str, str] = field(default_factory=dict)


class Deltas(Protocol):
    """Finds the rows that have to go, again whenever somebody else changed the table."""

    def at(self, table: LakeTable) -> RowDelta:
        """For main as `table` was just loaded: `base` is its head."""

    def landed(self) -> None:
        """The commit is in the table, with what `at` gave last: other files that it wrote may go."""
