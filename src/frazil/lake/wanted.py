"""Which rows of a table are wanted: files that can have none are not read, others give those alone."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.core.errors import Unsupported
from frazil.core.partitioning import PartitionSpec
from frazil.core.schema import Field, Schema
from frazil.lake.data_rows import Columns, RowGroup
from frazil.lake.key_match import KeyMatcher
from frazil.lake.manifests import ContentFile
from frazil.lake.pruning import KeyPartitions, KeyRanges, ValueRange

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Wanted:
    """Only rows that have one of these keys."""

    #: The key columns, with their ids.
    schema: Schema
    #: In the types of the schema.
    keys: pa.Table

    def sieve(self, specs: Mapping[int, PartitionSpec]) -> Sieve:
        return _Keys(self, specs)


@dataclass(frozen=True)
class Between:
    """Only rows whose value in a column is neither below one nor above another."""

    column: Field
    #: The two, in the type of the column; null: there is no such bound.
    bounds: pa.Array

    @property
    def schema(self) -> Schema:
        return Schema((self.column,))

    def sieve(self, _: Mapping[int, PartitionSpec]) -> Sieve:
        return _Values(self)


Condition: TypeAlias = Wanted | Between


class Sieve(ABC):
    """What takes the rows of a condition out of others."""

    def __init__(self, schema: Schema) -> None:
        #: Those that rows are told by.
        self.columns = Columns(schema)

    @abstractmethod
    def meets_file(self, file: ContentFile) -> bool:
        """Whether the file may have such a row, as the table tells."""

    @abstractmethod
    def meets_group(self, group: RowGroup) -> bool:
        """The same for a part of a file, as the file itself tells."""

    @abstractmethod
    def mask(self, columns: Sequence[pa.Array]) -> Mask:
        """Which rows are wanted."""


class _Keys(Sieve):
    def __init__(self, wanted: Wanted, specs: Mapping[int, PartitionSpec]) -> None:
        if not len(wanted.keys):
            raise Unsupported("rows are looked for by keys, and there are none")
        super().__init__(wanted.schema)
        self._ranges = KeyRanges(wanted.schema, wanted.keys)
        self._partitions = KeyPartitions(specs, wanted.schema, wanted.keys)
        self._matcher = KeyMatcher([column.combine_chunks() for column in wanted.keys.columns])

    def meets_file(self, file: ContentFile) -> bool:
        return self._partitions.meet(file) and self._ranges.meet_file(file)

    def meets_group(self, group: RowGroup) -> bool:
        return self._ranges.meet_group(group)

    def mask(self, columns: Sequence[pa.Array]) -> Mask:
        kept = np.zeros(len(columns[0]), np.bool_)
        kept[self._matcher.find(columns)[0]] = True
        return kept


class _Values(Sieve):
    def __init__(self, between: Between) -> None:
        super().__init__(between.schema)
        self._low, self._high = between.bounds
        self._range = ValueRange(between.column, between.bounds)

    def meets_file(self, file: ContentFile) -> bool:
        return self._range.meets_file(file)

    def meets_group(self, group: RowGroup) -> bool:
        return self._range.meets_group(group)

    def mask(self, columns: Sequence[pa.Array]) -> Mask:
        (values,) = columns
        kept = values.is_valid()
        if self._low.is_valid:
            kept = pc.and_(kept, pc.greater_equal(values, self._low))
        if self._high.is_valid:
            kept = pc.and_(kept, pc.less_equal(values, self._high))
        found: Mask = kept.fill_null(False).to_numpy(zero_copy_only=False)
        return found
