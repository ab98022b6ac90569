"""Answers of the server. Fields that a newer server adds are ignored."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from frazil.client.config import StorageConfig
from frazil.client.credentials import VendedCredentials, chosen
from frazil.client.flow import Answer
from frazil.core.errors import FrazilError

T = TypeVar("T")


class Struct(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """All keys are kebab-case."""


class ServerInfo(Struct, frozen=True, kw_only=True):
    """What a server is and what it offers."""

    version: str
    bootstrapped: bool
    server_id: str
    lakekeeper_version: str | None = None
    default_project_id: str | None = None
    authz_backend: str | None = None
    aws_system_identities_enabled: bool = False
    azure_system_identities_enabled: bool = False
    gcp_system_identities_enabled: bool = False
    queues: tuple[str, ...] = ()


class User(Struct, frozen=True, kw_only=True):
    """Who the server takes the caller for."""

    id: str
    name: str
    user_type: str | None = None
    email: str | None = None


class Project(Struct, frozen=True, kw_only=True):
    project_id: str
    project_name: str


class CredentialType(Struct, frozen=True, kw_only=True):
    """Of a stored credential, only its kind is ever told."""

    type: str
    credential_type: str


class Warehouse(Struct, frozen=True, kw_only=True):
    warehouse_id: str
    name: str
    project_id: str
    status: str
    storage_profile: dict[str, Any]
    protected: bool = False
    storage_credential_type: CredentialType | None = None
    delete_profile: dict[str, Any] = {}
    allowed_format_versions: tuple[int, ...] = ()
    default_format_version: int | None = None
    managed_by: str | None = None
    updated_at: str | None = None


class ValidationCheck(Struct, frozen=True, kw_only=True):
    """One step of trying out a storage profile: passed, failed or skipped."""

    name: str
    status: str
    duration_ms: int | None = None
    error: dict[str, Any] | None = None
    reason: str | None = None


class Validation(Struct, frozen=True, kw_only=True):
    valid: bool
    checks: tuple[ValidationCheck, ...] = ()


class CatalogConfig(Struct, frozen=True, kw_only=True):
    defaults: dict[str, str] = {}
    overrides: dict[str, str] = {}
    endpoints: tuple[str, ...] = ()
    idempotency_key_lifetime: str | None = None

    @property
    def prefix(self) -> str | None:
        """What stands for the warehouse in every path."""
        return self.overrides.get("prefix") or self.defaults.get("prefix")


class Namespace(Struct, frozen=True, kw_only=True):
    namespace: tuple[str, ...]
    properties: dict[str, str] | None = None


class PropertyChanges(Struct, frozen=True, kw_only=True):
    """What became of a change of namespace properties."""

    updated: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    missing: tuple[str, ...] | None = None


class TableIdentifier(Struct, frozen=True, kw_only=True):
    namespace: tuple[str, ...]
    name: str


class GenericTableIdentifier(Struct, frozen=True, kw_only=True):
    namespace: tuple[str, ...]
    name: str
    format: str
    id: str | None = None


class StorageCredential(Struct, frozen=True, kw_only=True):
    """Keys for everything below `prefix`, in Iceberg's names."""

    prefix: str
    config: StorageConfig


class Table(Struct, frozen=True, kw_only=True):
    """An Iceberg table: its metadata as the spec has it, and how to reach its files."""

    metadata: dict[str, Any]
    metadata_location: str | None = None
    config: StorageConfig | None = None
    storage_credentials: tuple[StorageCredential, ...] | None = None

    @property
    def location(self) -> str:
        return str(self.metadata["location"])

    def credentials(self) -> VendedCredentials:
        """The keys that came with the table."""
        return chosen(self.storage_credentials or (), self.location, f"table at {self.location}", self.config)


class GenericTableInfo(Struct, frozen=True, kw_only=True):
    name: str
    format: str
    base_location: str
    protected: bool = False
    doc: str | None = None
    properties: dict[str, str] | None = None
    schema: Any = None
    statistics: Any = None


class GenericTable(Struct, frozen=True, kw_only=True):
    """A table that is not Iceberg's: what it is, where it lies and how to reach its files."""

    table: GenericTableInfo
    config: StorageConfig | None = None
    storage_credentials: tuple[StorageCredential, ...] | None = None

    @property
    def name(self) -> str:
        return self.table.name

    @property
    def format(self) -> str:
        return self.table.format

    @property
    def location(self) -> str:
        return self.table.base_location

    def credentials(self) -> VendedCredentials:
        """The keys that came with the table."""
        return chosen(
            self.storage_credentials or (), self.location, f"generic table {self.name}", self.config
        )


class JobWrites(Struct, frozen=True, kw_only=True):
    """How often a job committed to a table, and when: the timestamps of its first and last snapshot there."""

    commits: int
    first_timestamp_ms: int
    last_timestamp_ms: int
    last_snapshot_id: int


class WrittenTable(JobWrites, frozen=True, kw_only=True):
    """A table that a job wrote, under its present name, or under its last one if it was dropped."""

    namespace: tuple[str, ...]
    name: str
    dropped_at_ms: int | None = None


class WritingJob(JobWrites, frozen=True, kw_only=True):
    """A job that wrote a table: `flink`, `spark` or `frazil`, and its id there."""

    kind: str
    id: str


class ProjectId(Struct, frozen=True, kw_only=True):
    project_id: str


class Projects(Struct, frozen=True, kw_only=True):
    projects: tuple[Project, ...]


class Warehouses(Struct, frozen=True, kw_only=True):
    warehouses: tuple[Warehouse, ...]


class StorageCredentials(Struct, frozen=True, kw_only=True):
    storage_credentials: tuple[StorageCredential, ...] = ()


class NamespacePage(Struct, frozen=True, kw_only=True):
    namespaces: tuple[tuple[str, ...], ...]
    next_page_token: str | None = None


class TablePage(Struct, frozen=True, kw_only=True):
    identifiers: tuple[TableIdentifier, ...]
    next_page_token: str | None = None


class WrittenTablePage(Struct, frozen=True, kw_only=True):
    tables: tuple[WrittenTable, ...]
    next_page_token: str | None = None


class WritingJobPage(Struct, frozen=True, kw_only=True):
    jobs: tuple[WritingJob, ...]
    next_page_token: str | None = None


class GenericTablePage(Struct, frozen=True, kw_only=True):
    identifiers: tuple[GenericTableIdentifier, ...]
    next_page_token: str | None = None


def decoded(answer: Answer, kind: type[T]) -> T:
    """The body of an answer. What is wrong with it is told without repeating it: it may hold keys."""
    try:
        return msgspec.json.decode(answer.body, type=kind, dec_hook=_custom)
    except msgspec.DecodeError as error:
        reason = str(error) if isinstance(error, msgspec.ValidationError) else "not JSON"
        raise FrazilError(
            f"the server's answer is no {kind.__name__} that this client can read: {reason}",
            kind="UnreadableAnswer",
        ) from None


def _custom(kind: type, value: Any) -> Any:
    assert kind is StorageConfig, "the one type of the answers that msgspec does not know"
    return StorageConfig(msgspec.convert(value, dict[str, str]))
