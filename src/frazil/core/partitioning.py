"""Partition specs: `day(event_time)`, `bucket(16, id)`, `truncate(4, code)`, or a column by itself."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from frazil.core.errors import InvalidConfig
from frazil.core.schema import Schema, Type, show_type

_TEXT = re.compile(r"\s*(?:(\w+)\s*\(\s*(?:(\d+)\s*,\s*)?([^(),]+?)\s*\)|([^(),\s]+))\s*")
_DATES = frozenset({"date", "timestamp", "timestamptz"})
_BUCKETED = frozenset({"int", "long", "string", "uuid", "binary", "time"}) | _DATES
#: What each transform takes: a width or not, and which primitive types.
_LEGAL: dict[str, tuple[bool, frozenset[str]]] = {
    "year": (False, _DATES),
    "month": (False, _DATES),
    "day": (False, _DATES),
    "hour": (False, _DATES - {"date"}),
    "bucket": (True, _BUCKETED),
    "truncate": (True, frozenset({"int", "long", "string", "binary"})),
}
_FIRST_FIELD_ID = 1000


@dataclass(frozen=True)
class PartitionField:
    """One field of a spec. `transform` is the spec's word: `identity`, `day`, `bucket[16]`, …"""

    source: str
    transform: str
    name: str
    source_id: int = 0
    field_id: int = 0


@dataclass(frozen=True)
class PartitionSpec:
    """How a table's rows are laid out; no fields: not at all."""

    fields: tuple[PartitionField, ...] = ()
    id: int = 0

    def to_json(self) -> dict[str, Any]:
        """The spec's form."""
        rows = [
            {"name": f.name, "transform": f.transform, "source-id": f.source_id, "field-id": f.field_id}
            for f in self.fields
        ]
        return {"spec-id": self.id, "fields": rows}

    @classmethod
    def from_json(cls, document: Mapping[str, Any], schema: Schema) -> PartitionSpec:
        names = {field.id: field.name for field in schema}
        return cls(
            tuple(
                PartitionField(
                    names.get(row["source-id"], ""),
                    row["transform"],
                    row["name"],
                    int(row["source-id"]),
                    int(row["field-id"]),
                )
                for row in document["fields"]
            ),
            int(document["spec-id"]),
        )


def parse_partitioning(texts: Iterable[str]) -> tuple[PartitionField, ...]:
    """Fields without ids, named as Spark names them (`event_time_day`, `id_bucket`).

    >>> parse_partitioning(["bucket(16, id)"])
    (PartitionField(source='id', transform='bucket[16]', name='id_bucket', source_id=0, field_id=0),)
    """
    return tuple(_parse(text) for text in texts)


def bind(fields: Sequence[PartitionField], schema: Schema) -> PartitionSpec:
    """The spec for a table of that schema (its fields have ids); InvalidConfig where it cannot be."""
    bound = []
    for number, field in enumerate(fields):
        column = schema.field(field.source)
        _check(field, column.type)
        bound.append(
            PartitionField(field.source, field.transform, field.name, column.id, _FIRST_FIELD_ID + number)
        )
    return PartitionSpec(tuple(bound))


def _parse(text: str) -> PartitionField:
    match = _TEXT.fullmatch(text)
    if match is None:
        raise _wrong(text)
    word, width, column, alone = match.groups()
    if alone is not None or word.lower() == "identity":
        source = alone if alone is not None else column
        return PartitionField(source, "identity", source)
    word = (
        word.lower().removesuffix("s")
        if word.lower() in {"years", "months", "days", "hours"}
        else word.lower()
    )
    if word not in _LEGAL or _LEGAL[word][0] != (width is not None) or width == "0":
        raise _wrong(text)
    name = f"{column}_{'trunc' if word == 'truncate' else word}"
    return PartitionField(column, f"{word}[{int(width)}]" if width else word, name)


def _check(field: PartitionField, kind: Type) -> None:
    word = field.transform.partition("[")[0]
    plain = kind.partition("(")[0].partition("[")[0] if isinstance(kind, str) else None
    legal = word == "identity" if word not in _LEGAL else plain in _LEGAL[word][1] | _decimals(word)
    if plain is None or not legal:
        raise InvalidConfig(f"{field.transform} cannot partition by '{field.source}', a {show_type(kind)}")


def _decimals(word: str) -> frozenset[str]:
    return (
        frozenset({"decimal", "fixed"})
        if word == "bucket"
        else frozenset({"decimal"} if word == "truncate" else ())
    )


def _wrong(text: str) -> InvalidConfig:
    return InvalidConfig(
        f"'{text}' is no partition field. Write a column, year(c), month(c), day(c), hour(c), bucket(n, c) "
        "or truncate(n, c)"
    )
