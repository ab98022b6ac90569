"""Which promises were broken lately, as the table of what tiering measured tells. There is no JVM."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from frazil.client import Client
from frazil.core.errors import FrazilError, NotFound
from frazil.core.schema import Schema
from frazil.hot.table import current_schema, table_name
from frazil.hot.tiering.history import DEFAULT_TABLE
from frazil.lake.arrow_scan import ArrowScan
from frazil.lake.manifests import ContentFile, Manifests
from frazil.lake.places import PlacedFiles, ReadKeys

#: What counts as lately.
TOLD_HOURS: Final = 24
_COLUMNS = ("at", "table", "breaches", "cause")
_logger = logging.getLogger("frazil.hot")


@dataclass(frozen=True)
class Told:
    """Of one table."""

    breaches: int = 0
    #: Of the last of them.
    cause: str | None = None


def told(client: Client, now: datetime, table: str = DEFAULT_TABLE) -> Mapping[str, Told] | None:
    """By table that broke a promise; None: nobody wrote it down, or that cannot be read."""
    namespace, name = table_name(table)
    try:
        metadata = client.tables.load(namespace, name).metadata
        if (snapshot := metadata.get("current-snapshot-id") or -1) < 0:
            return {}
        files = PlacedFiles(ReadKeys(client, namespace, name).places(metadata))
        return _sums(_rows(table, metadata, snapshot, files, now - timedelta(hours=TOLD_HOURS)))
    except NotFound:
        return None
    except FrazilError as error:
        # Status is asked for when something is wrong: what else it knows is told.
        _logger.warning("the breaches in %s cannot be read: %s", table, error.message)
        return None


def _rows(
    table: str, metadata: Mapping[str, Any], snapshot: int, files: PlacedFiles, since: datetime
) -> pa.Table:
    """In order of time."""
    schema = Schema.from_json(current_schema(metadata), table)
    at, breaches = schema.field("at").id, schema.field("breaches").id
    columns = Schema(tuple(schema.field(name) for name in _COLUMNS))
    scan = ArrowScan(metadata, snapshot, columns, files, manifests=Manifests((at, breaches)))
    # There is a file for each minute: only those with something to tell are opened.
    least = {at: int(since.timestamp() * 1_000_000), breaches: 1}
    scan.targets = [one for one in scan.targets if _reaches(one.file, least)]
    rows = pa.Table.from_batches(scan.batches(), scan.schema)
    return rows.filter((pc.field("at") >= since) & (pc.field("breaches") > 0)).sort_by("at")


def _reaches(file: ContentFile, least: Mapping[int, int]) -> bool:
    """Whether its columns may hold that much, as its manifest says."""
    return all(
        column not in file.upper or int.from_bytes(file.upper[column], "little", signed=True) >= value
        for column, value in least.items()
    )


def _sums(rows: pa.Table) -> dict[str, Told]:
    found: dict[str, Told] = {}
    for row in rows.to_pylist():
        before = found.get(row["table"], Told())
        found[row["table"]] = Told(before.breaches + row["breaches"], row["cause"])
    return found
