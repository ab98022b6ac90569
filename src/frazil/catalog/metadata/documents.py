"""Metadata documents that others wrote: reading, checking, and bringing them to one shape."""

from __future__ import annotations

import zlib
from typing import Any
from uuid import uuid4

from frazil.catalog import wire
from frazil.catalog.metadata import layout, partitioning, schema, sorting
from frazil.catalog.metadata.builder import NO_SNAPSHOT, ROW_LINEAGE_VERSION, TableBuilder
from frazil.catalog.metadata.schema import SchemaIndex
from frazil.catalog.metadata.snapshots import MAIN
from frazil.catalog.metadata.table import checked_location, checked_uuid
from frazil.core.errors import InvalidInput

Json = dict[str, Any]

# A gzip file of a megabyte can hold gigabytes.
MAX_DOCUMENT_BYTES = 256 * 1024 * 1024

_WHAT = "the metadata file"
_GZIP_MAGIC = b"\x1f\x8b"
_LISTS = ("snapshots", "snapshot-log", "metadata-log", "statistics", "partition-statistics")
_REQUIRED = (
    "table-uuid",
    "last-sequence-number",
    "schemas",
    "partition-specs",
    "last-partition-id",
    "sort-orders",
)
_WITH = {
    "schemas": "current-schema-id",
    "partition-specs": "default-spec-id",
    "sort-orders": "default-sort-order-id",
}


def parse_table_metadata(data: bytes) -> Json:
    """A table metadata file of format v1, v2 or v3, compressed or not, in the shape of the present one.

    InvalidInput when it is not JSON, lacks what its version requires, or contradicts itself.
    """
    doc = wire.parse_object(_plain(data), _WHAT)
    wire.validate(wire.TableMetadata, doc, _WHAT)
    try:
        doc = dict(doc)
        if doc["format-version"] == 1:
            _normalise_v1(doc)
        _check_required(doc)
        _fill_in(doc)
        _check_layout(doc)
        _check_snapshots(doc)
        if doc["format-version"] == 1:
            layout.mirror_for_v1(doc)
    except InvalidInput as error:
        raise InvalidInput(f"{_WHAT}: {error.message}") from None
    return doc


def parse_view_metadata(data: bytes) -> Json:
    """A view metadata file; InvalidInput when it is not one, or contradicts itself."""
    doc = wire.parse_object(_plain(data), _WHAT)
    wire.validate(wire.ViewMetadata, doc, _WHAT)
    try:
        checked_uuid(doc["view-uuid"])
        _unique(doc["schemas"], "schema-id", "schema")
        _unique(doc["versions"], "version-id", "view version")
        for entry in doc["schemas"]:
            SchemaIndex(entry)
        known = {s["schema-id"] for s in doc["schemas"]}
        for version in doc["versions"]:
            if version["schema-id"] not in known:
                number = version["version-id"]
                raise InvalidInput(
                    f"view version {number} has schema-id {version['schema-id']}, which is missing"
                )
        if doc["current-version-id"] not in {v["version-id"] for v in doc["versions"]}:
            raise InvalidInput(f"current-version-id {doc['current-version-id']} is not among the versions")
    except InvalidInput as error:
        raise InvalidInput(f"{_WHAT}: {error.message}") from None
    return {**doc, "location": checked_location(doc["location"]), "properties": doc.get("properties") or {}}


def refs_only(metadata: Json) -> Json:
    """The document with the snapshots that a branch or tag points at, and no others."""
    wanted = {ref["snapshot-id"] for ref in (metadata.get("refs") or {}).values()}
    snapshots = metadata.get("snapshots") or []
    kept = [s for s in snapshots if s["snapshot-id"] in wanted]
    return metadata if len(kept) == len(snapshots) else {**metadata, "snapshots": kept}


def _plain(data: bytes) -> bytes:
    if not data.startswith(_GZIP_MAGIC):
        return data
    unzip = zlib.decompressobj(wbits=31)
    try:
        plain = unzip.decompress(data, MAX_DOCUMENT_BYTES)
    except zlib.error as error:
        raise InvalidInput(f"{_WHAT} is not valid gzip: {error}") from None
    if unzip.unconsumed_tail:
        raise InvalidInput(f"{_WHAT} is larger than {MAX_DOCUMENT_BYTES} bytes when unpacked")
    if not unzip.eof:
        raise InvalidInput(f"{_WHAT} is not valid gzip: it ends too early")
    return plain


def _normalise_v1(doc: Json) -> None:
    """Early writers of v1 knew one schema, one spec and no sort orders."""
    if doc.get("schemas") is None:
        if doc.get("schema") is None:
            raise InvalidInput("there is no schema")
        only = doc["schema"]
        current = only.get("schema-id") or 0
        doc["schemas"], doc["current-schema-id"] = [{**only, "schema-id": current}], current
    if doc.get("partition-specs") is None:
        if doc.get("partition-spec") is None:
            raise InvalidInput("there is no partition-spec")
        doc["partition-specs"] = [{"spec-id": 0, "fields": doc["partition-spec"]}]
        doc["default-spec-id"] = 0
    if doc.get("sort-orders") is None:
        doc["sort-orders"], doc["default-sort-order-id"] = (
            [{"order-id": sorting.UNSORTED_ID, "fields": []}],
            0,
        )
    specs = [
        {
            **spec,
            "fields": [
                {"field-id": partitioning.FIRST_FIELD_ID + i} | f for i, f in enumerate(spec["fields"])
            ],
        }
        for spec in doc["partition-specs"]
    ]
    doc["partition-specs"] = specs
    if doc.get("last-partition-id") is None:
        ids = [f["field-id"] for spec in specs for f in spec["fields"] if f["field-id"] is not None]
        doc["last-partition-id"] = max(ids, default=partitioning.UNPARTITIONED_LAST_ID)
    if doc.get("table-uuid") is None:
        doc["table-uuid"] = str(uuid4())
    if doc.get("last-sequence-number"):
        raise InvalidInput("format version 1 has no sequence numbers, but last-sequence-number is not 0")


def _check_required(doc: Json) -> None:
    version = doc["format-version"]
    for key in _REQUIRED:
        if doc.get(key) is None and not (version == 1 and key == "last-sequence-number"):
            raise InvalidInput(f"{key} is required in format version {version}")
    for key, beside in _WITH.items():
        if doc.get(beside) is None:
            raise InvalidInput(f"{beside} is required beside {key}")
    if version >= ROW_LINEAGE_VERSION and doc.get("next-row-id") is None:
        raise InvalidInput(f"next-row-id is required in format version {version}")


def _fill_in(doc: Json) -> None:
    checked_uuid(doc["table-uuid"])
    doc["location"] = checked_location(doc["location"])
    for key in _LISTS:
        if doc.get(key) is None:
            doc[key] = []
    if doc.get("properties") is None:
        doc["properties"] = {}
    if doc.get("encryption-keys", ()) is None:
        del doc["encryption-keys"]
    current = doc.get("current-snapshot-id")
    if current is None or current == NO_SNAPSHOT:
        current = NO_SNAPSHOT if doc["format-version"] < ROW_LINEAGE_VERSION else None
        doc["current-snapshot-id"] = current
    # Java reads a null parent or summary as a value and fails on it.
    doc["snapshots"] = [_without_nulls(snapshot) for snapshot in doc["snapshots"]]
    refs = {name: _without_nulls(ref) for name, ref in (doc.get("refs") or {}).items()}
    if current not in (None, NO_SNAPSHOT):
        refs.setdefault(MAIN, {"snapshot-id": current, "type": "branch"})
    doc["refs"] = refs


def _without_nulls(entry: Json) -> Json:
    return {k: v for k, v in entry.items() if v is not None}


def _check_layout(doc: Json) -> None:
    _unique(doc["schemas"], "schema-id", "schema")
    _unique(doc["partition-specs"], "spec-id", "partition spec")
    _unique(doc["sort-orders"], "order-id", "sort order")
    for entry in doc["schemas"]:
        SchemaIndex(entry)
    doc["schemas"] = [schema.normalised(entry, entry["schema-id"]) for entry in doc["schemas"]]
    for spec in doc["partition-specs"]:
        if any(field.get("field-id") is None for field in spec["fields"]):
            raise InvalidInput(f"partition spec {spec['spec-id']} has a field without field-id")
    table = TableBuilder(doc, doc["format-version"], doc["last-updated-ms"])
    layout.check_layout(table)


def _check_snapshots(doc: Json) -> None:
    _unique(doc["snapshots"], "snapshot-id", "snapshot")
    known = {s["snapshot-id"] for s in doc["snapshots"]}
    last = doc.get("last-sequence-number") or 0
    for snapshot in doc["snapshots"]:
        if (snapshot.get("sequence-number") or 0) > last:
            number = snapshot["snapshot-id"]
            raise InvalidInput(f"snapshot {number} has a sequence number over last-sequence-number, {last}")
        if snapshot.get("manifest-list") is None and snapshot.get("manifests") is None:
            raise InvalidInput(f"snapshot {snapshot['snapshot-id']} has no manifest-list")
    for name, ref in doc["refs"].items():
        if ref["snapshot-id"] not in known:
            raise InvalidInput(
                f"{ref['type']} {name!r} points at snapshot {ref['snapshot-id']}, which is missing"
            )
    main, current = doc["refs"].get(MAIN), doc["current-snapshot-id"]
    if current in (None, NO_SNAPSHOT):
        if main is not None:
            raise InvalidInput("there is a branch main, but no current-snapshot-id")
    elif current not in known:
        raise InvalidInput(f"current-snapshot-id {current} is not among the snapshots")
    elif main is not None and main["snapshot-id"] != current:
        raise InvalidInput(f"branch main is at {main['snapshot-id']}, but current-snapshot-id is {current}")


def _unique(entries: list[Json], key: str, what: str) -> None:
    seen = set()
    for entry in entries:
        number = entry.get(key)
        if number is None:
            raise InvalidInput(f"a {what} has no {key}")
        if number in seen:
            raise InvalidInput(f"two entries have the {key} {number}")
        seen.add(number)
