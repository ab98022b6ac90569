"""`frazil.changes`: what became of a table's rows between two snapshots, as a DataFrame.

Tasks read data and delete files as `frazil.lake.changelog` does; only rows of commits in which rows both came
and went are shuffled, by a digest of their key, to find those that did not change and those that are updates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from frazil.client.naming import identifier
from frazil.core.errors import Unsupported
from frazil.core.names import show
from frazil.core.schema import Field, Schema, primitives
from frazil.hot.read.connect import CatalogLike, connected
from frazil.lake.changelog import CHANGE_FIELDS, changelog_of, finished, marked, told
from frazil.lake.changelog_pairs import IN_MEMORY, KEY_DIGEST, ROW_DIGEST, complete, paired
from frazil.lake.changelog_range import Moment
from frazil.lake.changelog_rows import Shape, UnitReader
from frazil.lake.changelog_units import Commit, Unit
from frazil.lake.places import KeyedPlace, PlacedFiles, ReadKeys
from frazil.stream.spark_types import to_spark

if TYPE_CHECKING:
    from pyspark import Broadcast
    from pyspark.sql import DataFrame, SparkSession

_DIGESTS = (Field(ROW_DIGEST, "binary"), Field(KEY_DIGEST, "binary"))
#: Fewer rows than this are not worth a task of their own, and so much is a file beside its rows.
_TASK_ROWS = 500_000
_FILE_ROWS = 20_000
_WAVES = 4


def changes(
    spark: SparkSession,
    name: str,
    *,
    since: Moment | None = None,
    until: Moment | None = None,
    key: Sequence[str] | None = None,
    net: bool = False,
    catalog: CatalogLike | None = None,
) -> DataFrame:
    """The rows of a table that came, went or were replaced after `since` and up to `until`.

    Both are snapshot ids, times, or names of tags and branches; without them, all changes up to now. With a
    `key` (else the table's identifier fields; `()` for none) a row that replaces another is an update. `net`:
    what came and went in between is left out. Use the frame within half an hour: its keys to the files end.

    >>> frazil.changes(spark, "shop.orders", since="last-report").show()  # doctest: +SKIP
    """
    namespace, table = identifier(name)
    with connected(catalog, spark) as client:
        metadata = client.tables.load(namespace, table).metadata
        places = ReadKeys(client, namespace, table).places(metadata)
    log = changelog_of(metadata, show(namespace, table), since=since, until=until, key=key, net=net)
    schema = _loose(log.schema)
    _require_types(schema)
    commits = list(log.commits(log.files(PlacedFiles(places))))
    goes = any(unit.before for commit in commits for unit in commit.units)
    pairs = [commit for commit in commits if (goes if net else commit.paired)]
    rest = [commit for commit in commits if commit not in pairs]
    slots = _WAVES * spark.sparkContext.defaultParallelism
    found = []
    if rest or not pairs:
        work = _Work(log.shape, places, (), _dealt(rest, slots))
        found.append(_frame(spark, work, _plain_rows, schema))
    if pairs:
        work = _Work(log.shape, places, log.key, _dealt(pairs, slots))
        rows = _frame(spark, work, _marked_rows, Schema((*schema.fields, *_DIGESTS)))
        most = sum(commit.changes for commit in pairs)
        found.append(_paired(rows, schema, most, keyed=bool(log.key), net=net))
    return found[0] if len(found) == 1 else found[0].union(found[1])


@dataclass(frozen=True)
class _Work:
    """What tasks are sent, by broadcast: it holds keys."""

    shape: Shape
    places: tuple[KeyedPlace, ...]
    key: tuple[str, ...]
    #: By task: parts of commits.
    tasks: tuple[tuple[Commit, ...], ...]


_Read = Callable[[_Work, Commit, PlacedFiles], Iterator[pa.RecordBatch]]


def _frame(spark: SparkSession, work: _Work, read: _Read, schema: Schema) -> DataFrame:
    if not work.tasks:
        return spark.createDataFrame([], schema.to_spark_ddl())
    sent: Broadcast[_Work] = spark.sparkContext.broadcast(work)

    def run(numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        storage = PlacedFiles(sent.value.places)
        for number in numbers:
            for index in number.column(0).to_pylist():
                for commit in sent.value.tasks[index]:
                    for batch in read(sent.value, commit, storage):
                        yield to_spark(_without_extensions(batch), schema)

    count = len(work.tasks)
    return spark.range(0, count, 1, count).mapInArrow(run, schema.to_spark_ddl())


def _plain_rows(work: _Work, commit: Commit, storage: PlacedFiles) -> Iterator[pa.RecordBatch]:
    reader = UnitReader(work.shape, storage, commit.units)
    for unit in commit.units:
        for signed in reader.read(unit):
            yield told(commit, signed)


def _marked_rows(work: _Work, commit: Commit, storage: PlacedFiles) -> Iterator[pa.RecordBatch]:
    return marked(work.shape, work.key, commit, storage)


def _paired(rows: DataFrame, schema: Schema, most: int, *, keyed: bool, net: bool) -> DataFrame:
    """Rows of a key come together, sorted by Spark, which has the disk for it."""

    def pair(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for table in complete(batches):
            yield from finished(paired(table, keyed=keyed, net=net))

    context = rows.sparkSession.sparkContext
    parts = max(1, min(-(-most // IN_MEMORY), _WAVES * context.defaultParallelism))
    together = rows.repartition(parts, KEY_DIGEST).sortWithinPartitions(KEY_DIGEST)
    return together.mapInArrow(pair, schema.to_spark_ddl())


def _dealt(commits: Sequence[Commit], slots: int) -> tuple[tuple[Commit, ...], ...]:
    """Files of commits, dealt out to tasks of about the same work."""
    units = [(commit, unit) for commit in commits for unit in commit.units]
    work = sum(_cost(unit) for _, unit in units)
    count = min(len(units), slots, max(1, round(work / _TASK_ROWS)))
    loads = [0] * count
    tasks: list[dict[int, list[Unit]]] = [{} for _ in range(count)]
    known = {commit.snapshot: commit for commit in commits}
    for commit, unit in sorted(units, key=lambda pair: -_cost(pair[1])):
        least = loads.index(min(loads))
        loads[least] += _cost(unit)
        tasks[least].setdefault(commit.snapshot, []).append(unit)
    return tuple(
        tuple(replace(known[number], units=tuple(mine)) for number, mine in task.items()) for task in tasks
    )


def _cost(unit: Unit) -> int:
    return unit.file.records + _FILE_ROWS


def _loose(schema: Schema) -> Schema:
    """Nothing is required of columns: files may be older than that."""
    told_by = {field.name for field in CHANGE_FIELDS}
    return Schema(
        tuple(field if field.name in told_by else replace(field, required=False) for field in schema)
    )


def _require_types(schema: Schema) -> None:
    for field in schema:
        inside = () if isinstance(field.type, str) else tuple(primitives(field.type))
        if field.type == "time" or any(word in ("uuid", "time") or word[:5] == "fixed" for word in inside):
            raise Unsupported(
                f"the column '{field.name}' has a type that Spark does not (time, or uuid or fixed inside of "
                "another): read its changes without Spark, by frazil.lake.changelog.read_changes"
            )


def _without_extensions(batch: pa.RecordBatch) -> pa.RecordBatch:
    columns = [
        column.storage if isinstance(column.type, pa.BaseExtensionType) else column
        for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, batch.schema.names)
