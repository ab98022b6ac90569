"""The ledger: an Iceberg table with a row for each file taken, written in the commit that has its rows.

Rows are numbered in the order in which files were taken, and the stamp says how many there are. After a reset
to an older stamp numbers are given again; of two rows with the same number the later epoch's counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from frazil.core.errors import NoSuchTable, SourceChanged
from frazil.core.schema import Field, Schema
from frazil.core.stamp import Stamp
from frazil.lake.scan import live_files
from frazil.stream.files.found import FoundFile
from frazil.stream.files.taken import Taken, empty_keys, file_key, path_key

if TYPE_CHECKING:
    from frazil.lake.catalog import Lake

LEDGER_SCHEMA = Schema(
    (
        Field("pipeline", "string", required=True),
        Field("number", "long", required=True, doc="in the order in which files were taken, from 0"),
        Field("path", "string", required=True),
        Field("version", "string", required=True, doc="ETag; on a disk: time, size and inode"),
        Field("size", "long", required=True),
        Field("modified", "timestamptz", required=True),
        Field("taken_at", "timestamptz", required=True),
        Field("epoch", "long", required=True, doc="of the commit that took it, as in its stamp"),
        Field("round", "long", required=True),
    )
)
_WANTED = ("pipeline", "number", "path", "version", "epoch")
#: The ledger's rows as they are now, in tables of any size.
ReadLedger: TypeAlias = Callable[[], Iterable[pa.Table]]


def read_ledger(
    lake: Lake, namespace: tuple[str, ...], name: str, columns: Sequence[str] = _WANTED
) -> Iterator[pa.Table]:
    """The newest rows of a ledger; none without such a table. SourceChanged: somebody deleted some."""
    try:
        table = lake.load(namespace, name)
    except NoSuchTable:
        return
    if table.head is None:
        return
    storage = table.storage()
    for file in live_files(table, table.head):
        if file.deleted != 0 or file.format.lower() != "parquet":
            raise SourceChanged(
                f"the ledger {table} is not as pipelines write it: rows of {file.path} were deleted, or it "
                "is no Parquet file. Nothing was written; roll it back to the last commit of a pipeline"
            )
        with storage.reading(file.path), storage.open_input(file.path) as source:
            rows = pq.read_table(source, columns=list(columns))
        yield rows


def ledger_rows(stamp: Stamp, first: int, files: Sequence[FoundFile]) -> pa.Table:
    """Rows of the files that the round after `stamp` takes; the first one gets the number `first`."""
    count, now = len(files), datetime.now(UTC)
    columns = {
        "pipeline": [stamp.pipeline] * count,
        "number": range(first, first + count),
        "path": [file.path for file in files],
        "version": [file.version for file in files],
        "size": [file.size for file in files],
        "modified": [file.modified for file in files],
        "taken_at": [now] * count,
        "epoch": [stamp.epoch] * count,
        "round": [stamp.round + 1] * count,
    }
    schema = LEDGER_SCHEMA.to_arrow()
    return pa.table([pa.array(columns[field.name], field.type) for field in schema], schema=schema)


def load_taken(read: ReadLedger, stamp: Stamp, count: int, name: str) -> Taken:
    """The first `count` files that the pipeline took. SourceChanged if the ledger does not have them all."""
    files, paths, epochs = empty_keys(count), empty_keys(count), np.full(count, -1, np.int64)
    for table in read():
        mine = table.filter(
            pc.and_(pc.equal(table["pipeline"], stamp.pipeline), pc.less(table["number"], count))
        )
        # Merged files have rows of several epochs; of those of one number the last one stays.
        mine = mine.sort_by("epoch")
        numbers, of = mine["number"].to_numpy(), mine["epoch"].to_numpy()
        newer = of > epochs[numbers]
        rows = mine.filter(pa.array(newer)).select(["path", "version"]).to_pydict()
        at = numbers[newer]
        epochs[at] = of[newer]
        files[at] = [file_key(*pair) for pair in zip(rows["path"], rows["version"], strict=True)]
        paths[at] = [path_key(path) for path in rows["path"]]
    missing = int((epochs < 0).sum())
    if missing:
        raise SourceChanged(
            f"pipeline {stamp.pipeline}: it took {count} files, and its ledger {name} lacks {missing} of "
            "them: it was dropped, rolled back or changed alone. Nothing was written. Roll it back to "
            "the snapshot of the pipeline's last commit"
        )
    return Taken(files, paths)
