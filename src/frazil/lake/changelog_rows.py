"""The rows of a changelog, out of data files: alive before and not after, or after and not before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from frazil.core.schema import Schema
from frazil.lake.changelog_units import Unit
from frazil.lake.data_rows import Columns, DataRows, RowGroup, open_rows
from frazil.lake.deleted_rows import DeletedRows
from frazil.lake.deletion_vector import Positions, positions_of
from frazil.lake.live import Target
from frazil.lake.storage import Inputs

Mask = npt.NDArray[np.bool_]
_BATCH = 65_536


@dataclass(frozen=True)
class Shape:
    """How rows of the table are read; picklable."""

    #: The columns of the changelog.
    schema: Schema
    #: All columns that the table ever had: others may have deleted rows by their values.
    ever: Schema
    #: By partition spec, the columns whose values may lie elsewhere than in data files.
    elsewhere: Mapping[int, frozenset[int]]
    #: The ids of columns by their names, for files that have no ids.
    by_name: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class SignedRows:
    """Rows of one file that went (False) or came (True)."""

    rows: pa.RecordBatch
    came: Mask
    #: Where they are in the file.
    positions: Positions


class UnitReader:
    """Reads units of one commit; delete files that several share are read once."""

    def __init__(self, shape: Shape, storage: Inputs, units: Sequence[Unit]) -> None:
        self._shape = shape
        self._storage = storage
        self._columns = Columns(shape.schema)
        targets = [target for unit in units for target in (unit.before, unit.after) if target is not None]
        self._deleted = DeletedRows(storage, targets, shape.ever)
        self._equality = {file.path: file for target in targets for file in target.equality}

    @property
    def schema(self) -> pa.Schema:
        return self._columns.fitter.schema

    def read(self, unit: Unit, start: int = 0, end: int | None = None) -> Iterator[SignedRows]:
        """The rows of a unit that changed, at positions from `start` up to `end`."""
        file = unit.file
        before, after = self._state(unit.before), self._state(unit.after)
        with open_rows(self._storage, file.path, file.format, self._shape.by_name) as rows:
            rows.require(file.path, self._shape.schema, self._shape.elsewhere.get(file.spec_id, frozenset()))
            for group in rows.groups():
                if group.first + group.count > start and (end is None or group.first < end):
                    yield from self._group(rows, group, (before, after), start, end)

    def _group(
        self, rows: DataRows, group: RowGroup, states: tuple[_State, _State], start: int, end: int | None
    ) -> Iterator[SignedRows]:
        was, now = (self._alive(state, group) for state in states)
        self._apply(states[0].equality - states[1].equality, group, was)
        self._apply(states[1].equality - states[0].equality, group, now)
        changed = was != now
        changed[: max(0, start - group.first)] = False
        if end is not None:
            changed[max(0, end - group.first) :] = False
        if changed.any():
            # What reaches the file both before and after makes rows that changed no more than they are.
            self._apply(states[0].equality & states[1].equality, group, changed)
        places = np.flatnonzero(changed)
        if not len(places):
            return
        table = group.read(self._columns)
        if len(places) < group.count:
            table = table.take(pa.array(places))
        at = 0
        for batch in table.combine_chunks().to_batches(max_chunksize=_BATCH):
            mine = places[at : at + len(batch)]
            yield SignedRows(batch, now[mine], mine + group.first)
            at += len(batch)

    def _state(self, target: Target | None) -> _State:
        if target is None:
            return _State(None, np.zeros(0, np.int64))
        own, shared = self._deleted.positions(target)
        return _State(target, positions_of(own | shared))

    def _alive(self, state: _State, group: RowGroup) -> Mask:
        alive = np.full(group.count, state.target is not None, np.bool_)
        if state.target is None:
            return alive
        first, last = np.searchsorted(state.dead, (group.first, group.first + group.count))
        alive[state.dead[first:last] - group.first] = False
        return alive

    def _apply(self, paths: frozenset[str], group: RowGroup, rows: Mask) -> None:
        """Take out what others deleted by value."""
        for path in sorted(paths):
            columns, matcher = self._deleted.values(self._equality[path])
            if matcher is not None and rows.any():
                found, _ = matcher.find([column.combine_chunks() for column in group.read(columns).columns])
                rows[found] = False


@dataclass(frozen=True)
class _State:
    """Of a data file: in the table or not, and the positions of rows that are gone."""

    target: Target | None
    dead: Positions

    @property
    def equality(self) -> frozenset[str]:
        return frozenset(() if self.target is None else (file.path for file in self.target.equality))
