"""Rows into hot tables: what is in the log afterwards, read by Kafka's own consumer."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
import pytest
from confluent_kafka import Consumer, TopicPartition
from tests.hot.support import PATIENCE, grow

import frazil
from frazil.client import Client
from frazil.core.changes import Op
from frazil.core.errors import InvalidInput, SourceChanged, Unavailable, Unsupported
from frazil.core.schema import Field, Schema
from frazil.devstack.frazil_server import FrazilServer
from frazil.devstack.kafka import Kafka
from frazil.hot import declare
from frazil.hot.create import create
from frazil.hot.table import Binding, HotTable
from frazil.hot.write.fit import CHUNK, Fit
from frazil.hot.write.put import Encoding, Writer, _batches
from frazil.hot.write.sending import Sender
from frazil.stream.cdc.decode.decoder import change_decoder
from frazil.stream.config.model import JsonFormat
from frazil.stream.sizes import LARGEST
from frazil.stream.source import RawBatch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_numbers = itertools.count(1)
_NOWHERE = {"bootstrap.servers": "127.0.0.1:1", "delivery.timeout.ms": "1000", "linger.ms": "5"}
_COLUMNS = {"order_id": "long", "region": "string", "price": "decimal(15, 2)", "at": "timestamptz"}


@pytest.fixture
def client(frazil_sqlite: FrazilServer) -> Iterator[Client]:
    with Client(frazil_sqlite.uri) as found:
        yield found


@pytest.fixture
def brokers(kafka: Kafka) -> dict[str, str]:
    return {"bootstrap.servers": kafka.bootstrap_servers}


@pytest.fixture
def orders(client: Client, brokers: dict[str, str]) -> HotTable:
    name = f"put{next(_numbers)}.orders"
    declared = declare(name, columns=_COLUMNS, key=["region", "order_id"], buckets=3)
    return create(declared, client, brokers).table


def log(table: HotTable) -> list[tuple[int, bytes | None, bytes | None]]:
    """Partition, key and value of every record; those of a partition in order."""
    consumer = Consumer({**table.settings({}), "group.id": "none", "enable.partition.eof": False})
    partitions = consumer.list_topics(table.topic, PATIENCE).topics[table.topic].partitions
    ends = {
        number: consumer.get_watermark_offsets(TopicPartition(table.topic, number))[1]
        for number in partitions
    }
    consumer.assign([TopicPartition(table.topic, number, 0) for number in partitions])
    found: list[tuple[int, bytes | None, bytes | None]] = []
    while len(found) < sum(ends.values()):
        message = consumer.poll(PATIENCE)
        assert message is not None
        assert message.error() is None
        found.append((message.partition() or 0, message.key(), message.value()))
    consumer.close()
    return sorted(found, key=lambda record: record[0])


def state(table: HotTable) -> dict[Any, dict[str, Any]]:
    """The rows that the log leads to, by the decoder that tiering has."""
    rows: dict[Any, dict[str, Any]] = {}
    records = log(table)
    numbers = pa.array(range(len(records)), pa.int64())
    raw = RawBatch(
        table.topic,
        0,
        pa.array([value for _, _, value in records], pa.binary()),
        numbers,
        numbers,
        keys=pa.array([key for _, key, _ in records], pa.binary()),
    )
    changes = change_decoder(JsonFormat(), table.schema, table.key).decode(raw)
    assert changes.bad == ()
    for row, op in zip(changes.rows.to_pylist(), changes.order.column("op").to_pylist(), strict=True):
        key = tuple(row[name] for name in table.key)
        rows.pop(key, None)
        if op != Op.DELETE:
            rows[key] = row
    return rows


def test_dicts_arrow_and_deletes(orders: HotTable, frazil_sqlite: FrazilServer) -> None:
    at = datetime(2024, 5, 1, 12, tzinfo=UTC)
    with frazil.hot_writer(str(orders), catalog=frazil_sqlite.uri) as writer:
        assert (
            writer.put(
                [{"order_id": n, "region": "eu", "price": Decimal("1.5"), "at": at} for n in range(100)]
            )
            == 100
        )
        more = pa.table({"order_id": pa.array(range(90, 120), pa.int32()), "region": ["eu"] * 30})
        assert writer.put(more) == 30
        assert writer.put(more.to_batches()[0].slice(0, 1)) == 1
        assert writer.put(pd.DataFrame({"order_id": [7, 7], "region": ["us", "us"]})) == 2
        assert (
            writer.delete([{"order_id": 0, "region": "eu", "price": "x"}, {"order_id": 1, "region": "eu"}])
            == 2
        )
        assert writer.delete(more.slice(29)) == 1
    found = state(orders)
    assert set(found) == {(n, "eu") for n in range(2, 119)} | {(7, "us")}
    assert found[5, "eu"] == {"order_id": 5, "region": "eu", "price": Decimal("1.50"), "at": at}
    assert found[95, "eu"]["price"] is None
    by_key: dict[bytes | None, set[int]] = {}
    for partition, key, _ in log(orders):
        by_key.setdefault(key, set()).add(partition)
    assert all(len(partitions) == 1 for partitions in by_key.values())
    # In the order of the columns.
    assert b'{"order_id":7,"region":"us"}' in by_key


def test_partitions_are_those_of_javas_producers(
    orders: HotTable, client: Client, brokers: dict[str, str]
) -> None:
    name = f"put{next(_numbers)}.hashed"
    table = create(declare(name, columns={"id": "long"}, key="id", buckets=16), client, brokers).table
    with Writer(table) as writer:
        writer.put([{"id": number} for number in range(200)])
    for partition, key, _ in log(table):
        assert key is not None
        assert partition == (_murmur2(key) & 0x7FFFFFFF) % 16


def test_a_row_that_does_not_fit_keeps_all_out(orders: HotTable) -> None:
    with Writer(orders) as writer:
        with pytest.raises(
            InvalidInput, match=r"row 3 does not fit .*, column 'price'.*None of these was sent"
        ):
            writer.put(
                [{"order_id": n, "region": "eu", "price": "1.005" if n == 2 else "1"} for n in range(5)]
            )
        with pytest.raises(InvalidInput, match=r"row 2 does not fit the primary key of .* column 'region'"):
            writer.delete([{"order_id": 1, "region": "eu"}, {"order_id": 1}])
        with pytest.raises(InvalidInput, match=r"row 1 .*bytes as JSON; legal are up to 1000000"):
            writer.put([{"order_id": 1, "region": "x" * 1_000_000}])
        many = pa.table({"order_id": [*range(CHUNK), None], "region": ["eu"] * (CHUNK + 1)})
        with pytest.raises(InvalidInput, match=f"row {CHUNK + 1} does not fit"):
            writer.put(many)
        with pytest.raises(InvalidInput, match="a list of dicts"):
            writer.put(5)
        with pytest.raises(InvalidInput, match="also if it is one"):
            writer.put({"order_id": 1})
        with pytest.raises(InvalidInput, match="is a dict with order_id, region"):
            writer.delete([1])
    assert log(orders) == []


def test_a_table_without_a_key(client: Client, brokers: dict[str, str]) -> None:
    name = f"put{next(_numbers)}.clicks"
    table = create(
        declare(name, columns={"who": "string", "n": "int"}, bucket_key="who", buckets=4), client, brokers
    ).table
    with Writer(table, brokers) as writer:
        writer.put([{"who": str(n % 7), "n": n} for n in range(50)])
        for keys in ([1], pa.table({"who": ["1"]})):
            with pytest.raises(Unsupported, match="has no primary key"):
                writer.delete(keys)
    records = log(table)
    assert len({(key, partition) for partition, key, _ in records}) == 7
    bare = create(declare(f"{name}2", columns={"n": "int"}), client, brokers).table
    with Writer(bare) as writer:
        writer.put([{"n": 1}])
    assert [(key, value) for _, key, value in log(bare)] == [(None, b'{"n":1}')]


def test_the_log_must_be_the_tables_own(orders: HotTable, kafka: Kafka) -> None:
    grow(kafka, orders.topic, 5)
    with pytest.raises(SourceChanged, match="partitions and has 5"):
        Writer(orders)
    with pytest.raises(Unavailable, match=r"127\.0\.0\.1:1"):
        Writer(orders, {"bootstrap.servers": "127.0.0.1:1"})


def test_what_is_not_delivered_is_an_error() -> None:
    sender = Sender("nowhere", _NOWHERE)
    sender.send([None] * 3, [b"{}"] * 3)
    with pytest.raises(Unavailable, match="3 records were not delivered to the topic nowhere"):
        sender.flush()
    sender.flush()


def test_what_is_not_delivered_is_told_with_the_next_row() -> None:
    """Rows may come one by one, and for days."""
    sender = Sender("nowhere", _NOWHERE)
    sender.send([None], [b"{}"])
    time.sleep(2)
    with pytest.raises(Unavailable, match="1 records were not delivered to the topic nowhere"):
        sender.send([None], [b"{}"])


def test_what_is_not_delivered_behind_an_error_is_told_too() -> None:
    def put() -> None:
        with Sender("nowhere", _NOWHERE) as sender:
            sender.send([None] * 2, [b"{}"] * 2)
            raise InvalidInput("a bad row")

    with pytest.raises(InvalidInput, match=r"a bad row\. 2 records were not delivered"):
        put()


def test_a_row_that_no_reader_of_the_log_takes() -> None:
    """Brokers that take it do not help."""
    binding = Binding(topic="a.b", topic_id="T", source="kafka:K", brokers="x")
    table = HotTable(("a",), "b", binding, Schema((Field("word", "string"),)))
    for size, good in ((LARGEST - 100, True), (LARGEST, False)):
        (rows,) = Fit(table.schema, "a.b").arrow(pa.table({"word": ["x" * size]}))
        if good:
            assert len(Encoding(table, 2 * LARGEST).upserts(rows)) == 1
        else:
            with pytest.raises(InvalidInput, match=rf"bytes as JSON; legal are up to {LARGEST}\. None"):
                Encoding(table, 2 * LARGEST).upserts(rows)


def test_indexes_of_pandas() -> None:
    """What only tells which rows were left by a filter is no column. An index with a name is one."""
    fit = Fit(Schema((Field("n", "long"), Field("word", "string"))), "a.b")
    frame = pd.DataFrame({"n": [1, 2, 3, 4], "word": ["a", "b", "c", "d"]})
    left = frame[frame.n != 2]
    wanted = [{"n": 1, "word": "a"}, {"n": 3, "word": "c"}, {"n": 4, "word": "d"}]
    for one in (left, left.set_index("n"), left.set_index("n", append=True)):
        assert [row for batch in _batches(one, fit, 0) for row in batch.to_pylist()] == wanted
    # One that pandas keeps as a range, which Arrow by itself takes for a mere count.
    (batch,) = _batches(frame.set_index("n"), fit, 0)
    assert batch.column("n").to_pylist() == [1, 2, 3, 4]


def test_a_spark_frame(orders: HotTable, spark: SparkSession) -> None:
    frame = spark.range(1000).selectExpr(
        "id AS order_id", "'eu' AS region", "CAST(id AS decimal(10, 1)) AS price"
    )
    with Writer(orders) as writer:
        writer.put([{"order_id": 5, "region": "eu"}])
        assert writer.put(frame) == 1000
        with pytest.raises(InvalidInput, match="column 'order_id': is null"):
            writer.put(spark.sql("SELECT CAST(NULL AS long) AS order_id, 'eu' AS region"))
    found = state(orders)
    assert len(found) == 1000
    assert found[5, "eu"]["price"] == Decimal("5.00")


def test_rows_are_deleted_by_a_spark_frame(orders: HotTable, spark: SparkSession) -> None:
    frame = spark.range(100).selectExpr("'eu' AS region", "id AS order_id", "'x' AS price")
    with Writer(orders, {"linger.ms": "60000", "delivery.timeout.ms": "120000"}) as writer:
        # Else still here when the tasks are done.
        writer.put([{"order_id": number, "region": "eu"} for number in range(103)])
        assert writer.delete(frame) == 100
        with pytest.raises(
            InvalidInput, match=r"row 1 does not fit the primary key of .* 'order_id': is null"
        ):
            writer.delete(spark.sql("SELECT CAST(NULL AS long) AS order_id, 'eu' AS region"))
        for keys in (frame.select("order_id"), pa.table({"order_id": [100]})):
            with pytest.raises(InvalidInput, match=r"by order_id, region; .* lack region"):
                writer.delete(keys)
    assert set(state(orders)) == {(100, "eu"), (101, "eu"), (102, "eu")}


def test_json_lines(orders: HotTable) -> None:
    lines = [
        json.dumps({"order_id": n, "region": "eu", "at": "2024-05-01T12:00:00+02:00"}).encode()
        for n in range(10)
    ]
    with Writer(orders) as writer:
        assert writer.put_lines(lines) == 10
        assert writer.delete_lines([b'{"order_id": 1, "region": "eu"}']) == 1
        with pytest.raises(InvalidInput, match="line 13 does not fit"):
            writer.put_lines([*lines[:2], b"nonsense"], first=10)
    found = state(orders)
    assert len(found) == 9
    assert found[2, "eu"]["at"] == datetime(2024, 5, 1, 10, tzinfo=UTC)


def _murmur2(data: bytes) -> int:
    """As Kafka's Java has it."""
    mask, m = 0xFFFFFFFF, 0x5BD1E995
    h = 0x9747B28C ^ len(data)
    whole = len(data) // 4 * 4
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at : at + 4], "little") * m & mask
        k = (k ^ k >> 24) * m & mask
        h = (h * m & mask) ^ k
    if rest := data[whole:]:
        h = (h ^ int.from_bytes(rest, "little")) * m & mask
    h = (h ^ h >> 13) * m & mask
    return h ^ h >> 15
