"""What a hot table is declared as. Flink's SQL, YAML and Python all end in this one form."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from frazil.core.errors import InvalidConfig, InvalidInput
from frazil.core.names import check_levels, check_name, show
from frazil.core.partitioning import PartitionField, bind
from frazil.core.schema import Field, Schema, primitives, show_type
from frazil.hot.declared.options import BUCKET_KEY, REPLICAS, check_options
from frazil.hot.table import BUCKETS, EVENT_TIME, LETTERS, TIMES, table_name
from frazil.stream.config.values import names_problem, topic, type_problem

#: Topic and table have one name, so that each leads to the other; a dot stands between the levels alone.
_PART = re.compile(r"[A-Za-z0-9_-]+")
_NO_KEYS: Final = ("float", "double")
FORMAT_VERSIONS = (2, 3)


@dataclass(frozen=True)
class Declaration:
    """A hot table that somebody wants. It is checked when it is made: InvalidConfig says what is legal.

    >>> orders = Declaration(("shop",), "orders", Schema((Field("id", "long"),)), key=("id",))
    >>> orders.topic, orders.buckets, orders.columns.field("id").required
    ('shop.orders', 1, True)
    """

    namespace: tuple[str, ...]
    name: str
    #: Those of the key are required, whether it was said or not.
    columns: Schema
    #: What tells rows apart, in the order in which it was declared; none: a log, to which rows are appended.
    key: tuple[str, ...] = ()
    partitioning: tuple[PartitionField, ...] = ()
    #: `table.*`, `bucket.*` and `frazil.hot.*`, as they were written.
    options: Mapping[str, str] = field(default_factory=dict)
    #: The Iceberg table's own, with no prefix.
    properties: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None
    format_version: int = 2

    def __post_init__(self) -> None:
        self._check_name()
        self._check_columns()
        self._check_key()
        fields = (replace(one, required=one.required or one.name in self.key) for one in self.columns)
        object.__setattr__(self, "columns", Schema(tuple(fields)))
        bind(self.partitioning, self.columns.with_fresh_ids())
        check_options(self.options)
        self._check_buckets()
        self._check_event_time()
        self._check_properties()

    def __str__(self) -> str:
        return show(self.namespace, self.name)

    @property
    def topic(self) -> str:
        return str(self)

    @property
    def buckets(self) -> int:
        """Partitions of the topic."""
        return int(self.options.get(BUCKETS, "1"))

    @property
    def replicas(self) -> int | None:
        """Copies of the topic; None: as many as the brokers make of any."""
        found = self.options.get(REPLICAS)
        return None if found is None else int(found)

    def _check_name(self) -> None:
        check_levels(self.namespace, "namespace")
        check_name(self.name, "name")
        for part in (*self.namespace, self.name):
            if _PART.fullmatch(part) is None:
                raise InvalidConfig(
                    f"'{part}' cannot be in the name of a hot table, which its topic has, too: legal are "
                    "letters of ASCII, digits, '_' and '-'"
                )
        if str(self).startswith("__"):
            raise InvalidConfig(
                f"'{self}' begins with '__', as topics of Kafka's own do; give it another name"
            )
        topic(str(self))

    def _check_columns(self) -> None:
        if not self.columns.fields:
            raise InvalidConfig("there are no columns; a table needs one at least")
        if (problem := names_problem(self.columns.fields)) is not None:
            raise InvalidConfig(f"columns are there twice: {problem}")
        for one in self.columns:
            if not one.name.strip() or not one.name.isprintable():
                raise InvalidConfig("a column needs a name that can be read")
            if (problem := type_problem(one.type)) is not None:
                raise InvalidConfig(f"column '{one.name}': {problem}")
            if "time" in primitives(one.type):
                raise InvalidConfig(
                    f"column '{one.name}': Spark cannot open a table with a time of day; make it a string, "
                    "such as 23:59:59"
                )

    def _check_key(self) -> None:
        if len(set(self.key)) != len(self.key):
            raise InvalidConfig(f"the primary key names a column twice: {', '.join(self.key)}")
        for one in _named(self.columns, self.key, "the primary key"):
            if not isinstance(one.type, str) or one.type in _NO_KEYS:
                raise InvalidConfig(
                    f"column '{one.name}' of the primary key is of type {show_type(one.type)}; legal are all "
                    f"types but {', '.join(_NO_KEYS)}, lists, maps and structs"
                )

    def _check_buckets(self) -> None:
        written = self.options.get(BUCKET_KEY)
        if written is None:
            return
        names = tuple(part.strip() for part in written.split(","))
        found = _named(self.columns, names, f"'{BUCKET_KEY}'")
        # Rows of one value of a column that rows are partitioned by are together anyway.
        sources = {one.source for one in self.partitioning}
        rest = tuple(name for name in self.key if name not in sources)
        if self.key and names not in {key[: len(names)] for key in (self.key, rest)}:
            raise InvalidConfig(
                f"'{BUCKET_KEY}' is '{written}'; of a table with a primary key it is that key or the "
                f"beginning of it ({', '.join(self.key)}): all changes of a row have to be in one bucket"
            )
        if wrong := [one.name for one in found if not isinstance(one.type, str) or one.type in _NO_KEYS]:
            raise InvalidConfig(f"'{BUCKET_KEY}': column '{wrong[0]}' is of a type that no rows go by")

    def _check_event_time(self) -> None:
        name = self.options.get(EVENT_TIME)
        if name is None:
            return
        for one in _named(self.columns, (name,), f"'{EVENT_TIME}'"):
            if one.type not in TIMES:
                raise InvalidConfig(
                    f"'{EVENT_TIME}': column '{name}' is of type {show_type(one.type)}; legal: "
                    f"{', '.join(TIMES)}"
                )

    def _check_properties(self) -> None:
        if self.format_version not in FORMAT_VERSIONS:
            raise InvalidConfig(f"the format version is {self.format_version}; legal: 2, 3")
        for name in self.properties:
            if name.startswith(("frazil.", "table.datalake.", "bucket.")) or name == "format-version":
                raise InvalidConfig(
                    f"'{name}' is no property of Iceberg's alone: it has a setting of its own"
                )
        letters = self.options.get(LETTERS)
        if letters is not None and table_name(letters) == (self.namespace, self.name):
            raise InvalidConfig(f"'{LETTERS}' is the table itself; bad records need another one")


def split_options(written: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str], int]:
    """Options, Iceberg's properties (`iceberg.*`, the prefix taken off) and the version of the format."""
    prefix = "iceberg."
    options = {name: value for name, value in written.items() if not name.startswith(prefix)}
    properties = {
        name.removeprefix(prefix): value for name, value in written.items() if name.startswith(prefix)
    }
    version = properties.pop("format-version", "2")
    if version not in map(str, FORMAT_VERSIONS):
        raise InvalidConfig(f"'iceberg.format-version' is '{version}'; legal: 2, 3")
    return options, properties, int(version)


def _named(columns: Schema, names: Sequence[str], what: str) -> list[Field]:
    try:
        return [columns.field(name) for name in names]
    except InvalidInput as error:
        raise InvalidConfig(f"{what}: {error.message}") from None
