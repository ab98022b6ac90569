"""Generic tables on the wire: Lakekeeper's Generic Table API."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from msgspec import Meta, Raw

from frazil.catalog.wire.model import Namespace, Properties, Wire
from frazil.catalog.wire.responses import StorageCredential

FORMAT_PATTERN = "^[a-z][a-z0-9_-]{0,63}$"

# Patterns are only documented here: what breaks them has error types of its own.
Format: TypeAlias = Annotated[str, Meta(extra_json_schema={"pattern": FORMAT_PATTERN})]
Name: TypeAlias = Annotated[str, Meta(extra_json_schema={"pattern": "^[^+]+$"})]


class CreateGenericTableRequest(Wire):
    """`schema` and `statistics` are any JSON of at most 1 MiB."""

    name: Name
    format: Format
    base_location: str | None = None
    doc: str | None = None
    properties: Properties | None = None
    schema: Any = None
    statistics: Any = None


class Verbatim(Wire):
    """The parts of a create request that come back to the letter: no number may change its digits."""

    schema: Raw = Raw(b"null")
    statistics: Raw = Raw(b"null")


class GenericTableData(Wire):
    name: str
    format: str
    base_location: str
    protected: bool
    doc: str | None = None
    properties: Properties | None = None
    schema: Any = None
    statistics: Any = None


class LoadGenericTableResponse(Wire):
    table: GenericTableData
    config: Properties | None = None
    storage_credentials: list[StorageCredential] | None = None


class GenericTableIdentifier(Wire):
    namespace: Namespace
    name: str
    format: str | None = None
    id: str | None = None


class ListGenericTablesResponse(Wire):
    identifiers: list[GenericTableIdentifier]
    next_page_token: str | None = None
