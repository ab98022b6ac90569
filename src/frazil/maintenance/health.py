"""How large a table and its metadata are, by the metadata document alone: no JVM, no other file read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from frazil.lake.files import FileOptions
from frazil.maintenance.history import main_line, manifests, number, unmerged


@dataclass(frozen=True)
class Health:
    """Of main's head, and of the metadata document."""

    #: None: whoever wrote the head did not say.
    files: int | None
    bytes: int | None
    records: int | None
    manifests: int | None
    #: Files that came since the last merge, and are small.
    small_files: int
    commits_since_merge: int
    snapshots: int
    #: Milliseconds since 1970; None in a table without any.
    oldest_snapshot: int | None
    #: Size of the document that every commit writes anew.
    metadata_bytes: int
    #: Older documents that the table still lists.
    metadata_versions: int


def table_health(metadata: Mapping[str, Any], file_size: int = FileOptions().size) -> Health:
    """`metadata` as `client.tables.load(…).metadata` has it; `file_size`: what files should have."""
    line = main_line(metadata)
    new = unmerged(line, file_size)
    head = line[0] if line else None

    def total(key: str) -> int | None:
        if head is None:
            return 0
        return number(head, key) if key in head.summary else None

    rows = metadata.get("snapshots") or ()
    return Health(
        files=total("total-data-files"),
        bytes=total("total-files-size"),
        records=total("total-records"),
        manifests=0 if head is None else manifests(head),
        small_files=new.small_files,
        commits_since_merge=new.commits,
        snapshots=len(rows),
        oldest_snapshot=min((int(row["timestamp-ms"]) for row in rows), default=None),
        metadata_bytes=len(msgspec.json.encode(metadata)),
        metadata_versions=len(metadata.get("metadata-log") or ()),
    )
