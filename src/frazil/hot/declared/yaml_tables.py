"""Hot tables in YAML and in Python: the same keys, the same checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Required, TypedDict, Unpack

from frazil.client.naming import identifier
from frazil.core.errors import InvalidInput
from frazil.core.schema import Field, Schema
from frazil.hot.declared.declaration import Declaration
from frazil.hot.declared.keys import TABLE
from frazil.hot.declared.options import BUCKET_KEY, REPLICAS
from frazil.hot.table import (
    AUTO_COMPACTION,
    AUTO_EXPIRE,
    BUCKETS,
    ENABLED,
    EVENT_TIME,
    FRESHNESS,
    KEEP,
    LETTERS,
)
from frazil.stream.config.build import column
from frazil.stream.config.build_source import plain
from frazil.stream.config.nodes import Problems
from frazil.stream.config.python import Column, Nodes, SettingValue
from frazil.stream.config.shapes import Found

_OPTIONS = {
    "buckets": BUCKETS,
    "bucket_key": BUCKET_KEY,
    "replicas": REPLICAS,
    "enabled": ENABLED,
    "freshness": FRESHNESS,
    "compaction": AUTO_COMPACTION,
    "expiry": AUTO_EXPIRE,
    "keep": KEEP,
    "dead_letters": LETTERS,
    "event_time": EVENT_TIME,
}


class TableOptions(TypedDict, total=False):
    """The keys of a table in `hot.yaml`."""

    columns: Required[Mapping[str, str | Column]]
    key: str | Sequence[str]
    buckets: int
    bucket_key: str | Sequence[str]
    replicas: int
    partitioning: str | Sequence[str]
    enabled: bool
    freshness: str | timedelta
    compaction: bool
    expiry: bool
    keep: str | timedelta
    dead_letters: str
    event_time: str
    comment: str
    properties: Mapping[str, SettingValue]
    format_version: int


def declare(name: str, **options: Unpack[TableOptions]) -> Declaration:
    """A hot table in Python.

    >>> orders = declare("shop.orders", columns={"id": "long", "status": "string"}, key="id", freshness="30s")
    >>> orders.key, orders.options
    (('id',), {'table.datalake.freshness': '30s'})
    """
    problems, nodes = Problems(), Nodes(f"declare({name!r})")
    found = TABLE.read(nodes.make(options, problems, "options"), problems, f"table '{name}'")
    made = table_of(name, found, problems) if isinstance(found, Found) else None
    problems.check()
    assert made is not None, "what could not be made is a problem"
    return made


def table_of(name: str, found: Found, problems: Problems) -> Declaration | None:
    """The declaration; None, and a problem, if it is none."""
    before = len(problems)
    fields = _fields(found.get("columns"))
    if len(problems) > before or fields is None:
        return None
    try:
        namespace, table = identifier(name)
        return Declaration(
            namespace,
            table,
            Schema(fields),
            found.get("key", ()),
            found.get("partitioning", ()),
            _options(found.values),
            plain(found.get("properties")),
            found.get("comment"),
            found.get("format_version", Declaration.format_version),
        )
    except InvalidInput as error:
        problems.add(found.place, f"table '{name}': {error.message}")
        return None


def _fields(columns: Found | None) -> tuple[Field, ...] | None:
    """None: one of them was a problem already."""
    if columns is None:
        return None
    made = [column(name, value) for name, value in columns.values.items()]
    fields = tuple(one for one in made if one is not None)
    return fields if len(fields) == len(columns.nodes) else None


def _options(values: Mapping[str, Any]) -> dict[str, str]:
    return {option: _text(values[key]) for key, option in _OPTIONS.items() if key in values}


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(value) if isinstance(value, tuple) else str(value)
