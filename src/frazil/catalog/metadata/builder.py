"""The state of one commit while its updates are applied, copied only where it is written to."""

from __future__ import annotations

from typing import Any

from frazil.catalog.metadata.schema import SchemaIndex

Json = dict[str, Any]

DEFAULT_FORMAT_VERSION = 2
MAX_FORMAT_VERSION = 3
ROW_LINEAGE_VERSION = 3
NO_SNAPSHOT = -1


class TableBuilder:
    """A table's metadata on its way from `base` to what a commit makes of it.

    `doc` is a copy of the top level only. A list or dict inside it may be written to after `own_list` or
    `own_dict` handed out a copy of it; whatever those hold (schemas, snapshots, …) is never written to.
    """

    __slots__ = (
        "_index",
        "_index_of",
        "_owned",
        "_snapshots",
        "added_snapshots",
        "base",
        "changed",
        "doc",
        "last_order",
        "last_schema",
        "last_spec",
        "layout_changed",
        "log_start",
        "main_set_to",
        "now_ms",
        "snapshots_removed",
    )

    def __init__(self, base: Json | None, format_version: int, now_ms: int) -> None:
        self.base = base
        self.doc: Json = _empty(format_version) if base is None else dict(base)
        self.now_ms = now_ms if base is None else max(now_ms, base["last-updated-ms"])
        self.changed = False
        self.layout_changed = base is None
        self.last_schema: int | None = None
        self.last_spec: int | None = None
        self.last_order: int | None = None
        self.added_snapshots: set[int] = set()
        self.main_set_to: set[int] = set()
        self.snapshots_removed = False
        self.log_start = len(self.doc.get("snapshot-log") or ())
        self._owned: set[str] = set()
        self._snapshots: dict[int, Json] | None = None
        self._index: SchemaIndex | None = None
        self._index_of: Json | None = None

    @property
    def version(self) -> int:
        version: int = self.doc["format-version"]
        return version

    def own_list(self, key: str) -> list[Any]:
        """The list under `key`, safe to write to."""
        self.changed = True
        if key not in self._owned:
            self._owned.add(key)
            self.doc[key] = list(self.doc.get(key) or ())
        owned: list[Any] = self.doc[key]
        return owned

    def own_dict(self, key: str) -> Json:
        """The dict under `key`, safe to write to."""
        self.changed = True
        if key not in self._owned:
            self._owned.add(key)
            self.doc[key] = dict(self.doc.get(key) or ())
        owned: Json = self.doc[key]
        return owned

    def replace_list(self, key: str, value: list[Any]) -> None:
        """Put a list of the caller's own under `key`."""
        self.changed = True
        self._owned.add(key)
        self.doc[key] = value

    def set(self, key: str, value: Any) -> None:
        self.changed = True
        self.doc[key] = value

    def snapshots(self) -> dict[int, Json]:
        """Snapshots by id, built once for a commit; kept up to date by whoever adds or removes one."""
        if self._snapshots is None:
            self._snapshots = {s["snapshot-id"]: s for s in self.doc.get("snapshots") or ()}
        return self._snapshots

    def find(self, key: str, id_key: str, wanted: int) -> Json | None:
        """The entry of the list under `key` with that id."""
        for entry in self.doc.get(key) or ():
            if entry[id_key] == wanted:
                found: Json = entry
                return found
        return None

    def current_schema(self) -> Json | None:
        return self.find("schemas", "schema-id", self.doc["current-schema-id"])

    def schema_index(self, schema: Json) -> SchemaIndex:
        """The index of a schema; the last one is kept, for a commit asks for the current one repeatedly."""
        if self._index is None or self._index_of is not schema:
            self._index, self._index_of = SchemaIndex(schema), schema
        return self._index


def _empty(format_version: int) -> Json:
    doc: Json = {"format-version": format_version, "table-uuid": None, "location": None}
    if format_version > 1:
        doc["last-sequence-number"] = 0
    doc |= {
        "last-updated-ms": 0,
        "last-column-id": 0,
        "current-schema-id": 0,
        "schemas": [],
        "default-spec-id": 0,
        "partition-specs": [],
        "last-partition-id": 0,
        "default-sort-order-id": 0,
        "sort-orders": [],
        "properties": {},
        "current-snapshot-id": NO_SNAPSHOT if format_version < ROW_LINEAGE_VERSION else None,
    }
    if format_version >= ROW_LINEAGE_VERSION:
        doc["next-row-id"] = 0
    doc |= {
        "refs": {},
        "snapshots": [],
        "statistics": [],
        "partition-statistics": [],
        "snapshot-log": [],
        "metadata-log": [],
    }
    return doc
