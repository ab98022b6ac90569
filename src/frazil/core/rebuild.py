"""What a rebuild leaves behind: a word in the summary of its snapshot, and in a property of the table."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, Self

import msgspec

from frazil.core.stamp import Stamp, stamp_key

#: In the summary of the snapshot that swapped a rebuild in.
REBUILD = "frazil.rebuild"
_SUFFIX = "_rebuild"
_LONGEST_NAME = 63


class Record(msgspec.Struct, frozen=True):
    """One rebuild that landed."""

    pipeline: str
    #: Rows of the table after it.
    rows: int
    #: Records that were read for it.
    read: int
    #: The pipeline's stamp up to which it goes, and the rows that its rounds had written by then.
    epoch: int
    round: int
    written: int
    #: The configuration that it was made with.
    config: str

    @classmethod
    def of(cls, stamp: Stamp, config: str, read: int, rows: int) -> Self:
        return cls(stamp.pipeline, rows, read, stamp.epoch, stamp.round, stamp.written, config)

    def encode(self) -> str:
        """Compact JSON."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def decode(cls, text: str | None) -> Self | None:
        """None where there is none, or none that this version can read."""
        try:
            return None if text is None else msgspec.json.decode(text, type=cls)
        except msgspec.MsgspecError:
            return None


def record_key(pipeline: str) -> str:
    """The table property with the newest one: it outlives the snapshot."""
    return f"{REBUILD}.{pipeline}"


def recorded(metadata: Mapping[str, Any], pipeline: str) -> Record | None:
    """The newest rebuild that the table's property tells of."""
    return Record.decode((metadata.get("properties") or {}).get(record_key(pipeline)))


def rebuilds_in(summaries: Iterable[Mapping[str, str]]) -> set[str]:
    """Names of writers that are rebuilds, of pipelines whose stamps are there.

    Such a stamp tells how far a rebuild has come, not what the table has; a claim's is at the beginning.
    """
    prefix = stamp_key("")
    names = {key.removeprefix(prefix) for summary in summaries for key in summary if key.startswith(prefix)}
    return {name_of_rebuild(name) for name in names}


def name_of_rebuild(pipeline: str) -> str:
    """Its writer is another than the pipeline's own, which goes on meanwhile. As long as a name may be."""
    if len(pipeline) + len(_SUFFIX) <= _LONGEST_NAME:
        return pipeline + _SUFFIX
    mark = hashlib.sha256(pipeline.encode()).hexdigest()[:8]
    return f"{pipeline[: _LONGEST_NAME - len(_SUFFIX) - len(mark) - 1]}-{mark}{_SUFFIX}"
