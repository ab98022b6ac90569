"""A table that is corrected, at one of its snapshots: as frames of Spark and as files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from frazil.client import Client
from frazil.client.naming import written
from frazil.core.errors import Conflict
from frazil.core.names import show
from frazil.core.schema import Schema
from frazil.hot.read.pins import Pinned, Pins
from frazil.hot.read.spark import snapshot_frame
from frazil.hot.read.sql import ZONE
from frazil.hot.table import current_schema
from frazil.lake.changelog import identifier_fields, shape_of, specs_of
from frazil.lake.changelog_units import TableFiles
from frazil.lake.deleted_rows import DeletedRows
from frazil.lake.deletion_vector import bitmap_of
from frazil.lake.history import TableHistory
from frazil.lake.live import LiveFiles, Target
from frazil.lake.places import PlacedFiles, ReadKeys
from frazil.lake.removals import Removals, Removed
from frazil.lake.table import LakeTable
from frazil.maintenance.actions import document

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Columns of Iceberg's own: where a row lies.
FILE, POSITION = "_file", "_pos"


@dataclass(frozen=True)
class Selection:
    """Rows of a snapshot, by data file: those of a range."""

    snapshot: int
    hits: Mapping[str, BitMap64]
    targets: Mapping[str, Target]


class Place:
    """One table, as it was last loaded."""

    def __init__(self, spark: SparkSession, client: Client, table: LakeTable) -> None:
        self.spark = spark
        self.client = client
        self.table = table
        self._keys = ReadKeys(client, table.namespace, table.name)
        self._files: TableFiles | None = None
        self.reload()

    def __str__(self) -> str:
        return str(self.table)

    @property
    def query_name(self) -> str:
        """As queries name it."""
        return ".".join((*self.table.namespace, self.table.name))

    @property
    def full_name(self) -> str:
        """As functions of frazil are given it."""
        return written(*self.table.namespace, self.table.name)

    def reload(self) -> None:
        """Take over what `table` was loaded with last."""
        self.metadata: Mapping[str, Any] = document(self.table)
        self.schema = Schema.from_json(current_schema(self.metadata), str(self))
        self.history = TableHistory(self.metadata)
        self.key = identifier_fields(self.metadata, str(self))
        self.format_version = int(self.metadata["format-version"])

    @property
    def zone(self) -> str:
        """What times without a zone are in."""
        return str(self.spark.conf.get(ZONE))

    def use_zone(self, zone: str) -> None:
        """Go on in a session with this zone; the caller's stays as it is."""
        if zone and zone != self.zone:
            self.spark = self.spark.newSession()
            self.spark.conf.set(ZONE, zone)

    def pinned(self, snapshot: int) -> Pinned:
        """As an ordinary table, which has no tail: what is only in the log is no affair of corrections."""
        name = show(self.table.namespace, self.table.name)
        pins = Pins(table=name, uuid=self.table.uuid, snapshot=snapshot, schema=self.schema.id or 0)
        return Pinned(pins, self.table.namespace, self.table.name, self.metadata, None)

    def frame(self, snapshot: int, *, place: bool = False, spark: SparkSession | None = None) -> DataFrame:
        """Its rows; with `place`, also where they lie."""
        beside = (FILE, POSITION) if place else ()
        return snapshot_frame(spark or self.spark, self.client, self.pinned(snapshot), self.schema, beside)

    def live(self, snapshot: int) -> LiveFiles:
        found = self.history.snapshot(snapshot)
        if found is None:
            raise Conflict(f"snapshot {snapshot} of the table {self} expired: correct the range again")
        specs = specs_of(self.metadata, self.schema)
        if self._files is None:
            self._files = TableFiles(self.inputs(), specs)
        self._files.renew(self.inputs(), specs)
        return self._files.live(found)

    def inputs(self) -> PlacedFiles:
        return PlacedFiles(self._keys.places(self.metadata))

    def selection(self, snapshot: int, hits: Mapping[str, BitMap64]) -> Selection:
        live = self.live(snapshot)
        targets = {file.path: live.target(file) for file in live.data if file.path in hits}
        return Selection(snapshot, hits, targets)

    def unmoved(self, known: Selection, snapshot: int) -> bool:
        """Whether the rows lie where they did, with the same delete files."""
        return self.selection(snapshot, known.hits).targets == known.targets

    def removed(self, chosen: Selection, prefix: str) -> Removed:
        """Write what takes the rows away."""
        targets = chosen.targets
        deleted = DeletedRows(self.inputs(), targets.values(), shape_of(self.metadata, str(self)).ever)
        removals = Removals(self.table.storage(), prefix, self.format_version)
        for path, target in targets.items():
            removals.take(target, chosen.hits[path], *deleted.positions(target))
        return removals.close()


def positions(frame: DataFrame) -> dict[str, BitMap64]:
    """Where the rows of a frame lie, by data file."""
    found: dict[str, BitMap64] = {}
    columns = f"{FILE} string, positions binary"
    for row in frame.select(FILE, POSITION).mapInArrow(_gathered, columns).toLocalIterator():
        mine = BitMap64.deserialize(bytes(row["positions"]))
        found[row[FILE]] = found.get(row[FILE], BitMap64()) | mine
    return found


def _gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    found: dict[str, BitMap64] = {}
    for batch in batches:
        files = pc.dictionary_encode(batch.column(0))
        at = np.asarray(batch.column(1).to_numpy(zero_copy_only=False), np.int64)
        codes = files.indices.to_numpy()
        for number, path in enumerate(files.dictionary.to_pylist()):
            mine = bitmap_of(np.sort(at[codes == number]))
            found[path] = found.get(path, BitMap64()) | mine
    if found:
        texts = [bitmap.serialize() for bitmap in found.values()]
        yield pa.RecordBatch.from_pydict({FILE: list(found), "positions": pa.array(texts, pa.binary())})
