"""All rows of a transaction come in one commit, where that is asked for."""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from confluent_kafka import Producer
from pyiceberg.catalog import load_catalog
from tests.stream.cdc.changing import ChangingTable, Event
from tests.stream.cdc.sources import PostgresSource
from tests.stream.cdc.test_lanes import pipeline, topic_of
from tests.stream.cdc.test_tasks import TOPIC, Events
from tests.stream.world import World

from frazil.core.changes import ORDER
from frazil.core.errors import InvalidConfig, Unsupported
from frazil.devstack.connect import KafkaConnect
from frazil.devstack.postgres import Postgres
from frazil.stream.cdc.changes import Changes
from frazil.stream.cdc.transactions import Tail, tail_after
from frazil.stream.config.model import PipelineConfig
from frazil.stream.events import RoundRetried
from frazil.stream.source import RawBatch, Slice

ACCOUNTS, BALANCE = 10, 100


def test_the_transaction_at_the_end() -> None:
    tail: Tail | None = None
    found: list[Tail | None] = []
    for ids in (["a", "b"], ["b", "b"], ["b", "c"], ["d"], [None]):
        first = 10 * len(found)
        value = b'{"transaction":{"data_collection_order":%d}}'
        events: tuple[Event, ...] = tuple((None, value % (first + number), {}) for number in range(len(ids)))
        (raw,) = Events((events,)).read([Slice(TOPIC, 0, 0, len(ids))])
        offsets = pa.array(range(first, first + len(ids)), pa.int64())
        tail = tail_after(tail, _changes(raw, ids, offsets))
        found.append(tail)
    assert found == [Tail("b", 1, 1), Tail("b", 1, 11), Tail("c", 21, 21), Tail("d", 30, 30), None]


def _changes(raw: RawBatch, ids: list[Any], offsets: pa.Array) -> Changes:
    empty = {name: [None] * len(ids) for name in ORDER.names} | {"offset": offsets}
    order = pa.RecordBatch.from_pydict(
        empty, pa.schema([pa.field(field.name, field.type) for field in ORDER])
    )
    return Changes(
        replace(raw, offsets=offsets), pa.record_batch({}), order, transactions=pa.array(ids, pa.string())
    )


def of_one_transaction(events: list[Event], name: str = "7:100") -> list[Event]:
    """As Debezium marks them; a tombstone has no place for it."""
    marked: list[Event] = []
    number = 0
    for key, value, headers in events:
        number += value is not None
        block = {"id": name, "total_order": number, "data_collection_order": number}
        changed = value and json.dumps(json.loads(value) | {"transaction": block}).encode()
        marked.append((key, changed, headers))
    return marked


def told_of_its_end(
    producer: Producer, topic: str, count: int, name: str = "7:100", partition: int = 0
) -> None:
    collections = [{"data_collection": "inv.orders", "event_count": count}]
    end = {"status": "END", "id": name, "event_count": count, "data_collections": collections}
    producer.produce(topic, json.dumps(end).encode(), partition=partition)
    producer.flush(120)


def transactional(world: World, topic: str, table: str, **settings: Any) -> PipelineConfig:
    settings = {"changes": {"whole_transactions": True}, "freshness": "100ms"} | settings
    return pipeline(world, topic, table, **settings)


def numbers_of_rows(world: World, table: str) -> list[int]:
    """Snapshot by snapshot."""
    with load_catalog("counts", type="rest", uri=world.server.catalog_uri, warehouse="default") as catalog:
        found = catalog.load_table(f"paths.{table}")
        return [found.scan(snapshot_id=one.snapshot_id).to_arrow().num_rows for one in found.snapshots()]


def test_a_topic_that_was_renamed(world: World, producer: Producer) -> None:
    topic, source = world.kafka.create_topic(topic_of(world).replace(".", "-")), ChangingTable()
    source.put(id=1, word="a")
    source.send(producer, topic, of_one_transaction(source.events))
    with pytest.raises(Unsupported, match=f"the topic {topic} was renamed"):
        world.run(transactional(world, topic, "cdc_renamed"))


def test_half_a_transaction_waits_for_the_rest_however_late(world: World, producer: Producer) -> None:
    """Also where it ends in half of a changed key, and more has come since than fits into a round."""
    topic, table = topic_of(world), "cdc_late"
    ends = world.kafka.create_topic(f"{topic.split('.')[0]}.transaction", partitions=2)
    source = ChangingTable()
    for number in range(3):
        source.put(id=number, word="of three")
    source.change_key((1,), id=100, word="moved")
    events = of_one_transaction(source.events)
    source.send(producer, topic, events[:-1])
    line = transactional(world, topic, table, limits={"records_per_round": 10, "records_per_task": 5})
    with world.running(line) as run:

        def told() -> list[str]:
            return [event.reason for event in world.seen.events if isinstance(event, RoundRetried)]

        run.until(lambda: any("wait for the end of their transaction" in text for text in told()))
        assert world.rows(table) == []
        source.events.clear()
        rest = events[-1:]
        for number in range(20):
            for row in range(3):
                source.put(id=1000 + 3 * number + row, word="later")
            name = f"8:{200 + number}"
            rest += of_one_transaction(source.events, name)
            told_of_its_end(producer, ends, 3, name, partition=number % 2)
            source.events.clear()
        told_of_its_end(producer, ends, 5, partition=1)
        source.send(producer, topic, rest)
        run.until(lambda: len(world.rows(table)) == len(source.rows))
    assert not run.errors
    assert {(row["id"],): row for row in world.rows(table)} == source.rows
    assert all(count % 3 == 0 for count in numbers_of_rows(world, table))


def test_a_transaction_of_many_rounds_lands_in_one(world: World, producer: Producer) -> None:
    topic, count = topic_of(world), 400
    ends = world.kafka.create_topic(f"{topic.split('.')[0]}.transaction", partitions=1)
    source = ChangingTable()
    for number in range(count):
        source.put(id=number, word="of many")
    source.send(producer, topic, of_one_transaction(source.events))
    told_of_its_end(producer, ends, count)
    small = {"records_per_round": 5, "records_per_task": 5}
    world.run(transactional(world, topic, "cdc_long", limits=small))
    assert set(numbers_of_rows(world, "cdc_long")) == {0, count}


def test_transactions_that_cannot_be_told_apart_are_refused(world: World, producer: Producer) -> None:
    source = ChangingTable()
    source.put(id=1, word="a")
    bare = topic_of(world)
    source.send(producer, bare, source.events)
    with pytest.raises(InvalidConfig, match=r"provide\.transaction\.metadata"):
        world.run(transactional(world, bare, "cdc_bare"))
    spread = world.kafka.create_topic(bare.replace("orders", "spread"), partitions=2)
    source.send(producer, spread, of_one_transaction(source.events))
    with pytest.raises(Unsupported, match="has 2 partitions"):
        world.run(transactional(world, spread, "cdc_spread"))


@pytest.mark.slow
def test_no_snapshot_shows_half_of_a_transfer(
    world: World, postgres_source: Postgres, connect: KafkaConnect
) -> None:
    rng = Random(5)
    with PostgresSource(postgres_source, world.kafka, connect) as source:
        source.run("CREATE TABLE accounts (id INT PRIMARY KEY, balance INT)", *source.publishing("accounts"))
        source.run(*(f"INSERT INTO accounts VALUES ({n}, {BALANCE})" for n in range(ACCOUNTS)))
        source.start()
        connect.wait_streaming(source.name)
        for _ in range(25):
            source.run(*_transfers(rng))
        source.settle()
        line = pipeline(
            world,
            source.topic("accounts"),
            "cdc_accounts",
            name="transfers",
            changes={"whole_transactions": True},
            limits={"records_per_round": 5, "records_per_task": 1},
        )
        world.run(line)
        expected = {row["id"]: row["balance"] for row in source.rows("accounts")}
    assert {row["id"]: row["balance"] for row in world.rows("cdc_accounts")} == expected
    sums = _sums(world, "cdc_accounts")
    assert len(sums) > 10
    assert set(sums[sums.index(ACCOUNTS * BALANCE) :]) == {ACCOUNTS * BALANCE}


def _transfers(rng: Random) -> list[str]:
    """Of one transaction."""
    statements = []
    for _ in range(rng.choice([1, 1, 2, 6])):
        payer, payee = rng.sample(range(ACCOUNTS), 2)
        amount = rng.randrange(1, 20)
        for account, change in ((payer, -amount), (payee, amount)):
            statements.append(f"UPDATE accounts SET balance = balance + {change} WHERE id = {account}")
    return statements


def _sums(world: World, table: str) -> list[int]:
    """Of all balances, snapshot by snapshot."""
    with load_catalog("sums", type="rest", uri=world.server.catalog_uri, warehouse="default") as catalog:
        found = catalog.load_table(f"paths.{table}")
        scans = [found.scan(snapshot_id=snapshot.snapshot_id) for snapshot in found.snapshots()]
        return [pc.sum(scan.to_arrow().column("balance")).as_py() or 0 for scan in scans]
