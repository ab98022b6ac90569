"""What `frazil verify` runs inside Spark tasks: the log read again, the table's files read, both counted."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from frazil.core.errors import FrazilError, Unprocessable
from frazil.core.schema import Schema
from frazil.lake.fitting import Fitter
from frazil.lake.scan import LiveFile
from frazil.lake.storage import FileStorage
from frazil.stream.decoding import Reading, decoded
from frazil.stream.fingerprint import Fingerprint
from frazil.stream.needs import Lacking
from frazil.stream.source import Slice
from frazil.stream.tasks import Failure

if TYPE_CHECKING:
    from pyspark import Broadcast
    from pyspark.sql import SparkSession

    from frazil.client import VendedCredentials

T = TypeVar("T")
_BATCH = 65_536
_FIELD_ID = b"PARQUET:field_id"


@dataclass(frozen=True)
class Counted:
    """Records of one partition, and what their rows would be."""

    topic: str
    partition: int
    records: int
    rows: Fingerprint


def count_log(
    spark: SparkSession,
    tasks: Sequence[tuple[Slice, ...]],
    reading: Broadcast[Reading],
    schema: Schema | None,
) -> list[Counted]:
    """Read slices again; with a table's `schema`, also decode them as the pipeline does."""
    work = functools.partial(_count_log, reading=reading, schema=schema)
    return _collected(spark, tasks, work)


def count_files(
    spark: SparkSession,
    files: Sequence[LiveFile],
    location: str,
    keys: Broadcast[VendedCredentials] | None,
    schema: Schema,
) -> Fingerprint:
    """The rows of data files."""
    work = functools.partial(_count_files, location=location, keys=keys, schema=schema)
    return sum(_collected(spark, files, work), Fingerprint())


def _collected(spark: SparkSession, parts: Sequence[object], work: object) -> list[T]:
    found: list[T | Failure] = []
    if parts:
        context = spark.sparkContext
        slots = min(len(parts), 4 * context.defaultParallelism)
        found = context.parallelize(list(parts), slots).mapPartitions(work).collect()  # type: ignore[arg-type]
    good: list[T] = []
    for one in found:
        if isinstance(one, Failure):
            raise one.error()
        good.append(one)
    return good


def _count_log(
    tasks: Iterable[tuple[Slice, ...]], reading: Broadcast[Reading], schema: Schema | None
) -> Iterator[Counted | Failure]:
    try:
        for slices in tasks:
            yield from _of_slices(slices, reading.value, schema)
    except Lacking as error:
        names = ", ".join(".".join(path) for path, _, _ in error.needs.columns)
        gone = Unprocessable(f"the log has values for {names}, which the table has no columns for any more")
        yield Failure.of(gone)
    except FrazilError as error:
        yield Failure.of(error)


def _of_slices(slices: tuple[Slice, ...], reading: Reading, schema: Schema | None) -> Iterator[Counted]:
    if schema is None:
        for raw in reading.reader.read(slices):
            yield Counted(raw.topic, raw.partition, len(raw), Fingerprint())
        return
    fitter = Fitter(schema)
    for rows in decoded(reading, slices):
        raw = rows.raw
        yield Counted(raw.topic, raw.partition, len(raw), Fingerprint.of(fitter.fit(rows.batch)))


def _count_files(
    files: Iterable[LiveFile], location: str, keys: Broadcast[VendedCredentials] | None, schema: Schema
) -> Iterator[Fingerprint | Failure]:
    storage = FileStorage.of(location, keys.value if keys is not None else None)
    fitter = Fitter(schema)
    try:
        for file in files:
            with storage.open_input(file.path) as source:
                for batch in pq.ParquetFile(source).iter_batches(_BATCH):
                    yield Fingerprint.of(fitter.fit(_by_id(batch, schema)))
    except FrazilError as error:
        yield Failure.of(error)


def _by_id(batch: pa.RecordBatch, schema: Schema) -> pa.RecordBatch:
    """Columns under the names that they have in the table now."""
    names = {field.id: field.name for field in schema}
    found = {}
    for field, column in zip(batch.schema, batch.columns, strict=True):
        identifier = (field.metadata or {}).get(_FIELD_ID)
        name = field.name if identifier is None else names.get(int(identifier))
        if name is not None:
            found[name] = column
    return pa.RecordBatch.from_pydict(found)
