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
from tests.stream.cdc.test_tasks import SCHEMA, TOPIC, Events
from tests.stream.world import World

from frazil.core.changes import ORDER
from frazil.core.errors import InvalidConfig, Unsupported
from frazil.devstack.connect import KafkaConnect
from frazil.devstack.postgres import Postgres
from frazil.stream.cdc.changes import Changes
from frazil.stream.cdc.decode import change_decoder
from frazil.stream.cdc.feed import told_of_in
from frazil.stream.cdc.transactions import Tail, tail_after
from frazil.stream.config.model import DebeziumFormat, PipelineConfig
from frazil.stream.events import RoundRetried
from frazil.stream.source import RawBatch, Slice

ACCOUNTS, BALANCE = 10, 100
#: Debezium makes the topic's name of it, which cannot have the space.
ACCOUNT_BOOK = "account book"


#: Of an event, as `ChangingTable` makes them.
NAMES = ("pg", "inv.orders")


def test_the_transaction_at_the_end() -> None:
    tail: Tail | None = None
    found: list[Tail | None] = []
    source = {"name": "pg", "db": "shop", "schema": "inv", "table": "orders"}
    for ids in (["a", "b"], ["b", "b"], ["b", "c"], ["d"], [None]):
        first = 10 * len(found)
        documents = [
            {"source": source, "transaction": {"id": one, "data_collection_order": first + number}}
            for number, one in enumerate(ids)
        ]
        events: tuple[Event, ...] = tuple((None, json.dumps(one).encode(), {}) for one in documents)
        (raw,) = Events((events,)).read([Slice(TOPIC, 0, 0, len(ids))])
        offsets = pa.array(range(first, first + len(ids)), pa.int64())
        tail = tail_after(tail, _changes(raw, ids, offsets))
        found.append(tail)
    assert found == [
        Tail("b", 1, 1, *NAMES),
        Tail("b", 1, 11, *NAMES),
        Tail("c", 21, 21, *NAMES),
        Tail("d", 30, 30, *NAMES),
        None,
    ]


def _changes(raw: RawBatch, ids: list[Any], offsets: pa.Array) -> Changes:
    empty = {name: [None] * len(ids) for name in ORDER.names} | {"offset": offsets}
    order = pa.RecordBatch.from_pydict(
        empty, pa.schema([pa.field(field.name, field.type) for field in ORDER])
    )
    return Changes(
        replace(raw, offsets=offsets), pa.record_batch({}), order, transactions=pa.array(ids, pa.string())
    )


#: It can be read, but its number cannot.
ODD = {"after": {"id": "one", "word": "a"}}
BROKEN = b'{"after":'


def _tail(events: list[Event]) -> Tail | None:
    """As a task finds it, in batches of seven."""
    decoder = change_decoder(DebeziumFormat(), SCHEMA, ("id",), transactions=True)
    tail: Tail | None = None
    for raw in Events((tuple(events),)).read([Slice(TOPIC, 0, 0, len(events))]):
        tail = tail_after(tail, decoder.decode(raw))
    return tail


@pytest.mark.parametrize("whole", [3, 10])
def test_bad_changes_at_the_end_count(whole: int) -> None:
    """Also where a batch has no others."""
    source = ChangingTable()
    for number in range(12):
        source.put(id=number, word="a")
    events = of_one_transaction(source.events)
    good, rest = events[:whole], events[whole:]
    read = Tail("7", 0, whole, *NAMES)
    odd = [_with(event, **ODD) for event in rest]
    broken: list[Event] = [(None, BROKEN, {})]
    assert _tail(good) == read
    assert _tail(good + odd[:2]) == replace(read, order=whole + 2)
    assert _tail(good + 2 * broken) == replace(read, unread=2)
    assert _tail(good + broken + odd[1:2] + broken) == replace(read, order=whole + 2, unread=1)
    # What belongs to no transaction is not counted; one that belongs to another is behind the end of this.
    assert _tail([*good, _with(rest[0], **ODD, transaction=None), (None, b"{}", {})]) == read
    (other,) = of_one_transaction(odd[:1], "8:200")
    assert _tail([*good, *broken, other, *broken]) is None
    assert _tail([other, *broken]) is None


def _with(event: Event, **fields: Any) -> Event:
    key, value, headers = event
    assert value is not None
    return key, json.dumps(json.loads(value) | fields).encode(), headers


@pytest.mark.parametrize(
    ("topic", "names", "told_in"),
    [
        ("pg.inv.orders", ("pg", "inv.orders"), "pg"),
        ("my.pg.inv.order_lines", ("my.pg", "inv.order lines"), "my.pg"),
        ("pg.inv.a.b", ("pg", "inv.a.b"), "pg"),
        ("stock", ("pg", "inv.orders"), "pg"),
        ("dw.stage.orders", ("pg", "inv.orders"), "pg dw"),
        ("west.pg.inv.orders", ("pg", "inv.orders"), "west.pg pg"),
        ("pg.pg.orders", ("pg", "pg.orders"), "pg"),
    ],
)
def test_where_transactions_are_told_of(topic: str, names: tuple[str, str], told_in: str) -> None:
    found = told_of_in(topic, Tail("7", 0, 1, *names))
    assert found == tuple(f"{one}.transaction" for one in told_in.split())


def test_the_tables_name_is_in_the_change() -> None:
    (event,) = _events(1)
    maria = {"name": "m", "db": "shop", "table": "order lines"}
    assert _tail([_with(event, source=maria)]) == Tail("7", 0, 1, "m", "shop.order lines")
    with pytest.raises(Unsupported, match="do not say of which connector and table"):
        _tail([_with(event, source={"name": "m", "db": "shop"})])


def _events(count: int, name: str = "7:100", connector: str = "pg", table: str = "orders") -> list[Event]:
    """Rows that one transaction made."""
    first = 1000 * int(name[0])
    source = ChangingTable(lsn=first)
    for number in range(count):
        source.put(id=first + number, word="a")
    names = source.source("c") | {"name": connector, "table": table}
    return [_with(event, source=names) for event in of_one_transaction(source.events, name)]


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
    producer: Producer,
    topic: str,
    count: int,
    name: str = "7:100",
    partition: int = 0,
    table: str = "inv.orders",
) -> None:
    collections = [{"data_collection": table, "event_count": count}]
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
    """And a table with a name that no topic can have."""
    original = topic_of(world)
    topic, connector = world.kafka.create_topic(original.replace(".", "-")), original.split(".")[0]
    told = world.kafka.create_topic(f"{connector}.transaction", partitions=1)
    ChangingTable().send(producer, topic, _events(3, connector=connector, table="the orders"))
    told_of_its_end(producer, told, 3, table="inv.the orders")
    world.run(transactional(world, topic, "cdc_renamed"))
    assert set(numbers_of_rows(world, "cdc_renamed")) == {0, 3}


def test_a_transaction_whose_last_changes_are_bad(world: World, producer: Producer) -> None:
    """One that says nothing of a transaction is not counted while there is more to read."""
    topic, table = topic_of(world), "cdc_bad_ends"
    told = world.kafka.create_topic(f"{topic.split('.')[0]}.transaction", partitions=1)
    first, second, third = _events(3), _events(3, "8:200"), _events(3, "9:300")
    broken: Event = (None, BROKEN, {})
    events = [*first[:2], _with(first[2], **ODD), *second[:2], broken, second[2], *third[:2], broken]
    ChangingTable().send(producer, topic, events)
    for name in ("7:100", "8:200", "9:300"):
        told_of_its_end(producer, told, 3, name)
    letters, limits = f"{table}_letters", {"records_per_round": 3, "records_per_task": 3}
    world.run(transactional(world, topic, table, limits=limits, dead_letters=f"paths.{letters}"))
    assert sorted(set(numbers_of_rows(world, table))) == [0, 2, 5, 7]
    assert [letter["offset"] for letter in world.rows(letters, ("offset",))] == [2, 5, 9]


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
    shared = topic_of(world)
    told = world.kafka.create_topic(f"{shared.split('.')[0]}.transaction", partitions=1)
    for name, table in (("7:100", "orders"), ("8:200", "more")):
        source.send(producer, shared, _events(1, name, table=table))
        told_of_its_end(producer, told, 1, name, table=f"inv.{table}")
    with pytest.raises(Unsupported, match=r"changes of inv\.orders and of inv\.more"):
        world.run(transactional(world, shared, "cdc_shared", limits={"records_per_round": 1}))


@pytest.mark.slow
def test_no_snapshot_shows_half_of_a_transfer(
    world: World, postgres_source: Postgres, connect: KafkaConnect
) -> None:
    rng = Random(5)
    with PostgresSource(postgres_source, world.kafka, connect) as source:
        source.run(
            f'CREATE TABLE "{ACCOUNT_BOOK}" (id INT PRIMARY KEY, balance INT)',
            *source.publishing(ACCOUNT_BOOK),
        )
        source.run(*(f'INSERT INTO "{ACCOUNT_BOOK}" VALUES ({n}, {BALANCE})' for n in range(ACCOUNTS)))
        source.start()
        connect.wait_streaming(source.name)
        for _ in range(25):
            source.run(*_transfers(rng))
        source.settle()
        line = pipeline(
            world,
            source.topic(ACCOUNT_BOOK.replace(" ", "_")),
            "cdc_accounts",
            name="transfers",
            changes={"whole_transactions": True},
            limits={"records_per_round": 5, "records_per_task": 1},
        )
        world.run(line)
        expected = {row["id"]: row["balance"] for row in source.rows(ACCOUNT_BOOK)}
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
            update = f'UPDATE "{ACCOUNT_BOOK}" SET balance = balance + {change} WHERE id = {account}'
            statements.append(update)
    return statements


def _sums(world: World, table: str) -> list[int]:
    """Of all balances, snapshot by snapshot."""
    with load_catalog("sums", type="rest", uri=world.server.catalog_uri, warehouse="default") as catalog:
        found = catalog.load_table(f"paths.{table}")
        scans = [found.scan(snapshot_id=snapshot.snapshot_id) for snapshot in found.snapshots()]
        return [pc.sum(scan.to_arrow().column("balance")).as_py() or 0 for scan in scans]
