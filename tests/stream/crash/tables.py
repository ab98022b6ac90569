"""A reader of the table that shares nothing with our commits: PyIceberg, and a listing of the storage."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table
from tests.stream.crash.records import Row

from frazil.devstack.frazil_server import FrazilServer
from frazil.devstack.seaweed import ObjectStore


@dataclass(frozen=True)
class Shelf:
    """A warehouse, on local disk or in a bucket."""

    server: FrazilServer
    warehouse: str | None = None
    store: ObjectStore | None = None

    def load(self, identifier: str) -> Table:
        found: Table = self.catalog().load_table(identifier)
        return found

    def catalog(self) -> Any:
        warehouse = {} if self.warehouse is None else {"warehouse": self.warehouse}
        return load_catalog("crash", type="rest", uri=self.server.catalog_uri, **warehouse)

    def exists(self, identifier: str) -> bool:
        return bool(self.catalog().table_exists(identifier))

    def rows(self, identifier: str) -> Counter[Row]:
        found = self.load(identifier).scan().to_arrow()
        columns = [found.column(name) for name in ("id", "part", "seq", "at", "note")]
        columns[3] = columns[3].cast(pa.timestamp("us", "UTC")).cast(pa.int64())
        return Counter(zip(*(column.to_pylist() for column in columns), strict=True))

    def letters(self, identifier: str) -> Counter[Row]:
        """Of a dead-letter table: the bad records, as the reader of the log has them."""
        found = self.load(identifier).scan("stage <> 'replayed'").to_arrow()
        assert set(found.column("stage").to_pylist()) <= {"decode"}
        return Counter((-1, -1, -1, -1, value.decode()) for value in found.column("value").to_pylist())

    def stamps(self, identifier: str, pipeline: str) -> Iterator[dict[str, Any]]:
        """Of main's ancestry, newest first."""
        table = self.load(identifier)
        at = table.current_snapshot()
        while at is not None:
            summary = at.summary.additional_properties if at.summary is not None else {}
            text = summary.get(f"frazil.stamp.{pipeline}")
            if text is not None:
                yield json.loads(text)
            at = table.snapshot_by_id(at.parent_snapshot_id) if at.parent_snapshot_id is not None else None

    def stray_files(self, identifier: str) -> set[str]:
        """Data files that lie there and that no snapshot refers to."""
        table = self.load(identifier)
        referenced = {
            _key(entry.data_file.file_path)
            for snapshot in table.snapshots()
            for manifest in snapshot.manifests(table.io)
            for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False)
        }
        return {_key(path) for path in self._listed(table.location())} - referenced

    def _listed(self, location: str) -> Iterator[str]:
        if self.store is None:
            root = Path(_key(location))
            yield from (str(path) for path in root.rglob("*.parquet"))
            return
        import boto3

        keys = self.store.admin
        client = boto3.client(
            "s3",
            endpoint_url=self.store.endpoint,
            region_name=self.store.region,
            aws_access_key_id=keys.access,
            aws_secret_access_key=keys.secret,
        )
        parts = urlsplit(location)
        pages = client.get_paginator("list_objects_v2").paginate(
            Bucket=parts.netloc, Prefix=parts.path.strip("/") + "/"
        )
        for page in pages:
            for item in page.get("Contents", ()):
                if item["Key"].endswith(".parquet"):
                    yield f"s3://{parts.netloc}/{item['Key']}"
        client.close()


def _key(location: str) -> str:
    """One spelling for `file:/x`, `file:///x` and `/x`."""
    if location.startswith(("file:", "/")):
        return unquote(urlsplit(location).path)
    return location
