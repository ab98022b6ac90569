"""Response bodies. The server splices stored JSON; these describe the result for OpenAPI and for tests."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from frazil.catalog.wire.model import (
    Namespace,
    Properties,
    TableIdentifier,
    TableMetadata,
    ViewMetadata,
    Wire,
)


class ErrorModel(Wire):
    message: str
    type: str
    code: Annotated[int, Meta(ge=400, le=600)]
    stack: list[str] | None = None


class IcebergErrorResponse(Wire):
    error: ErrorModel


class CatalogConfig(Wire):
    defaults: Properties
    overrides: Properties
    endpoints: list[str] | None = None
    idempotency_key_lifetime: str | None = None


class CreateNamespaceResponse(Wire):
    namespace: Namespace
    properties: Properties | None = None


class GetNamespaceResponse(Wire):
    namespace: Namespace
    properties: Properties | None = None


class ListNamespacesResponse(Wire):
    namespaces: list[Namespace]
    next_page_token: str | None = None


class UpdateNamespacePropertiesResponse(Wire):
    updated: list[str]
    removed: list[str]
    missing: list[str] | None = None


class ListTablesResponse(Wire):
    identifiers: list[TableIdentifier]
    next_page_token: str | None = None


class StorageCredential(Wire):
    prefix: str
    config: Properties


class LoadCredentialsResponse(Wire):
    storage_credentials: list[StorageCredential]


class LoadTableResult(Wire):
    """`metadata-location` is null while a table is only staged."""

    metadata: TableMetadata
    metadata_location: str | None = None
    config: Properties | None = None
    storage_credentials: list[StorageCredential] | None = None


class CommitTableResponse(Wire):
    metadata_location: str
    metadata: TableMetadata


class LoadViewResult(Wire):
    metadata_location: str
    metadata: ViewMetadata
    config: Properties | None = None
