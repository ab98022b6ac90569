"""Rows that came without some of their values, which are those of the current row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from frazil.core.schema import Schema
from frazil.lake.data_rows import Columns, RowGroup
from frazil.lake.key_match import Numbers

#: By column, in the order of the patches' own: for each row the number of the patch that has its value; -1:
#: the current row has it.
Sources: TypeAlias = Mapping[str, Numbers]


@dataclass(frozen=True)
class Patches:
    """Rows with holes; no two with the same key, but where a column orders them (`SequenceBy`)."""

    #: Columns as a table has them, by name; anything in a hole.
    rows: pa.Table
    #: One bit for each column of `rows`, the lowest of the first byte being the first; null: none.
    holes: pa.BinaryArray
    #: The keys of the current rows, where they are not those of `rows`: the key of a row may have changed.
    origins: pa.Table | None = None

    @property
    def keys(self) -> pa.Table:
        """What the current rows are looked up by."""
        return self.rows if self.origins is None else self.origins

    def __len__(self) -> int:
        return len(self.holes)

    def at_home(self, numbers: Sequence[int]) -> Patches | None:
        """With the current rows of those looked up by their own keys, but for keys that are looked up;
        None: there are no others."""
        if self.origins is None or not numbers:
            return None
        names = self.origins.column_names
        own = self.rows.select(names).cast(self.origins.schema)
        taken = {tuple(row.values()) for row in self.origins.to_pylist()}
        keys = own.take(pa.array(numbers, pa.int64())).to_pylist()
        free = [number for number, key in zip(numbers, keys, strict=True) if tuple(key.values()) not in taken]
        if not free:
            return None
        places = np.arange(len(self))
        places[free] += len(self)
        return replace(self, origins=pa.concat_tables([self.origins, own]).take(pa.array(places)))

    def filled(
        self, sources: Sources, schema: Schema, groups: Iterable[tuple[RowGroup, Numbers]]
    ) -> pa.Table:
        """Rows with the values of `sources`, completed from those that `groups` hold, in that order.

        `schema`: the table's. Of each group the places of the rows in it are given.
        """
        lacking = {name for name, source in sources.items() if (source < 0).any()}
        wanted = Schema(tuple(field for field in schema if field.name in lacking), schema.id)
        columns = Columns(wanted)
        now = pa.concat_tables([group.read(columns).take(pa.array(rows)) for group, rows in groups])
        every = Columns(schema)
        rows = every.fitter.fit(self.emptied(sources))
        found = []
        for number, field in enumerate(schema):
            column = rows.column(number)
            if field.name in lacking:
                column = _chosen(column, now.column(field.name), sources[field.name] < 0)
            found.append(column)
        return pa.Table.from_arrays(found, schema=every.fitter.schema)

    def emptied(self, sources: Sources) -> pa.RecordBatch:
        """Rows with the values of `sources`, null where the current row would have them."""
        columns = [
            column.take(pa.array(source, mask=source < 0)).combine_chunks()
            for column, source in zip(self.rows.columns, sources.values(), strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, names=self.rows.column_names)

    def sources(self, numbers: Numbers) -> Sources:
        """Of the patches of those numbers."""
        return {name: np.where(holes, -1, numbers) for name, holes in self.bits(numbers).items()}

    def bits(self, numbers: Numbers) -> dict[str, npt.NDArray[np.bool_]]:
        """By column, which of those patches have a hole there."""
        names = self.rows.column_names
        masks = np.zeros((len(numbers), -(-len(names) // 8)), np.uint8)
        for at, mask in enumerate(self.holes.take(pa.array(numbers)).to_pylist()):
            given = np.frombuffer(mask or b"", np.uint8)[: masks.shape[1]]
            masks[at, : len(given)] = given
        bits = np.unpackbits(masks, axis=1, bitorder="little").astype(np.bool_)
        return {name: bits[:, number] for number, name in enumerate(names)}


def _chosen(given: pa.Array, now: pa.ChunkedArray, holes: npt.NDArray[np.bool_]) -> pa.Array:
    """The value of now where there is a hole."""
    both = pa.chunked_array([given, *now.chunks], given.type).combine_chunks()
    places = np.arange(len(given))
    return both.take(pa.array(np.where(holes, places + len(given), places)))
