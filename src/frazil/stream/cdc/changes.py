"""What a decoder of change events gives."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import pyarrow as pa

from frazil.core.schema import Schema
from frazil.stream.decode.decoded import Undecodable
from frazil.stream.decode.infer import united
from frazil.stream.source import RawBatch


@dataclass(frozen=True)
class Shape:
    """What records say about the table that they are of."""

    #: All optional, named and typed as a new table would have them.
    columns: Schema
    #: Names of the columns that tell rows apart; none if the source has no key.
    key: tuple[str, ...] = ()

    def __or__(self, other: Shape) -> Shape:
        """A shape for the rows of both."""
        columns = {field.name: field for field in self.columns}
        for field in other.columns:
            known = columns.get(field.name, field)
            columns[field.name] = replace(known, type=united(known.type, field.type))
        return Shape(Schema(tuple(columns.values())), self.key or other.key)


@dataclass(frozen=True)
class Changes:
    """The changes in one batch of records, in log order; tombstones are left out."""

    raw: RawBatch
    #: By the decoder's columns. Of a delete only the key need be there; of a truncate nothing is.
    rows: pa.RecordBatch
    #: By `core.changes.ORDER`, row by row.
    order: pa.RecordBatch
    bad: tuple[Undecodable, ...] = ()
    #: What the records have, where that is more than the decoder's columns; `rows` are to be thrown away.
    shape: Shape | None = None
    #: Of each row the database's transaction, null outside of one; None: nobody asked.
    transactions: pa.StringArray | None = None


class ChangeDecoder(Protocol):
    """Built in each task for the topic of one table; for one thread."""

    def decode(self, raw: RawBatch) -> Changes:
        """All of them. Unavailable if a registry does not answer; bad records are in the result."""
