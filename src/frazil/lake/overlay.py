"""A table as it would be with some rows gone and others there: a snapshot that nobody commits.

Iceberg reads it as it reads any other, with its own pruning and at its own speed. What the snapshot has more
than the one it is built on lies on the local disk: its metadata and manifests, the rows, and which rows of
the table's data files are gone. So it is for a Spark whose tasks all run on this machine.
"""

from __future__ import annotations

import shutil
import threading
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from frazil.client import Client
from frazil.core.errors import NotFound
from frazil.core.names import show
from frazil.core.partitioning import PartitionSpec
from frazil.core.schema import Schema
from frazil.lake.arrow_scan import columns_elsewhere, columns_ever
from frazil.lake.commit import MAIN, put
from frazil.lake.deleted_rows import DeletedRows
from frazil.lake.deletion_vector import bitmap_of
from frazil.lake.delta import RowDelta
from frazil.lake.files import DataFile, FileOptions, WriteTarget
from frazil.lake.java import java_errors
from frazil.lake.key_index import KeyIndexes, KeySearch
from frazil.lake.live import LiveFiles
from frazil.lake.manifests import Manifests
from frazil.lake.name_mapping import names_of
from frazil.lake.pruning import KeyPartitions
from frazil.lake.removals import VECTORS, Removals, Removed
from frazil.lake.scratch import Scratch
from frazil.lake.session import runs_here
from frazil.lake.storage import FileStorage, Inputs
from frazil.lake.writer import TableWriter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: They are read once or twice, and soon: to compress them costs more than it saves.
_OPTIONS = FileOptions(compression="none", dictionaries=False)
#: What would lead away from the scratch directory, or make work.
_PLACES = ("write.metadata.path", "write.data.path", "write.object-storage.path", "write.folder-storage.path")
_PROPERTIES = {"commit.manifest-merge.enabled": "false", "write.object-storage.enabled": "false"}
_indexes = KeyIndexes()
#: Held by the thread that makes one: what is remembered is for one at a time.
_building = threading.Lock()
_manifests: dict[str, Manifests] = {}
_MANIFESTS = 64


def fits(spark: SparkSession) -> bool:
    """Whether all tasks of the session see this machine's disk."""
    return runs_here(spark.sparkContext.master)


@dataclass(frozen=True)
class Base:
    """The snapshot that it is built on."""

    namespace: tuple[str, ...]
    name: str
    #: The table's document, and the schema that counts.
    metadata: Mapping[str, Any] = field(repr=False)
    schema: Schema
    #: None: there is none, and so no row.
    snapshot: int | None
    storage: Inputs

    @cached_property
    def described(self) -> list[Mapping[str, Any]]:
        """The snapshot's own document; nothing, if there is none."""
        found = [one for one in self.metadata.get("snapshots") or () if one["snapshot-id"] == self.snapshot]
        if self.snapshot is not None and not found:
            raise NotFound(f"the table {show(self.namespace, self.name)} has no snapshot {self.snapshot}")
        return found

    def specs(self) -> dict[int, PartitionSpec]:
        newest = columns_ever(self.metadata)
        found = (PartitionSpec.from_json(each, newest) for each in self.metadata["partition-specs"])
        return {spec.id: spec for spec in found}


def overlaid(
    spark: SparkSession, client: Client, base: Base, rows: pa.Table, keys: pa.Table | None
) -> DataFrame:
    """The base without the rows that have one of the keys, and with `rows`, in the columns of the schema.

    `keys`: by the names of the key columns, in the types of the schema; None: every row stays.
    """
    with _building:
        return _overlaid(Scratch.of(spark, client), spark, client, base, rows, keys)


def _overlaid(
    scratch: Scratch,
    spark: SparkSession,
    client: Client,
    base: Base,
    rows: pa.Table,
    keys: pa.Table | None,
) -> DataFrame:
    scratch.sweep()
    place = scratch.new()
    try:
        storage = FileStorage.of(place.as_uri(), None)
        removed = Removed((), (), ())
        if keys is not None and len(keys) and base.described:
            removed = _removed(base, keys, storage, f"{place.as_uri()}/gone")
        come = _written(base, rows, storage, place)
        _describe(base, place)
        delta = RowDelta(base.snapshot, tuple(come), removed.deletes, removed.replaced, removed.removed)
        with java_errors(f"preparing a read of the table {show(base.namespace, base.name)}"):
            catalogs = scratch.catalogs(client, base.namespace, base.name, base.metadata)
            if delta.rows or delta.deletes or delta.removed:
                table = catalogs.load(place)
                change = table.newRowDelta()
                put(scratch.lake, table.specs(), delta, change)
                if base.snapshot is not None:
                    # Those before it are not described here.
                    change.validateFromSnapshot(base.snapshot)
                change.commit()
            return scratch.frame(spark, catalogs, place)
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        raise


def _removed(base: Base, keys: pa.Table, storage: FileStorage, prefix: str) -> Removed:
    """What takes the rows of the keys away."""
    names = set(keys.column_names)
    schema = Schema(tuple(each for each in base.schema if each.name in names), base.schema.id)
    keys = keys.select([each.name for each in schema])
    specs = base.specs()
    live = LiveFiles(
        _manifests_of(base, schema).live(base.storage, str(base.described[0]["manifest-list"])), specs
    )
    elsewhere, mapping = columns_elsewhere(base.metadata, specs), names_of(base.metadata)
    search = KeySearch(schema, keys, base.storage, elsewhere, _indexes, mapping)
    partitions = KeyPartitions(specs, schema, keys)
    targets = [
        live.target(file) for file in live.data if partitions.meet(file) and search.ranges.meet_file(file)
    ]
    deleted = DeletedRows(base.storage, targets, columns_ever(base.metadata))
    removals = Removals(storage, prefix, VECTORS)
    for target in targets:
        fresh = bitmap_of(search.positions(target.file))
        if not fresh:
            continue
        own, shared = deleted.positions(target)
        if fresh - own - shared:
            removals.take(target, fresh, own, shared)
    return removals.close()


def _manifests_of(base: Base, schema: Schema) -> Manifests:
    """Those that earlier reads of the table have seen."""
    name = str(base.metadata["table-uuid"])
    ids = frozenset(each.id for each in schema)
    found = _manifests.get(name)
    if found is None or found.columns != ids:
        if len(_manifests) >= _MANIFESTS:
            _manifests.clear()
        found = _manifests[name] = Manifests(ids)
    return found


def _written(base: Base, rows: pa.Table, storage: FileStorage, place: Path) -> list[DataFile]:
    spec = PartitionSpec((), _new_spec(base))
    location = place.as_uri()
    writer = TableWriter(WriteTarget(location, base.schema, spec, _OPTIONS), storage, f"{location}/rows")
    for batch in rows.to_batches():
        writer.write(batch)
    return writer.close()


def _new_spec(base: Base) -> int:
    """The number of a partition spec that the table does not have, for the rows that come: the schema may be
    older than the columns that it is divided by now."""
    return 1 + max(int(each["spec-id"]) for each in base.metadata["partition-specs"])


def _describe(base: Base, place: Path) -> None:
    """The table's document, with the base alone, as a table of its own: Spark compares tables by their id."""
    metadata = base.metadata
    there = base.described
    properties = {k: v for k, v in (metadata.get("properties") or {}).items() if k not in _PLACES}
    document = dict(metadata) | {
        # As if it had been upgraded: deletion vectors are cheaper to write and to read.
        "format-version": VECTORS,
        "next-row-id": metadata.get("next-row-id", 0),
        "location": place.as_uri(),
        # The clock that the catalog wrote it by may be ahead.
        "last-updated-ms": 0,
        "partition-specs": [*metadata["partition-specs"], {"spec-id": _new_spec(base), "fields": []}],
        "default-spec-id": _new_spec(base),
        "sort-orders": [{"order-id": 0, "fields": []}],
        "default-sort-order-id": 0,
        "table-uuid": str(uuid.uuid4()),
        "current-schema-id": base.schema.id,
        "current-snapshot-id": base.snapshot if there else -1,
        "snapshots": there,
        "refs": {MAIN: {"snapshot-id": base.snapshot, "type": "branch"}} if there else {},
        "snapshot-log": [],
        "metadata-log": [],
        "statistics": [],
        "partition-statistics": [],
        "properties": properties | _PROPERTIES,
    }
    folder = place / "metadata"
    folder.mkdir()
    (folder / "v1.metadata.json").write_bytes(msgspec.json.encode(document))
    (folder / "version-hint.text").write_text("1")
