"""The error of one record."""

from __future__ import annotations


class Undecodable(Exception):
    """A record of a batch that does not fit the schema. `index` counts from the batch's first record."""

    def __init__(self, index: int, reason: str, field: str | None = None) -> None:
        super().__init__(index, reason, field)
        self.index = index
        self.reason = reason
        #: Where in the record, as `order.items[2].price`; None when it is the record as a whole.
        self.field = field

    def __str__(self) -> str:
        where = f", field '{self.field}'" if self.field else ""
        return f"record {self.index} of the batch{where}: {self.reason}"
