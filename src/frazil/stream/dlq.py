"""Dead letters: which there are, and how they are put back, each once.

A letter that was put back has a mark in the same table: a row with its position and time whose stage is
`replayed`. Mark and row land in one commit, whose home is the dead-letter table; the pipeline itself runs on.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from frazil.client.naming import written
from frazil.core.errors import BadRecord, FrazilError, InvalidConfig, NotFound, Unsupported
from frazil.core.names import show
from frazil.core.stamp import Position
from frazil.lake.delivery import Patience
from frazil.lake.session import use_catalog
from frazil.stream.columns import with_columns
from frazil.stream.config.model import (
    CatalogConfig,
    CsvFormat,
    DeadLetters,
    FileSource,
    ParquetFormat,
    PipelineConfig,
)
from frazil.stream.dead_letters import REPLAYED
from frazil.stream.decode.decoded import Undecodable
from frazil.stream.decode.formats import decoder_of
from frazil.stream.decoding import Reading, decoded
from frazil.stream.dlq_batches import IDENTITY, POSITION, identities, marks_of, raw_batches, within
from frazil.stream.feeds import feed_of
from frazil.stream.jobs import JobResult, Jobs, decoded_format, rows_schema
from frazil.stream.needs import Lacking
from frazil.stream.outlets import TableOutlet, TableWriting
from frazil.stream.rounds import RoundPlan
from frazil.stream.sinks.iceberg import IcebergSink
from frazil.stream.sinks.sink import Turn
from frazil.stream.source import RawBatch, Slice

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from frazil.lake.catalog import Lake

#: Letters of one commit.
_AT_ONCE = 20_000
#: Bytes of their values, but for one that has more.
_BYTES_AT_ONCE = 256 * 1024**2
#: What runs of one round may lack, one after the other: the tables of routed rows, then nothing.
_ADAPTATIONS = 5
_CATALOG = "frazil_dlq"
_ANY_SIZE = 2**31
_logger = logging.getLogger(__name__)
_LETTERS = "letters"
_SUFFIX = "_replay"
_LONGEST_NAME = 63


@dataclass(frozen=True)
class Choice:
    """Which letters; what is None does not count."""

    fault: str | None = None
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None

    def condition(self) -> str:
        """As SQL; values are checked or quoted."""
        parts = []
        for name in ("fault", "topic"):
            value = getattr(self, name)
            if value is not None:
                quoted = value.replace("\\", "\\\\").replace("'", "\\'")
                parts.append(f"{name} = '{quoted}'")
        for name in ("partition", "offset"):
            value = getattr(self, name)
            if value is not None:
                parts.append(f"`{name}` = {int(value)}")
        return " AND ".join(parts) or "true"


@dataclass(frozen=True)
class StillBad:
    """A letter that could not be put back."""

    topic: str
    partition: int
    offset: int
    reason: str


@dataclass(frozen=True)
class Replayed:
    """What a replay did."""

    rows: int = 0
    letters: int = 0
    still_bad: tuple[StillBad, ...] = field(default_factory=tuple)


def where_letters_go(config: PipelineConfig) -> DeadLetters:
    if config.dead_letters is None:
        raise InvalidConfig(
            f"pipeline '{config.name}' has no dead-letter table: its 'dead_letters' is stop, or it writes a "
            "dataset"
        )
    return config.dead_letters


def waiting(spark: SparkSession, lake: Lake, config: PipelineConfig, choice: Choice) -> DataFrame:
    """The chosen letters of the pipeline that were not put back, in the order of their positions."""
    place = where_letters_go(config)
    use_catalog(spark, _CATALOG, lake.client)
    name = ".".join(f"`{part.replace('`', '``')}`" for part in (_CATALOG, *place.namespace, place.name))
    if not lake.client.tables.exists(place.namespace, place.name):
        raise NotFound(
            f"there is no table {written(*place.namespace, place.name)}: pipeline '{config.name}' had no bad "
            "record yet"
        )
    every = spark.table(name).where(f"pipeline = '{config.name}'")
    marks = every.where(f"stage = '{REPLAYED}'").select(*IDENTITY)
    letters = every.where(f"stage <> '{REPLAYED}'").where(choice.condition())
    return letters.join(marks, list(IDENTITY), "left_anti").orderBy(*IDENTITY)


def replay(
    config: PipelineConfig,
    spark: SparkSession,
    lake: Lake,
    choice: Choice,
    repair: Callable[[bytes], bytes] | None = None,
    say: Callable[[str], None] = lambda _: None,
    *,
    catalog_name: str = CatalogConfig.name,
) -> Replayed:
    """Put letters back whose values can be decoded now, or after `repair`; the others stay.

    `catalog_name`: what the transform calls the catalog.

    A replay that dies has put back what it told of, and nothing twice; one that runs beside another ends it.
    """
    if config.changes is not None:
        raise Unsupported(
            f"pipeline '{config.name}' takes changes, whose order counts: a letter put back now could "
            "undo a later change. Take a new snapshot of the rows at the source instead"
        )
    return _Replay(config, spark.newSession(), lake, choice, repair, catalog_name).run(say)


class _Replay:
    def __init__(
        self,
        config: PipelineConfig,
        spark: SparkSession,
        lake: Lake,
        choice: Choice,
        repair: Callable[[bytes], bytes] | None,
        catalog_name: str,
    ) -> None:
        self._spark = spark
        self._lake = lake
        self._choice = choice
        self._repair = repair
        self._place = where_letters_go(config)
        self._headed = isinstance(config.source, FileSource) and isinstance(config.format, CsvFormat)
        _require_replayable(config)
        # Nothing else of the source is needed, which may be gone.
        if not config.schema.fields:
            config = with_columns(config, feed_of(config, lake), lake)
        self._config = config
        # Another writer than the pipeline's own, which may run at the same time.
        named = replace(config, name=name_of_replay(config.name))
        if config.transform is not None:
            use_catalog(spark, catalog_name, lake.client)
        self._sink = IcebergSink(named, spark, lake, rows_schema(spark, config), beside_letters=True)
        # Who puts back a record that was too large wants it.
        limits = replace(config.limits, bytes_per_record=_ANY_SIZE)
        self._jobs = Jobs(spark, replace(replace_evolve(named), dead_letters=None, limits=limits))
        self._hopeless: dict[str, StillBad] = {}

    def run(self, say: Callable[[str], None]) -> Replayed:
        first = (f"letters:{self._sink.home.uuid}", {_LETTERS: Position(id=self._sink.home.uuid, next=(0,))})
        before = self._sink.before()
        if before is not None and _LETTERS not in before.positions:
            raise InvalidConfig(
                f"there is a pipeline '{before.pipeline}' with the same dead-letter table, and the replay of "
                f"'{self._config.name}' would be called so: give one of them another name"
            )
        self._sink.claim(lambda: first, Patience())
        try:
            # After the claim: no other replay can put back what is read from here on.
            return self._put_back(say)
        finally:
            # What was put back is told by the marks: the table's history need not be kept for the stamp.
            try:
                self._sink.writer.leave()
            except FrazilError as error:
                _logger.warning("the stamp of a replay stays: %s", error.message)

    def _put_back(self, say: Callable[[str], None]) -> Replayed:
        done = Replayed()
        while True:
            letters = self._next()
            if not len(letters):
                return replace(done, still_bad=tuple(self._hopeless.values()))
            letters = self._repairable(letters)
            good, bad = self._decodable(letters)
            for each in bad:
                self._give_up(letters, each.index, each.reason)
            if len(good):
                rows, count = self._land(good)
                done = replace(done, rows=done.rows + rows, letters=done.letters + count)
                say(f"{done.letters:,} letters put back")

    def _give_up(self, letters: pa.Table, index: int, reason: str) -> None:
        topic, partition, offset = (letters[name][index].as_py() for name in POSITION)
        (identity,) = identities(letters.slice(index, 1)).to_pylist()
        self._hopeless[identity] = StillBad(topic, partition, offset, reason)

    def _next(self) -> pa.Table:
        frame = waiting(self._spark, self._lake, self._config, self._choice)
        few = frame.limit(_AT_ONCE + len(self._hopeless))
        # All values at once may be more than the driver holds: their sizes say how many it asks for.
        told = few.selectExpr(*IDENTITY, "length(value) AS size").toArrow()
        given_up = pa.array(list(self._hopeless), pa.string())
        told = told.filter(pc.invert(pc.is_in(identities(told), value_set=given_up)))
        wanted = told.slice(0, min(_AT_ONCE, within(told["size"], _BYTES_AT_ONCE))).select(IDENTITY)
        if not len(wanted):
            return wanted
        keys = self._spark.createDataFrame(wanted).hint("broadcast")
        left = frame.join(keys, list(IDENTITY), "left_semi").orderBy(*IDENTITY).toArrow()
        return left.combine_chunks()

    def _repairable(self, letters: pa.Table) -> pa.Table:
        """Repaired; those that the function fails for are given up, and do not keep the others back."""
        if self._repair is None:
            return letters
        values, kept = [], []
        for index, value in enumerate(letters["value"].to_pylist()):
            try:
                values.append(_repaired(self._repair, value))
                kept.append(index)
            except FrazilError:
                raise
            except Exception as error:  # noqa: BLE001 - it is the user's function
                reason = f"the repair function failed: {type(error).__name__}: {error}"
                self._give_up(letters, index, reason)
        letters = letters.take(pa.array(kept, pa.int64()))
        column = letters.schema.get_field_index("value")
        return letters.set_column(column, "value", pa.array(values, pa.binary())).combine_chunks()

    def _decodable(self, letters: pa.Table) -> tuple[pa.Table, Sequence[Undecodable]]:
        """Those that are records now, and the others; a letter is decoded as the pipeline would."""
        config = self._config
        decoder = decoder_of(decoded_format(config), self._sink.schema, replace_evolve(config).contract)
        bad = {
            each.index: each
            for raw, start in raw_batches(letters, headed=self._headed)
            for each in (
                Undecodable(found.index + start, found.reason, found.field, found.fault)
                for found in decoder.decode(raw).bad
            )
        }
        kept = [index for index in range(len(letters)) if index not in bad]
        return letters.take(pa.array(kept, pa.int64())), list(bad.values())

    def _land(self, letters: pa.Table) -> tuple[int, int]:
        """Rows and letters that landed; none if one of them is for no table, which is given up then."""
        last = self._sink.stamp.positions[_LETTERS]
        ends = Position(id=last.id, next=(last.next[0] + len(letters),))
        batches = tuple(raw for raw, _ in raw_batches(letters, headed=self._headed))
        slices = tuple(
            Slice(raw.topic, raw.partition, raw.slice_start, raw.slice_start + len(raw)) for raw in batches
        )
        plan = RoundPlan((slices,), {_LETTERS: ends}, len(letters), {})
        for _ in range(_ADAPTATIONS):
            turn = self._sink.begin(plan)
            try:
                result = self._run(turn, plan, LetterReader(batches))
                marks = {show(self._place.namespace, self._place.name): marks_of(letters)}
                return self._sink.commit(turn, plan, result, marks).written, len(letters)
            except Lacking as lacking:
                self._sink.discard(turn)
                self._sink.adapt(lacking.needs)
            except BadRecord as error:
                self._sink.discard(turn)
                # All at once: a job for each would take for ever. And by their rows: letters of two versions
                # of a file may have one position.
                lost = list(self._unroutable(turn, batches, slices))
                for index, reason in lost or [(_index_of(letters, error), error.message)]:
                    self._give_up(letters, index, reason)
                return 0, 0
            except FrazilError:
                self._sink.discard(turn)
                raise
        raise AssertionError("tables that were made are still lacking")

    def _unroutable(
        self, turn: Turn, batches: tuple[RawBatch, ...], slices: tuple[Slice, ...]
    ) -> Iterator[tuple[int, str]]:
        config = replace_evolve(self._config)
        reading = Reading(
            LetterReader(batches),
            decoded_format(config),
            self._sink.schema,
            config.metadata,
            config.contract,
            largest=_ANY_SIZE,
        )
        assert isinstance(turn.writing, TableWriting), "letters go to tables"
        outlet = TableOutlet(turn.writing, 0, 0, {})
        for rows in decoded(reading, slices):
            yield from ((rows.raw.slice_start + bad.index, bad.reason) for bad in outlet.unroutable(rows))

    def _run(self, turn: Turn, plan: RoundPlan, reader: LetterReader) -> JobResult:
        return self._jobs.run(plan.tasks, reader, self._sink.schema, turn.keys, turn.writing)


@dataclass(frozen=True, eq=False)
class LetterReader:
    """Letters as the records that they were."""

    batches: tuple[RawBatch, ...] = field(repr=False)

    def read(self, slices: Sequence[Slice]) -> Iterator[RawBatch]:
        yield from self.batches


def replace_evolve(config: PipelineConfig) -> PipelineConfig:
    """A replay does not change the table: what would, is left out or still bad."""
    contract = config.contract
    return replace(
        config,
        contract=replace(
            contract,
            columns="discard_value" if contract.columns == "evolve" else contract.columns,
            types="discard_row" if contract.types == "evolve" else contract.types,
        ),
    )


def _require_replayable(config: PipelineConfig) -> None:
    if config.stateful is not None:
        raise Unsupported(
            f"letters of pipeline '{config.name}' cannot be put back: its transform keeps state, which only "
            "records of the source reach. Send the repaired records to the topic again"
        )
    if isinstance(decoded_format(config), ParquetFormat):
        raise Unsupported(
            f"letters of pipeline '{config.name}' cannot be put back: they were rows of files or of a table "
            "that has columns, and a letter keeps where they are, not what was in them. Read those again "
            "with a pipeline of another name"
        )


def name_of_replay(pipeline: str) -> str:
    """As long as a name may be, and of no other pipeline's replay."""
    if len(pipeline) + len(_SUFFIX) <= _LONGEST_NAME:
        return pipeline + _SUFFIX
    mark = hashlib.sha256(pipeline.encode()).hexdigest()[:8]
    return f"{pipeline[: _LONGEST_NAME - len(_SUFFIX) - len(mark) - 1]}-{mark}{_SUFFIX}"


def _repaired(repair: Callable[[bytes], bytes], value: bytes | None) -> bytes | None:
    if value is None:
        return None
    made = repair(value)
    if not isinstance(made, bytes):
        raise InvalidConfig(f"the repair function gave {type(made).__name__}; it takes bytes and gives bytes")
    return made


def _index_of(letters: pa.Table, error: BadRecord) -> int:
    rows = list(zip(*(letters[name].to_pylist() for name in POSITION), strict=True))
    if error.position not in rows:
        # What a record says when an expression fails for it, which is no position of ours.
        raise error
    return rows.index(error.position)
