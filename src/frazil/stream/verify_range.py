"""Which part of a pipeline's work can be compared with its log: from one of its commits to the newest."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from frazil.core.correction import Correction
from frazil.core.stamp import Stamp, stamp_key
from frazil.lake.authority import MetadataHistory, SnapshotView, ancestry
from frazil.lake.scan import LiveFile
from frazil.stream.bootstrap.place import of_log, pending
from frazil.stream.kafka.log import LogView
from frazil.stream.source import Slice

_STAMPS = stamp_key("")
#: What changes rows that are there.
_REWRITES = ("overwrite", "delete", "replace")


@dataclass(frozen=True)
class Commit:
    """A snapshot with the pipeline's stamp."""

    view: SnapshotView
    stamp: Stamp

    @property
    def added(self) -> int:
        return int(self.view.summary.get("added-records", 0))


@dataclass(frozen=True)
class Span:
    """From `base` (what it had read is not looked at) to the newest commit."""

    base: Commit
    #: Newest first, `base` not among them.
    commits: tuple[Commit, ...]
    newest: Stamp
    #: `base` is where the pipeline began, or where it was reset.
    complete: bool
    #: Snapshots after `base` that are not the pipeline's, newest first.
    others: tuple[SnapshotView, ...] = ()

    @property
    def read(self) -> int:
        return self.newest.read - self.base.stamp.read

    @property
    def written(self) -> int:
        return self.newest.written - self.base.stamp.written

    @property
    def added(self) -> int:
        return sum(commit.added for commit in self.commits)

    @property
    def alone(self) -> bool:
        """Every row of the table should be one of this span."""
        # A claim, such as that of a rebuild which only compared, brings no rows.
        bringing = (view for view in self.others if int(view.summary.get("added-records", 0)))
        shared = any(key.startswith(_STAMPS) for view in bringing for key in view.summary)
        return self.complete and not shared and not int(self.base.view.summary.get("total-records", 0))

    @property
    def rewritten(self) -> bool:
        """Others changed rows, so that files do not tell any more who wrote their rows."""
        return any(view.summary.get("operation") in _REWRITES for view in self.others)

    @property
    def corrections(self) -> tuple[str, ...]:
        """Those that are among the others: the table has rows that the log does not have, on purpose."""
        told = (Correction.told(view.summary) for view in self.others)
        return tuple(found.id for found in told if found is not None)

    def files(self, pipeline: str, live: Sequence[LiveFile]) -> list[LiveFile]:
        """Those of the table that hold the rows of this span."""
        if self.alone:
            return list(live)
        name = re.compile(rf"/{re.escape(pipeline)}/(\d+)/(\d+)-[^/]*$")
        after = (self.base.stamp.epoch, self.base.stamp.round)
        found = []
        for file in live:
            match = name.search(file.path)
            if match is not None and (int(match[1]), int(match[2])) > after:
                found.append(file)
        return found

    def slices(self) -> list[Slice]:
        """What was read of the log."""
        return [
            Slice(topic, partition, first, end)
            for topic, position in sorted(of_log(self.newest.positions).items())
            for partition, end in enumerate(position.next)
            if (first := _first(self.base.stamp, topic, partition)) < end
        ]


def _first(stamp: Stamp, topic: str, partition: int) -> int:
    position = stamp.positions.get(topic)
    return position.next[partition] if position is not None and partition < len(position.next) else 0


@dataclass(frozen=True)
class Spans:
    """The widest one that history tells, and the widest one of it that the log still holds."""

    told: Span
    held: Span | None
    #: Offsets of `told` that the log does not have any more, by topic and partition.
    trimmed: Mapping[tuple[str, int], int] = field(default_factory=dict)


def find_spans(metadata: Mapping[str, Any], pipeline: str, log: LogView | None) -> Spans | None:
    """None: no commit of the pipeline that read a log is left in the history of main."""
    chain = list(ancestry(MetadataHistory(metadata)))
    commits = _commits(chain, pipeline)
    if not commits:
        return None
    own = {commit.view.id for commit in commits}
    found: list[Span] = []
    for number, base in enumerate(commits):
        if pending(base.stamp.positions) is not None:
            # What came from a history is in no log.
            break
        above = chain[: chain.index(base.view)]
        others = tuple(view for view in above if view.id not in own)
        span = Span(base, tuple(commits[:number]), commits[0].stamp, _begins(base.stamp), others)
        found.append(span)
        if span.complete:
            break
    if not found:
        return None
    told = found[-1]
    if log is None:
        return Spans(told, None)
    held = next((span for span in reversed(found) if not _trimmed(span, log)), None)
    return Spans(told, held, _trimmed(told, log))


def _commits(chain: Sequence[SnapshotView], pipeline: str) -> list[Commit]:
    """Newest first. A stamp that others carry on belongs to the snapshot that brought it."""
    key, found = stamp_key(pipeline), dict[str, Commit]()
    for view in chain:
        if key in view.summary:
            stamp = Stamp.decode(view.summary[key])
            found[stamp.token] = Commit(view, stamp)
    return list(found.values())


def _begins(stamp: Stamp) -> bool:
    """A first claim, or a reset; a claim before anything was read does as well."""
    return (stamp.round, stamp.read, stamp.written) == (0, 0, 0)


def _trimmed(span: Span, log: LogView) -> dict[tuple[str, int], int]:
    found = {}
    for part in span.slices():
        first = log.beginnings[part.topic][part.partition]
        if part.start < first:
            found[part.topic, part.partition] = min(first, part.end) - part.start
    return found
