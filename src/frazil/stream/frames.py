"""The Spark path: slices become a DataFrame, Spark runs the user's transform, the Arrow writer ends it.

Each pipeline has a session of its own, so that the view `source` is its own as well.
"""

from __future__ import annotations

import functools
import pickle
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa
from pyspark.accumulators import AccumulatorParam

from frazil.core.errors import FrazilError, InvalidConfig
from frazil.core.failpoints import reach
from frazil.core.schema import Schema, primitives
from frazil.stream.config.model import Transform
from frazil.stream.dead_letters import DECODE
from frazil.stream.decoding import Reading, decoded
from frazil.stream.needs import Lacking
from frazil.stream.outlets import Outlet, Writing
from frazil.stream.source import Slice
from frazil.stream.spark_types import to_spark
from frazil.stream.tasks import Failure, SliceCounter, TaskReport, open_outlet

if TYPE_CHECKING:
    from pyspark import Accumulator, Broadcast
    from pyspark.sql import DataFrame, SparkSession

    from frazil.stream.outlets import Keys

    #: By the slices of a task.
    Reports = dict[tuple[Slice, ...], TaskReport]

_FAILURE = re.compile(r"frazil-failure:([0-9a-f]+):")
_PLANS = "org.apache.spark.sql.catalyst.plans.logical"
_COMMANDS = (f"{_PLANS}.Command", f"{_PLANS}.ParsedStatement")
#: The view that SQL transforms select from.
SOURCE_VIEW = "source"


class TaskFailed(Exception):
    """Carries a failure through Spark's own exceptions, which keep only the text."""

    def __init__(self, error: FrazilError | Lacking) -> None:
        super().__init__(f"frazil-failure:{msgspec.json.encode(Failure.of(error)).hex()}:")


def failure_in(text: str) -> FrazilError | Lacking | None:
    """The error that a task raised, out of what Spark made of it.

    The text may quote records, which anybody may have written: it is never unpickled.
    """
    match = _FAILURE.search(text)
    if match is None:
        return None
    try:
        return msgspec.json.decode(bytes.fromhex(match[1]), type=Failure).error()
    except (ValueError, msgspec.MsgspecError):
        return None


class _Merged(AccumulatorParam["Reports"]):
    """By slices, so that a task that ran twice counts once."""

    def zero(self, value: Reports) -> Reports:
        return {}

    def addInPlace(self, value1: Reports, value2: Reports) -> Reports:  # noqa: N802 - Spark's name
        return value1 | value2


@dataclass(frozen=True)
class SourceFrame:
    """The decoded records of a round; reading them fills `reports`."""

    frame: DataFrame
    reports: Accumulator[Reports]

    def taken(self) -> tuple[TaskReport, ...]:
        """The reports, once. PySpark keeps every accumulator for ever, so that it has to be emptied."""
        found = tuple(self.reports.value.values())
        self.reports.value = {}
        return found


def merged_reports(spark: SparkSession) -> Accumulator[Reports]:
    """Filled by tasks that read."""
    return spark.sparkContext.accumulator({}, _Merged())


def source_frame(
    spark: SparkSession,
    tasks: tuple[tuple[Slice, ...], ...],
    reading: Broadcast[Reading],
    keys: Broadcast[Keys],
    writing: Writing,
) -> SourceFrame:
    """One partition for each task. Bad records go from there to their table; `writing` says where."""
    reports = merged_reports(spark)

    def read(numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in numbers:
            for index in number.column(0).to_pylist():
                letters = functools.partial(open_outlet, index, keys, writing)
                yield from _read(tasks[index], reading.value, letters, reports)

    # The schema is the driver's: a worker must not be asked for the broadcast to know it.
    ddl = reading.value.columns.to_spark_ddl()
    frame = spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(read, ddl)
    return SourceFrame(frame, reports)


def empty_frame(spark: SparkSession, schema: Schema) -> DataFrame:
    """No rows, the right columns: to ask a transform what it makes of them."""
    for field in schema:
        # As columns of their own they are converted.
        if not isinstance(field.type, str) and any(
            word == "uuid" or word.startswith("fixed[") for word in primitives(field.type)
        ):
            raise InvalidConfig(
                f"the column '{field.name}' has uuid or fixed inside, which Spark has no types for: leave "
                "the transform out, or use string or binary"
            )
    return spark.createDataFrame([], schema.to_spark_ddl())


def require_query(spark: SparkSession, sql: str) -> None:
    """Spark runs a command (INSERT, CREATE, …) when it is given one: in each round, before the commit."""
    from py4j.java_gateway import is_instance_of
    from pyspark.errors import ParseException

    try:
        waiting = [spark._jsparkSession.sessionState().sqlParser().parsePlan(sql)]  # noqa: SLF001
    except ParseException:
        return  # said when it is applied
    gateway = spark.sparkContext._gateway  # noqa: SLF001
    while waiting:
        plan = waiting.pop()
        if any(is_instance_of(gateway, plan, kind) for kind in _COMMANDS):
            raise InvalidConfig(
                "the transform is a command, not a query: write the SELECT alone, its rows go to the "
                "pipeline's table"
            )
        inside = plan.children()
        waiting += [inside.apply(number) for number in range(inside.size())]


def apply_transform(transform: Transform, frame: DataFrame) -> DataFrame:
    """What the user makes of the source."""
    from pyspark.errors import AnalysisException
    from pyspark.sql import DataFrame

    try:
        if transform.sql is not None:
            frame.createOrReplaceTempView(SOURCE_VIEW)
            return frame.sparkSession.sql(transform.sql)
        assert transform.function is not None, "a transform is SQL or a function"
        made = transform.function(frame)
    except AnalysisException as error:
        # A parser's text begins with an empty line.
        said = str(error).strip().splitlines()[0]
        raise InvalidConfig(f"the transform does not fit the source: {said}") from None
    if not isinstance(made, DataFrame):
        raise InvalidConfig(
            f"the transform {transform.reference or ''} gave {type(made).__name__}; it takes a DataFrame "
            "and returns one"
        )
    return made


def written(frame: DataFrame, keys: Broadcast[Keys], writing: Writing) -> tuple[TaskReport, ...]:
    """Write the rows of a frame as data files."""
    if writing.single:
        frame = frame.coalesce(1)
    write = _writer_of(keys, writing)
    rows = frame.mapInArrow(write, "report binary").collect()
    return tuple(pickle.loads(row.report) for row in rows)  # noqa: S301 - written by our own tasks


def _read(
    slices: tuple[Slice, ...],
    reading: Reading,
    letters: Callable[[], Outlet],
    reports: Accumulator[Reports],
) -> Iterator[pa.RecordBatch]:
    """`letters` opens what bad records are written to, if there are any."""
    counter = SliceCounter(slices, reading.event_time)
    outlet: Outlet | None = None
    try:
        for rows in decoded(reading, slices):
            counter.add(rows, len(rows.bad))
            if rows.bad:
                outlet = outlet or letters()
                outlet.set_aside(rows.raw, rows.bad, DECODE)
            yield to_spark(rows.batch, reading.columns)
        files = {} if outlet is None else outlet.close()
    except (FrazilError, Lacking) as error:
        if outlet is not None:
            outlet.abort()
        raise TaskFailed(error) from None
    reports.add({slices: TaskReport(counter.reports(), files)})


def _writer_of(
    keys: Broadcast[Keys], writing: Writing
) -> Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]:
    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None, "this runs in a task"
        try:
            report = _written(open_outlet(context.partitionId(), keys, writing), batches)
        except (FrazilError, Lacking) as error:
            raise TaskFailed(error) from None
        reach("task.written")
        yield pa.RecordBatch.from_pydict({"report": [pickle.dumps(report)]})

    return write


def _written(outlet: Outlet, batches: Iterable[pa.RecordBatch]) -> TaskReport:
    try:
        for batch in batches:
            outlet.write(batch)
        return TaskReport(files=outlet.close())
    except BaseException:
        outlet.abort()
        raise
