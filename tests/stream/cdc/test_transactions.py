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


def of_one_transaction(events: list[Event]) -> list[Event]:
    """As Debezium marks them."""
    marked: list[Event] = []
    for number, (key, value, headers) in enumerate(events, start=1):
        assert value is not None
        block = {"id": "7:100", "total_order": number, "data_collection_order": number}
        marked.append((key, json.dumps(json.loads(value) | {"transaction": block}).encode(), headers))
    return marked


def transactional(world: World, topic: str, table: str) -> PipelineConfig:
    return pipeline(world, topic, table, changes={"whole_transactions": True}, freshness="100ms")


def test_half_a_transaction_waits_for_the_rest_however_late(world: World, producer: Producer) -> None:
    topic, table, ids = topic_of(world), "cdc_late", range(3)
    ends = world.kafka.create_topic(f"{topic.split('.')[0]}.transaction", partitions=1)
    source = ChangingTable()
    for number in ids:
        source.put(id=number, word="of three")
    events = of_one_transaction(source.events)
    source.send(producer, topic, events[:2])
    with world.running(transactional(world, topic, table)) as run:

        def told() -> list[str]:
            return [event.reason for event in world.seen.events if isinstance(event, RoundRetried)]

        run.until(lambda: any("wait for the end of their transaction" in text for text in told()))
        assert world.rows(table) == []
        source.send(producer, topic, events[2:])
        end = {
            "status": "END",
            "id": "7:100",
            "event_count": 3,
            "data_collections": [{"data_collection": "inv.orders", "event_count": 3}],
        }
        producer.produce(ends, json.dumps(end).encode(), partition=0)
        producer.flush(120)
        run.until(lambda: len(world.rows(table)) == len(ids))
    assert not run.errors
    with load_catalog("late", type="rest", uri=world.server.catalog_uri, warehouse="default") as catalog:
        found = catalog.load_table(f"paths.{table}")
        counts = [found.scan(snapshot_id=one.snapshot_id).to_arrow().num_rows for one in found.snapshots()]
    assert set(counts) == {0, len(ids)}


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
