"""Data files in ORC: ids and types that ORC does not know lie in attributes, as Iceberg writes them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc as orc

from frazil.core.errors import InvalidInput
from frazil.core.schema import Type, arrow_type
from frazil.lake.files import MEGABYTE, Metrics
from frazil.lake.layout import Layout
from frazil.lake.row_file import RowFile
from frazil.lake.row_metrics import RowMetrics
from frazil.lake.storage import Output

#: How much the writer holds back, which is how far a file may grow beyond its size.
_STRIPE_BYTES = 16 * MEGABYTE
_STRIPES = 8
_LEAST_STRIPE = 1024
_SECOND = 1_000_000
_ATTRIBUTES = {
    "long": {"iceberg.long-type": "LONG"},
    "time": {"iceberg.long-type": "TIME"},
    "uuid": {"iceberg.binary-type": "UUID"},
    "binary": {"iceberg.binary-type": "BINARY"},
    "timestamp": {"iceberg.timestamp-unit": "MICROS"},
    "timestamptz": {"iceberg.timestamp-unit": "MICROS"},
}


class OrcFile(RowFile):
    """Its writer cuts stripes by their size, whatever the groups of rows."""

    format = "orc"

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._layout = Layout(self._schema, _stored, _attributes)
        self._metrics = RowMetrics(self._columns)
        self._writer: orc.ORCWriter | None = None

    def _begin(self, output: Output, rows: pa.Table) -> None:
        self._writer = orc.ORCWriter(
            output.sink,
            compression=self._options.codec,
            stripe_size=max(_LEAST_STRIPE, min(_STRIPE_BYTES, self._options.size // _STRIPES)),
        )

    def _write(self, rows: pa.Table) -> None:
        assert self._writer is not None, "a file is begun before it is written"
        self._metrics.add(rows)
        table = self._layout.of(rows)
        for field, column in zip(self._schema.fields, table.columns, strict=True):
            for chunk in column.chunks:
                _check_moments(field.name, chunk)
        self._writer.write(table)

    def _end(self) -> None:
        if self._writer is not None:
            self._writer.close()

    def _described(self) -> tuple[Metrics, tuple[int, ...]]:
        return self._metrics.found(), ()


def _check_moments(name: str, values: pa.Array) -> None:
    """pyarrow rounds the seconds of moments before 1970 up, where ORC has them rounded down: readers of the
    Java library see fractions of a second in the wrong second."""
    kind = values.type
    if pa.types.is_timestamp(kind):
        numbers = values.view(pa.int64())
        lowest = pc.min(numbers).as_py()
        if lowest is not None and lowest < 0:
            early = numbers.filter(pc.less(numbers, 0))
            whole = pc.multiply(pc.divide(early, _SECOND), _SECOND)
            if not pc.all(pc.equal(early, whole)).as_py():
                raise InvalidInput(
                    f"column '{name}' has a moment before 1970 with a fraction of a second, which pyarrow "
                    "writes to ORC in a way that others misread. Write the table in Parquet or Avro, or cut "
                    "such fractions off"
                )
    elif pa.types.is_struct(kind):
        for field, child in zip(kind.fields, values.flatten(), strict=True):
            _check_moments(f"{name}.{field.name}", child)
    elif pa.types.is_map(kind):
        _check_moments(f"{name}.key", values.keys)
        _check_moments(f"{name}.value", values.items)
    elif pa.types.is_list(kind):
        _check_moments(f"{name}.element", values.flatten())


def _stored(kind: str) -> pa.DataType:
    return pa.int64() if kind == "time" else arrow_type(kind)


def _attributes(identifier: int, required: bool, kind: Type) -> dict[str, str]:
    found = {"iceberg.id": str(identifier), "iceberg.required": str(required).lower()}
    if not isinstance(kind, str):
        return found
    if kind.startswith("fixed["):
        return found | {"iceberg.binary-type": "FIXED", "iceberg.length": kind[len("fixed[") : -1]}
    return found | _ATTRIBUTES.get(kind, {})
