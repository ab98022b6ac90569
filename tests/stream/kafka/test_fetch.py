"""Slices, read natively and through Python's client: both must say the same."""

from __future__ import annotations

import threading
import time

import pyarrow as pa
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType
from tests.stream.kafka.reads import Reader, Topic, numbered, produce, quiet, rows, transactions
from tests.stream.support import PATIENCE

from frazil.core.errors import InvalidConfig, SourceChanged, Unavailable
from frazil.devstack.kafka import Kafka
from frazil.stream.cdc.feed import KafkaChanges
from frazil.stream.config.model import KafkaSource, MetadataColumns
from frazil.stream.kafka.feed import KafkaFeed
from frazil.stream.kafka.fetch import SliceReader, shared_reader
from frazil.stream.kafka.native import NativeFetcher
from frazil.stream.source import Slice


def test_the_fixture_reads_the_way_it_says(way: str, reader: Reader, topic: Topic, kafka: Kafka) -> None:
    name = topic()
    produce(kafka, name, numbered(3))
    one = reader()
    assert sum(map(len, one.read([Slice(name, 0, 0, 3)]))) == 3
    assert isinstance(one._fetcher, NativeFetcher) == (way == "native")


def test_skewed_partitions_and_slices_in_the_middle(kafka: Kafka, topic: Topic, reader: Reader) -> None:
    name = topic(5)
    produce(kafka, name, numbered(30_000), 0, **{"compression.type": "lz4"})
    produce(kafka, name, numbered(10), 2)
    produce(kafka, name, numbered(500), 3)
    slices = [
        Slice(name, 0, 100, 29_000),
        Slice(name, 1, 0, 0),
        Slice(name, 2, 0, 10),
        Slice(name, 3, 499, 500),
        Slice(name, 4, 0, 0),
    ]
    found = rows(reader(batch_records=1000).read(slices))
    values = numbered(30_000)
    assert found == {
        (name, 0): list(enumerate(values))[100:29_000],
        (name, 2): list(enumerate(values[:10])),
        (name, 3): [(499, values[499])],
    }


def test_nothing_to_read(reader: Reader) -> None:
    assert list(reader().read([])) == []
    assert list(reader().read([Slice("nowhere", 0, 7, 7)])) == []


@pytest.mark.usefixtures("whole_batches")
def test_batches_are_bounded_by_records_and_bytes(kafka: Kafka, topic: Topic, reader: Reader) -> None:
    name = topic(3)
    for partition in range(3):
        produce(kafka, name, numbered(2000, 100), partition)
    slices = [Slice(name, partition, 0, 2000) for partition in range(3)]
    batches = list(reader(batch_records=128).read(slices))
    assert {len(batch) for batch in batches} <= {128, 2000 % 128}
    batches = list(reader(batch_bytes=10_000).read(slices))
    assert max(len(batch) for batch in batches) <= 100
    assert all(len(found) == 2000 for found in rows(batches).values())
    batches = list(reader(batch_bytes=1).read(slices))
    assert {len(batch) for batch in batches} == {1}
    assert len(batches) == 6000


def test_two_slices_of_a_partition_and_two_topics(kafka: Kafka, topic: Topic, reader: Reader) -> None:
    one, other = topic(), topic()
    produce(kafka, one, numbered(100))
    produce(kafka, other, numbered(50))
    slices = [Slice(one, 0, 60, 80), Slice(other, 0, 0, 50), Slice(one, 0, 10, 20), Slice(one, 0, 20, 21)]
    found = rows(reader().read(slices))
    assert [offset for offset, _ in found[one, 0]] == [*range(60, 80), *range(10, 20), 20]
    assert found[other, 0] == list(enumerate(numbered(50)))


def test_transactions_end_slices_by_position(kafka: Kafka, topic: Topic, reader: Reader) -> None:
    """0-4 committed, 5 marker; 6-8 aborted, 9 marker; 10-11 committed, 12 marker; 13-14 aborted, 15 its."""
    name = topic()
    transactions(kafka, name, ("commit", 5), ("abort", 3), ("commit", 2), ("abort", 2))
    seen = [0, 1, 2, 3, 4, 10, 11]
    one = reader()
    for start, end in [
        (0, 5),
        (0, 6),
        (0, 7),
        (5, 6),
        (6, 10),
        (9, 10),
        (9, 11),
        (12, 13),
        (13, 16),
        (15, 16),
        (0, 16),
    ]:
        found = rows(one.read([Slice(name, 0, start, end)])).get((name, 0), [])
        assert [offset for offset, _ in found] == [offset for offset in seen if start <= offset < end], (
            start,
            end,
        )
        assert all(value is not None and value.startswith(b"commit") for _, value in found)


def test_an_open_transaction_beyond_the_slice(kafka: Kafka, topic: Topic, reader: Reader) -> None:
    name = topic()
    transactions(kafka, name, ("commit", 3), ("open", 4))
    found = rows(reader().read([Slice(name, 0, 0, 4)]))
    assert [offset for offset, _ in found[name, 0]] == [0, 1, 2]


def test_a_slice_that_cannot_be_finished_is_given_up(kafka: Kafka, topic: Topic, reader: Reader) -> None:
    name = topic()
    transactions(kafka, name, ("commit", 3), ("open", 4))
    one = reader(batch_records=1)
    batches = one.read([Slice(name, 0, 0, 8)])
    assert len([next(batches), next(batches)]) == 2
    # Only from now on: the first answer of a busy broker may take longer.
    one._idle = 1.5
    with pytest.raises(Unavailable, match=rf"sent nothing for \d+ s while {name}\[0\]"):
        list(batches)


@pytest.fixture(scope="module")
def compacted(kafka: Kafka) -> str:
    """Of offsets 0 to 19 only 18 and 19 are left."""
    resource = ConfigResource(ResourceType.BROKER, "1")
    resource.add_incremental_config(
        ConfigEntry("log.cleaner.backoff.ms", "200", incremental_operation=AlterConfigOpType.SET)
    )
    (changed,) = kafka.admin.incremental_alter_configs([resource]).values()
    changed.result(PATIENCE)
    settings = {
        "cleanup.policy": "compact",
        "segment.ms": "100",
        "min.cleanable.dirty.ratio": "0.01",
        "max.compaction.lag.ms": "100",
    }
    name = kafka.create_topic("fetch-compacted", config=settings)
    producer = Producer(quiet(kafka))
    for value in range(20):
        producer.produce(name, f"{value}".encode(), key=f"{value % 2}", partition=0)
    assert producer.flush(PATIENCE) == 0
    return name


def test_a_compacted_topic_has_gaps(kafka: Kafka, compacted: str, reader: Reader) -> None:
    producer = Producer(quiet(kafka))
    one = reader()
    deadline = time.monotonic() + 2 * PATIENCE
    found = rows(one.read([Slice(compacted, 0, 0, 20)]))[compacted, 0]
    while len(found) > 2 and time.monotonic() < deadline:
        time.sleep(0.2)
        producer.produce(
            compacted, b"", key="later", partition=0
        )  # closes the segment, so that it is compacted
        assert producer.flush(PATIENCE) == 0
        found = rows(one.read([Slice(compacted, 0, 0, 20)]))[compacted, 0]
    assert found == [(18, b"18"), (19, b"19")]
    assert list(one.read([Slice(compacted, 0, 3, 18)])) == []
    assert rows(one.read([Slice(compacted, 0, 3, 19)]))[compacted, 0] == [(18, b"18")]


@pytest.mark.usefixtures("whole_batches")
def test_nulls_empties_keys_headers(kafka: Kafka, topic: Topic, reader: Reader) -> None:
    name = topic()
    producer = Producer(quiet(kafka))
    records: list[tuple[bytes | None, bytes | None]] = [
        (None, b"k1"),
        (b"", b""),
        (b"v", None),
        (None, None),
        (b"\x00\xff", b"\x00"),
    ]
    for i, (value, key) in enumerate(records * 5):
        producer.produce(name, value, key, 0, timestamp=1_700_000_000_000 + i, headers={"h": b"x", "n": None})
    assert producer.flush(PATIENCE) == 0
    (batch,) = reader(keys=True).read([Slice(name, 0, 0, 25)])
    assert batch.keys is not None
    assert list(zip(batch.values.to_pylist(), batch.keys.to_pylist(), strict=True)) == records * 5
    assert batch.values.type == batch.keys.type == pa.binary()
    assert batch.values.null_count == 10
    assert batch.timestamps.to_pylist() == [1_700_000_000_000 + i for i in range(25)]
    (batch,) = reader().read([Slice(name, 0, 3, 25)])
    assert batch.keys is None
    assert batch.values.to_pylist() == [value for value, _ in records * 5][3:]
    (batch,) = reader().read([Slice(name, 0, 3, 4)])
    assert batch.values.to_pylist() == [None]


def test_batches_know_their_slice(kafka: Kafka, topic: Topic, reader: Reader) -> None:
    name = topic(2)
    produce(kafka, name, numbered(100), 0)
    produce(kafka, name, numbered(100), 1)
    slices = [Slice(name, 0, 10, 20), Slice(name, 1, 5, 90), Slice(name, 0, 20, 33)]
    found = {
        (batch.partition, offset): batch.slice_start
        for batch in reader(batch_records=4).read(slices)
        for offset in batch.offsets.to_pylist()
    }
    assert found == {(s.partition, offset): s.start for s in slices for offset in range(s.start, s.end)}


@pytest.mark.usefixtures("whole_batches")
def test_large_records(kafka: Kafka, topic: Topic, reader: Reader) -> None:
    name = topic(max_message_bytes="30000000")
    values = [b"a" * 3_000_000, b"small", b"b" * 21_000_000, b"c"]
    produce(kafka, name, values, **{"message.max.bytes": 30_000_000})
    batches = list(reader(batch_bytes=4_000_000).read([Slice(name, 0, 0, 4)]))
    assert [value for batch in batches for value in batch.values.to_pylist()] == values
    assert len(batches) == 3


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_codecs(kafka: Kafka, topic: Topic, reader: Reader, codec: str) -> None:
    name = topic()
    produce(kafka, name, numbered(5000), 0, **{"compression.type": codec})
    assert rows(reader().read([Slice(name, 0, 1, 4999)]))[name, 0] == list(enumerate(numbered(5000)))[1:4999]


def test_trimmed_records_are_refused(kafka: Kafka, topic: Topic, reader: Reader) -> None:
    name = topic()
    produce(kafka, name, numbered(100))
    (future,) = kafka.admin.delete_records([TopicPartition(name, 0, 40)]).values()
    future.result(PATIENCE)
    one = reader()
    for advice in ("", "Do this."):
        with pytest.raises(SourceChanged, match=rf"topic {name}, partition 0, offsets 30 to 60") as caught:
            list(one.read([Slice(name, 0, 30, 60)], advice))
        assert caught.value.message.endswith(f"made again. {advice}".rstrip())
    assert len(rows(one.read([Slice(name, 0, 40, 60)]))[name, 0]) == 20
    source = KafkaSource({"bootstrap.servers": kafka.bootstrap_servers}, topics=(name,))
    for feed in (KafkaFeed(source, MetadataColumns())._reader, KafkaChanges(source)._reader):
        with pytest.raises(SourceChanged, match="frazil reset"):
            list(feed.read([Slice(name, 0, 30, 60)]))


def test_offsets_beyond_the_log_are_refused(kafka: Kafka, topic: Topic, reader: Reader) -> None:
    """As after a topic was deleted and made again."""
    name = topic()
    produce(kafka, name, numbered(10))
    with pytest.raises(SourceChanged, match="deleted and made again"):
        list(reader().read([Slice(name, 0, 30, 60)]))


def test_unknown_topics_and_partitions(kafka: Kafka, topic: Topic, reader: Reader) -> None:
    name = topic()
    settings = {"topic.metadata.propagation.max.ms": "100"}
    with pytest.raises(SourceChanged, match=r"does not know the partition nowhere\[0\]"):
        list(reader(settings).read([Slice("nowhere", 0, 0, 5)]))
    with pytest.raises(SourceChanged, match=rf"does not know the partition {name}\[7\]"):
        list(reader(settings).read([Slice(name, 7, 0, 5)]))


def test_no_broker(way: str) -> None:
    one = SliceReader({"bootstrap.servers": "127.0.0.1:1"}, idle_seconds=4)
    with pytest.raises(Unavailable, match=r"orders\[0\] was to be read: .*127\.0\.0\.1:1"):
        list(one.read([Slice("orders", 0, 0, 5)]))


def test_settings_that_cannot_be(way: str, kafka: Kafka) -> None:
    for settings, text in [
        ({"sasl.passwort": "hunter2"}, "sasl.passwort"),
        ({"security.protocol": "TELEPATHY"}, "security.protocol"),
        ({"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}, "sasl.username"),
    ]:
        with pytest.raises(InvalidConfig, match=text) as caught:
            list(SliceReader(settings).read([Slice("orders", 0, 0, 5)]))
        assert "hunter2" not in str(caught.value)


def test_what_we_insist_on_cannot_be_changed(kafka: Kafka, topic: Topic, reader: Reader) -> None:
    name = topic()
    transactions(kafka, name, ("abort", 3), ("commit", 1))
    loose = {
        "isolation.level": "read_uncommitted",
        "auto.offset.reset": "earliest",
        "enable.partition.eof": "false",
        "enable.auto.commit": "true",
        "group.id": "someone",
    }
    one = reader(loose)
    assert [offset for offset, _ in rows(one.read([Slice(name, 0, 0, 6)]))[name, 0]] == [4]
    with pytest.raises(SourceChanged):
        list(one.read([Slice(name, 0, 30, 60)]))


def test_a_read_left_in_the_middle(kafka: Kafka, topic: Topic, reader: Reader) -> None:
    name = topic()
    produce(kafka, name, numbered(20_000))
    one = reader(batch_records=100)
    for start in (5000, 100, 0):
        left = one.read([Slice(name, 0, start, 20_000)])
        assert next(left).offsets[0].as_py() == start
        left.close()  # type: ignore[attr-defined]
        held = one.read([Slice(name, 0, start, 20_000)])
        next(held)  # and this one stays around, as a traceback would keep it
        found = rows(one.read([Slice(name, 0, 50, 300)]))[name, 0]
        assert found == list(enumerate(numbered(300)))[50:]
        with pytest.raises(RuntimeError, match="another read"):
            next(held)
        assert len(rows(one.read([Slice(name, 0, 0, 70)]))[name, 0]) == 70


def test_back_and_forth_in_a_partition(kafka: Kafka, topic: Topic, reader: Reader) -> None:
    """What was read ahead for one slice is not taken for records of the next."""
    name = topic(2)
    values = numbered(20_000)
    for partition in range(2):
        produce(kafka, name, values, partition)
    one = reader()
    for start, end in [
        (10_000, 10_010),
        (500, 600),
        (19_000, 20_000),
        (0, 3),
        (9_000, 15_000),
        (8_999, 9_001),
    ] * 3:
        found = rows(one.read([Slice(name, 0, start, end), Slice(name, 1, start, end)]))
        assert found == dict.fromkeys([(name, 0), (name, 1)], list(enumerate(values))[start:end])


def test_readers_are_shared(kafka: Kafka, topic: Topic, way: str) -> None:
    name = topic()
    produce(kafka, name, numbered(10))
    settings = {"bootstrap.servers": kafka.bootstrap_servers, "client.id": f"shared-{way}"}
    one = shared_reader(settings)
    assert shared_reader(dict(settings)) is one
    assert shared_reader(settings, keys=True) is not one
    assert shared_reader(settings, headers=True) is not one
    assert len(rows(one.read([Slice(name, 0, 0, 10)]))[name, 0]) == 10
    kept = one._fetcher
    assert len(rows(one.read([Slice(name, 0, 0, 10)]))[name, 0]) == 10
    assert one._fetcher is kept
    other: list[SliceReader] = []
    thread = threading.Thread(target=lambda: other.append(shared_reader(settings)))
    thread.start()
    thread.join()
    assert other[0] is not one
    one.close()
