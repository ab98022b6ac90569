"""What a decoder gives: rows, the records that are none, and what the schema does not know."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import pyarrow as pa

from frazil.core.schema import SchemaChange
from frazil.stream.source import RawBatch


class Fault(StrEnum):
    """Why a record is bad."""

    #: Not well-formed: no JSON, cut off, too deep.
    BROKEN = "broken"
    #: A record without a value.
    EMPTY = "empty"
    #: Well-formed, but a value does not fit its column.
    TYPE = "type"
    #: A required column has no value.
    MISSING = "missing"
    #: A field that no column has, where such records are discarded.
    UNKNOWN_FIELD = "unknown-field"
    #: The registry does not know the schema of the record.
    UNKNOWN_SCHEMA = "unknown-schema"
    TOO_LARGE = "too-large"
    #: A good record that is for no table.
    ROUTE = "route"


class Undecodable(Exception):
    """A record of a batch that does not fit the schema. `index` counts from the batch's first record."""

    def __init__(
        self, index: int, reason: str, field: str | None = None, fault: Fault = Fault.BROKEN
    ) -> None:
        super().__init__(index, reason, field, fault)
        self.index = index
        self.reason = reason
        #: Where in the record, as `order.items[2].price`; None when it is the record as a whole.
        self.field = field
        self.fault = fault

    def __str__(self) -> str:
        where = f", field '{self.field}'" if self.field else ""
        return f"record {self.index} of the batch{where}: {self.reason}"


@dataclass(frozen=True)
class Decoded:
    """A batch of records after decoding."""

    #: The good records in their order, by the schema's `to_arrow()`.
    rows: pa.RecordBatch
    bad: tuple[Undecodable, ...] = ()
    #: What the table would need, where the contract says `evolve`; the rows are then to be thrown away.
    changes: tuple[SchemaChange, ...] = ()


class Decoder(Protocol):
    """Turns records into rows. Built in each task; for one thread."""

    def decode(self, raw: RawBatch) -> Decoded:
        """All of them. Unavailable if a registry does not answer; bad records are in the result."""
