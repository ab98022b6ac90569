"""A typed client of the catalog server, and of Lakekeeper where the API is the same."""

from frazil.client.answers import (
    CatalogConfig,
    GenericTable,
    GenericTableIdentifier,
    GenericTableInfo,
    Namespace,
    Project,
    PropertyChanges,
    ServerInfo,
    StorageCredential,
    Table,
    TableIdentifier,
    User,
    Validation,
    ValidationCheck,
    Warehouse,
    WritingJob,
    WrittenTable,
)
from frazil.client.auth import ClientCredentials
from frazil.client.client import AsyncClient, Client, WarehouseClient
from frazil.client.config import StorageConfig
from frazil.client.credentials import VendedCredentials
from frazil.client.exchange import Retry
from frazil.client.flow import Async, Sync
from frazil.client.renewing import AsyncRenewing, Renewing
from frazil.client.translate import hadoop_configuration

__all__ = [
    "Async",
    "AsyncClient",
    "AsyncRenewing",
    "CatalogConfig",
    "Client",
    "ClientCredentials",
    "GenericTable",
    "GenericTableIdentifier",
    "GenericTableInfo",
    "Namespace",
    "Project",
    "PropertyChanges",
    "Renewing",
    "Retry",
    "ServerInfo",
    "StorageConfig",
    "StorageCredential",
    "Sync",
    "Table",
    "TableIdentifier",
    "User",
    "Validation",
    "ValidationCheck",
    "VendedCredentials",
    "Warehouse",
    "WarehouseClient",
    "WritingJob",
    "WrittenTable",
    "hadoop_configuration",
]
