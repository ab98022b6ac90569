"""Rows by key: those of a round replace the ones that the table has with the same keys."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec
import numpy as np
import pyarrow as pa

from frazil.client import Renewing
from frazil.core.errors import FrazilError, InvalidInput, Unsupported
from frazil.core.partitioning import PartitionSpec
from frazil.core.schema import Field, Schema
from frazil.lake.arrow_scan import defaulted
from frazil.lake.data_rows import Columns
from frazil.lake.delta import DeleteFile, RowDelta
from frazil.lake.files import DataFile, FileOptions
from frazil.lake.java import java_errors
from frazil.lake.live import LiveFiles, Target
from frazil.lake.lookup import Found, Lookup, LookupTask
from frazil.lake.manifests import DATA, ContentFile, Manifests
from frazil.lake.name_mapping import names_in
from frazil.lake.patches import Patches
from frazil.lake.pruning import KeyPartitions, KeyRanges
from frazil.lake.sequence import Bounds, SequenceBy, sequence_field
from frazil.lake.storage import FileStorage, is_local
from frazil.lake.table import LakeTable
from frazil.lake.writer import TableWriter

#: Runs `look_up` for each task, wherever, and gives what they return.
Run = Callable[[Lookup, Sequence[LookupTask]], Iterable[Found]]

#: Fewer rows than this are not worth a task of their own.
_TASK_ROWS = 2_000_000
#: What a file costs beside its rows.
_FILE_ROWS = 50_000
_KEY_SECONDS = 60.0
_FIRST_WITH_DELETES = 2


@dataclass(frozen=True)
class Round:
    """What is to become of a table's rows."""

    #: A row for each key whose row goes, by the names of the key columns.
    keys: pa.Table
    #: Files with the rows that come.
    rows: Sequence[DataFile] = ()
    #: Rows that come with values of the current ones, which go. Keys of these need not be among `keys`.
    patches: Patches | None = None
    #: All rows go first.
    truncates: bool = False
    #: A column that orders changes: those that are older than the current row change nothing.
    sequence: SequenceBy | None = None
    #: The table has every row that its source has: a patch without a current row is of one that is gone by
    #: now, and does not come.
    complete: bool = False


class KeyedTable:
    """What is known about a table from round to round. For one thread at a time."""

    def __init__(self, key: Sequence[str]) -> None:
        if not key:
            raise InvalidInput("rows cannot be replaced without a key: name its columns")
        self._key = tuple(key)
        self._manifests = Manifests(())
        self._specs: tuple[tuple[int, frozenset[int]], dict[int, PartitionSpec]] | None = None
        self._keys: dict[str, Renewing] = {}

    def key_schema(self, table: LakeTable) -> Schema:
        """The key columns as the table has them."""
        fields = tuple(_key_field(table.schema.field(name)) for name in self._key)
        return Schema(fields, table.schema.id)

    def live(self, table: LakeTable) -> LiveFiles:
        """The files of main."""
        schema, specs = self.key_schema(table), self.specs(table)
        ids = frozenset(field.id for field in schema)
        if ids != self._manifests.columns:
            self._manifests = Manifests(ids)
        with java_errors(f"reading the table {table}"):
            current = table.metadata.currentSnapshot()
            path = None if current is None else str(current.manifestListLocation())
        files = [] if path is None else self._manifests.live(self._metadata_storage(table, path), path)
        return LiveFiles(files, specs)

    def specs(self, table: LakeTable) -> dict[int, PartitionSpec]:
        """All that files of the table may have."""
        key = (table.schema.id, frozenset(table.spec_ids()))
        if self._specs is None or self._specs[0] != key:
            with java_errors(f"reading the table {table}"):
                parsed = table.metadata.specsById()
                texts = [table.lake.specs.toJson(parsed.get(number)) for number in key[1]]
            specs = [PartitionSpec.from_json(msgspec.json.decode(text), table.schema) for text in texts]
            self._specs = key, {spec.id: spec for spec in specs}
        return self._specs[1]

    def elsewhere(self, table: LakeTable) -> dict[int, frozenset[int]]:
        """By spec, columns whose values files need not hold: partitions do, or the column's default."""
        with java_errors(f"reading the table {table}"):
            document = msgspec.json.decode(table.lake.schemas.toJson(table.metadata.schema()))
        defaults = {*defaulted(document)}
        return {
            number: frozenset(defaults | {f.source_id for f in spec.fields if f.transform == "identity"})
            for number, spec in self.specs(table).items()
        }

    def _metadata_storage(self, table: LakeTable, path: str) -> FileStorage:
        place = path.rpartition("/")[0] if not path.startswith(f"{table.location}/") else table.location
        if is_local(place):
            return FileStorage.of(place, None)
        if place not in self._keys:
            where = (table.namespace, table.name)
            self._keys[place] = Renewing(
                lambda: table.lake.client.tables.credentials(*where, location=place), margin=_KEY_SECONDS
            )
        return FileStorage.of(place, self._keys[place].current())


class KeyedRound:
    """The `Deltas` of one round. Each lookup writes files under a name of its own."""

    def __init__(
        self,
        keyed: KeyedTable,
        wanted: Round,
        prefix: str,
        run: Run,
        *,
        slots: int = 1,
        options: FileOptions | None = None,
    ) -> None:
        """`prefix`: that of the round's ticket; `slots`: the most tasks that are of use at once."""
        self._keyed = keyed
        self._wanted = wanted
        self._prefix = prefix
        self._run = run
        self._slots = slots
        self._options = options or FileOptions()
        self._tries = 0
        #: Files of each lookup, of the newest last.
        self._written: list[list[str]] = []
        self._table: LakeTable | None = None
        #: Files of the round whose rows are all late, by the newest lookup.
        self._dropped: list[str] = []
        #: Of the newest lookup: rows that go, rows that do not come (late ones, and of a complete table what
        #: is not found), and which patches lack values that no current row has.
        self.matched = 0
        self.late = 0
        self.unfound: tuple[int, ...] = ()

    def at(self, table: LakeTable) -> RowDelta:
        """Look the keys up in main as the table was just loaded."""
        wanted, self._table = self._wanted, table
        version = int(table.metadata.formatVersion())
        if version < _FIRST_WITH_DELETES:
            raise Unsupported(
                f"the table {table} is of format {version}, in which rows cannot be replaced: upgrade it "
                "(ALTER TABLE … SET TBLPROPERTIES ('format-version' = '2')), or use mode append"
            )
        lookup = self._lookup(table, version)
        tasks = [] if wanted.truncates or not len(lookup.keys) else self._plan(table, lookup)
        found = self._found(lookup, tasks)
        if tasks and wanted.patches is not None:
            # A source that reads rows while keys change may send such a change after the row it led to.
            moved = wanted.patches.at_home(_without_row(lookup, found))
            if moved is not None:
                lookup = self._lookup(table, version, moved)
                found = self._found(lookup, tasks)
        self.matched = sum(each.matched for each in found)
        self.late = len({each.number for one in found for each in one.patched if each.late})
        rows = [file for each in found for file in each.rows]
        come, deletes = self._in_time(table, lookup, found)
        rest = self._rest(lookup, found)
        return RowDelta(
            table.head,
            (*come, *rows, *rest),
            (*(delete for each in found for delete in each.deletes), *deletes),
            tuple(file for each in found for file in each.replaced),
            tuple(file for each in found for file in each.removed),
            wanted.truncates,
            self.late,
        )

    def landed(self) -> None:
        """Remove what was written and is not in the commit. What stays is found by a later claim."""
        stale = [*self._dropped, *(path for paths in self._written[:-1] for path in paths)]
        self._written = []
        if stale and self._table is not None:
            with contextlib.suppress(FrazilError):
                self._table.storage().delete(stale)

    def _lookup(self, table: LakeTable, version: int, patches: Patches | None = None) -> Lookup:
        wanted = self._wanted
        patches = patches or wanted.patches
        schema = self._keyed.key_schema(table)
        names = [field.name for field in schema]
        parts = [wanted.keys] if patches is None else [patches.keys, wanted.keys]
        fitter = Columns(schema).fitter
        batches = [fitter.fit(batch) for part in parts for batch in part.select(names).to_batches()]
        keys = pa.Table.from_batches(batches, fitter.schema)
        target = table.write_target(self._options)
        bounds = None
        if wanted.sequence is not None:
            by = sequence_field(table.schema, wanted.sequence.column)
            bounds = Bounds.of(by, wanted.sequence, patches, keys)
        elsewhere = self._keyed.elsewhere(table)
        mapping = names_in(table.properties)
        return Lookup(schema, keys, version, self._next(), target, elsewhere, mapping, patches, bounds=bounds)

    def _next(self) -> str:
        """Names of another lookup's files must not be taken again."""
        self._tries += 1
        return f"{self._prefix}-k{self._tries:03d}"

    def _plan(self, table: LakeTable, lookup: Lookup) -> list[LookupTask]:
        live = self._keyed.live(table)
        return plan_lookup(live, lookup, self._keyed.specs(table), self._slots)

    def _found(self, lookup: Lookup, tasks: Sequence[LookupTask]) -> list[Found]:
        if not tasks:
            self._written.append([])
            return []
        found = self._ran(lookup, tasks)
        patched = [each for one in found for each in one.patched]
        several = {number for number, count in Counter(each.number for each in patched).items() if count > 1}
        if not several:
            return found
        # Another writer put the key there twice: the youngest row counts, and both go.
        chosen = {
            each.number: (each.path, each.position)
            for each in sorted(patched, key=lambda each: (each.age, each.path, each.position))
            if each.number in several
        }
        return self._ran(replace(lookup, prefix=self._next(), chosen=chosen), tasks)

    def _in_time(
        self, table: LakeTable, lookup: Lookup, found: Sequence[Found]
    ) -> tuple[Sequence[DataFile], list[DeleteFile]]:
        """The round's own files, less those that hold nothing but late rows; and what takes such rows away.

        The files were written before anybody looked into the table.
        """
        rows, self._dropped = self._wanted.rows, []
        late = sorted({number for each in found for number in each.late})
        if not late or not rows:
            return rows, []
        own = replace(
            lookup, keys=lookup.keys.take(pa.array(late)), prefix=self._next(), patches=None, bounds=None
        )
        specs = self._keyed.specs(table)
        tasks = plan_lookup(LiveFiles(map(_as_content, rows), specs), own, specs, self._slots)
        again = list(self._run(own, tasks)) if tasks else []
        self.late += sum(each.matched for each in again)
        deletes = [delete for each in again for delete in each.deletes]
        self._written[-1] += {delete.path for delete in deletes}
        self._dropped = [file["file-path"] for each in again for file in each.removed]
        return [file for file in rows if file.path not in self._dropped], deletes

    def _ran(self, lookup: Lookup, tasks: Sequence[LookupTask]) -> list[Found]:
        found = list(self._run(lookup, tasks))
        rows = {file.path for each in found for file in each.rows}
        # Vectors of many data files lie in one file.
        deletes = {file.path for each in found for file in each.deletes}
        self._written.append([*rows, *deletes])
        return found

    def _rest(self, lookup: Lookup, found: Sequence[Found]) -> list[DataFile]:
        """Patches without a current row: what they lack is null, or they do not come."""
        patches = lookup.patches
        if patches is None:
            return []
        numbers, bounds = np.array(_without_row(lookup, found), np.int64), lookup.bounds
        if not len(numbers):
            self.unfound = ()
            return []
        assert self._table is not None, "it was just looked up in"
        sources = patches.sources(numbers) if bounds is None else bounds.sources(patches, numbers)
        lacking = np.any([source < 0 for source in sources.values()], axis=0)
        self.unfound = tuple(numbers[lacking].tolist())
        if self._wanted.complete:
            self.late += len(self.unfound)
            sources = {name: source[~lacking] for name, source in sources.items()}
            if lacking.all():
                return []
        writer = TableWriter(lookup.target, self._table.storage(), f"{lookup.prefix}-rest")
        writer.write(patches.emptied(sources))
        files = writer.close()
        self._written[-1] += [file.path for file in files]
        return files


def _without_row(lookup: Lookup, found: Sequence[Found]) -> tuple[int, ...]:
    there = {each.number for one in found for each in one.patched}
    count = 0 if lookup.patches is None else len(lookup.patches)
    numbers = range(count) if lookup.bounds is None else lookup.bounds.first.tolist()
    return tuple(number for number in numbers if number not in there)


def _as_content(file: DataFile) -> ContentFile:
    """As if it were part of the table."""
    metrics = file.metrics
    return ContentFile(
        file.path,
        file.format,
        DATA,
        file.records,
        file.size,
        file.spec_id,
        file.partition,
        0,
        metrics.lower_bounds,
        metrics.upper_bounds,
        metrics.null_value_counts,
    )


def plan_lookup(
    live: LiveFiles, lookup: Lookup, specs: Mapping[int, PartitionSpec], slots: int
) -> list[LookupTask]:
    """The data files that may hold one of the keys, dealt out to tasks of about the same work."""
    ranges, partitions = (
        KeyRanges(lookup.schema, lookup.keys),
        KeyPartitions(specs, lookup.schema, lookup.keys),
    )
    met = [file for file in live.data if partitions.meet(file) and ranges.meet_file(file)]
    if not met:
        return []
    work = sum(file.records + _FILE_ROWS for file in met)
    count = max(1, min(slots, len(met), round(work / _TASK_ROWS)))
    loads: list[tuple[int, list[Target]]] = [(0, []) for _ in range(count)]
    for file in sorted(met, key=lambda file: -file.records):
        least = min(range(count), key=lambda number: loads[number][0])
        load, targets = loads[least]
        targets.append(live.target(file))
        loads[least] = (load + file.records + _FILE_ROWS, targets)
    return [LookupTask(number, tuple(targets)) for number, (_, targets) in enumerate(loads)]


def _key_field(field: Field) -> Field:
    if not isinstance(field.type, str):
        raise Unsupported(f"the column '{field.name}' cannot be part of a key: it is not of a simple type")
    return field
