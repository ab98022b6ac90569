"""A column that orders the changes of a row: one that is older than the current row changes nothing.

Equal values count as newer, so does a change without one; a current row without one is older than any.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from frazil.core.errors import InvalidConfig
from frazil.core.schema import Field, Schema
from frazil.lake.key_match import KeyMatcher, Numbers, lanes
from frazil.lake.patches import Patches, Sources

_TYPES = ("int", "long", "date", "time", "timestamp", "timestamptz")
#: In place of null: of a current row, and of a change.
_OLDEST, _NEWEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


@dataclass(frozen=True)
class SequenceBy:
    """What the changes of a round have in the column, as numbers of 64 bits.

    Null: the change counts, whatever the current row has.
    """

    column: str
    #: For each of the round's keys: of the change that became of all.
    keys: pa.Int64Array
    #: For each of its patches.
    patches: pa.Int64Array


def sequence_field(schema: Schema, name: str) -> Field:
    """The column; InvalidConfig: it is not there, or of a type that does not order changes."""
    found = next((field for field in schema if field.name == name), None)
    if found is None:
        names = ", ".join(field.name for field in schema)
        raise InvalidConfig(
            f"`sequence_by: {name}`: the table has no such column to order changes by; it has {names}"
        )
    if found.type not in _TYPES:
        raise InvalidConfig(
            f"`sequence_by: {name}`: the column is of the type {found.type}, which changes cannot be ordered "
            f"by; legal: {', '.join(_TYPES)}. Name another column, or leave `sequence_by` out"
        )
    return found


@dataclass(frozen=True)
class Bounds:
    """Which changes of a lookup count for a current row. Patches of one key are done one after another."""

    #: The column alone.
    schema: Schema
    #: For each key of the lookup: rows above it are newer than all of its changes.
    highest: Numbers
    #: For each patch: rows above it are newer, and what the row has in the column afterwards.
    _each: Numbers
    _after: Numbers
    #: The patch to be done after it; -1: none.
    _next: Numbers
    #: The first patch of each key.
    first: Numbers

    @classmethod
    def of(cls, field: Field, given: SequenceBy, patches: Patches | None, keys: pa.Table) -> Bounds:
        """`keys`: of the lookup, those of patches first."""
        each, rest = (_filled(values, _NEWEST) for values in (given.patches, given.keys))
        after, following, first = _NONE, _NONE, _NONE
        highest = each
        if patches is not None:
            after = sequence_numbers(patches.rows.column(field.name))
            head = keys.slice(0, len(patches))
            _, heads = KeyMatcher([column.combine_chunks() for column in head.columns]).find(
                [column.combine_chunks() for column in head.columns]
            )
            first = np.unique(heads)
            following = _following(heads)
            highest = each.copy()
            np.maximum.at(highest, heads, each)
        return cls(Schema((field,)), np.concatenate([highest, rest]), each, after, following, first)

    def sources(self, patches: Patches, numbers: Numbers, current: Numbers | None = None) -> Sources:
        """Of the rows that come of first patches, by number, and of those that follow.

        `current`: what the current rows have in the column; None: there are none.
        """
        names = patches.rows.column_names
        ordering = names.index(self.schema.fields[0].name)
        found = np.full((len(numbers), len(names)), -1, np.int64)
        current = np.full(len(numbers), _OLDEST) if current is None else current.copy()
        places = np.arange(len(numbers))
        while len(places):
            holes = np.stack(list(patches.bits(numbers).values()), axis=1)
            counts = self._each[numbers] >= current[places]
            some = places[counts]
            found[some] = np.where(holes[counts], found[some], numbers[counts, None])
            told = counts & ~holes[:, ordering]
            current[places[told]] = self._after[numbers[told]]
            numbers = self._next[numbers]
            places, numbers = places[numbers >= 0], numbers[numbers >= 0]
        return {name: found[:, number] for number, name in enumerate(names)}


def sequence_numbers(values: pa.ChunkedArray) -> Numbers:
    """Of the column in rows."""
    return _filled(lanes(values.combine_chunks())[0], _OLDEST)


def _following(heads: Numbers) -> Numbers:
    """Of equal heads, the next place."""
    order = np.argsort(heads, kind="stable")
    found = np.full(len(heads), -1, np.int64)
    same = heads[order[1:]] == heads[order[:-1]]
    found[order[:-1][same]] = order[1:][same]
    return found


def _filled(values: pa.Array, null: int) -> Numbers:
    return np.asarray(values.fill_null(null).to_numpy(), np.int64)


_NONE = np.zeros(0, np.int64)
