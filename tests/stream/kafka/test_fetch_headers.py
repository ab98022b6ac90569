"""Headers of records, read natively and through Python's client."""

from __future__ import annotations

import ctypes

import pytest
from confluent_kafka import Producer
from tests.stream.kafka.reads import Reader, Topic, quiet, rows

from frazil.core.errors import Unsupported
from frazil.core.schema import arrow_type
from frazil.devstack.kafka import Kafka
from frazil.stream.config.model import MetadataColumns
from frazil.stream.kafka.native import librdkafka
from frazil.stream.source import Slice


def test_headers(kafka: Kafka, topic: Topic, reader: Reader) -> None:
    name = topic()
    producer = Producer(quiet(kafka))
    kinds: list[list[tuple[str, str | bytes | None]]] = [
        [("trace", b"\x00\xff"), ("trace", b"again"), ("none", None), ("empty", b"")],
        [],
        [("größe", b"1")],
        [("", b"")],
    ]
    sent = [kinds[i % len(kinds)] for i in range(3000)]
    for value, headers in enumerate(sent):
        producer.produce(name, b"%d" % value, None, 0, headers=headers)
        producer.poll(0)
    assert producer.flush(120) == 0
    for options in ({}, {"batch_records": 7}, {"batch_bytes": 500}):
        batches = list(reader(headers=True, **options).read([Slice(name, 0, 1, 3000)]))
        found: list[list[tuple[str, str | bytes | None]]] = []
        for batch in batches:
            assert batch.headers is not None
            batch.headers.validate(full=True)
            assert batch.headers.type == arrow_type(MetadataColumns(headers="h").fields()[0].type)
            found += [[(one["key"], one["value"]) for one in record] for record in batch.headers.to_pylist()]
        assert found == sent[1:]
        assert len(rows(batches)[name, 0]) == 2999
    (batch,) = reader(headers=True).read([Slice(name, 0, 1, 2)])
    assert batch.headers is not None
    assert batch.headers.to_pylist() == [[]]
    (batch,) = reader().read([Slice(name, 0, 1, 2)])
    assert batch.headers is None


def test_a_header_whose_name_is_no_text(kafka: Kafka, topic: Topic, reader: Reader, way: str) -> None:
    """Kafka takes it, and Python's producer does not."""
    name = topic()
    rdkafka, reason = ctypes.CDLL(librdkafka()), ctypes.create_string_buffer(500)
    for function in (rdkafka.rd_kafka_conf_new, rdkafka.rd_kafka_new, rdkafka.rd_kafka_headers_new):
        function.restype = ctypes.c_void_p
    conf = ctypes.c_void_p(rdkafka.rd_kafka_conf_new())
    rdkafka.rd_kafka_conf_set(conf, b"bootstrap.servers", kafka.bootstrap_servers.encode(), reason, 500)
    producer = ctypes.c_void_p(rdkafka.rd_kafka_new(0, conf, reason, 500))
    headers = ctypes.c_void_p(rdkafka.rd_kafka_headers_new(1))
    rdkafka.rd_kafka_header_add(headers, b"a\xff", ctypes.c_ssize_t(2), b"x", ctypes.c_ssize_t(1))
    value = (4, ctypes.c_char_p(b"v"), ctypes.c_size_t(1))
    sent = rdkafka.rd_kafka_producev(producer, 1, ctypes.c_char_p(name.encode()), *value, 10, headers, 0)
    assert sent == rdkafka.rd_kafka_flush(producer, 120_000) == 0
    rdkafka.rd_kafka_destroy(producer)
    read = reader(headers=True).read([Slice(name, 0, 0, 1)])
    if way == "native":
        (batch,) = read
        assert batch.headers is not None
        assert batch.headers.to_pylist() == [[{"key": "a\ufffd", "value": b"x"}]]
    else:
        with pytest.raises(Unsupported, match=rf"{name}\[0\] at offset 0 has a name that is no UTF-8"):
            list(read)


@pytest.mark.usefixtures("whole_batches")
def test_headers_count_for_the_size_of_batches(kafka: Kafka, topic: Topic, reader: Reader) -> None:
    name = topic()
    producer = Producer(quiet(kafka))
    for _ in range(20):
        producer.produce(name, None, None, 0, headers={"h": b"x" * 1000})
    assert producer.flush(120) == 0
    batches = list(reader(headers=True, batch_bytes=2500).read([Slice(name, 0, 0, 20)]))
    assert {len(batch) for batch in batches} == {2}
