"""Table metadata: the first version, and every later one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

from frazil.catalog.metadata import layout, partitioning, properties, schema, snapshots, sorting
from frazil.catalog.metadata.builder import DEFAULT_FORMAT_VERSION, MAX_FORMAT_VERSION, TableBuilder
from frazil.catalog.metadata.schema import SchemaIndex
from frazil.core.errors import CommitFailed, InvalidInput
from frazil.core.names import is_uuid

Json = dict[str, Any]

MAX_COMPARED = 1000
_COMPARED = frozenset(
    {
        "add-schema",
        "add-spec",
        "add-sort-order",
        "add-encryption-key",
        "set-statistics",
        "remove-statistics",
        "set-partition-statistics",
        "remove-partition-statistics",
    }
)


def new_table_metadata(
    *,
    uuid: str,
    location: str,
    schema: Json,
    partition_spec: Json | None,
    write_order: Json | None,
    properties: dict[str, str],
    format_version: int,
    now_ms: int,
) -> Json:
    """The metadata of a table that does not exist yet, with ids counted afresh in all its parts.

    Clients number their fields as they like, some from 0; identifier fields, partition sources and sort
    sources follow the new numbers. Reserved properties are left out.
    """
    table = TableBuilder(None, _supported(format_version), now_ms)
    doc = table.doc
    doc["table-uuid"] = checked_uuid(uuid)
    doc["location"] = checked_location(location)
    doc["properties"] = _new_properties(properties, format_version)
    index = SchemaIndex(schema)
    index.check_format(format_version)
    fresh, mapping, doc["last-column-id"] = _fresh_schema(schema)
    doc["schemas"] = [fresh]
    spec, doc["last-partition-id"] = partitioning.with_fresh_ids(partition_spec, mapping)
    doc["partition-specs"] = [spec]
    order = sorting.stored(write_order or {"fields": []}, sorting.FIRST_ID, mapping)
    doc["sort-orders"] = [order]
    doc["default-sort-order-id"] = order["order-id"]
    doc["last-updated-ms"] = now_ms
    layout.check_layout(table)
    if format_version == 1:
        layout.mirror_for_v1(doc)
    return doc


def apply_updates(
    metadata: Json | None, updates: list[Json], *, now_ms: int, metadata_location: str | None
) -> Json:
    """What `updates` make of `metadata`; of nothing when it is None, as a staged create does.

    `metadata_location` is the file of `metadata` and goes into the log of the result. When the updates
    change nothing the result is `metadata` itself, the same object.
    """
    _check_size(updates)
    table = TableBuilder(metadata, _initial_version(metadata, updates), now_ms)
    for position, update in enumerate(updates):
        action = update["action"]
        try:
            apply = _ACTIONS.get(action)
            if apply is None:
                raise InvalidInput("not an update of a table")
            apply(table, update)
        except (InvalidInput, CommitFailed) as error:
            where = f"updates[{position}] ({action})"
            raise type(error)(f"{where}: {error.message[:2000]}", kind=error.kind) from None
    if metadata is not None and not table.changed:
        return metadata
    return _finish(table, metadata_location)


def _check_size(updates: list[Json]) -> None:
    """Each of these is compared with all that are there; no honest commit brings more than a few."""
    if len(updates) > MAX_COMPARED and sum(u["action"] in _COMPARED for u in updates) > MAX_COMPARED:
        raise InvalidInput(
            f"updates: more than {MAX_COMPARED} changes of schemas, specs, sort orders, keys or statistics"
        )


def _finish(table: TableBuilder, metadata_location: str | None) -> Json:
    doc = table.doc
    if table.base is None:
        if not doc["location"]:
            raise InvalidInput("updates: a new table needs a location (set-location)")
        if doc["table-uuid"] is None:
            doc["table-uuid"] = str(uuid4())
    if table.layout_changed:
        try:
            layout.check_layout(table)
        except InvalidInput as error:
            raise InvalidInput(f"updates: {error.message}") from None
    snapshots.finish(table)
    if doc["format-version"] == 1:
        layout.mirror_for_v1(doc)
    if table.base is not None and metadata_location is not None:
        _log_previous(table, metadata_location)
    doc["last-updated-ms"] = table.now_ms
    return doc


def _log_previous(table: TableBuilder, location: str) -> None:
    limit = properties.previous_versions_max(table.doc.get("properties") or {})
    before = (table.base or {})["last-updated-ms"]
    log = table.own_list("metadata-log")
    log.append({"timestamp-ms": before, "metadata-file": location})
    del log[: max(0, len(log) - limit)]


def _initial_version(metadata: Json | None, updates: list[Json]) -> int:
    if metadata is not None:
        return DEFAULT_FORMAT_VERSION
    for update in updates:
        if update["action"] == "upgrade-format-version":
            return _supported(update["format-version"])
    return DEFAULT_FORMAT_VERSION


def _supported(version: int) -> int:
    if not 1 <= version <= MAX_FORMAT_VERSION:
        raise InvalidInput(f"format-version must be 1 to {MAX_FORMAT_VERSION}, not {version}")
    return version


def _fresh_schema(sent: Json) -> tuple[Json, dict[int, int], int]:
    return schema.with_fresh_ids(sent)


def _new_properties(sent: dict[str, str], format_version: int) -> dict[str, str]:
    return properties.of_new_table(sent, format_version)


def checked_uuid(uuid: str) -> str:
    """`uuid`, if it is one."""
    if not is_uuid(uuid):
        raise InvalidInput(f"{uuid[:100]!r} is not a UUID")
    return uuid


def checked_location(location: str) -> str:
    """`location` without a slash at its end."""
    stripped = location.rstrip("/")
    if not stripped or location.endswith("://"):
        raise InvalidInput("location must not be empty")
    return stripped


def _assign_uuid(table: TableBuilder, update: Json) -> None:
    uuid, present = checked_uuid(update["uuid"]), table.doc.get("table-uuid")
    if table.base is not None and present is not None:
        if present.lower() != uuid.lower():
            raise InvalidInput(f"the table has the UUID {present}, it cannot become {uuid}")
        return
    if present != uuid:
        table.set("table-uuid", uuid)


def _set_location(table: TableBuilder, update: Json) -> None:
    location = checked_location(update["location"])
    if table.doc["location"] != location:
        table.set("location", location)


def _set_properties(table: TableBuilder, update: Json) -> None:
    properties.check_not_reserved(update["updates"])
    if update["updates"]:
        properties.check_values(update["updates"])
        table.own_dict("properties").update(update["updates"])


def _remove_properties(table: TableBuilder, update: Json) -> None:
    if update["removals"]:
        kept = table.own_dict("properties")
        for key in update["removals"]:
            kept.pop(key, None)


def _add_encryption_key(table: TableBuilder, update: Json) -> None:
    key = update["encryption-key"]
    if all(known["key-id"] != key["key-id"] for known in table.doc.get("encryption-keys") or ()):
        table.own_list("encryption-keys").append({k: v for k, v in key.items() if v is not None})


def _remove_encryption_key(table: TableBuilder, update: Json) -> None:
    keys = table.doc.get("encryption-keys") or ()
    kept = [key for key in keys if key["key-id"] != update["key-id"]]
    if len(kept) != len(keys):
        table.replace_list("encryption-keys", kept)


def _enable_row_lineage(table: TableBuilder, update: Json) -> None:
    if table.version < MAX_FORMAT_VERSION:
        raise InvalidInput("row lineage needs format version 3")


_ACTIONS: dict[str, Callable[[TableBuilder, Json], None]] = {
    "assign-uuid": _assign_uuid,
    "upgrade-format-version": layout.upgrade_format_version,
    "add-schema": layout.add_schema,
    "set-current-schema": layout.set_current_schema,
    "remove-schemas": layout.remove_schemas,
    "add-spec": layout.add_spec,
    "set-default-spec": layout.set_default_spec,
    "remove-partition-specs": layout.remove_partition_specs,
    "add-sort-order": layout.add_sort_order,
    "set-default-sort-order": layout.set_default_sort_order,
    "add-snapshot": snapshots.add_snapshot,
    "set-snapshot-ref": snapshots.set_snapshot_ref,
    "remove-snapshots": snapshots.remove_snapshots,
    "remove-snapshot-ref": snapshots.remove_snapshot_ref,
    "set-statistics": snapshots.set_statistics,
    "remove-statistics": snapshots.remove_statistics,
    "set-partition-statistics": snapshots.set_partition_statistics,
    "remove-partition-statistics": snapshots.remove_partition_statistics,
    "set-location": _set_location,
    "set-properties": _set_properties,
    "remove-properties": _remove_properties,
    "add-encryption-key": _add_encryption_key,
    "remove-encryption-key": _remove_encryption_key,
    "enable-row-lineage": _enable_row_lineage,
}
