"""Rows of a source that has columns, brought into the schema by name. No value is rounded or cut.

- Columns, and fields of structs, are found by name, case and all. One that is not there: null if the column
  is optional, else every row is bad.
- Numbers fit as far as they are the same number in the column's type; times, if they are whole microseconds;
  bytes into fixed[n] and uuid, if their length is right. Text is never parsed.
- With `types: evolve` the wider type of the source is asked for where Iceberg can promote the column to it.
- Columns that the schema does not have are left out, asked for (`evolve`), or make rows bad that have a value
  in them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from frazil.core.errors import InvalidConfig
from frazil.core.schema import Schema, StructType
from frazil.stream.config.model import Contract, ParquetFormat
from frazil.stream.decode.decoded import Decoded, Undecodable
from frazil.stream.decode.drift import Drift
from frazil.stream.decode.rows_fit import Fitting
from frazil.stream.source import RawBatch


class RowsDecoder:
    """A column at a time."""

    def __init__(
        self,
        schema: Schema,
        format: ParquetFormat,  # noqa: A002 - the settings' own word
        contract: Contract,
        reserved: tuple[str, ...] = (),
    ) -> None:
        """`reserved`: columns of the table that are not of records, which no new field may be called."""
        self._arguments = (schema, format, contract, reserved)
        self._drift = Drift(schema, reserved)
        self._contract = contract
        self._columns = StructType(schema.fields)
        self._schema = schema.to_arrow()

    def decode(self, raw: RawBatch) -> Decoded:
        if raw.rows is None:
            raise InvalidConfig(
                "the source gives records without columns, and the format is one of files that have them: "
                "set `format` to what the records hold (json, csv, avro, protobuf, raw)"
            )
        fitting = Fitting(self._drift.fresh(), self._contract)
        values = raw.rows.to_struct_array()
        columns, problems = fitting.children(values, self._columns, ())
        rows = pa.RecordBatch.from_arrays(columns, schema=self._schema)
        bad = dict[int, Undecodable]()
        for problem in problems:
            for row in map(int, np.flatnonzero(problem.rows)):
                where = ".".join(problem.path)
                bad.setdefault(row, Undecodable(row, problem.reason, where, problem.fault))
        if bad:
            keep = np.ones(len(rows), bool)
            keep[list(bad)] = False
            rows = rows.filter(pa.array(keep))
        return Decoded(rows, tuple(bad[row] for row in sorted(bad)), fitting.changes)

    def __reduce__(self) -> tuple[Any, ...]:
        return RowsDecoder, self._arguments
