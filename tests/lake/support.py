"""What the tests of the lake share: files written by hand, and a reader that knows no Spark."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog import load_catalog

from frazil.client import Client
from frazil.core.stamp import Mirror, Position, Stamp, stamp_key, stamp_tag
from frazil.lake.authority import MetadataHistory, find_stamp
from frazil.lake.files import DataFile, Metrics
from frazil.lake.table import LakeTable
from frazil.lake.writers import PipelineWriter, RoundTicket

SOURCE = "kafka:cluster"


def at(offset: int) -> dict[str, Position]:
    return {"orders": Position("topic-1", (offset,))}


def first() -> tuple[str, dict[str, Position]]:
    return SOURCE, at(0)


def local(path: str) -> Path:
    return Path("/" + path.removeprefix("file:").lstrip("/"))


def write_file(table: LakeTable, prefix: str, ids: list[int], number: int = 0) -> DataFile:
    """A Parquet file of the table, as a task would write it."""
    path = f"{prefix}-00000-0-{number:03d}.parquet"
    local(path).parent.mkdir(parents=True, exist_ok=True)
    schema = table.schema.to_arrow()
    columns: list[Any] = [pa.array(ids, pa.int64())]
    columns += [pa.nulls(len(ids), field.type) for field in list(schema)[1:]]
    pq.write_table(pa.Table.from_arrays(columns, schema=schema), local(path))
    low, high = (found.to_bytes(8, "little", signed=True) for found in (min(ids), max(ids)))
    metrics = Metrics(value_counts={1: len(ids)}, lower_bounds={1: low}, upper_bounds={1: high})
    size = local(path).stat().st_size
    return DataFile(path, size, len(ids), table.spec.id, {}, metrics, (4,))


def commit(writer: PipelineWriter, ids: list[int], ticket: RoundTicket | None = None) -> Stamp:
    """One round that writes `ids` and reads as many records."""
    ticket = ticket or writer.begin()
    files = [write_file(writer.table, ticket.prefix, ids)] if ids else []
    seen = writer.stamp.positions["orders"].next[0]
    return writer.commit(
        ticket,
        {str(writer.table): files},
        positions=at(seen + len(ids)),
        read=len(ids),
        written=len(ids),
        watermark=None,
    )


def foreign_append(table: LakeTable, ids: list[int]) -> int:
    """Somebody else's commit, through a table object of their own; its snapshot."""
    other = table.lake.load(table.namespace, table.name)
    file = write_file(other, f"{other.data_location}/foreign-{uuid.uuid4().hex}", ids)
    parsed = other.lake.iceberg.DataFiles.builder(other.java.spec())
    parsed = parsed.withPath(file.path).withFileSizeInBytes(file.size).withRecordCount(file.records)
    other.java.newAppend().appendFile(parsed.withFormat("parquet").build()).commit()
    return int(other.java.currentSnapshot().snapshotId())


class Reader:
    """Reads with PyIceberg and the REST client: independent of what wrote."""

    def __init__(self, client: Client, table: LakeTable) -> None:
        self._client = client
        self._table = table
        self._catalog = load_catalog("reader", type="rest", uri=f"{client.uri}/catalog")

    def ids(self) -> list[int]:
        loaded = self._catalog.load_table((*self._table.namespace, self._table.name))
        return sorted(loaded.scan().to_arrow()["id"].to_pylist())

    def all_files(self) -> set[str]:
        """Every data file of every snapshot there is."""
        loaded = self._catalog.load_table((*self._table.namespace, self._table.name))
        return set(loaded.inspect.all_data_files()["file_path"].to_pylist())

    def metadata(self) -> dict[str, Any]:
        return self._client.tables.load(self._table.namespace, self._table.name).metadata

    def stamp(self, pipeline: str) -> Stamp | None:
        return find_stamp(MetadataHistory(self.metadata()), pipeline)

    def check(self, pipeline: str, ids: list[int]) -> Stamp:
        """Rows are `ids`, once each, and stamp, tag and property of the newest commit agree."""
        assert self.ids() == sorted(ids)
        metadata, found = self.metadata(), self.stamp(pipeline)
        assert found is not None
        assert found.written == found.read
        mirror = Mirror.decode(metadata["properties"][stamp_key(pipeline)])
        assert mirror.stamp == found
        assert metadata["refs"][stamp_tag(pipeline)]["snapshot-id"] == mirror.snapshot_id
        return found
