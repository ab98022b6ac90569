"""Tables that benchmarks make and throw away."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import unquote, urlsplit

from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.types import (
    DoubleType,
    IntegerType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
    TimestamptzType,
)

#: The key comes first.
Row: TypeAlias = tuple[Any, ...]
_TYPES: dict[str, PrimitiveType] = {
    "long": LongType(),
    "string": StringType(),
    "timestamptz": TimestamptzType(),
    "double": DoubleType(),
    "int": IntegerType(),
}


@dataclass(frozen=True)
class Contents:
    """The files of a table."""

    data_files: int
    delete_files: int
    commits: int


def contents_of(metadata: Mapping[str, Any]) -> Contents:
    """As the newest snapshot of a metadata document tells it."""
    snapshots = metadata["snapshots"]
    newest = max(snapshots, key=lambda snapshot: snapshot["sequence-number"])["summary"]
    return Contents(int(newest["total-data-files"]), int(newest["total-delete-files"]), len(snapshots))


def columns(schema: Mapping[str, str], *required: str) -> list[NestedField]:
    """Of a new table, by names and types."""
    return [
        NestedField(number, name, _TYPES[kind], required=name in required)
        for number, (name, kind) in enumerate(schema.items(), 1)
    ]


def drop(catalog: RestCatalog, table: str) -> None:
    """The table and its files, so that the disk does not fill."""
    location = catalog.load_table(table).location()
    catalog.drop_table(table)
    shutil.rmtree(local(location), ignore_errors=True)


def local(location: str) -> Path:
    """Of a warehouse on the local disk."""
    return Path(unquote(urlsplit(location).path))


def differing(wanted: list[Row], found: list[Row]) -> int:
    """Keys, which are the first column, whose rows are missing, too many, or different."""
    left, right = Counter(wanted), Counter(found)
    return len({row[0] for row in (*(left - right), *(right - left))})
