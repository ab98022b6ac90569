"""Files as a source: the driver's side."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import pyarrow as pa

from frazil.core.errors import InvalidConfig, SourceChanged
from frazil.core.names import show
from frazil.core.schema import Schema
from frazil.core.stamp import Position, Stamp
from frazil.stream.config.model import FileSource, Format, JsonFormat, Limits, ProtobufFormat
from frazil.stream.files.found import FoundFile
from frazil.stream.files.ledger import ReadLedger, ledger_rows, load_taken
from frazil.stream.files.local import SETTLE_SECONDS
from frazil.stream.files.names import matcher
from frazil.stream.files.place import place_of, settings_of
from frazil.stream.files.plan import chosen, slices_of, tasks_of
from frazil.stream.files.reader import FileReader, compression_of
from frazil.stream.files.taken import Taken, file_key
from frazil.stream.rounds import RoundPlan
from frazil.stream.source import Goal, Slice

#: The name of the one stream in stamps.
STREAM = "files"


@dataclass(frozen=True)
class FilePlan(RoundPlan):
    #: New files that are not in this round, those among them that somebody still writes to.
    left: tuple[FoundFile, ...] = ()


class FileFeed:
    """A `Feed` over the files of a folder or bucket. The stamp says how many were taken, the ledger which.

    Positions are (files taken,) or (files taken, milliseconds since 1970 before which files do not count).
    """

    def __init__(
        self,
        source: FileSource,
        format: Format,  # noqa: A002 - the settings' word
        ledger_table: tuple[tuple[str, ...], str],
        read_ledger: ReadLedger,
        *,
        split: bool = False,
    ) -> None:
        """`split`: large files are read in parts, where nobody wants the number of each line."""
        if isinstance(format, ProtobufFormat):
            raise InvalidConfig("files cannot hold protobuf records: use json, csv, avro, parquet or raw")
        # With or without a slash at the end it is the same place.
        source = replace(source, location=source.location.rstrip("/"))
        settings = settings_of(source.location, source.settings)
        self._source = source
        self._place = place_of(source.location, settings)
        self._matches = matcher(source.pattern)
        self._reader = FileReader(source.location, settings, format)
        self._split = split and isinstance(format, JsonFormat)
        self._ledger_name = show(*ledger_table)
        self._read_ledger = read_ledger
        self._taken: Taken | None = None
        self._epoch = -1
        self._stamp: Stamp | None = None
        #: Of the last plan, by path.
        self._planned: dict[str, FoundFile] = {}

    def first(self) -> tuple[str, dict[str, Position]]:
        return self._identity, {STREAM: Position(id=self._source.location, next=(0, *self._since()))}

    def schema(self) -> Schema | None:
        """Also of files that have columns none: the next one may have others, and a table has to last."""
        return None

    def goal(self) -> Goal:
        """Files that somebody is still writing to are not part of it."""
        found = self._list()
        if self._unsettled(found):
            time.sleep(SETTLE_SECONDS)
            found = self._list()
            being_written = set(self._unsettled(found))
            found = [file for file in found if file not in being_written]
        wanted = {file_key(file.path, file.version) for file in found}

        def reached(stamp: Stamp, plan: RoundPlan) -> bool:
            assert isinstance(plan, FilePlan), "a goal is for plans of its own feed"
            return not any(file_key(file.path, file.version) in wanted for file in plan.left)

        return reached

    def plan(self, stamp: Stamp, limits: Limits, parallelism: int) -> RoundPlan:
        position = self._position(stamp)
        self._load(stamp, position.next[0])
        new = self._new(position)
        unsettled = set(self._unsettled(new))
        if new and len(unsettled) == len(new):
            time.sleep(SETTLE_SECONDS)
            new = self._new(position)
            unsettled = set(self._unsettled(new))
        ready = [file for file in new if file not in unsettled]
        files = chosen(ready, limits)
        self._stamp = stamp
        self._planned = {file.path: file for file in files}
        slices = [part for file in files for part in self.slices(file)]
        moved = Position(id=position.id, next=(position.next[0] + len(files), *position.next[1:]))
        tasks = tasks_of(slices, parallelism) if slices else ()
        return FilePlan(
            tasks,
            stamp.positions | {STREAM: moved},
            len(files),
            {STREAM: (len(ready) - len(files),)},
            tuple(file for file in new if file.path not in self._planned),
        )

    def slices(self, file: FoundFile) -> list[Slice]:
        """The parts in which it is read."""
        return slices_of(file, split=self._may_split(file))

    def versions(self) -> set[tuple[str, str]]:
        """Path and version of all files that are there."""
        return {(file.path, file.version) for file in self._list()}

    def confirm(self, stamp: Stamp, plan: RoundPlan) -> None:
        """Each read has made sure that it was of the version that was planned."""

    def reader(self, stamp: Stamp) -> FileReader:
        return self._reader

    def landed(self, plan: RoundPlan) -> None:
        assert self._taken is not None, "a plan comes first"
        self._taken.add([(file.path, file.version) for file in self._files(plan)])

    def ledger(self, plan: RoundPlan) -> Mapping[str, pa.Table]:
        assert self._stamp is not None, "a plan comes first"
        files = self._files(plan)
        first = plan.positions[STREAM].next[0] - len(files)
        return {self._ledger_name: ledger_rows(self._stamp, first, files)} if files else {}

    @property
    def _identity(self) -> str:
        return f"files:{self._source.location}"

    def _files(self, plan: RoundPlan) -> list[FoundFile]:
        paths = {part.topic for task in plan.tasks for part in task}
        return [file for path, file in self._planned.items() if path in paths]

    def _since(self) -> tuple[int, ...]:
        """Whole seconds, as stores count: better a file too many than one that is never taken."""
        match self._source.start.at:
            case "earliest":
                return ()
            case "latest":
                return (int(time.time()) * 1000,)
            case datetime() as moment:
                return (int(moment.timestamp()) * 1000,)
        raise InvalidConfig("files have no offsets to start at: let `start` be earliest, latest or a time")

    def _position(self, stamp: Stamp) -> Position:
        found = stamp.positions.get(STREAM)
        if stamp.source != self._identity or found is None:
            raise SourceChanged(
                f"pipeline {stamp.pipeline}: it read {stamp.source}, and this is {self._identity}. Nothing "
                "was written; put the location back, or give the pipeline another name"
            )
        return found

    def _load(self, stamp: Stamp, count: int) -> None:
        """The ledger is read again whenever what is remembered is not surely of this stamp."""
        if self._taken is None or len(self._taken) != count or self._epoch != stamp.epoch:
            self._taken = load_taken(self._read_ledger, stamp, count, self._ledger_name)
            self._epoch = stamp.epoch

    def _list(self) -> list[FoundFile]:
        behind = len(self._source.location) + 1
        return [file for file in self._place.list() if self._matches(file.path[behind:])]

    def _unsettled(self, files: Sequence[FoundFile]) -> list[FoundFile]:
        now = time.time()
        return [file for file in files if not self._place.is_settled(file, now)]

    def _new(self, position: Position) -> list[FoundFile]:
        assert self._taken is not None, "the ledger is loaded first"
        since = position.next[1] * 1000 if len(position.next) > 1 else None
        found = [file for file in self._list() if since is None or file.modified >= since]
        known = self._taken.has_versions([file_key(file.path, file.version) for file in found])
        new = [file for file, taken in zip(found, known, strict=True) if not taken]
        if self._source.overwritten == "read":
            return new
        other = self._taken.has_paths([file.path for file in new])
        overwritten = [file for file, taken in zip(new, other, strict=True) if taken]
        if overwritten and self._source.overwritten == "stop":
            raise SourceChanged(
                f"the file {overwritten[0].path} was taken and has been overwritten since, as have "
                f"{len(overwritten) - 1} others. Nothing was written. Let `overwritten` be read (its rows "
                "are then read again, besides those that are in the table) or skip"
            )
        return [file for file, taken in zip(new, other, strict=True) if not taken]

    def _may_split(self, file: FoundFile) -> bool:
        return self._split and compression_of(file.path) is None
