"""`frazil.read` and `frazil.register`: both tiers as a DataFrame.

The snapshot is read by Iceberg's own reader, so that projection and pruning are its own. Where all tasks see
the driver's disk, the tail becomes part of a snapshot that nobody commits, and Spark reads both as one table.
Elsewhere the tail is read by one job and kept; rows of the snapshot whose keys are in it are taken away by an
anti join, whatever a query asks for, and its rows are added. Spark itself moves filters: to the keys of that
join only what is about the key.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.client import Client, TableIdentifier
from frazil.core.errors import FrazilError, NoSuchNamespace, NoSuchTable, Unsupported
from frazil.core.schema import Field, Schema, primitives, spark_type
from frazil.hot.read.arrow import found_at, key_of, tail_read, tail_table
from frazil.hot.read.connect import CatalogLike, connected
from frazil.hot.read.pins import Pinned, Pins, confirm, pinned_schema
from frazil.hot.read.tail import GONE, TailRead
from frazil.hot.table import BINDING
from frazil.lake.data_rows import Columns
from frazil.lake.overlay import Base, fits, overlaid
from frazil.lake.places import PlacedFiles, ReadKeys
from frazil.lake.session import use_catalog
from frazil.stream.source import Slice
from frazil.stream.spark_types import to_spark

if TYPE_CHECKING:
    from pyspark import Broadcast
    from pyspark.sql import Column, DataFrame, SparkSession

#: Up to so many changes, the tail is read by this process.
_OVERLAID = 1_000_000
#: Up to so many changes, the keys of the tail go to every task.
_BROADCAST = 1_000_000
#: From so many changes on, rows are sieved first: bits for each change, and the most of them.
_SIEVED = 10_000
_BITS = 16
_MOST_BITS = 1 << 23
_logger = logging.getLogger("frazil.hot")
_pins: WeakKeyDictionary[DataFrame, Pins] = WeakKeyDictionary()


def read(
    spark: SparkSession,
    name: str,
    *,
    pins: Pins | str | None = None,
    kafka: Mapping[str, str] | None = None,
    catalog: CatalogLike | None = None,
) -> DataFrame:
    """A hot table as it is now, or as it was pinned: its snapshot and the tail of its log.

    The tail is read here; the snapshot when the frame is used. Whatever comes later is not in the frame.
    `catalog` and `kafka` as for `frazil.run`; without `catalog` it is the session's catalog `frazil`, without
    `kafka` what the table knows of its brokers.

    >>> frazil.read(spark, "shop.orders").where("amount > 10").show()  # doctest: +SKIP
    """
    with connected(catalog, spark) as client:
        return union_frame(spark, client, found_at(client, name, pins, kafka), kafka)


def register(
    spark: SparkSession,
    *names: str,
    pins: Iterable[Pins | str] = (),
    kafka: Mapping[str, str] | None = None,
    catalog: CatalogLike | None = None,
) -> dict[str, Pins]:
    """Tables as temporary views for SQL, without names all hot tables of the warehouse; their pins, by view.

    A view is named as the table is, in backticks (`shop.orders`), and is of now: register it again to see
    what came later. Without names, a table that cannot be read is left out with a warning, if another can.

    >>> register(spark, "shop.orders")  # doctest: +SKIP
    >>> spark.sql("SELECT count(*) FROM `shop.orders`").show()  # doctest: +SKIP
    """
    given = {one.table: one for one in (Pins.decode(p) if isinstance(p, str) else p for p in pins)}
    with connected(catalog, spark) as client:

        def view(name: str) -> Pins:
            found = found_at(client, name, given.get(name), kafka)
            union_frame(spark, client, found, kafka).createOrReplaceTempView(f"`{name}`")
            return found.pins

        return {name: view(name) for name in names} if names else _readable(hot_tables(client), view)


def _readable(names: Iterable[str], view: Callable[[str], Pins]) -> dict[str, Pins]:
    """Those that can be read; if none can, the error of one."""
    from pyspark.errors import PySparkException

    made: dict[str, Pins] = {}
    problem: Exception | None = None
    for name in names:
        try:
            made[name] = view(name)
        except NoSuchTable:
            # Dropped since it was listed.
            continue
        except (FrazilError, PySparkException) as error:
            problem = error
            _logger.warning("%s is left out: %s", name, str(error).strip().partition("\n")[0])
    if problem is not None and not made:
        raise problem
    return made


def pins_of(frame: DataFrame) -> Pins:
    """Of what `frazil.read` gave: with them it gives the same again."""
    return _pins[frame]


def hot_tables(client: Client) -> Iterator[str]:
    """All of a warehouse, by name; also those of which something is wrong."""
    waiting = list(client.namespaces.list())
    while waiting:
        namespace = waiting.pop(0)
        # What is dropped meanwhile is not there.
        with suppress(NoSuchNamespace):
            waiting += client.namespaces.list(namespace)
            tables = list(client.tables.list(namespace))
            yield from (".".join((*one.namespace, one.name)) for one in tables if _is_hot(client, one))


def _is_hot(client: Client, table: TableIdentifier) -> bool:
    try:
        metadata = client.tables.load(table.namespace, table.name, snapshots="refs").metadata
    except NoSuchTable:
        return False
    except FrazilError:
        # It may be; who reads it is told why it cannot be.
        return True
    return BINDING in (metadata.get("properties") or {})


def union_frame(
    spark: SparkSession, client: Client, found: Pinned, kafka: Mapping[str, str] | None = None
) -> DataFrame:
    """The frame of a pinned table."""
    schema = Schema.from_json(pinned_schema(found), str(found))
    require_types(schema, "frazil.hot.read.arrow.read_arrow, frazil sql")
    key = key_of(found, schema)
    read = tail_read(found, schema, key, kafka or {})
    base = None
    if found.pins.snapshot is not None:
        base = partial(snapshot_frame, spark, client, found, schema)
    if read is None:
        frame = base() if base is not None else spark.createDataFrame([], _loose(schema, ()).to_spark_ddl())
    else:
        one = _overlaid(spark, client, found, schema, read, kafka)
        if one is None:
            tail = tail_frame(spark, read, found.pins.slices())
            confirm(found, kafka)
            one = _united(base() if base is not None else None, tail, schema, key, found.pins.tail)
        frame = one
    _pins[frame] = found.pins
    return frame


def _overlaid(
    spark: SparkSession,
    client: Client,
    found: Pinned,
    schema: Schema,
    read: TailRead,
    kafka: Mapping[str, str] | None,
) -> DataFrame | None:
    """Both tiers in one scan; None: that cannot be done here."""
    if found.pins.tail > _OVERLAID or not fits(spark):
        return None
    tail = tail_table(read, Columns(schema), found.pins.slices())
    confirm(found, kafka)
    key = read.key
    places = ReadKeys(client, found.namespace, found.name).places(found.metadata)
    base = Base(found.namespace, found.name, found.metadata, schema, found.pins.snapshot, PlacedFiles(places))
    keys = tail.select(list(key)) if key else None
    rows = tail.filter(pc.invert(tail.column(GONE))).drop_columns([GONE])
    try:
        return overlaid(spark, client, base, rows, keys)
    except Unsupported:
        # Files of other writers that frazil does not read the keys of, and Spark does.
        return None


def _united(
    base: DataFrame | None, tail: DataFrame, schema: Schema, key: Sequence[str], changes: int
) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit

    rows = tail.where(~F.col(_quoted(GONE))).select([F.col(_quoted(field.name)) for field in schema])
    if base is None:
        return rows
    if not key:
        return base.union(rows)
    aliases = [f"frazil key {number}" for number in range(len(key))]
    keys = tail.select([F.col(_quoted(name)).alias(alias) for name, alias in zip(key, aliases, strict=True)])
    # Spark takes the tail for as small as the list of its tasks.
    keys = F.broadcast(keys) if changes <= _BROADCAST else keys.hint("merge")
    wanted = [base[_quoted(name)] for name in key]
    if _SIEVED <= changes <= _BROADCAST:
        wanted = _sieved(wanted, tail, key, changes)
    same = [column == keys[_quoted(alias)] for column, alias in zip(wanted, aliases, strict=True)]
    return base.join(keys, same, "left_anti").union(rows)


def _sieved(columns: list[Column], tail: DataFrame, key: Sequence[str], changes: int) -> list[Column]:
    """The key columns, the first one null where a look at one bit shows that the tail has no such key.

    What is null is not looked for. The hash table of many keys does not fit into the processor's cache: to
    look every row up in it would cost more than to read it.
    """
    from pyspark.sql import functions as F  # noqa: N812

    spark = tail.sparkSession
    size = min(_MOST_BITS, max(64, 1 << (changes * _BITS).bit_length()))
    mine = F.xxhash64(*(F.col(_quoted(name)) for name in key)).bitwiseAND(F.lit(size - 1))
    found = tail.select(mine.alias("bit")).toArrow().column(0).to_numpy()
    bits = np.zeros(size, np.bool_)
    bits[found] = True
    words = np.packbits(bits, bitorder="little").view(np.int64)
    sieve = spark.createDataFrame(pa.table({"words": pa.array([words], pa.list_(pa.int64()))})).scalar()
    bit = F.xxhash64(*columns).bitwiseAND(F.lit(size - 1))
    word = F.get(sieve, F.shiftright(bit, 6).cast("int"))
    there = F.bit_get(word, bit.bitwiseAND(F.lit(63)).cast("int")) == 1
    return [F.when(there, columns[0]), *columns[1:]]


def snapshot_frame(
    spark: SparkSession, client: Client, found: Pinned, schema: Schema, beside: Sequence[str] = ()
) -> DataFrame:
    """The snapshot in the columns of `schema`: Iceberg gives it in those that it had then.

    `beside`: Iceberg's own columns, such as `_file`, which come as well.
    """
    from pyspark.sql import functions as F  # noqa: N812

    catalog = _catalog(spark, client)
    table = ".".join(_quoted(part) for part in (catalog, *found.namespace, found.name))
    frame = spark.read.option("versionAsOf", str(found.pins.snapshot)).table(table)
    then = {field.id: field for field in _schema_then(found)}
    columns = []
    for field in schema:
        old = then.get(field.id)
        if old is None:
            columns.append(_initial(found, field).alias(field.name))
            continue
        column = F.col(_quoted(old.name))
        if old.type != field.type:
            _require_primitive(found, field)
            column = column.cast(spark_type(field.type))
        columns.append(column.alias(field.name))
    return frame.select(*columns, *(F.col(name) for name in beside))


def tail_frame(spark: SparkSession, read: TailRead, slices: Sequence[Slice]) -> DataFrame:
    """Read by one job, a task for each partition of the log. What it gives lies with the executors until
    nobody has a frame of it any more."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from frazil.stream.jobs import translated

    context = spark.sparkContext
    sent = context.broadcast(read)
    columns = _loose(read.schema, read.key).to_spark_ddl()
    try:
        numbers = spark.range(0, len(slices), 1, len(slices))
        frame = numbers.mapInArrow(_reading(sent, slices), f"{columns}, {_quoted(GONE)} BOOLEAN NOT NULL")
        return frame.localCheckpoint(eager=True)
    except (Py4JError, PySparkException) as error:
        raise translated(error) from None
    finally:
        sent.destroy()


def _reading(sent: Broadcast[TailRead], slices: Sequence[Slice]) -> Any:
    def run(numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from frazil.stream.frames import TaskFailed
        from frazil.stream.worker_costs import settle

        settle()
        read = sent.value
        wanted = [slices[index] for number in numbers for index in number.column(0).to_pylist()]
        try:
            for batch in read.batches(wanted):
                rows = to_spark(batch.drop_columns([GONE]), read.schema)
                yield rows.append_column(GONE, batch.column(GONE))
        except FrazilError as error:
            raise TaskFailed(error) from None

    return run


def _catalog(spark: SparkSession, client: Client) -> str:
    """The client's warehouse in this session, under a name that no other has."""
    properties = msgspec.json.encode(client.iceberg_properties(), order="sorted")
    name = f"frazil_{zlib.crc32(properties):08x}"
    if spark.conf.get(f"spark.sql.catalog.{name}", None) is None:
        use_catalog(spark, name, client)
    return name


def _schema_then(found: Pinned) -> Schema:
    snapshots = {one["snapshot-id"]: one for one in found.metadata["snapshots"]}
    number = snapshots[found.pins.snapshot].get("schema-id", found.metadata["current-schema-id"])
    document = next(one for one in found.metadata["schemas"] if one["schema-id"] == number)
    return Schema.from_json(document, str(found))


def _loose(schema: Schema, key: Sequence[str]) -> Schema:
    """Of a row that is gone only the key is there."""
    return Schema(tuple(replace(field, required=field.name in key) for field in schema))


def require_types(schema: Schema, instead: str) -> None:
    """Unsupported: Spark has no type for a column. `instead`: what reads the table without Spark."""
    for field in schema:
        inside = () if isinstance(field.type, str) else tuple(primitives(field.type))
        if field.type == "time" or any(word in ("uuid", "time") or word[:5] == "fixed" for word in inside):
            raise Unsupported(
                f"the column '{field.name}' has a type that Spark does not (time, or uuid or fixed inside of "
                f"another): read the table without Spark ({instead})"
            )


def _initial(found: Pinned, field: Field) -> Column:
    """What rows have in a column that is younger than they are."""
    from pyspark.sql import functions as F  # noqa: N812

    fields = (one for document in found.metadata["schemas"] for one in document["fields"])
    given = (one.get("initial-default") for one in fields if one["id"] == field.id)
    default = next((one for one in given if one is not None), None)
    if default is not None:
        _require_primitive(found, field)
        if str(field.type).startswith(("binary", "fixed")):
            return F.unhex(F.lit(default))
    return F.lit(default).cast(spark_type(field.type))


def _require_primitive(found: Pinned, field: Field) -> None:
    if not isinstance(field.type, str):
        raise Unsupported(
            f"fields inside the column '{field.name}' of {found} were changed after its newest snapshot, "
            "which Spark cannot read with them: read it without Spark (frazil sql), or after the next commit"
        )


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
