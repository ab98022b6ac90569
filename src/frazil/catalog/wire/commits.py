"""Commits: requirements and updates, each a tagged union, and the requests that carry them."""

from __future__ import annotations

from typing import TypeAlias

from frazil.catalog.wire.model import (
    EncryptedKey,
    Int32,
    Int64,
    PartitionSpec,
    PartitionStatisticsFile,
    Properties,
    Schema,
    Snapshot,
    SnapshotReference,
    SortOrder,
    StatisticsFile,
    TableIdentifier,
    ViewVersion,
    Wire,
)


class AssertCreate(Wire, tag_field="type", tag="assert-create"):
    pass


class AssertTableUUID(Wire, tag_field="type", tag="assert-table-uuid"):
    uuid: str


class AssertRefSnapshotId(Wire, tag_field="type", tag="assert-ref-snapshot-id"):
    """`snapshot-id` null means that the branch or tag must not exist."""

    ref: str
    snapshot_id: Int64 | None = None


class AssertLastAssignedFieldId(Wire, tag_field="type", tag="assert-last-assigned-field-id"):
    last_assigned_field_id: Int32


class AssertCurrentSchemaId(Wire, tag_field="type", tag="assert-current-schema-id"):
    current_schema_id: Int32


class AssertLastAssignedPartitionId(Wire, tag_field="type", tag="assert-last-assigned-partition-id"):
    last_assigned_partition_id: Int32


class AssertDefaultSpecId(Wire, tag_field="type", tag="assert-default-spec-id"):
    default_spec_id: Int32


class AssertDefaultSortOrderId(Wire, tag_field="type", tag="assert-default-sort-order-id"):
    default_sort_order_id: Int32


TableRequirement: TypeAlias = (
    AssertCreate
    | AssertTableUUID
    | AssertRefSnapshotId
    | AssertLastAssignedFieldId
    | AssertCurrentSchemaId
    | AssertLastAssignedPartitionId
    | AssertDefaultSpecId
    | AssertDefaultSortOrderId
)


class AssertViewUUID(Wire, tag_field="type", tag="assert-view-uuid"):
    uuid: str


class AssignUUID(Wire, tag_field="action", tag="assign-uuid"):
    uuid: str


class UpgradeFormatVersion(Wire, tag_field="action", tag="upgrade-format-version"):
    format_version: Int32


class AddSchema(Wire, tag_field="action", tag="add-schema"):
    schema: Schema
    last_column_id: Int32 | None = None


class SetCurrentSchema(Wire, tag_field="action", tag="set-current-schema"):
    schema_id: Int32


class AddPartitionSpec(Wire, tag_field="action", tag="add-spec"):
    spec: PartitionSpec


class SetDefaultSpec(Wire, tag_field="action", tag="set-default-spec"):
    spec_id: Int32


class AddSortOrder(Wire, tag_field="action", tag="add-sort-order"):
    sort_order: SortOrder


class SetDefaultSortOrder(Wire, tag_field="action", tag="set-default-sort-order"):
    sort_order_id: Int32


class AddSnapshot(Wire, tag_field="action", tag="add-snapshot"):
    snapshot: Snapshot


class SetSnapshotRef(SnapshotReference, tag_field="action", tag="set-snapshot-ref", kw_only=True):
    ref_name: str


class RemoveSnapshots(Wire, tag_field="action", tag="remove-snapshots"):
    snapshot_ids: list[Int64]


class RemoveSnapshotRef(Wire, tag_field="action", tag="remove-snapshot-ref"):
    ref_name: str


class SetLocation(Wire, tag_field="action", tag="set-location"):
    location: str


class SetProperties(Wire, tag_field="action", tag="set-properties"):
    updates: Properties


class RemoveProperties(Wire, tag_field="action", tag="remove-properties"):
    removals: list[str]


class SetStatistics(Wire, tag_field="action", tag="set-statistics"):
    statistics: StatisticsFile
    snapshot_id: Int64 | None = None


class RemoveStatistics(Wire, tag_field="action", tag="remove-statistics"):
    snapshot_id: Int64


class SetPartitionStatistics(Wire, tag_field="action", tag="set-partition-statistics"):
    partition_statistics: PartitionStatisticsFile


class RemovePartitionStatistics(Wire, tag_field="action", tag="remove-partition-statistics"):
    snapshot_id: Int64


class RemovePartitionSpecs(Wire, tag_field="action", tag="remove-partition-specs"):
    spec_ids: list[Int32]


class RemoveSchemas(Wire, tag_field="action", tag="remove-schemas"):
    schema_ids: list[Int32]


class AddEncryptionKey(Wire, tag_field="action", tag="add-encryption-key"):
    encryption_key: EncryptedKey


class RemoveEncryptionKey(Wire, tag_field="action", tag="remove-encryption-key"):
    key_id: str


class EnableRowLineage(Wire, tag_field="action", tag="enable-row-lineage"):
    """Sent by clients from before row lineage became part of every v3 table."""


class AddViewVersion(Wire, tag_field="action", tag="add-view-version"):
    view_version: ViewVersion


class SetCurrentViewVersion(Wire, tag_field="action", tag="set-current-view-version"):
    view_version_id: Int32


TableUpdate: TypeAlias = (
    AssignUUID
    | UpgradeFormatVersion
    | AddSchema
    | SetCurrentSchema
    | AddPartitionSpec
    | SetDefaultSpec
    | AddSortOrder
    | SetDefaultSortOrder
    | AddSnapshot
    | SetSnapshotRef
    | RemoveSnapshots
    | RemoveSnapshotRef
    | SetLocation
    | SetProperties
    | RemoveProperties
    | SetStatistics
    | RemoveStatistics
    | SetPartitionStatistics
    | RemovePartitionStatistics
    | RemovePartitionSpecs
    | RemoveSchemas
    | AddEncryptionKey
    | RemoveEncryptionKey
    | EnableRowLineage
)

ViewUpdate: TypeAlias = (
    AssignUUID
    | UpgradeFormatVersion
    | AddSchema
    | SetLocation
    | SetProperties
    | RemoveProperties
    | AddViewVersion
    | SetCurrentViewVersion
)


class CommitTableRequest(Wire):
    requirements: list[TableRequirement]
    updates: list[TableUpdate]
    identifier: TableIdentifier | None = None


class TableChange(Wire):
    """One table's part in a transaction: a commit that says which table it is for."""

    identifier: TableIdentifier
    requirements: list[TableRequirement]
    updates: list[TableUpdate]


class CommitTransactionRequest(Wire):
    table_changes: list[TableChange]


class CommitViewRequest(Wire):
    updates: list[ViewUpdate]
    requirements: list[AssertViewUUID] | None = None
    identifier: TableIdentifier | None = None
