"""The native Protobuf decoder. No import where it was not built."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from frazil.core.schema import Schema
from frazil.stream import _protobuf
from frazil.stream.config.model import Contract
from frazil.stream.decode.columns import batch_of, input_of, plan_of
from frazil.stream.decode.protobuf_plan import Message


class NativeRows:
    """Decodes in one pass over the bytes; which records are bad, not why."""

    def __init__(self, schema: Schema, contract: Contract) -> None:
        self._type = pa.struct(list(schema.to_arrow()))
        self._columns = _protobuf.columns(plan_of(schema))
        self._discard = contract.types == "discard_value"
        self._programs = dict[bytes, object]()

    def rows(
        self, values: pa.BinaryArray, plans: Mapping[bytes, Message]
    ) -> tuple[pa.RecordBatch, list[int]]:
        """Plans by what the records begin with."""
        for prefix, plan in plans.items():
            if prefix not in self._programs:
                self._programs[prefix] = _protobuf.program(self._columns, plan.describe())
        data, offsets, validity, offset, length = input_of(values)
        programs = tuple(self._programs.items())
        columns, bad = _protobuf.decode(
            self._columns, programs, self._discard, data, offsets, validity, offset, length
        )
        return batch_of(self._type, columns), bad
