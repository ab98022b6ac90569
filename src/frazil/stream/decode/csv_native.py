"""The native CSV decoder. No import where it was not built."""

from __future__ import annotations

import pyarrow as pa

from frazil.core.schema import Schema
from frazil.stream import _csv
from frazil.stream.config.model import Contract, CsvFormat
from frazil.stream.decode.columns import batch_of, input_of, plan_of
from frazil.stream.decode.csv_reference import Layout
from frazil.stream.decode.csv_values import UNIT_SCALE


class NativeRows:
    """Decodes in one pass over the bytes; which records are bad, not why."""

    def __init__(self, schema: Schema, format: CsvFormat, contract: Contract) -> None:  # noqa: A002
        self._type = pa.struct(list(schema.to_arrow()))
        self._plan = _csv.plan(plan_of(schema, UNIT_SCALE.get(format.timestamps)))
        quote = ord(format.quote) if format.quote else -1
        self._settings = (
            ord(format.delimiter),
            quote,
            format.null.encode(),
            contract.types == "discard_value",
        )

    def rows(self, values: pa.BinaryArray, layout: Layout) -> tuple[pa.RecordBatch, list[int]]:
        data, offsets, validity, offset, length = input_of(values)
        columns, bad = _csv.decode(
            self._plan, layout.places, *self._settings, data, offsets, validity, offset, length
        )
        return batch_of(self._type, columns), bad
