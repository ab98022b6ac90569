"""Metadata files: their names, their bytes, and which of them a commit makes superfluous."""

from __future__ import annotations

import re
from typing import Any
from uuid import uuid4

import msgspec

from frazil.catalog.metadata.properties import DELETE_AFTER_COMMIT, METADATA_PATH, is_gzip, is_true

Json = dict[str, Any]

_VERSION = re.compile(r"([0-9]{1,9})-")
_ENCODER = msgspec.json.Encoder()


def metadata_file_name(version: int, *, gzip: bool = False) -> str:
    """A new file name for that version of the metadata; never the same one twice."""
    return f"{version:05d}-{uuid4()}{'.gz' if gzip else ''}.metadata.json"


def next_metadata_location(metadata: Json, previous_location: str | None) -> str:
    """Where to write `metadata`, numbered one after its predecessor's file, from 0 when there is none."""
    properties = metadata.get("properties") or {}
    name = metadata_file_name(_version_of(previous_location) + 1, gzip=is_gzip(properties))
    folder = properties.get(METADATA_PATH)
    if folder:
        return f"{folder.rstrip('/')}/{name}"
    return f"{metadata['location'].rstrip('/')}/metadata/{name}"


def removed_metadata_files(before: Json, after: Json) -> list[str]:
    """Files that the log of `before` names and that of `after` does not, if the table wants them deleted."""
    if not is_true(after.get("properties") or {}, DELETE_AFTER_COMMIT):
        return []
    kept = {entry["metadata-file"] for entry in after.get("metadata-log") or ()}
    return [e["metadata-file"] for e in before.get("metadata-log") or () if e["metadata-file"] not in kept]


def encode(metadata: Json) -> bytes:
    """The document as it is stored in its file and in the database."""
    return _ENCODER.encode(metadata)


def _version_of(location: str | None) -> int:
    if location is None:
        return -1
    match = _VERSION.match(location.rsplit("/", 1)[-1])
    return int(match[1]) if match else -1
