"""The data files that make up a table at one snapshot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from frazil.lake.java import java_errors
from frazil.lake.table import LakeTable


@dataclass(frozen=True)
class LiveFile:
    path: str
    format: str
    records: int
    size: int
    #: Rows of it that delete files take away by position; None: by equality, so the number is not known.
    deleted: int | None = 0


def live_files(table: LakeTable, snapshot_id: int) -> list[LiveFile]:
    """All of them, by path."""
    found = []
    with java_errors(f"reading the files of {table}"):
        planned = table.java.newScan().useSnapshot(snapshot_id).planFiles()
        try:
            tasks = planned.iterator()
            while tasks.hasNext():
                task = tasks.next()
                file = task.file()
                found.append(
                    LiveFile(
                        str(file.location()),
                        str(file.format()),
                        int(file.recordCount()),
                        int(file.fileSizeInBytes()),
                        _deleted(list(task.deletes())),
                    )
                )
        finally:
            planned.close()
    return sorted(found, key=lambda file: file.path)


def _deleted(deletes: list[Any]) -> int | None:
    total = 0
    for delete in deletes:
        if str(delete.content()) != "POSITION_DELETES":
            return None
        total += int(delete.recordCount())
    return total
