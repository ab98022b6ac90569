"""The rows of a range of the log, made again by the pipeline that wrote them, as it is now."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

import pyarrow as pa
from pyroaring import BitMap64

from frazil.core.correction import Recipe, show_offsets
from frazil.core.errors import Conflict, FrazilError, InvalidConfig, SourceChanged, Unsupported
from frazil.core.schema import Schema
from frazil.hot.correct.letters import Differing, Letters, Merged, letters_of, require_none
from frazil.hot.correct.offsets import LogRange, find_range, range_files
from frazil.hot.correct.place import FILE, Place, Selection
from frazil.hot.correct.replacing import Coming
from frazil.hot.correct.rows import as_error, fitted
from frazil.hot.log import log_reader
from frazil.hot.read.tail import TailRead
from frazil.hot.table import TIERING, HotTable, hot_table
from frazil.lake.session import use_catalog
from frazil.stream.columns import with_columns
from frazil.stream.config.model import KafkaSource, PipelineConfig
from frazil.stream.decoding import Reading, Rows, decoded
from frazil.stream.feeds import feed_of
from frazil.stream.fit import followed
from frazil.stream.frames import TaskFailed, apply_transform
from frazil.stream.jobs import rows_schema
from frazil.stream.kafka.feed import KafkaReader
from frazil.stream.kafka.log import KafkaLog, kafka_source
from frazil.stream.needs import Lacking
from frazil.stream.rebuild.possible import require_by_record
from frazil.stream.rounds import cut
from frazil.stream.source import Slice
from frazil.stream.spark_types import to_spark

if TYPE_CHECKING:
    from pyspark import Accumulator, Broadcast
    from pyspark.sql import DataFrame, SparkSession

T = TypeVar("T")


@dataclass
class OffsetsRange:
    """Rows of a range of the log. It does not change: what is published is what was looked at, or nothing."""

    place: Place
    recipe: Recipe
    #: Data files that the correction brings.
    brought: frozenset[str] = frozenset()

    def found(self, snapshot: int) -> LogRange:
        return find_range(self.place, self.recipe.pipeline, self.recipe.offsets, snapshot)

    def files(self, snapshot: int) -> set[str]:
        return range_files(self.place, self.recipe.pipeline, self.found(snapshot), snapshot)

    def before(self, frame: DataFrame, snapshot: int) -> DataFrame:
        return _of_files(frame, self.files(snapshot))

    def after(self, frame: DataFrame) -> DataFrame:
        return _of_files(frame, self.brought)

    def select(self, snapshot: int) -> Selection:
        own = self.files(snapshot)
        records = {one.path: one.records for one in self.place.live(snapshot).data if one.path in own}
        hits = {path: BitMap64(range(count)) for path, count in records.items()}
        return self.place.selection(snapshot, hits)

    def changed(self, since: int, until: int, coming: Coming) -> str | None:
        """Conflict, if they can be told no more; else they are those of the log, as they were."""
        self.files(until)
        return None

    def recompute(self, snapshot: int, prefix: str) -> Coming:
        raise Conflict(f"the range {self.recipe.range} of {self.place} is computed once")


def writer_of(place: Place, config: PipelineConfig | None, catalog: str) -> PipelineConfig | HotTable:
    """Who makes rows of the log. Unsupported: not record by record, so no range has rows of its own.

    `catalog`: what its transform calls the catalog.
    """
    hot = hot_table(place.table.namespace, place.table.name, place.metadata)
    if hot is not None:
        if hot.key:
            raise Unsupported(
                f"the hot table {place} has a key ({', '.join(hot.key)}): its rows are the last changes of "
                "keys, not the records of a range. Correct it by a predicate (--where) instead"
            )
        return hot
    if config is None:
        raise InvalidConfig(
            f"say which pipeline writes {place}: its rows are made again as that one makes them (--pipelines "
            "FILE --pipeline NAME)"
        )
    kafka_source(config, "a correction by offsets")
    if config.table.routed or config.stateful is not None or config.home != _place(place):
        why = "keeps state" if config.stateful is not None else "writes other tables"
        raise Unsupported(
            f"pipeline '{config.name}' {why}: a range of its log is no range of {place}. Correct it by a "
            "predicate over its columns (--where) instead"
        )
    # Without those of a registry, values would be left out, each of them, and no record be bad.
    config = with_columns(config, feed_of(config, place.table.lake), place.table.lake)
    _require_by_record(place, config, catalog)
    return config


def pipeline_name(writer: PipelineConfig | HotTable) -> str:
    return TIERING if isinstance(writer, HotTable) else writer.name


def log_rows(
    place: Place,
    writer: PipelineConfig | HotTable,
    found: LogRange,
    kafka: Mapping[str, str],
    catalog: str,
) -> DataFrame:
    """What the records come to now; `catalog` as for `writer_of`.

    SourceChanged: they are not in the log any more.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    source = _source(writer, kafka)
    _require_kept(place, source, found)
    try:
        if isinstance(writer, HotTable):
            frame = _of_hot(place, writer, found, kafka)
        else:
            frame = _of_pipeline(place, writer, found, catalog)
        return fitted(place, frame, "the pipeline makes", partial=True).localCheckpoint(eager=True)
    except (Py4JError, PySparkException) as error:
        raise as_error(error) from None


def _place(place: Place) -> tuple[tuple[str, ...], str]:
    return place.table.namespace, place.table.name


def _of_files(frame: DataFrame, files: Iterable[str]) -> DataFrame:
    return frame.where(frame[FILE].isin(sorted(files)))


def _source(writer: PipelineConfig | HotTable, kafka: Mapping[str, str]) -> KafkaSource:
    if isinstance(writer, HotTable):
        return KafkaSource(writer.settings(kafka), topics=(writer.topic,))
    return kafka_source(writer, "a correction by offsets")


def _require_kept(place: Place, source: KafkaSource, found: LogRange) -> None:
    view = KafkaLog(KafkaSource(source.settings, tuple(found.offsets))).look()
    text = show_offsets(found.offsets)
    for topic, parts in found.offsets.items():
        there = view.topics.get(topic)
        if view.source != found.stamp.source or there is None or there.id != found.stamp.positions[topic].id:
            raise SourceChanged(
                f"{text} was read from another log than {topic} is now ({found.stamp.source}; this is "
                f"{view.source}): it was made again. Correct {place} by a predicate (--where) instead"
            )
        for number, (first, _) in parts.items():
            if first < view.beginnings[topic][number]:
                raise SourceChanged(
                    f"the log does not have {topic}-{number} from {first} any more, it begins at "
                    f"{view.beginnings[topic][number]}: the rows of {text} cannot be made again. Correct "
                    f"{place} by a predicate (--where) instead"
                )


def _of_hot(place: Place, hot: HotTable, found: LogRange, kafka: Mapping[str, str]) -> DataFrame:
    reader = log_reader(hot.settings(kafka))
    read = TailRead(str(place), reader, place.schema, (), hot.letters is not None)
    log = _Log(read, _tail, place.schema, tuple((one,) for one in found.slices()))
    return _decoded(place.spark, place, hot.pipeline(kafka), log)


def _tail(read: TailRead, slices: Sequence[Slice]) -> Iterator[Rows]:
    """Without a key all of them are rows: none is deleted."""
    for part in slices:
        for found in read.decoded(part):
            yield Rows(found.raw, found.rows, found.bad)


def _of_pipeline(place: Place, config: PipelineConfig, found: LogRange, catalog: str) -> DataFrame:
    session, wanted = _session(place, config, catalog), config.metadata
    settings = kafka_source(config, "a correction by offsets").settings
    reading = Reading(
        KafkaReader(settings, bool(wanted.key), bool(wanted.headers)),
        config.format,
        followed(config, place.schema),
        wanted,
        config.contract,
        lenient=config.dead_letters is not None,
        largest=config.limits.bytes_per_record,
    )
    tasks = cut(found.slices(), session.sparkContext.defaultParallelism)
    frame = _decoded(session, place, config, _Log(reading, decoded, reading.columns, tasks))
    return frame if config.transform is None else apply_transform(config.transform, frame)


def _session(place: Place, config: PipelineConfig, catalog: str) -> SparkSession:
    """One in which the transform finds what it finds when the pipeline runs."""
    session = place.spark.newSession()
    if config.transform is not None:
        use_catalog(session, catalog, place.client)
    return session


def _require_by_record(place: Place, config: PipelineConfig, catalog: str) -> None:
    """Unsupported: the range may be of several rounds, and a transform over them all gives other rows."""
    session = _session(place, config, catalog)
    # What is no query over the source is told as that.
    rows_schema(session, config)
    try:
        require_by_record(session, config)
    except Unsupported:
        raise Unsupported(
            f"the transform of pipeline '{config.name}' looks at several records of a round together (a "
            "GROUP BY, DISTINCT, LIMIT, window or join of the source with itself), so a range of its log "
            f"has no rows of its own. Correct {place} by a predicate (--where) instead"
        ) from None


@dataclass(frozen=True)
class _Log(Generic[T]):
    """Slices of a log by tasks, and how they are read there."""

    reading: T = field(repr=False)
    decode: Callable[[T, Sequence[Slice]], Iterator[Rows]]
    columns: Schema
    tasks: tuple[tuple[Slice, ...], ...]


def _decoded(spark: SparkSession, place: Place, config: PipelineConfig, log: _Log[T]) -> DataFrame:
    """The records as rows. Conflict: those that are none are not those that wait as letters."""
    context, slices = spark.sparkContext, [one for task in log.tasks for one in task]
    sent = context.broadcast((log.reading, letters_of(spark, place, config, slices)))
    differing = context.accumulator(Differing(), Merged())
    try:
        numbers = spark.range(0, len(log.tasks), 1, max(1, len(log.tasks)))
        read = _reading(sent, log.decode, log.tasks, log.columns, differing)
        # Of a frame that is read later, a transform may leave records out, and with them what is bad.
        frame = numbers.mapInArrow(read, log.columns.to_spark_ddl()).localCheckpoint(eager=True)
        require_none(place, config, differing.value)
    finally:
        # PySpark keeps every accumulator for ever.
        differing.value = Differing()
        sent.destroy()
    return frame


def _reading(
    sent: Broadcast[tuple[T, Letters]],
    decode: Callable[[T, Sequence[Slice]], Iterator[Rows]],
    tasks: tuple[tuple[Slice, ...], ...],
    columns: Schema,
    differing: Accumulator[Differing],
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def read(numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        reading, letters = sent.value
        found = Differing()
        for number in numbers:
            for index in number.column(0).to_pylist():
                try:
                    for rows in decode(reading, tasks[index]):
                        found.note(rows, letters)
                        yield to_spark(rows.batch, columns)
                except (FrazilError, Lacking) as error:
                    raise TaskFailed(error) from None
        differing.add(found)

    return read
