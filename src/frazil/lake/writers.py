"""The writer of a pipeline: it claims an epoch on a table and commits rounds until another takes over."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from msgspec.structs import replace

from frazil.core.errors import HistoryChanged, InvalidInput, Superseded, Unsupported
from frazil.core.schema import Schema
from frazil.core.stamp import Mark, Position, Stamp, check_pipeline_name, epoch_key, stamp_key, stamp_tag
from frazil.lake.authority import find_stamp, highest_epoch, mirrored
from frazil.lake.catalog import Lake
from frazil.lake.delivery import Patience, StampDelivery, Wanted
from frazil.lake.delta import Deltas
from frazil.lake.files import DataFile
from frazil.lake.java import java_errors
from frazil.lake.table import LakeTable


@dataclass(frozen=True)
class RoundTicket:
    """Leave to write the files of one round."""

    epoch: int
    round: int
    token: str
    #: The home table.
    home: str
    #: What the names of its files begin with, by table: place and directory; `-{task}-…` comes behind.
    prefixes: Mapping[str, str]
    #: The columns that its files are written for, by table.
    schemas: Mapping[str, Schema]
    #: Tables that were left out, with the reason.
    refused: Mapping[str, str] = field(default_factory=dict)

    @property
    def prefix(self) -> str:
        """That of the home table."""
        return self.prefixes[self.home]

    @property
    def schema(self) -> Schema:
        """That of the home table."""
        return self.schemas[self.home]


class PipelineWriter:
    """One epoch of one pipeline on its home table and on those that joined. For one thread at a time.

    A process that dies at any moment loses nothing: the next claim finds in the home table what landed.
    """

    def __init__(self, table: LakeTable, stamp: Stamp, patience: Patience) -> None:
        #: The home table: part of every commit, its stamp is the authority.
        self.table = table
        self._companions: dict[str, LakeTable] = {}
        #: The newest one: where the next round goes on.
        self.stamp = stamp
        self.patience = patience
        self._unsettled: set[str] = set()
        self._refused: dict[str, str] = {}

    @classmethod
    def claim(
        cls,
        lake: Lake,
        table: LakeTable,
        pipeline: str,
        first: Callable[[], tuple[str, dict[str, Position]]],
        config: str,
        patience: Patience | None = None,
    ) -> PipelineWriter:
        """Take over the pipeline: from now on other writers of it stop at their next commit.

        `first` gives source and positions if the pipeline never wrote to the table. HistoryChanged: what it
        wrote is not in the table any more, and somebody must say where to go on.
        """
        begun: list[tuple[str, dict[str, Position]]] = []

        def go_on() -> Stamp:
            found = find_stamp(table, pipeline)
            if found is not None:
                return found
            if not begun:
                begun.append(first())
            source, positions = begun[0]
            return Stamp(pipeline=pipeline, epoch=0, round=0, token="", source=source, positions=positions)

        return cls._claimed(lake, table, pipeline, go_on, config, patience)

    @classmethod
    def reset(
        cls,
        lake: Lake,
        table: LakeTable,
        pipeline: str,
        source: str,
        positions: Mapping[str, Position],
        config: str,
        patience: Patience | None = None,
    ) -> PipelineWriter:
        """Take over the pipeline at other positions, whatever the table's history says; counts begin anew."""
        stamp = Stamp(pipeline=pipeline, epoch=0, round=0, token="", source=source, positions=dict(positions))
        return cls._claimed(lake, table, pipeline, lambda: stamp, config, patience)

    @classmethod
    def _claimed(
        cls,
        lake: Lake,
        table: LakeTable,
        pipeline: str,
        go_on: Callable[[], Stamp],
        config: str,
        patience: Patience | None,
    ) -> PipelineWriter:
        check_pipeline_name(pipeline)
        patience, token = patience or Patience(), _token()

        def prepare() -> Wanted:
            last = go_on()
            epoch = 1 + max(last.epoch, highest_epoch(table, pipeline))
            return Wanted(replace(last, epoch=epoch, round=0, token=token, config=config))

        delivery = StampDelivery(table, patience, "claim", pipeline=pipeline, token=token, prepare=prepare)
        stamp = delivery.run()
        return cls(table, stamp, patience)

    @property
    def snapshot_id(self) -> int:
        """The snapshot of the newest commit, as the table was last loaded."""
        mirror = mirrored(self.table, self.stamp.pipeline)
        assert mirror is not None, "each commit leaves its mirror"
        return mirror.snapshot_id

    @property
    def tables(self) -> Mapping[str, LakeTable]:
        """All that a round may write, by name, the home table first."""
        return {str(self.table): self.table, **self._companions}

    def join(self, table: LakeTable) -> None:
        """Let rounds that begin from now on write `table` too, in the same commit as the home table.

        Unsupported: the catalog cannot do that.
        """
        if table.lake is not self.table.lake:
            raise InvalidInput(f"{table} and {self.table} must be loaded through the same Lake to join")
        if str(table) in self.tables:
            return
        self.table.lake.require_transactions()
        self.check_companion(table)
        self._companions[str(table)] = table

    def folder(self, table: LakeTable) -> str:
        """Where its files in `table` lie.

        In other tables the name also says which home table it is: only that one can tell what landed, and a
        pipeline of the same name may have another.
        """
        own = "" if str(table) == str(self.table) else f".{self.table.uuid[:8]}"
        return f"{table.data_location}/{self.stamp.pipeline}{own}"

    def begin(self, optional: Collection[str] = ()) -> RoundTicket:
        """Start a round on the tables as they are now. Superseded: another writer took over.

        An `optional` table that cannot be written any more is left out, of this round and of later ones.
        """
        for key, table in self.tables.items():
            try:
                if key not in self._refused:
                    self.patience.until_answered(table.refresh)
            except Unsupported as error:
                if key not in optional:
                    raise
                self._refused[key] = error.message
        self._check()
        taken = {key: table for key, table in self.tables.items() if key not in self._refused}
        epoch, number, token = self.stamp.epoch, self.stamp.round + 1, _token()
        name = f"{epoch:06d}/{number:08d}-{token[:8]}"
        return RoundTicket(
            epoch,
            number,
            token,
            str(self.table),
            {key: f"{self.folder(table)}/{name}" for key, table in taken.items()},
            {key: table.schema for key, table in taken.items()},
            dict(self._refused),
        )

    def commit(
        self,
        ticket: RoundTicket,
        files: Mapping[str, Sequence[DataFile] | Deltas],
        *,
        positions: Mapping[str, Position],
        read: int,
        written: int,
        watermark: int | None,
        query: str | None = None,
        batch: int | None = None,
        marks: Mapping[str, tuple[Mark | None, ...]] | None = None,
        floors: Mapping[str, Mark] | None = None,
        incarnation: int | None = None,
    ) -> Stamp:
        """Make the files of a round, by table, part of their tables: of all or of none.

        `Deltas` are asked for what to commit as often as it takes. What is None stays as it was, but for
        the watermark when another `query` begins: of that, it would be a promise. `read` and `written`
        count this round only. Superseded: another writer took over. HistoryChanged: a table was
        rolled back, replaced, made again.
        """
        last = self.stamp
        stamp = replace(
            last,
            round=ticket.round,
            token=ticket.token,
            positions=dict(positions),
            read=last.read + read,
            written=last.written + written,
            watermark=_later(last.watermark if query in (None, last.query) else None, watermark),
            query=last.query if query is None else query,
            batch=last.batch if batch is None else batch,
            marks=last.marks if marks is None else dict(marks),
            floors=last.floors if floors is None else dict(floors),
            incarnation=last.incarnation if incarnation is None else incarnation,
        )
        companions = self._written(ticket, files)

        def prepare() -> Wanted:
            self._check()
            for table in companions:
                self.check_companion(table)
            return Wanted(stamp, files, partial(_check_files, ticket))

        delivery = StampDelivery(
            self.table,
            self.patience,
            "commit",
            companions,
            pipeline=stamp.pipeline,
            token=ticket.token,
            prepare=prepare,
        )
        try:
            self.stamp = delivery.run()
        finally:
            if delivery.unsettled:
                self._unsettled.add(ticket.token)
        if not delivery.doubt:
            for given in files.values():
                if not isinstance(given, Sequence):
                    given.landed()
        return self.stamp

    def discard(self, ticket: RoundTicket) -> None:
        """Remove the files of a round that failed, also those that no task told of.

        Files of a commit that may still land stay; the next claim looks after them.
        """
        if ticket.token in self._unsettled or ticket.token == self.stamp.token:
            return
        for name, prefix in ticket.prefixes.items():
            storage = self.tables[name].storage()
            storage.delete(list(storage.list(prefix)))

    def leave(self, properties: Mapping[str, str] | None = None) -> None:
        """Nobody will go on from here: take away what makes expiry keep the history for this pipeline.

        `properties`: what the table shall say instead.
        """
        pipeline, tag = self.stamp.pipeline, stamp_tag(self.stamp.pipeline)
        opened = self.patience.until_answered(self.table.transaction)
        with java_errors(f"taking the stamp of {pipeline} off the table {self.table}"):
            if self.table.ref(tag) is not None:
                opened.manageSnapshots().removeTag(tag).commit()
            change = opened.updateProperties().remove(stamp_key(pipeline))
            change.set(epoch_key(pipeline), str(max(self.stamp.epoch, highest_epoch(self.table, pipeline))))
            for key, value in (properties or {}).items():
                change.set(key, value)
            change.commit()
            opened.commitTransaction()

    def _written(
        self, ticket: RoundTicket, files: Mapping[str, Sequence[DataFile] | Deltas]
    ) -> list[LakeTable]:
        """The companions that get files."""
        names = [name for name, given in files.items() if not isinstance(given, Sequence) or given]
        strange = sorted(set(names) - set(ticket.prefixes))
        if strange:
            raise InvalidInput(
                f"files for {', '.join(strange)}, which the round did not begin with; it began with "
                f"{', '.join(ticket.prefixes)}. Join tables before `begin`"
            )
        return [self._companions[name] for name in names if name != ticket.home]

    def check_companion(self, table: LakeTable) -> None:
        """Unsupported: what it says about the pipeline would be taken for what a home table says."""
        if mirrored(table, self.stamp.pipeline) is not None:
            raise Unsupported(
                f"the table {table} is the home table of another pipeline '{self.stamp.pipeline}', so this "
                f"one, with the home table {self.table}, cannot write it: give one of them another name"
            )

    def _check(self) -> None:
        """Our own newest stamp must be the authority still."""
        own = self.stamp
        # The property first: it tells of a newer writer even where a rollback took its commits away.
        mirror = mirrored(self.table, own.pipeline)
        newest = mirror.stamp.epoch if mirror is not None else 0
        found = None if newest > own.epoch else find_stamp(self.table, own.pipeline)
        newest = max(newest, found.epoch if found is not None else 0)
        if newest > own.epoch:
            raise Superseded(
                f"another writer took over pipeline {own.pipeline} on the table {self.table} (epoch "
                f"{newest}, this one has {own.epoch}): this one stops. Run one copy of a pipeline"
            )
        if found is None or found.token != own.token:
            where = "none of its commits" if found is None else f"epoch {found.epoch}, round {found.round}"
            raise HistoryChanged(
                f"the last commit of pipeline {own.pipeline} (epoch {own.epoch}, round {own.round}) is not "
                f"in the history of the table {self.table} any more, which ends at {where}: it was rolled "
                "back or replaced",
                "Start the pipeline again to go on from there",
            )


def _check_files(ticket: RoundTicket, table: LakeTable, files: Sequence[DataFile]) -> None:
    """Files were written for the table as it was when the round began."""
    given = {field.id for field in ticket.schemas[str(table)] if field.required}
    missing = [field.name for field in table.schema if field.required and field.id not in given]
    if missing:
        raise Unsupported(
            f"the table {table} got required columns during the round, for which its files may have no "
            f"value: {', '.join(missing)}. Make them optional, or give these columns to the pipeline"
        )
    gone = {file.spec_id for file in files} - table.spec_ids()
    if gone:
        raise Unsupported(
            f"the table {table} lost the partition spec {min(gone)} during the round, which its files "
            "have; run the round again"
        )


def _later(one: int | None, other: int | None) -> int | None:
    return max((time for time in (one, other) if time is not None), default=None)


def _token() -> str:
    return secrets.token_hex(16)
