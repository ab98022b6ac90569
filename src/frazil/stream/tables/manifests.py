"""The data files of a snapshot, read from its manifests without an engine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import fastavro

from frazil.core.errors import StorageError, Unsupported
from frazil.stream.tables.history import SourceSnapshot
from frazil.stream.tables.keys import KeyedPlace, nearest

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

    def added(self, snapshot: SourceSnapshot) -> list[SourceFile]:
        """The files that the snapshot added, by path."""
        return self._known(snapshot, whole=False)

    def live(self, snapshot: SourceSnapshot) -> list[SourceFile]:
        """All files of the table at the snapshot, by path."""
        return self._known(snapshot, whole=True)

    def has_deletes(self, snapshot: SourceSnapshot) -> bool:
        """Whether rows of files are deleted at the snapshot, by delete files or vectors."""
        deletes = [row for row in self._list(snapshot) if row.get("content", 0) == 1]
        return any(entry["status"] != _DELETED for row in deletes for entry in self._entries(row))

    def _known(self, snapshot: SourceSnapshot, *, whole: bool) -> list[SourceFile]:
        key = (snapshot.id, whole)
        if self._kept is None or self._kept[0] != key:
            self._kept = key, self._files(snapshot, whole)
        return self._kept[1]

    def _files(self, snapshot: SourceSnapshot, whole: bool) -> list[SourceFile]:
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

    def _list(self, snapshot: SourceSnapshot) -> list[Mapping[str, Any]]:
        if snapshot.manifest_list is None:
            raise Unsupported(
                f"snapshot {snapshot.id} has no manifest list, as very old writers of Iceberg left it; "
                "rewrite the table's manifests with an engine"
            )
        return list(_records(snapshot.manifest_list, self._read(snapshot.manifest_list), _LIST, set()))

    def _all_entries(self, manifests: Sequence[Mapping[str, Any]]) -> Iterator[list[Mapping[str, Any]]]:
        with ThreadPoolExecutor(_READERS) as pool:
            yield from pool.map(self._entries, manifests)

    def _entries(self, manifest: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        path = str(manifest["manifest_path"])
        return list(_records(path, self._read(path), _ENTRY, _FILE))

    def _read(self, path: str) -> bytes:
        storage = nearest(self.places, path).storage()
        with storage.open_input(path) as file, storage.reading(path):
            data: bytes = file.read()
            return data


def _records(path: str, data: bytes, wanted: set[str], of_file: set[str]) -> Iterator[Mapping[str, Any]]:
    # fastavro reports damage with whatever its decoder tripped over, so the net is wide on purpose.
    try:
        written = fastavro.reader(BytesIO(data)).writer_schema
        schema = _pruned(written, wanted, of_file)
        yield from fastavro.reader(BytesIO(data), reader_schema=schema)  # type: ignore[misc]
    except Exception as error:  # noqa: BLE001
        raise StorageError(f"read {path}: no manifest of Iceberg: {type(error).__name__}: {error}") from None


def _pruned(schema: Any, wanted: set[str], of_file: set[str]) -> Any:
    """The writer's own schema without the rest: statistics of columns are most of a manifest."""
    kept = []
    for field in schema["fields"]:
        if field["name"] in wanted:
            kept.append(field)
        elif field["name"] == "data_file" and of_file:
            kept.append({**field, "type": _pruned(field["type"], of_file, set())})
    missing = wanted - _LATER - {field["name"] for field in kept}
    if missing:
        raise ValueError(f"there is no {', '.join(sorted(missing))}")
    return {"type": "record", "name": schema["name"], "fields": kept}
