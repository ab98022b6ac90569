"""A PostgreSQL database as a source: what can be set."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from frazil.core.errors import InvalidConfig

_SLOT = re.compile(r"[a-z0-9_]{1,63}")
_TABLE = re.compile(r"[^\s.,\"'\\\[\]]+\.[^\s.,\"'\\\[\]]+")
_PREFIX = re.compile(r"[A-Za-z0-9_-]+")
_SSL_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")

#: Debezium's settings that do not touch what frazil keeps hold of: offsets, the slot, the form of records.
_FREE = re.compile(
    r"(?:decimal|hstore|interval|binary)\.handling\.mode|time\.precision\.mode|money\.fraction\.digits"
    r"|column\.(?:include|exclude)\.list|column\.(?:mask|truncate|propagate)\..+|message\.key\.columns"
    r"|include\.unknown\.datatypes|unavailable\.value\.placeholder|provide\.transaction\.metadata"
    r"|snapshot\.(?:fetch\.size|max\.threads|isolation\.mode|lock\.timeout\.ms|select\.statement\.overrides.*)"
    r"|max\.batch\.size|poll\.interval\.ms|status\.update\.interval\.ms|slot\.stream\.params"
    r"|database\.(?:query\.timeout\.ms|tcpKeepAlive|initial\.statements)"
)


#: Of those: what lets a snapshot read some of the rows only.
_SELECTED = "snapshot.select.statement.overrides"


class Snapshot(StrEnum):
    """What becomes of rows that were there before."""

    #: All rows of a table are read when it is first seen.
    INITIAL = "initial"
    #: Only changes count.
    NEVER = "never"


@dataclass(frozen=True)
class PostgresSource:
    """Tables of one database, followed through a replication slot of the pipeline's own."""

    #: The pipeline: topics are `<name>.<schema>.<table>`.
    name: str
    host: str
    database: str
    user: str
    password: str = field(repr=False)
    #: `schema.table`; `*` and `?` stand for any characters and any one.
    tables: tuple[str, ...]
    port: int = 5432
    slot: str = ""
    publication: str = ""
    snapshot: Snapshot = Snapshot.INITIAL
    sslmode: str = "prefer"
    #: Certificates of the authorities that `verify-ca` and `verify-full` trust: a file.
    sslrootcert: str = ""
    #: More settings of the Debezium connector.
    properties: Mapping[str, str] = field(default_factory=dict)
    #: Changes held in memory, at most; beyond that the database waits.
    buffer_bytes: int = 64 << 20
    #: How often new tables are looked for.
    poll_seconds: float = 10.0

    def __post_init__(self) -> None:
        default = "frazil_" + re.sub("[^a-z0-9_]", "_", self.name.lower())[:56]
        object.__setattr__(self, "slot", self.slot or default)
        object.__setattr__(self, "publication", self.publication or self.slot)
        self._check()

    def _check(self) -> None:
        if _PREFIX.fullmatch(self.name) is None:
            raise InvalidConfig(f"'{self.name}' cannot begin the names of topics: use a-z, 0-9, - and _")
        if _SLOT.fullmatch(self.slot) is None:
            raise InvalidConfig(f"'{self.slot}' cannot name a slot: use 1 to 63 of a-z, 0-9 and _")
        if not self.publication or '"' in self.publication or len(self.publication.encode()) > 63:
            raise InvalidConfig(f"'{self.publication}' cannot name a publication: 1 to 63 bytes without \"")
        if self.sslmode not in _SSL_MODES:
            raise InvalidConfig(f"sslmode '{self.sslmode}' is not one of {', '.join(_SSL_MODES)}")
        if not self.tables:
            raise InvalidConfig("name at least one table to follow, as schema.table; public.* takes them all")
        for table in self.tables:
            if _TABLE.fullmatch(table) is None:
                raise InvalidConfig(
                    f"'{table}' does not name tables: write schema.table, where * and ? stand for any "
                    "characters and any one; no white space, quotes, commas, brackets or backslashes"
                )
        for key in self.properties:
            if _FREE.fullmatch(key) is None:
                raise InvalidConfig(
                    f"the Debezium property '{key}' cannot be set here: frazil itself keeps the offsets, the "
                    "slot, the tables and the form of records. Free to set are those of values (such as "
                    "decimal.handling.mode), columns, snapshots and polling"
                )

    def wants(self, schema: str, table: str) -> bool:
        return any(fnmatch.fnmatchcase(f"{schema}.{table}", pattern) for pattern in self.tables)

    def named(self, schema: str, table: str) -> bool:
        """Whether it is named outright, not only by a pattern."""
        return f"{schema}.{table}" in self.tables

    def topic(self, schema: str, table: str) -> str:
        """As Debezium names it."""
        return re.sub("[^A-Za-z0-9._-]", "_", f"{self.name}.{schema}.{table}")

    @property
    def reads_all(self) -> bool:
        """Whether a snapshot has every row of its table."""
        chosen = any(name.startswith(_SELECTED) for name in self.properties)
        return self.snapshot is Snapshot.INITIAL and not chosen

    @property
    def where(self) -> str:
        """For messages."""
        return f"{self.host}:{self.port}/{self.database}"


def include_list(source: PostgresSource) -> str:
    """The tables as Debezium's regular expressions: new ones that fit are taken without a restart."""
    return ",".join(_regex(pattern) for pattern in source.tables)


def _regex(pattern: str) -> str:
    wild = {"*": ".*", "?": "."}
    return "".join(
        wild.get(char) or (char if char.isalnum() or char == "_" else f"\\{char}") for char in pattern
    )
