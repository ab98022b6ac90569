"""What a correction changes: rows and sums of the range before and after, in all and by partition."""

from __future__ import annotations

import pickle
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from math import fsum
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from frazil.core.partitioning import PartitionSpec
from frazil.core.schema import Schema
from frazil.hot.changes import changes
from frazil.hot.correct.place import Place
from frazil.hot.correct.replacing import Range
from frazil.lake.changelog_pairs import AFTER, CHANGE_TYPE, DELETE, INSERT
from frazil.lake.fitting import Fitter
from frazil.lake.partitions import Partition, Partitioner
from frazil.stream.spark_types import from_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Number: TypeAlias = int | float | Decimal
#: By partition and kind: how many rows, and their sums.
_Counts: TypeAlias = dict[tuple[str, str], tuple[int, dict[str, Number]]]
_NUMBERS = ("int", "long", "float", "double", "decimal")
_BEFORE, _AFTER = "before", "after"
#: No sum of values of 38 digits is too large for it.
_DIGITS = 76


@dataclass(frozen=True)
class Tally:
    """Rows of the range, of the whole table or of one partition."""

    #: How many there were and are.
    before: int = 0
    after: int = 0
    removed: int = 0
    added: int = 0
    #: Of a table with a key: rows that replace one of the same key, and differ.
    changed: int = 0
    #: Of numeric columns outside of the key; nulls are left out.
    sums_before: Mapping[str, Number] = field(default_factory=dict)
    sums_after: Mapping[str, Number] = field(default_factory=dict)

    @property
    def unchanged(self) -> int:
        return self.after - self.added - self.changed

    def document(self) -> dict[str, Any]:
        """For JSON: exact numbers as text."""
        names = ("before", "after", "removed", "added", "changed", "unchanged")
        sums = {
            name: {"before": _plain(self.sums_before.get(name)), "after": _plain(self.sums_after.get(name))}
            for name in sorted({*self.sums_before, *self.sums_after})
        }
        return {**{name: getattr(self, name) for name in names}, "sums": sums}


@dataclass(frozen=True)
class Difference:
    total: Tally
    #: By partition, as `day=2026-01-01`; none if the table has no partitions.
    partitions: Mapping[str, Tally] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        parts = {name: tally.document() for name, tally in self.partitions.items()}
        return {**self.total.document(), "partitions": parts}


def difference(
    place: Place,
    since: int,
    until: int,
    about: Range,
) -> Difference:
    """What a correction changed between a snapshot and the next."""
    counts = _counted(place, about.before(place.frame(since, place=True), since), _BEFORE)
    counts |= _counted(place, about.after(place.frame(until, place=True)), _AFTER)
    changed = changes(place.spark, place.full_name, since=since, until=until, catalog=place.client)
    counts |= _counted(place, changed, None)
    labels = sorted({label for label, _ in counts})
    tallies = {label: _tally(label, counts) for label in labels}
    return Difference(_total(tallies.values()), tallies if place.table.spec.fields else {})


def _counted(place: Place, frame: DataFrame, kind: str | None) -> _Counts:
    """`kind`: None for changes, which tell it themselves."""
    names = [each.name for each in place.schema]
    told = [] if kind is not None else [CHANGE_TYPE]
    work = _Counting(_loose(place.schema), place.table.spec, tuple(place.key), kind)
    found: _Counts = {}
    rows = frame.select(*(f"`{name.replace('`', '``')}`" for name in [*names, *told]))
    for row in rows.mapInArrow(work.counted, "counts binary").toLocalIterator():
        for where, (count, sums) in pickle.loads(row["counts"]).items():  # noqa: S301 - of our own tasks
            had, so_far = found.get(where, (0, {}))
            found[where] = had + count, _added(so_far, sums)
    return found


@dataclass(frozen=True)
class _Counting:
    """Runs in tasks; what they give is added up."""

    schema: Schema
    spec: PartitionSpec
    key: tuple[str, ...]
    kind: str | None

    def counted(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        fitter, partitioner = Fitter(self.schema), Partitioner(self.spec, self.schema)
        found: _Counts = {}
        for batch in batches:
            rows = fitter.fit(from_spark(batch, self.schema))
            if self.kind is None:
                at = batch.schema.names.index(CHANGE_TYPE)
                rows = rows.append_column(CHANGE_TYPE, batch.column(at))
            for partition, part in partitioner.split(rows) if len(rows) else ():
                label = self._label(partition)
                for kind, mine in self._kinds(part):
                    had, sums = found.get((label, kind), (0, {}))
                    found[label, kind] = had + len(mine), _added(sums, self._sums(mine))
        yield pa.RecordBatch.from_pydict({"counts": pa.array([pickle.dumps(found)], pa.binary())})

    def _kinds(self, rows: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        if self.kind is not None:
            yield self.kind, rows
            return
        kinds = rows.column(rows.schema.names.index(CHANGE_TYPE))
        for kind in pc.unique(kinds).to_pylist():
            yield kind, rows.filter(pc.equal(kinds, kind))

    def _sums(self, rows: pa.RecordBatch) -> dict[str, Number]:
        if self.kind is None:
            return {}
        return {
            one.name: _sum(rows.column(rows.schema.names.index(one.name)))
            for one in self.schema
            if one.name not in self.key and isinstance(one.type, str) and one.type.startswith(_NUMBERS)
        }

    def _label(self, partition: Partition) -> str:
        names = {one.field_id: one.name for one in self.spec.fields if one.transform != "void"}
        values = partition.values.items()
        return ", ".join(f"{names[number]}={_shown(value)}" for number, value in values if number in names)


def _sum(column: pa.Array) -> Number:
    kind = column.type
    if pa.types.is_floating(kind):
        return float(pc.sum(column.cast(pa.float64())).as_py() or 0.0)
    scale = kind.scale if pa.types.is_decimal(kind) else 0
    # In the column's own type, a sum may be too large, and wrong without an error.
    found = pc.sum(column.cast(pa.decimal256(_DIGITS, scale))).as_py()
    exact = Decimal(0).scaleb(-scale) if found is None else found
    return int(exact) if pa.types.is_integer(kind) else exact


def _added(one: Mapping[str, Number], other: Mapping[str, Number]) -> dict[str, Number]:
    found: dict[str, Number] = dict(one)
    for name, value in other.items():
        so_far = found.get(name)
        if so_far is None:
            found[name] = value
        elif isinstance(value, float) or isinstance(so_far, float):
            found[name] = fsum((so_far, value))
        else:
            found[name] = so_far + value
    return found


def _tally(label: str, counts: _Counts) -> Tally:
    rows: defaultdict[str, int] = defaultdict(int)
    rows |= {kind: count for (mine, kind), (count, _) in counts.items() if mine == label}
    sums = {kind: sums for (mine, kind), (_, sums) in counts.items() if mine == label}
    return Tally(
        rows[_BEFORE],
        rows[_AFTER],
        rows[DELETE],
        rows[INSERT],
        rows[AFTER],
        sums.get(_BEFORE, {}),
        sums.get(_AFTER, {}),
    )


def _total(tallies: Iterable[Tally]) -> Tally:
    total = Tally()
    for one in tallies:
        total = Tally(
            total.before + one.before,
            total.after + one.after,
            total.removed + one.removed,
            total.added + one.added,
            total.changed + one.changed,
            _added(total.sums_before, one.sums_before),
            _added(total.sums_after, one.sums_after),
        )
    return total


def _loose(schema: Schema) -> Schema:
    """Nothing is required of columns: files may be older than that."""
    return Schema(tuple(replace(one, required=False) for one in schema))


def _shown(value: object) -> str:
    return "null" if value is None else str(value)


def _plain(value: Number | None) -> int | float | str | None:
    return str(value) if isinstance(value, Decimal) else value
