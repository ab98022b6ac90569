"""Table properties that the catalog itself reads."""

from __future__ import annotations

import re
from collections.abc import Mapping

from frazil.catalog.metadata.builder import (
    DEFAULT_FORMAT_VERSION,
    MAX_FORMAT_VERSION,
    ROW_LINEAGE_VERSION,
)
from frazil.core.errors import InvalidInput

FORMAT_VERSION = "format-version"
PREVIOUS_VERSIONS_MAX = "write.metadata.previous-versions-max"
DELETE_AFTER_COMMIT = "write.metadata.delete-after-commit.enabled"
METADATA_PATH = "write.metadata.path"
METADATA_COMPRESSION = "write.metadata.compression-codec"
_ENCRYPTION = ("encryption.key-id", "encryption.data-key-length")
PARQUET_COMPRESSION = "write.parquet.compression-codec"

# They describe a table rather than configure it, so they are never stored.
RESERVED = frozenset(
    {
        FORMAT_VERSION,
        "uuid",
        "snapshot-count",
        "current-snapshot-summary",
        "current-snapshot-id",
        "current-snapshot-timestamp-ms",
        "current-schema",
        "default-partition-spec",
        "default-sort-order",
    }
)
_INT = re.compile(r"[+-]?[0-9]{1,10}")
_COMMIT_NUMBERS = (
    "commit.retry.num-retries",
    "commit.retry.min-wait-ms",
    "commit.retry.max-wait-ms",
    "commit.retry.total-timeout-ms",
)


def format_version_of(properties: Mapping[str, str] | None) -> int:
    """The format version that a new table's properties ask for; 2 when they do not."""
    text = (properties or {}).get(FORMAT_VERSION)
    if text is None:
        return DEFAULT_FORMAT_VERSION
    if text.strip() not in {str(v) for v in range(1, MAX_FORMAT_VERSION + 1)}:
        raise InvalidInput(f"property {FORMAT_VERSION} must be 1 to {MAX_FORMAT_VERSION}, not {text[:50]!r}")
    return int(text)


def of_new_table(properties: Mapping[str, str], format_version: int) -> dict[str, str]:
    """What a new table stores: no reserved ones, and the defaults that are for new tables only."""
    check_values(properties)
    for key in _ENCRYPTION:
        if key in properties and format_version < ROW_LINEAGE_VERSION:
            raise InvalidInput(f"property {key} needs format version 3")
    for key in _COMMIT_NUMBERS:
        number = parse_int(properties[key]) if key in properties else 0
        if number is None or number < 0:
            raise InvalidInput(f"property {key} must be a number, 0 or more: {properties[key][:50]!r}")
    stored = {PARQUET_COMPRESSION: "zstd"}
    stored.update({k: v for k, v in properties.items() if k not in RESERVED})
    return stored


def check_values(properties: Mapping[str, str]) -> None:
    """Refuse values that would make every later commit fail."""
    previous_versions_max(properties)
    is_gzip(properties)


def check_not_reserved(properties: Mapping[str, str]) -> None:
    reserved = sorted(RESERVED.intersection(properties))
    if reserved:
        raise InvalidInput(f"{', '.join(reserved)}: reserved, cannot be set as a property")


def previous_versions_max(properties: Mapping[str, str]) -> int:
    """How many earlier metadata files the metadata log names."""
    text = properties.get(PREVIOUS_VERSIONS_MAX)
    if text is None:
        return 100
    number = parse_int(text)
    if number is None:
        raise InvalidInput(f"property {PREVIOUS_VERSIONS_MAX} must be a number: {text[:50]!r}")
    return max(1, number)


def is_gzip(properties: Mapping[str, str]) -> bool:
    """Whether metadata files are to be compressed."""
    codec = properties.get(METADATA_COMPRESSION, "none").lower()
    if codec not in ("none", "gzip"):
        raise InvalidInput(f"property {METADATA_COMPRESSION} must be none or gzip, not {codec[:50]!r}")
    return codec == "gzip"


def is_true(properties: Mapping[str, str], key: str) -> bool:
    return properties.get(key, "").lower() == "true"


def parse_int(text: str) -> int | None:
    """The number that Java would read in `text`: Python's `int` takes more, such as `1_000`."""
    return int(text) if _INT.fullmatch(text) else None
