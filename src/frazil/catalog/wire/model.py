"""The things that Iceberg metadata is made of, as they travel: schemas, specs, snapshots, views.

The structs validate and document. What the catalog stores is the JSON that was sent, so fields that are
not named here survive.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Struct

from frazil.catalog.wire.primitives import PRIMITIVE_PATTERN

Int32: TypeAlias = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
Int64: TypeAlias = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Count: TypeAlias = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Properties: TypeAlias = dict[str, str]
Namespace: TypeAlias = list[str]
PrimitiveName: TypeAlias = Annotated[str, Meta(pattern=PRIMITIVE_PATTERN)]


class Wire(Struct, rename="kebab", omit_defaults=True):
    """Base of everything on the wire: kebab-case names, unknown fields allowed."""


class TableIdentifier(Wire):
    namespace: Namespace
    name: str


class StructField(Wire):
    id: Int32
    name: str
    type: Type
    required: bool
    doc: str | None = None
    initial_default: Any = None
    write_default: Any = None


class StructType(Wire, tag_field="type", tag="struct"):
    fields: list[StructField]


class ListType(Wire, tag_field="type", tag="list"):
    element_id: Int32
    element: Type
    element_required: bool


class MapType(Wire, tag_field="type", tag="map"):
    key_id: Int32
    key: Type
    value_id: Int32
    value: Type
    value_required: bool


Type: TypeAlias = PrimitiveName | StructType | ListType | MapType


class Schema(Wire):
    type: Literal["struct"]
    fields: list[StructField]
    schema_id: Int32 | None = None
    identifier_field_ids: list[Int32] | None = None


class PartitionField(Wire):
    """`source-ids` takes the place of `source-id` in transforms of several columns (format v3)."""

    name: str
    transform: str
    source_id: Int32 | None = None
    source_ids: list[Int32] | None = None
    field_id: Int32 | None = None


class PartitionSpec(Wire):
    fields: list[PartitionField]
    spec_id: Int32 | None = None


class SortField(Wire):
    transform: str
    direction: Literal["asc", "desc"]
    null_order: Literal["nulls-first", "nulls-last"]
    source_id: Int32 | None = None
    source_ids: list[Int32] | None = None


class SortOrder(Wire):
    fields: list[SortField]
    order_id: Int32 | None = None


class EncryptedKey(Wire):
    key_id: str
    encrypted_key_metadata: str
    encrypted_by_id: str | None = None
    properties: Properties | None = None


class Snapshot(Wire):
    """`manifests` is the list of manifest files that format v1 may embed instead of a manifest list."""

    snapshot_id: Int64
    timestamp_ms: Int64
    parent_snapshot_id: Int64 | None = None
    sequence_number: Int64 | None = None
    manifest_list: str | None = None
    manifests: list[str] | None = None
    first_row_id: Int64 | None = None
    added_rows: Int64 | None = None
    summary: Properties | None = None
    schema_id: Int32 | None = None
    key_id: str | None = None


class SnapshotReference(Wire):
    type: Literal["branch", "tag"]
    snapshot_id: Int64
    max_ref_age_ms: Int64 | None = None
    max_snapshot_age_ms: Int64 | None = None
    min_snapshots_to_keep: Int32 | None = None


class SnapshotLogEntry(Wire):
    snapshot_id: Int64
    timestamp_ms: Int64


class MetadataLogEntry(Wire):
    metadata_file: str
    timestamp_ms: Int64


class BlobMetadata(Wire):
    type: str
    snapshot_id: Int64
    sequence_number: Int64
    fields: list[Int32]
    properties: Properties | None = None


class StatisticsFile(Wire):
    snapshot_id: Int64
    statistics_path: str
    file_size_in_bytes: Int64
    file_footer_size_in_bytes: Int64
    blob_metadata: list[BlobMetadata]
    key_metadata: str | None = None


class PartitionStatisticsFile(Wire):
    snapshot_id: Int64
    statistics_path: str
    file_size_in_bytes: Int64


class SQLViewRepresentation(Wire):
    type: Literal["sql"]
    sql: str
    dialect: str


class ViewVersion(Wire):
    version_id: Int32
    timestamp_ms: Int64
    schema_id: Int32
    summary: Properties
    representations: list[SQLViewRepresentation]
    default_namespace: Namespace
    default_catalog: str | None = None


class ViewHistoryEntry(Wire):
    version_id: Int32
    timestamp_ms: Int64


class TableMetadata(Wire):
    """A table metadata document of format v1 to v3; what a version requires beyond this is checked on use."""

    format_version: Annotated[int, Meta(ge=1, le=3)]
    location: str
    last_updated_ms: Int64
    last_column_id: Int32
    table_uuid: str | None = None
    schema: Schema | None = None
    schemas: list[Schema] | None = None
    current_schema_id: Int32 | None = None
    partition_spec: list[PartitionField] | None = None
    partition_specs: list[PartitionSpec] | None = None
    default_spec_id: Int32 | None = None
    last_partition_id: Int32 | None = None
    sort_orders: list[SortOrder] | None = None
    default_sort_order_id: Int32 | None = None
    properties: Properties | None = None
    snapshots: list[Snapshot] | None = None
    refs: dict[str, SnapshotReference] | None = None
    current_snapshot_id: Int64 | None = None
    last_sequence_number: Int64 | None = None
    next_row_id: Count | None = None
    encryption_keys: list[EncryptedKey] | None = None
    snapshot_log: list[SnapshotLogEntry] | None = None
    metadata_log: list[MetadataLogEntry] | None = None
    statistics: list[StatisticsFile] | None = None
    partition_statistics: list[PartitionStatisticsFile] | None = None


class ViewMetadata(Wire):
    view_uuid: str
    format_version: Annotated[int, Meta(ge=1, le=1)]
    location: str
    current_version_id: Int32
    versions: list[ViewVersion]
    version_log: list[ViewHistoryEntry]
    schemas: list[Schema]
    properties: Properties | None = None
