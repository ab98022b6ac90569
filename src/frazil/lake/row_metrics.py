"""Metrics of rows themselves, for formats whose writers do not tell theirs."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Context
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from frazil.lake.files import Metrics
from frazil.lake.metrics import UNORDERED, Leaf, add_bounds, column_of

#: Enough for any decimal.
_EXACT = Context(prec=80)


class RowMetrics:
    """Counts and bounds over all rows that were added."""

    def __init__(self, columns: Sequence[Leaf]) -> None:
        self._columns = [leaf for leaf in columns if leaf.measured and not leaf.repeated]
        self._found = Metrics()
        self._bounds: dict[int, tuple[list[Any], list[Any]]] = {leaf.id: ([], []) for leaf in self._columns}

    def add(self, rows: pa.Table) -> None:
        for leaf in self._columns:
            column = column_of(rows, leaf)
            _count(self._found.value_counts, leaf, len(column))
            _count(self._found.null_value_counts, leaf, column.null_count)
            if leaf.may_be_nan:
                nan = pc.is_nan(column)
                _count(self._found.nan_value_counts, leaf, pc.sum(nan).as_py() or 0)
                column = column.filter(pc.invert(nan))
            if leaf.kind not in UNORDERED and column.null_count < len(column):
                low, high = _extremes(column, leaf.kind)
                self._bounds[leaf.id][0].append(low)
                self._bounds[leaf.id][1].append(high)

    def found(self) -> Metrics:
        for leaf in self._columns:
            lows, highs = self._bounds[leaf.id]
            if lows:
                add_bounds(self._found, leaf, lows, highs)
        return self._found


def _count(counts: dict[int, int], leaf: Leaf, number: int) -> None:
    counts[leaf.id] = counts.get(leaf.id, 0) + number


def _extremes(column: pa.ChunkedArray, kind: str) -> tuple[Any, Any]:
    """Lowest and highest as Parquet would hold them."""
    if kind == "date":
        column = column.cast(pa.int32())
    elif kind.startswith("time"):
        column = column.cast(pa.int64())
    elif kind == "string":
        # The order of code points is that of their bytes in UTF-8.
        column = column.cast(pa.binary())
    found = pc.min_max(column)
    low, high = found["min"].as_py(), found["max"].as_py()
    if kind.startswith("decimal"):
        return unscaled(low), unscaled(high)
    return low, high


def unscaled(value: Any) -> int:
    """The digits of a decimal as a number.

    >>> from decimal import Decimal
    >>> unscaled(Decimal("-1.280"))
    -1280
    """
    return int(value.scaleb(-value.as_tuple().exponent, _EXACT))
