"""The rows of a table at a snapshot as Arrow batches, from its metadata document alone: there is no JVM."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa

from frazil.core.errors import NotFound
from frazil.core.foreign_types import without_foreign
from frazil.core.partitioning import PartitionSpec
from frazil.core.schema import Schema
from frazil.lake.data_rows import Columns, RowGroup, open_rows
from frazil.lake.deleted_rows import DeletedRows
from frazil.lake.deletion_vector import Positions, positions_of
from frazil.lake.history import TableHistory
from frazil.lake.key_match import KeyMatcher
from frazil.lake.live import LiveFiles, Target
from frazil.lake.manifests import Manifests
from frazil.lake.name_mapping import names_of
from frazil.lake.storage import Inputs
from frazil.lake.wanted import Condition, Mask

_THREADS = 4


class ArrowScan:
    """One snapshot of a table."""

    def __init__(
        self,
        metadata: Mapping[str, Any],
        snapshot_id: int,
        columns: Schema,
        storage: Inputs,
        wanted: Sequence[Condition] = (),
        manifests: Manifests | None = None,
    ) -> None:
        """`columns`: fields of one of the table's schemas, by their ids. NotFound: the snapshot expired.

        `wanted`: of rows that alone are given, all of these. `manifests`: those of earlier scans of the table
        by the same columns.
        """
        snapshot = TableHistory(metadata).snapshot(snapshot_id)
        if snapshot is None or snapshot.manifest_list is None:
            raise NotFound(f"the table has no snapshot {snapshot_id} any more, or none that frazil can read")
        self._storage = storage
        self._columns = Columns(columns)
        newest = Schema.from_json(without_foreign(metadata["schemas"][-1]))
        specs = {
            int(each["spec-id"]): PartitionSpec.from_json(each, newest)
            for each in metadata.get("partition-specs") or ()
        }
        self._elsewhere = columns_elsewhere(metadata, specs)
        self._names = names_of(metadata)
        self._sieves = [one.sieve(specs) for one in wanted]
        if manifests is None:
            manifests = Manifests(field.id for one in wanted for field in one.schema)
        live = LiveFiles(manifests.live(storage, snapshot.manifest_list), specs)
        self.targets = [
            live.target(file) for file in live.data if all(one.meets_file(file) for one in self._sieves)
        ]
        self._deleted = DeletedRows(storage, self.targets, columns_ever(metadata))

    @property
    def schema(self) -> pa.Schema:
        return self._columns.fitter.schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All rows; a few files are read at a time, and given in their order."""
        waiting: deque[Future[list[pa.RecordBatch]]] = deque()
        targets = iter(self.targets)
        with ThreadPoolExecutor(_THREADS) as pool:
            for target in targets:
                waiting.append(pool.submit(self._file, target))
                if len(waiting) > _THREADS:
                    yield from waiting.popleft().result()
            while waiting:
                yield from waiting.popleft().result()

    def _file(self, target: Target) -> list[pa.RecordBatch]:
        file, found = target.file, []
        own, shared = self._deleted.positions(target)
        gone = positions_of(own | shared)
        with open_rows(self._storage, file.path, file.format, self._names) as rows:
            rows.require(file.path, self._columns.schema, self._elsewhere.get(file.spec_id, frozenset()))
            for group in rows.groups():
                if not all(one.meets_group(group) for one in self._sieves):
                    continue
                mask = self._living(target, group, gone)
                if mask is not None and not mask.any():
                    continue
                table = group.read(self._columns)
                if mask is not None:
                    table = table.filter(pa.array(mask))
                found += table.to_batches()
        return found

    def _living(self, target: Target, group: RowGroup, gone: Positions) -> Mask | None:
        """Which rows of the group are there, and wanted; None: all."""
        start, end = np.searchsorted(gone, [group.first, group.first + group.count])
        mask = None
        if start < end:
            mask = np.ones(group.count, np.bool_)
            mask[gone[start:end] - group.first] = False
        for file in target.equality:
            columns, matcher = self._deleted.values(file)
            if matcher is not None:
                mask = _all(mask, group.count)
                mask[matcher.find(_read(group, columns))[0]] = False
        for sieve in self._sieves:
            if mask is None or mask.any():
                mask = _all(mask, group.count) & sieve.mask(_read(group, sieve.columns))
        return mask


def without(table: pa.Table, key: Sequence[str], matcher: KeyMatcher) -> pa.Table:
    """The rows that have none of the keys."""
    rows, _ = matcher.find([table.column(name).combine_chunks() for name in key])
    if not len(rows):
        return table
    kept = np.ones(len(table), np.bool_)
    kept[rows] = False
    return table.filter(pa.array(kept))


def _read(group: RowGroup, columns: Columns) -> list[pa.Array]:
    return [column.combine_chunks() for column in group.read(columns).columns]


def _all(mask: Mask | None, count: int) -> Mask:
    return np.ones(count, np.bool_) if mask is None else mask


def columns_ever(metadata: Mapping[str, Any]) -> Schema:
    """All columns that the table ever had, under their newest names: rows may be deleted by their values."""
    return columns_of(metadata["schemas"])


def columns_of(documents: Iterable[Mapping[str, Any]]) -> Schema:
    """Of several schemas, a later one's names before an earlier one's."""
    known = (Schema.from_json(without_foreign(document)) for document in documents)
    return Schema(tuple({field.id: field for schema in known for field in schema}.values()))


def columns_elsewhere(
    metadata: Mapping[str, Any], specs: Mapping[int, PartitionSpec]
) -> dict[int, frozenset[int]]:
    """By spec, columns whose values files need not hold: partitions do, or the column's default."""
    defaults = {number for document in metadata["schemas"] for number in defaulted(document)}
    return {
        number: frozenset(defaults | {each.source_id for each in spec.fields if each.transform == "identity"})
        for number, spec in specs.items()
    }


def defaulted(kind: Any) -> Iterator[int]:
    """The ids of fields, at any depth of a schema of the spec's form, that files need not have."""
    if isinstance(kind, Mapping):
        for field in kind.get("fields", ()):
            if field.get("initial-default") is not None:
                yield int(field["id"])
            yield from defaulted(field["type"])
        for part in ("element", "key", "value"):
            yield from defaulted(kind.get(part))
