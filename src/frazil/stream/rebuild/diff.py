"""What a swap would change: the rows of the table now against those that were rebuilt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from frazil.lake.changelog import changelog_of, changes
from frazil.lake.changelog_pairs import CHANGE_TYPE, DELETE, INSERT
from frazil.lake.commit import MAIN, stage_unstamped
from frazil.lake.delta import RowDelta
from frazil.lake.files import DataFile
from frazil.lake.java import java_errors
from frazil.lake.places import PlacedFiles, ReadKeys
from frazil.lake.table import LakeTable
from frazil.stream.rebuild.sink import Moved

if TYPE_CHECKING:
    from frazil.client import Client


@dataclass(frozen=True)
class Difference:
    """Rows that would come and go; equal ones are neither."""

    added: int
    removed: int


def difference(table: LakeTable, client: Client, head: int | None, files: Sequence[DataFile]) -> Difference:
    """Counted in this process, on the disk where that is too much for memory. The table is not touched.

    A snapshot is prepared as the swap would, compared with its parent, and thrown away.
    """
    opened = table.transaction()
    if table.head != head:
        raise Moved
    staged = stage_unstamped(table, opened, RowDelta(head, files, truncates=True), {}, MAIN)
    try:
        with java_errors(f"reading the table {table}"):
            text = table.lake.iceberg.TableMetadataParser.toJson(staged.updated)
        metadata = msgspec.json.decode(text)
        storage = PlacedFiles(ReadKeys(client, table.namespace, table.name).places(metadata))
        log = changelog_of(metadata, str(table), since=head, until=staged.snapshot_id, key=())
        counts: Counter[str] = Counter()
        for batch in changes(log, storage):
            counts.update(batch.column(CHANGE_TYPE).to_pylist())
    finally:
        staged.clean()
    return Difference(counts[INSERT], counts[DELETE])
