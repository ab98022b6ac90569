"""What a table's metadata document tells about the work there is, without a look at any other file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from frazil.core.stamp import stamp_key
from frazil.lake.authority import MetadataHistory, SnapshotView, ancestry

#: Of the size that files should have; what is smaller is merged. Iceberg's own measure.
SMALL = 0.75
_STAMPS = stamp_key("")


@dataclass(frozen=True)
class Unmerged:
    """What main got since files were merged the last time."""

    commits: int = 0
    #: Files of commits whose files are small on average.
    small_files: int = 0
    small_bytes: int = 0


def main_line(metadata: Mapping[str, Any]) -> list[SnapshotView]:
    """Main's snapshots, newest first, as far as they are there."""
    return list(ancestry(MetadataHistory(metadata)))


def unmerged(line: list[SnapshotView], file_size: int) -> Unmerged:
    """Counted in the summaries, so that it outlives the process that merged."""
    commits = files = size = 0
    for view in line:
        if _merges(view):
            break
        added, added_size = number(view, "added-data-files"), number(view, "added-files-size")
        commits += added > 0
        if added_size < SMALL * file_size * added:
            files, size = files + added, size + added_size
    return Unmerged(commits, files, size)


def manifests(view: SnapshotView) -> int | None:
    """How many the snapshot has; None: its writer did not say."""
    if "manifests-created" not in view.summary:
        return None
    return number(view, "manifests-created") + number(view, "manifests-kept")


def number(view: SnapshotView, key: str) -> int:
    """A count in the summary, 0 if it is not there."""
    text = view.summary.get(key, "")
    return int(text) if text.isdecimal() else 0


def stamped_by(view: SnapshotView) -> Iterator[str]:
    """The pipelines whose stamps the snapshot carries."""
    return (key.removeprefix(_STAMPS) for key in view.summary if key.startswith(_STAMPS))


def _merges(view: SnapshotView) -> bool:
    # To rewrite manifests is a `replace` too, of no file.
    return view.summary.get("operation") == "replace" and number(view, "deleted-data-files") > 0
