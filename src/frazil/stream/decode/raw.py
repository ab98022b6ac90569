"""The value of a record as it is, in the schema's one column.

A record without a value is a row with a null if the column is optional, else bad. Into a string column only
UTF-8 text goes; into a binary one every value.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from frazil.core.errors import InvalidConfig
from frazil.core.schema import Schema, show_type
from frazil.stream.config.model import Contract, RawFormat
from frazil.stream.decode.decoded import Decoded, Fault, Undecodable
from frazil.stream.source import RawBatch

_TYPES = ("binary", "string")


class RawDecoder:
    """Copies nothing unless a record is bad."""

    def __init__(self, schema: Schema, format: RawFormat, contract: Contract) -> None:  # noqa: A002 - the settings' own word
        if len(schema.fields) != 1 or schema.fields[0].type not in _TYPES:
            columns = ", ".join(f"{field.name}: {show_type(field.type)}" for field in schema)
            raise InvalidConfig(
                f"raw values go into one column of type binary or string, not into: {columns}. Declare one "
                "column, or choose the format that the values have"
            )
        self._arguments = (schema, format, contract)
        self._schema = schema.to_arrow()
        self._field = schema.fields[0]

    def decode(self, raw: RawBatch) -> Decoded:
        bad = self._missing(raw.values) + self._no_text(raw.values)
        values = raw.values
        if bad:
            bad.sort(key=lambda one: one.index)
            good = np.setdiff1d(np.arange(len(values)), [one.index for one in bad])
            values = values.take(pa.array(good, pa.int64()))
        rows = pa.RecordBatch.from_arrays([values.cast(self._schema.field(0).type)], schema=self._schema)
        return Decoded(rows, tuple(bad))

    def _missing(self, values: pa.BinaryArray) -> list[Undecodable]:
        if not self._field.required or not values.null_count:
            return []
        nulls = np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False))
        reason = "a record without a value, and its column is required"
        return [Undecodable(int(row), reason, self._field.name, Fault.EMPTY) for row in nulls]

    def _no_text(self, values: pa.BinaryArray) -> list[Undecodable]:
        if self._field.type != "string":
            return []
        try:
            values.cast(pa.string())
        except pa.ArrowInvalid:
            return [bad for row, value in enumerate(values) if (bad := self._check(row, value.as_py()))]
        return []

    def _check(self, row: int, value: bytes | None) -> Undecodable | None:
        try:
            (value or b"").decode()
        except UnicodeDecodeError as problem:
            reason = f"not UTF-8 text: byte {problem.start + 1} of {len(problem.object)} is wrong"
            return Undecodable(row, reason, self._field.name, Fault.BROKEN)
        return None

    def __reduce__(self) -> tuple[Any, ...]:
        return RawDecoder, self._arguments
