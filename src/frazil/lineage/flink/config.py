"""Settings of the Flink reader: the names, defaults and meanings of DataHub's own Flink source, and ours.

A recipe for that source works here as it is. Ours are `iceberg_catalogs`, `ddl_file`, `operator_patterns` and
`kafka`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from frazil.client.address import check_url
from frazil.core.errors import InvalidConfig
from frazil.lineage.flink.patterns import OperatorPattern

JOB_STATES = (
    "INITIALIZING",
    "CREATED",
    "RUNNING",
    "FAILING",
    "FAILED",
    "CANCELLING",
    "CANCELED",
    "FINISHED",
    "RESTARTING",
    "SUSPENDED",
    "RECONCILING",
)
_SECRET = re.compile("password|secret|token|key[.]pem|sasl[.]oauthbearer[.]config")
_URL = "the address of an HTTP service, such as http://localhost:8081"

T = TypeVar("T")


class _Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A name that is not known is an error: it may be a misspelt one that matters."""


class Connection(_Settings, frozen=True, kw_only=True):
    """Where Flink is, and who is asking. Both services are asked with the same credentials."""

    rest_api_url: str
    sql_gateway_url: str | None = None
    token: str | None = None
    username: str | None = None
    password: str | None = None
    timeout_seconds: Annotated[int, msgspec.Meta(ge=1)] = 30
    #: All attempts, the first among them.
    max_retries: Annotated[int, msgspec.Meta(ge=0)] = 3
    verify_ssl: bool = True
    sql_gateway_operation_timeout_seconds: Annotated[int, msgspec.Meta(ge=5)] = 60

    def __post_init__(self) -> None:
        if not self.sql_gateway_url:
            # What `${FLINK_GATEWAY:-}` leaves in a recipe.
            msgspec.structs.force_setattr(self, "sql_gateway_url", None)
        for name in ("rest_api_url", "sql_gateway_url"):
            if (url := getattr(self, name)) is not None:
                check_url(url, f"connection.{name}", _URL)
                msgspec.structs.force_setattr(self, name, url.rstrip("/"))
        if self.token and (self.username or self.password):
            raise InvalidConfig("connection: give token, or username and password, not both")
        if bool(self.username) != bool(self.password):
            missing, given = ("password", "username") if self.username else ("username", "password")
            raise InvalidConfig(f"connection: {given} is set but {missing} is not; give both or neither")

    def __repr__(self) -> str:
        """Without token and password: settings are logged."""
        return f"Connection({self.rest_api_url!r}, sql_gateway_url={self.sql_gateway_url!r})"


class CatalogPlatform(_Settings, frozen=True, kw_only=True):
    """What the user says of a Flink catalog; it wins over everything that is found out."""

    platform: str | None = None
    platform_instance: str | None = None


class NamePattern(_Settings, frozen=True, kw_only=True):
    """Regular expressions that must match a name from its beginning; `deny` wins."""

    allow: tuple[str, ...] = (".*",)
    deny: tuple[str, ...] = ()
    ignoreCase: bool | None = True  # noqa: N815 (its name in recipes)

    def __post_init__(self) -> None:
        for pattern in (*self.allow, *self.deny):
            try:
                re.compile(pattern)
            except re.error as error:
                raise InvalidConfig(
                    f"job_name_pattern: {pattern!r} is no regular expression: {error}"
                ) from None

    def allowed(self, name: str) -> bool:
        flags = re.IGNORECASE if self.ignoreCase else 0
        if any(re.match(pattern, name, flags) for pattern in self.deny):
            return False
        return any(re.match(pattern, name, flags) for pattern in self.allow)


class IcebergCatalog(_Settings, frozen=True, kw_only=True):
    """An Iceberg REST catalog whose snapshots tell which job wrote them; keyed by its name in Flink."""

    uri: str
    warehouse: str | None = None
    token: str | None = None
    #: `client-id:client-secret`, as Iceberg's own clients take it.
    credential: str | None = None
    oauth2_server_uri: str | None = None
    scope: str | None = None
    verify_ssl: bool = True

    def __post_init__(self) -> None:
        check_url(
            self.uri,
            "iceberg_catalogs: uri",
            "the address of a catalog, such as http://localhost:8181/catalog",
        )
        if self.token and self.credential:
            raise InvalidConfig("iceberg_catalogs: give token or credential, not both")
        if self.credential is not None and not all(self.credential.partition(":")):
            raise InvalidConfig("iceberg_catalogs: credential is not legal. Legal: client-id:client-secret")
        msgspec.structs.force_setattr(self, "uri", self.uri.rstrip("/"))

    def __repr__(self) -> str:
        return f"IcebergCatalog({self.uri!r}, warehouse={self.warehouse!r})"


class FlinkConfig(_Settings, frozen=True, kw_only=True):
    """Everything that a read of one Flink cluster needs to know."""

    connection: Connection
    job_name_pattern: NamePattern = NamePattern()
    include_job_states: tuple[str, ...] = ("RUNNING", "FINISHED", "FAILED", "CANCELED")
    catalog_platform_map: dict[str, CatalogPlatform] = {}
    platform_instance_map: dict[str, str] | None = None
    platform_instance: str | None = None
    env: str = "PROD"
    operator_granularity: Literal["job", "vertex"] = "job"
    include_lineage: bool = True
    include_run_history: bool = True
    include_catalog_metadata: bool = False
    max_workers: Annotated[int, msgspec.Meta(ge=1, le=50)] = 10
    iceberg_catalogs: dict[str, IcebergCatalog] = {}
    #: CREATE TABLE and CREATE CATALOG statements of what no catalog remembers.
    ddl_file: str | None = None
    operator_patterns: tuple[OperatorPattern, ...] = ()
    #: librdkafka's properties for brokers that are asked which topics they have.
    kafka: dict[str, str] = {}

    def __repr__(self) -> str:
        """Without what may hold a password."""
        return f"FlinkConfig({self.connection!r})"

    def secrets(self) -> dict[str, str]:
        """What must be shown nowhere, by its place."""
        found = {
            "connection.token": self.connection.token,
            "connection.password": self.connection.password,
            **{f"kafka.{name}": value for name, value in self.kafka.items() if _SECRET.search(name)},
        }
        for name, catalog in self.iceberg_catalogs.items():
            found[f"iceberg_catalogs.{name}.token"] = catalog.token
            found[f"iceberg_catalogs.{name}.credential"] = catalog.credential
            found[f"iceberg_catalogs.{name}.secret"] = (catalog.credential or "").partition(":")[2]
        return {name: value for name, value in found.items() if value}

    def __post_init__(self) -> None:
        if self.kafka and not self.kafka.get("bootstrap.servers"):
            raise InvalidConfig("kafka: bootstrap.servers is missing, such as localhost:9092")
        states = tuple(state.upper() for state in self.include_job_states)
        if not states:
            raise InvalidConfig(f"include_job_states is empty; legal are {', '.join(JOB_STATES)}")
        for state in states:
            if state not in JOB_STATES:
                raise InvalidConfig(
                    f"include_job_states: {state!r} is not legal. Legal: {', '.join(JOB_STATES)}"
                )
        msgspec.structs.force_setattr(self, "include_job_states", states)
        msgspec.structs.force_setattr(self, "env", self.env.upper())
        if self.include_catalog_metadata and not (self.connection.sql_gateway_url or self.iceberg_catalogs):
            raise InvalidConfig(
                "include_catalog_metadata needs a catalog to ask: set connection.sql_gateway_url or "
                "iceberg_catalogs"
            )


def flink_config(given: Mapping[str, Any]) -> FlinkConfig:
    """Settings as a recipe has them; numbers and booleans may be text, as `${VARIABLE}` leaves them."""
    try:
        return msgspec.convert(dict(given), FlinkConfig, strict=False)
    except msgspec.ValidationError as error:
        # Errors of our own checks arrive wrapped, with the place added.
        raise InvalidConfig(f"the Flink source: {error}{_legal(str(error))}") from None


def _legal(message: str) -> str:
    """The names at the place of an unknown one."""
    if "unknown field" not in message:
        return ""
    place = message.partition(" - at `$")[2].rstrip("`")
    group: type[msgspec.Struct] = FlinkConfig
    for start, kind in _PLACES.items():
        if place.startswith(start):
            group = kind
    return f"; legal are {', '.join(group.__struct_fields__)}"


_PLACES: dict[str, type[msgspec.Struct]] = {
    ".connection": Connection,
    ".job_name_pattern": NamePattern,
    ".catalog_platform_map": CatalogPlatform,
    ".iceberg_catalogs": IcebergCatalog,
    ".operator_patterns": OperatorPattern,
}
