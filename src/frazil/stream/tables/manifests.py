"""The data files of a snapshot, read from its manifests without an engine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from frazil.core.errors import Unsupported
from frazil.lake.history import TableSnapshot
from frazil.lake.manifest_avro import manifest_records, read_manifest
from frazil.lake.places import KeyedPlace, nearest

_ADDED, _DELETED = 1, 2
_READERS = 8
_LIST = {"manifest_path", "content", "partition_spec_id", "added_snapshot_id"}
_ENTRY = {"status", "snapshot_id"}
_FILE = {"content", "file_path", "file_format", "record_count"}
#: Not there in tables of format 1, where all files are data.
_LATER = {"content"}


@dataclass(frozen=True)
class SourceFile:
    """A data file of the source."""

    path: str
    format: str
    records: int
    #: The partition spec by which it was written.
    spec: int


class Manifests:
    """Those of one table. What was read last is kept: a large snapshot is asked for in every round."""

    def __init__(self, places: Sequence[KeyedPlace] = ()) -> None:
        #: Where they lie; given anew when keys are.
        self.places = places
        self._kept: tuple[tuple[int, bool], list[SourceFile]] | None = None

    def added(self, snapshot: TableSnapshot) -> list[SourceFile]:
        """The files that the snapshot added, by path."""
        return self._known(snapshot, whole=False)

    def live(self, snapshot: TableSnapshot) -> list[SourceFile]:
        """All files of the table at the snapshot, by path."""
        return self._known(snapshot, whole=True)

    def has_deletes(self, snapshot: TableSnapshot) -> bool:
        """Whether rows of files are deleted at the snapshot, by delete files or vectors."""
        deletes = [row for row in self._list(snapshot) if row.get("content", 0) == 1]
        return any(entry["status"] != _DELETED for row in deletes for entry in self._entries(row))

    def _known(self, snapshot: TableSnapshot, *, whole: bool) -> list[SourceFile]:
        key = (snapshot.id, whole)
        if self._kept is None or self._kept[0] != key:
            self._kept = key, self._files(snapshot, whole)
        return self._kept[1]

    def _files(self, snapshot: TableSnapshot, whole: bool) -> list[SourceFile]:
        manifests = [
            row
            for row in self._list(snapshot)
            if row.get("content", 0) == 0 and (whole or row["added_snapshot_id"] == snapshot.id)
        ]
        found: list[SourceFile] = []
        for row, entries in zip(manifests, self._all_entries(manifests), strict=True):
            for entry in entries:
                # An entry that names no snapshot is of the one that wrote the manifest.
                new = entry["status"] == _ADDED and entry["snapshot_id"] in (None, snapshot.id)
                if new or (whole and entry["status"] != _DELETED):
                    file = entry["data_file"]
                    found.append(
                        SourceFile(
                            str(file["file_path"]),
                            str(file["file_format"]).lower(),
                            int(file["record_count"]),
                            int(row["partition_spec_id"]),
                        )
                    )
        return sorted(found, key=lambda file: file.path)

    def _list(self, snapshot: TableSnapshot) -> list[Mapping[str, Any]]:
        if snapshot.manifest_list is None:
            raise Unsupported(
                f"snapshot {snapshot.id} has no manifest list, as very old writers of Iceberg left it; "
                "rewrite the table's manifests with an engine"
            )
        path = snapshot.manifest_list
        return list(manifest_records(path, self._read(path), _LIST, later=_LATER))

    def _all_entries(self, manifests: Sequence[Mapping[str, Any]]) -> Iterator[list[Mapping[str, Any]]]:
        with ThreadPoolExecutor(_READERS) as pool:
            yield from pool.map(self._entries, manifests)

    def _entries(self, manifest: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        path = str(manifest["manifest_path"])
        return list(manifest_records(path, self._read(path), _ENTRY, _FILE, later=_LATER))

    def _read(self, path: str) -> bytes:
        return read_manifest(nearest(self.places, path).storage(), path)
