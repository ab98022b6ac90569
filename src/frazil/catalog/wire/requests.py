"""Request bodies other than commits."""

from __future__ import annotations

from typing import Any

from frazil.catalog.wire.model import (
    Int32,
    Int64,
    Namespace,
    PartitionSpec,
    Properties,
    Schema,
    SortOrder,
    TableIdentifier,
    ViewVersion,
    Wire,
)


class CreateNamespaceRequest(Wire):
    namespace: Namespace
    properties: Properties | None = None


class UpdateNamespacePropertiesRequest(Wire):
    removals: list[str] | None = None
    updates: Properties | None = None


class CreateTableRequest(Wire):
    name: str
    schema: Schema
    location: str | None = None
    partition_spec: PartitionSpec | None = None
    write_order: SortOrder | None = None
    stage_create: bool | None = None
    properties: Properties | None = None


class RegisterTableRequest(Wire):
    name: str
    metadata_location: str
    overwrite: bool | None = None


class RenameTableRequest(Wire):
    source: TableIdentifier
    destination: TableIdentifier


class CreateViewRequest(Wire):
    name: str
    schema: Schema
    view_version: ViewVersion
    location: str | None = None
    properties: Properties | None = None


class RegisterViewRequest(Wire):
    name: str
    metadata_location: str


class ReportMetricsRequest(Wire):
    """A scan report, a commit report, or a kind of report that is not known yet.

    The metrics are whatever the engine measured: their names and shapes grow with every client release.
    """

    report_type: str
    table_name: str | None = None
    snapshot_id: Int64 | None = None
    metrics: dict[str, Any] | None = None
    metadata: Properties | None = None
    filter: Any = None
    schema_id: Int32 | None = None
    projected_field_ids: list[Int32] | None = None
    projected_field_names: list[str] | None = None
    sequence_number: Int64 | None = None
    operation: str | None = None
