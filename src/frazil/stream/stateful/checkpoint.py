"""The checkpoint of a stateful query: what Structured Streaming keeps, read in its own published layout.

The state in it and the stamp in the table belong together. A query goes on only where they agree.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from frazil.core.errors import HistoryChanged, StorageError
from frazil.core.stamp import Position, Stamp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

_OFFSETS, _COMMITS = "offsets", "commits"
_VERSION = "v1"


class Offset(msgspec.Struct, frozen=True):
    """A place in the source, as Structured Streaming keeps it."""

    source: str
    positions: dict[str, Position]

    def encode(self) -> dict[str, Any]:
        """The same place gives the same JSON: Spark compares the text."""
        builtin: dict[str, Any] = msgspec.to_builtins(self)
        return builtin | {"positions": dict(sorted(builtin["positions"].items()))}

    @classmethod
    def decode(cls, found: Any) -> Offset:
        return msgspec.convert(found, cls)

    @classmethod
    def of(cls, stamp: Stamp) -> Offset:
        return cls(stamp.source, stamp.positions)

    def stamp(self, like: Stamp) -> Stamp:
        """What a feed is asked with to go on from here."""
        return replace(like, source=self.source, positions=self.positions)


def least(offsets: Sequence[Offset]) -> Offset:
    """What all readers of the source have taken: where `source` stands twice, each side reads for itself."""
    return _joined(offsets, min)


def most(offsets: Sequence[Offset]) -> Offset:
    """What any reader of the source has taken."""
    return _joined(offsets, max)


def _joined(offsets: Sequence[Offset], choose: Any) -> Offset:
    first = offsets[0]
    topics = {name: position for offset in offsets for name, position in offset.positions.items()}
    positions = {}
    for name, position in topics.items():
        found = [offset.positions[name].next if name in offset.positions else () for offset in offsets]
        count = max(map(len, found))
        padded = [(*next_, *(0,) * (count - len(next_))) for next_ in found]
        positions[name] = Position(id=position.id, next=tuple(map(choose, *padded, padded[0])))
    return Offset(first.source, positions)


@dataclass(frozen=True)
class LoggedBatch:
    """What was written down before the batch ran."""

    #: Its end, for each reader of the source.
    ends: tuple[Offset, ...]
    #: With which it runs: rows at or below it are late; milliseconds since 1970, 0 before there is one.
    watermark_ms: int


class First(msgspec.Struct, frozen=True):
    """Whose checkpoint it is, and where its first batch begins."""

    pipeline: str
    begin: Offset


class Checkpoint:
    """A folder, on any file system that Spark's Hadoop knows."""

    def __init__(self, spark: SparkSession, location: str) -> None:
        self.location = location
        jvm = spark.sparkContext._jvm  # noqa: SLF001
        assert jvm is not None, "a running session has a JVM"
        self._jvm = jvm
        configuration = spark._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001
        self._files = self._path("").getFileSystem(configuration)

    def query(self) -> str | None:
        """The id that Spark gave to the query; None: it never started."""
        text = self._read("metadata")
        return None if text is None else str(msgspec.json.decode(text)["id"])

    def newest(self) -> int | None:
        """The last batch that was planned."""
        return self._highest(_OFFSETS)

    def committed(self) -> int | None:
        """The last batch that ended."""
        return self._highest(_COMMITS)

    def batch(self, number: int) -> LoggedBatch | None:
        text = self._read(f"{_OFFSETS}/{number}")
        if text is None:
            return None
        version, settings, *offsets = text.splitlines()
        if version != _VERSION:
            raise HistoryChanged(
                f"the checkpoint {self.location} is of version {version}, this frazil reads {_VERSION}: set "
                "spark.sql.streaming.offsetLog.formatVersion back to 1, or upgrade frazil"
            )
        ends = tuple(Offset.decode(msgspec.json.decode(line)) for line in offsets)
        return LoggedBatch(ends, msgspec.json.decode(settings)["batchWatermarkMs"])

    def first(self) -> First | None:
        text = self._read("frazil")
        return None if text is None else msgspec.json.decode(text, type=First)

    def begin(self, first: First) -> None:
        """Note where the first batch begins: it may have to be run again when the stamp is beyond it."""
        part, path = self._path("frazil.part"), self._path("frazil")
        out = self._files.create(part, True)
        try:
            out.write(bytearray(msgspec.json.encode(first)))
        finally:
            out.close()
        self._files.delete(path, False)
        if not self._files.rename(part, path):
            raise StorageError(f"the checkpoint {self.location} cannot be written")

    def _highest(self, folder: str) -> int | None:
        path = self._path(folder)
        if not self._files.exists(path):
            return None
        names = [status.getPath().getName() for status in self._files.listStatus(path)]
        return max((int(name) for name in names if name.isdigit()), default=None)

    def _read(self, name: str) -> str | None:
        path = self._path(name)
        if not self._files.exists(path):
            return None
        stream = self._files.open(path)
        try:
            data = self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream)
        finally:
            stream.close()
        return bytes(data).decode()

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self.location}/{name}" if name else self.location)


def require_agreement(checkpoint: Checkpoint, stamp: Stamp) -> None:
    """HistoryChanged unless the checkpoint is the one of this stamp, neither older nor newer."""
    first = checkpoint.first()
    if first is not None and first.pipeline != stamp.pipeline:
        raise HistoryChanged(
            f"the checkpoint {checkpoint.location} is that of pipeline '{first.pipeline}': give pipeline "
            f"'{stamp.pipeline}' a folder of its own"
        )
    newest, committed = checkpoint.newest(), checkpoint.committed()
    if stamp.query is None:
        moved = newest is not None and (first is None or first.begin != Offset.of(stamp))
        if committed is not None or moved:
            raise _apart(checkpoint, stamp, "the table has nothing of the query that the checkpoint is of")
        return
    if checkpoint.query() is None or first is None:
        raise _apart(checkpoint, stamp, "the checkpoint is not there, or not whole")
    if checkpoint.query() != stamp.query:
        raise _apart(checkpoint, stamp, "the checkpoint is that of another query")
    assert stamp.batch is not None, "a query is stamped with its batch"
    logged = checkpoint.batch(stamp.batch)
    if logged is None or least(logged.ends) != Offset.of(stamp):
        raise _apart(checkpoint, stamp, f"the checkpoint does not have the batch {stamp.batch} of the table")
    if committed is not None and committed > stamp.batch:
        found = f"the checkpoint is at batch {committed}, the table at {stamp.batch}: it was rolled back"
        raise _apart(checkpoint, stamp, found)


def _apart(checkpoint: Checkpoint, stamp: Stamp, found: str) -> HistoryChanged:
    return HistoryChanged(
        f"pipeline {stamp.pipeline}: {found} ({checkpoint.location}). Without the state that belongs to the "
        "table, rows would be wrong or missing, so nothing was written. Bring that checkpoint back; or "
        "start from history: give `stateful.checkpoint` a new folder and the pipeline a new (or emptied) "
        "table, and name under `source.history` a table that has the records which the topic lost. If it "
        f"keeps its table, then `frazil reset pipelines.yaml {stamp.pipeline} --to-history`, or --to-offsets "
        "earliest to build the state from what the topic still has"
    )
