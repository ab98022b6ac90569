"""Updates of a table's shape: format version, schemas, partition specs and sort orders."""

from __future__ import annotations

from typing import Any

from frazil.catalog.metadata import partitioning, schema, sorting
from frazil.catalog.metadata.builder import MAX_FORMAT_VERSION, NO_SNAPSHOT, ROW_LINEAGE_VERSION, TableBuilder
from frazil.catalog.metadata.schema import SchemaIndex
from frazil.core.errors import InvalidInput

Json = dict[str, Any]

LAST_ADDED = -1


def upgrade_format_version(table: TableBuilder, update: Json) -> None:
    wanted, present = update["format-version"], table.version
    if wanted < present:
        raise InvalidInput(f"a table of format version {present} cannot go back to {wanted}")
    if wanted > MAX_FORMAT_VERSION:
        raise InvalidInput(f"format version {wanted} is not supported, the highest is {MAX_FORMAT_VERSION}")
    if wanted == present:
        return
    table.set("format-version", wanted)
    doc = table.doc
    doc.setdefault("last-sequence-number", 0)
    doc.pop("schema", None)
    doc.pop("partition-spec", None)
    if wanted >= ROW_LINEAGE_VERSION:
        if doc.get("next-row-id") is None:
            doc["next-row-id"] = 0
        if doc.get("current-snapshot-id") == NO_SNAPSHOT:
            doc["current-snapshot-id"] = None


def add_schema(table: TableBuilder, update: Json) -> None:
    sent = update["schema"]
    index = SchemaIndex(sent)
    index.check_ids()
    index.check_format(table.version)
    next_id = table.doc["current-schema-id"]
    new = schema.normalised(sent, next_id)
    last_column_id = max(table.doc["last-column-id"], index.highest_id)
    for existing in table.doc["schemas"]:
        if schema.same(existing, new):
            table.last_schema = existing["schema-id"]
            break
        next_id = max(next_id, existing["schema-id"] + 1)
    else:
        new["schema-id"] = _next(next_id, "schema")
        table.own_list("schemas").append(new)
        table.last_schema = next_id
    if last_column_id != table.doc["last-column-id"]:
        table.set("last-column-id", last_column_id)


def set_current_schema(table: TableBuilder, update: Json) -> None:
    wanted = _last_added(update["schema-id"], table.last_schema, "schema")
    if table.find("schemas", "schema-id", wanted) is None:
        raise InvalidInput(f"there is no schema {wanted}")
    if table.doc["current-schema-id"] != wanted:
        table.set("current-schema-id", wanted)
        table.layout_changed = True


def remove_schemas(table: TableBuilder, update: Json) -> None:
    gone = set(update["schema-ids"])
    if table.doc["current-schema-id"] in gone:
        raise InvalidInput(
            f"schema {table.doc['current-schema-id']} is the current one, it cannot be removed"
        )
    _drop(table, "schemas", "schema-id", gone)


def add_spec(table: TableBuilder, update: Json) -> None:
    sent = update["spec"]
    partitioning.check(sent, _current_index(table))
    next_id = 0
    for existing in table.doc["partition-specs"]:
        if partitioning.same(existing, sent):
            table.last_spec = existing["spec-id"]
            return
        next_id = max(next_id, existing["spec-id"] + 1)
    if table.version == 1 and not partitioning.sequential(sent):
        raise InvalidInput("format version 1 needs partition field ids that count up from 1000")
    specs, last_id = table.doc["partition-specs"], table.doc["last-partition-id"]
    first = partitioning.UNPARTITIONED_LAST_ID
    spec, last_id = partitioning.stored(sent, _next(next_id, "spec"), specs, max(last_id, first))
    partitioning.check(spec, _current_index(table))
    table.own_list("partition-specs").append(spec)
    table.set("last-partition-id", last_id)
    table.last_spec = next_id


def set_default_spec(table: TableBuilder, update: Json) -> None:
    wanted = _last_added(update["spec-id"], table.last_spec, "partition spec")
    if table.find("partition-specs", "spec-id", wanted) is None:
        raise InvalidInput(f"there is no partition spec {wanted}")
    if table.doc["default-spec-id"] != wanted:
        table.set("default-spec-id", wanted)
        table.layout_changed = True


def remove_partition_specs(table: TableBuilder, update: Json) -> None:
    gone = set(update["spec-ids"])
    if table.doc["default-spec-id"] in gone:
        raise InvalidInput(f"spec {table.doc['default-spec-id']} is the default, it cannot be removed")
    _drop(table, "partition-specs", "spec-id", gone)


def add_sort_order(table: TableBuilder, update: Json) -> None:
    sent = update["sort-order"]
    sorting.check(sent, _current_index(table))
    next_id = sorting.FIRST_ID if sent["fields"] else sorting.UNSORTED_ID
    new = sorting.stored(sent, next_id)
    for existing in table.doc["sort-orders"]:
        if sorting.same(existing, new):
            table.last_order = existing["order-id"]
            return
        if sent["fields"]:
            next_id = max(next_id, existing["order-id"] + 1)
    new["order-id"] = _next(next_id, "sort order")
    table.own_list("sort-orders").append(new)
    table.last_order = next_id


def set_default_sort_order(table: TableBuilder, update: Json) -> None:
    wanted = _last_added(update["sort-order-id"], table.last_order, "sort order")
    if table.find("sort-orders", "order-id", wanted) is None:
        raise InvalidInput(f"there is no sort order {wanted}")
    if table.doc["default-sort-order-id"] != wanted:
        table.set("default-sort-order-id", wanted)
        table.layout_changed = True


def check_layout(table: TableBuilder) -> None:
    """Schema, default spec and default order of the result exist and fit together."""
    doc = table.doc
    index = _current_index(table)
    spec = table.find("partition-specs", "spec-id", doc["default-spec-id"])
    if spec is None:
        raise InvalidInput(
            f"there is no partition spec {doc['default-spec-id']} to be the default (add-spec)"
        )
    order = table.find("sort-orders", "order-id", doc["default-sort-order-id"])
    if order is None:
        wanted = doc["default-sort-order-id"]
        raise InvalidInput(f"there is no sort order {wanted} to be the default (add-sort-order)")
    partitioning.check(spec, index)
    sorting.check(order, index)


def mirror_for_v1(doc: Json) -> None:
    """Readers of format v1 look for the current schema and spec under their own keys."""
    for entry in doc["schemas"]:
        if entry["schema-id"] == doc["current-schema-id"]:
            doc["schema"] = entry
    for entry in doc["partition-specs"]:
        if entry["spec-id"] == doc["default-spec-id"]:
            doc["partition-spec"] = entry["fields"]


def _current_index(table: TableBuilder) -> SchemaIndex:
    current = table.current_schema()
    if current is None:
        raise InvalidInput("there is no current schema yet (add-schema, set-current-schema)")
    return table.schema_index(current)


def _last_added(wanted: int, last: int | None, what: str) -> int:
    if wanted != LAST_ADDED:
        return wanted
    if last is None:
        raise InvalidInput(f"-1 stands for the last added {what}, but this commit adds none before it")
    return last


def _next(number: int, what: str) -> int:
    if number >= 2**31:
        raise InvalidInput(f"no {what} ids are left")
    return number


def _drop(table: TableBuilder, key: str, id_key: str, gone: set[int]) -> None:
    kept = [entry for entry in table.doc[key] if entry[id_key] not in gone]
    if len(kept) != len(table.doc[key]):
        table.replace_list(key, kept)
