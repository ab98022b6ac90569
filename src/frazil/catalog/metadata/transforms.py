"""Partition and sort transforms."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, NamedTuple

from frazil.catalog.metadata.schema import SchemaIndex
from frazil.core.errors import InvalidInput

Json = dict[str, Any]

_WIDTH = re.compile(r"(bucket|truncate)\[([0-9]{1,10})\]", re.IGNORECASE)
_PLAIN = frozenset({"identity", "year", "month", "day", "hour", "void"})
_OTHER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\[[^\[\]]*\])?")

_TIMESTAMPS = frozenset({"timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"})
_BUCKETS = _TIMESTAMPS | {"int", "long", "date", "time", "string", "binary", "fixed", "decimal", "uuid"}
_SOURCES = {
    "bucket": _BUCKETS,
    "truncate": frozenset({"int", "long", "string", "binary", "decimal"}),
    "year": _TIMESTAMPS | {"date"},
    "month": _TIMESTAMPS | {"date"},
    "day": _TIMESTAMPS | {"date"},
    "hour": _TIMESTAMPS,
}


class Transform(NamedTuple):
    """A transform's kind (`unknown` for one of a later specification) and its canonical spelling."""

    kind: str
    text: str


@lru_cache(maxsize=1024)
def parse_transform(text: str) -> Transform:
    """The transform that `text` spells; one that is not known yet passes, one that is misspelt does not."""
    lowered = text.lower()
    if lowered in _PLAIN:
        return Transform(lowered, lowered)
    match = _WIDTH.fullmatch(text)
    if match is not None:
        width = int(match[2])
        if 0 < width < 2**31:
            return Transform(match[1].lower(), f"{match[1].lower()}[{width}]")
    elif _OTHER.fullmatch(text) and lowered.split("[")[0] not in ("bucket", "truncate"):
        return Transform("unknown", text)
    raise InvalidInput(f"{text[:100]!r} is not a legal transform")


def key(field: Json) -> tuple[tuple[int | None, ...], str]:
    """What makes two fields alike; for any field, even one that could not be added today."""
    text: str = field["transform"]
    lowered = text.lower()
    known = lowered in _PLAIN or _WIDTH.fullmatch(text) is not None
    return tuple(field.get("source-ids") or (field.get("source-id"),)), lowered if known else text


def sources(field: Json) -> list[int]:
    """The ids of the columns that a partition or sort field is made from."""
    several: list[int] | None = field.get("source-ids")
    if several:
        return several
    one: int | None = field.get("source-id")
    if one is None:
        raise InvalidInput(f"{_label(field)} has neither source-id nor source-ids")
    return [one]


def _label(field: Json) -> str:
    """Only partition fields have names."""
    return f"partition field {field['name'][:100]!r}" if "name" in field else "sort field"


def with_sources(field: Json, mapping: dict[int, int] | None) -> Json:
    """A copy of the field with canonical transform, and with its sources translated."""
    copy = {k: v for k, v in field.items() if v is not None}
    copy["transform"] = parse_transform(field["transform"]).text
    if mapping is None:
        return copy
    for source in sources(field):
        if source not in mapping:
            raise InvalidInput(f"{_label(field)}: there is no column with id {source}")
    if copy.get("source-ids"):
        copy["source-ids"] = [mapping[i] for i in copy["source-ids"]]
    if "source-id" in copy:
        copy["source-id"] = mapping.get(copy["source-id"], copy["source-id"])
    return copy


def check_sources(field: Json, index: SchemaIndex, what: str) -> None:
    """The columns exist, are primitive, and have a type that the transform can take."""
    transform = parse_transform(field["transform"])
    ids = sources(field)
    for source in ids:
        column = index.fields.get(source)
        if column is None:
            raise InvalidInput(f"{what}: there is no column with id {source}")
        family = index.family(column)
        if family is None:
            raise InvalidInput(f"{what}: column {column.name} is not of a primitive type")
        if len(ids) == 1:
            _check_family(transform, family, what)


def _check_family(transform: Transform, family: str, what: str) -> None:
    if transform.kind == "identity":
        legal = family not in ("geometry", "geography")
    else:
        legal = transform.kind not in _SOURCES or family in _SOURCES[transform.kind]
    if not legal:
        raise InvalidInput(f"{what}: transform {transform.text} cannot take a {family}")
