"""The place of a source, by its location."""

from __future__ import annotations

from collections.abc import Mapping

from frazil.core.errors import InvalidConfig
from frazil.stream.files.found import Place
from frazil.stream.files.local import LocalFolder
from frazil.stream.files.s3 import Bucket, complete_settings

_BUCKETS = ("s3://", "s3a://", "s3n://")


def place_of(location: str, settings: Mapping[str, str]) -> Place:
    """Nothing is contacted yet. InvalidConfig: a location that is none, or a wrong setting."""
    if location.startswith(_BUCKETS):
        return Bucket(location, settings)
    if location.startswith(("/", "file:")):
        return LocalFolder(location)
    raise InvalidConfig(
        f"'{location}' is no place to take files from: use an absolute path, file:///folder or s3://bucket/prefix"
    )


def settings_of(location: str, settings: Mapping[str, str]) -> dict[str, str]:
    """What tasks need to open the place wherever they run."""
    return complete_settings(settings) if location.startswith(_BUCKETS) else {}
