"""The native decoder: a schema as its plan, its buffers as Arrow arrays. No import where it was not built."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.core.schema import Field, Schema, StructType
from frazil.stream import _json
from frazil.stream.config.model import Contract, JsonFormat
from frazil.stream.decode.columns import batch_of, fields_of, input_of, plan_of
from frazil.stream.decode.decoded import Decoded, Undecodable
from frazil.stream.decode.json_reference import ReferenceReader
from frazil.stream.decode.scalars import UNIT_SCALE

#: In the order of `unknown_t` in json_scan.h: what becomes of fields that no column has.
_REFUSED = 1
_UNKNOWN = {"discard_value": 0, "evolve": 2}


class NativeReader:
    """Decodes in one pass over the bytes; a bad record is put into words by the reference."""

    def __init__(
        self,
        schema: Schema,
        format: JsonFormat,  # noqa: A002 - the settings' own word
        contract: Contract,
        reserved: Iterable[str] = (),
    ) -> None:
        self._unknown = _UNKNOWN.get(contract.columns, _REFUSED)
        self._lax = contract.types == "discard_value"
        self._type = pa.struct(list(schema.to_arrow()))
        instants = None if format.timestamps == "iso" else UNIT_SCALE[format.timestamps]
        names = _names(Field("", StructType(schema.fields), True))
        self._plan = _json.plan(plan_of(schema, instants), names)
        self._reference = ReferenceReader(schema, format, contract, reserved)

    def read(self, values: pa.BinaryArray) -> Decoded:
        rows, bad, drifted = self._decode(values)
        if not bad and not drifted:
            return Decoded(rows)
        drift = self._reference.drift()
        refused, known = [], set(bad)
        for row in sorted((*bad, *drifted)):
            found, lacking = self._reference.judge(row, values[row].as_py(), drift)
            if found is not None:
                refused.append(found)
            elif row in known and not lacking:
                raise _disagreement(row)
        if drift.changes:
            rows = rows[:0]
        elif len(rows) + len(refused) > len(values):
            rows = self._without(values, refused)
        return Decoded(rows, tuple(refused), drift.changes)

    def _decode(self, values: pa.BinaryArray) -> tuple[pa.RecordBatch, list[int], list[int]]:
        """The good records, the numbers of the bad ones, and of good ones that no column has all of."""
        columns, bad, drifted = _json.decode(self._plan, *input_of(values), self._unknown, self._lax)
        return batch_of(self._type, columns), bad, drifted

    def _without(self, values: pa.BinaryArray, bad: Iterable[Undecodable]) -> pa.RecordBatch:
        """Again, for records that are bad by what they have besides columns."""
        kept = np.ones(len(values), bool)
        kept[[one.index for one in bad]] = False
        rows, _, _ = self._decode(pc.if_else(pa.array(kept), values, pa.scalar(None, pa.binary())))
        return rows


def _disagreement(row: int) -> RuntimeError:
    return RuntimeError(
        f"the two JSON decoders do not agree on record {row} of the batch: set FRAZIL_NATIVE=0 to go on "
        "without the native one, and please report the record"
    )


def _names(field: Field) -> Any:
    """The name of a column with those inside it, as its plan lies."""
    return field.name.encode(), tuple(map(_names, fields_of(field.type)))
