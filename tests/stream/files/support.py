"""A pipeline without Spark and catalog: plan, read as a task does, commit into memory."""

from __future__ import annotations

import os
import pickle
import time
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from frazil.core.stamp import Stamp
from frazil.devstack.seaweed import ObjectStore
from frazil.stream.config.model import FileSource, Format, JsonFormat, Limits
from frazil.stream.files.feed import FileFeed
from frazil.stream.rounds import RoundPlan
from frazil.stream.source import RawBatch, Slice

LEDGER = (("raw",), "orders_files")
LIMITS = Limits()


def put(folder: Path, name: str, data: bytes | str, age: float = 60.0) -> Path:
    """A file whose last change is `age` seconds ago."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    moment = time.time() - age
    os.utime(path, (moment, moment))
    return path


def bucket_source(store: ObjectStore, location: str, **more: str) -> FileSource:
    settings = {
        "s3.endpoint": store.endpoint,
        "s3.region": store.region,
        "s3.access-key-id": store.admin.access,
        "s3.secret-access-key": store.admin.secret,
        "s3.path-style-access": "true",
    }
    return FileSource(location, settings=settings | more)


@dataclass
class Pipeline:
    """What is committed: values by path, the ledger, and the stamp, all at once or not at all."""

    source: FileSource
    format: Format = field(default_factory=JsonFormat)
    limits: Limits = LIMITS
    parallelism: int = 2

    def __post_init__(self) -> None:
        self.ledger: list[pa.Table] = []
        self.rows: list[tuple[str, bytes]] = []
        self.reads = 0
        self.feed = self.new_feed()
        identity, positions = self.feed.first()
        self.stamp = Stamp(
            pipeline="orders", epoch=1, round=0, token="t", source=identity, positions=positions
        )

    def new_feed(self) -> FileFeed:
        def read() -> list[pa.Table]:
            self.reads += 1
            return self.ledger

        return FileFeed(self.source, self.format, LEDGER, read)

    def restart(self) -> None:
        """Another process: all that is known is what was committed."""
        self.feed = self.new_feed()
        self.stamp = replace_stamp(self.stamp, epoch=self.stamp.epoch + 1, round=0)

    def plan(self) -> RoundPlan:
        return self.feed.plan(self.stamp, self.limits, self.parallelism)

    def read(self, plan: RoundPlan) -> list[RawBatch]:
        reader = pickle.loads(pickle.dumps(self.feed.reader(self.stamp)))
        return [batch for task in plan.tasks for batch in reader.read(task)]

    def commit(self, plan: RoundPlan, batches: list[RawBatch]) -> None:
        self.rows += [(batch.topic, value) for batch in batches for value in batch.values.to_pylist()]
        self.ledger += self.feed.ledger(plan).values()
        self.stamp = replace_stamp(self.stamp, round=self.stamp.round + 1, positions=plan.positions)
        self.feed.landed(plan)

    def round(self) -> list[str]:
        """The paths that were read, behind the location."""
        plan = self.plan()
        if plan.tasks:
            self.commit(plan, self.read(plan))
        return sorted(self.behind(part.topic) for task in plan.tasks for part in task)

    def behind(self, path: str) -> str:
        return path.removeprefix(self.source.location + "/")

    def values(self) -> list[bytes]:
        return sorted(value for _, value in self.rows)


def replace_stamp(stamp: Stamp, **changes: object) -> Stamp:
    import msgspec

    return msgspec.structs.replace(stamp, **changes)


def whole(path: Path, version: str = "") -> Slice:
    """The slice that is the whole file."""
    from frazil.stream.files.local import version_of

    found = path.stat()
    return Slice(str(path), 0, 0, found.st_size, version or version_of(found))
