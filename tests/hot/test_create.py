"""Making, finding and dropping hot tables, on a real broker and a real catalog."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest
from confluent_kafka import TopicPartition
from tests.hot.support import PATIENCE, grow

from frazil.client import Client
from frazil.core.errors import AlreadyExists, Conflict, InvalidInput, NoSuchTable, SourceChanged, Unavailable
from frazil.devstack.frazil_server import FrazilServer
from frazil.devstack.kafka import Kafka
from frazil.hot import Declaration, declare
from frazil.hot.create import create, drop
from frazil.hot.find import HotTables, find_hot_tables, load_hot_table
from frazil.hot.topics import SETTINGS, Topics

_numbers = itertools.count(1)


@pytest.fixture
def client(frazil_sqlite: FrazilServer) -> Iterator[Client]:
    with Client(frazil_sqlite.uri) as found:
        yield found


@pytest.fixture
def brokers(kafka: Kafka) -> dict[str, str]:
    return {"bootstrap.servers": kafka.bootstrap_servers}


def orders(**more: object) -> Declaration:
    found = declare(
        f"made{next(_numbers)}.orders",
        columns={"order_id": "long", "customer": "int required", "price": "decimal(15, 2)", "day": "date"},
        key="order_id",
        buckets=2,
        freshness="30s",
        partitioning="day(day)",
    )
    return replace(found, **more)  # type: ignore[arg-type]


def test_what_is_made(client: Client, kafka: Kafka, brokers: dict[str, str]) -> None:
    declared = orders(
        comment="of the shop", properties={"write.metadata.delete-after-commit.enabled": "true"}
    )
    made = create(declared, client, brokers)
    assert (made.made_topic, made.made_table) == (True, True)
    topic = Topics(brokers).find(declared.topic)
    assert topic is not None
    assert (topic.partitions, topic.records, topic.others, topic.id) == (
        2,
        0,
        {},
        made.table.binding.topic_id,
    )
    metadata = client.tables.load(declared.namespace, declared.name).metadata
    (schema,) = metadata["schemas"]
    assert [(one["name"], one["required"]) for one in schema["fields"]] == [
        ("order_id", True),
        ("customer", True),
        ("price", False),
        ("day", False),
    ]
    assert schema["identifier-field-ids"] == [1]
    assert [one["transform"] for one in metadata["partition-specs"][0]["fields"]] == ["day"]
    kept = metadata["properties"]
    assert kept["table.datalake.freshness"] == "30s"
    assert (kept["bucket.num"], kept["comment"]) == ("2", "of the shop")
    assert kept["write.metadata.delete-after-commit.enabled"] == "true"
    table = load_hot_table(client, declared.namespace, declared.name)
    assert table == made.table
    assert (table.key, table.freshness, table.binding.brokers) == (("order_id",), 30, kafka.bootstrap_servers)


def test_again(client: Client, brokers: dict[str, str]) -> None:
    declared = orders()
    first = create(declared, client, brokers)
    with pytest.raises(AlreadyExists, match="exists already; IF NOT EXISTS"):
        create(declared, client, brokers)
    again = create(declared, client, brokers, if_not_exists=True)
    assert (again.table, again.made_topic, again.made_table) == (first.table, False, False)


@pytest.mark.parametrize(
    ("columns", "more", "message"),
    [
        ({"order_id": "int"}, {}, "'order_id' is long NOT NULL in the table and int NOT NULL here"),
        ({"customer": "int"}, {}, "'customer' is int NOT NULL in the table and int here"),
        ({"city": "string"}, {}, "column 'city' is not in the table"),
        ({}, {"key": ("order_id", "customer")}, r"the primary key is \(order_id\) in the table"),
        ({}, {"partitioning": ()}, "partitioned by day of day in the table"),
        ({}, {"format_version": 3}, "the format version is 2 in the table and 3 here"),
        (
            {},
            {"options": {"bucket.num": "2"}},
            "'table.datalake.freshness' is '30s' in the table and not set",
        ),
        ({}, {"options": {"bucket.num": "3", "table.datalake.freshness": "30s"}}, "'bucket.num' is '2'"),
        (
            {},
            {"properties": {"write.format.default": "orc"}},
            "'write.format.default' is not set in the table",
        ),
    ],
)
def test_another_table_of_the_name(
    client: Client, brokers: dict[str, str], columns: dict[str, str], more: dict[str, object], message: str
) -> None:
    declared = orders()
    create(declared, client, brokers)
    kinds = {"order_id": "long", "customer": "int required", "price": "decimal(15, 2)", "day": "date"}
    changed = declare(str(declared), columns={**kinds, **columns}, key="order_id", partitioning="day(day)")
    other = replace(changed, **{"options": declared.options, **more})  # type: ignore[arg-type]
    with pytest.raises(Conflict, match=message):
        create(other, client, brokers, if_not_exists=True)


def test_an_ordinary_table_is_not_taken(client: Client, brokers: dict[str, str]) -> None:
    declared = orders()
    client.namespaces.create(declared.namespace)
    client.tables.create(declared.namespace, declared.name, declared.columns)
    with pytest.raises(Conflict, match="is a table of Iceberg alone"):
        create(declared, client, brokers, if_not_exists=True)
    with pytest.raises(InvalidInput, match="frazil hot create"):
        load_hot_table(client, declared.namespace, declared.name)
    with pytest.raises(Conflict, match="frazil table drop"):
        drop(client, brokers, declared.namespace, declared.name)
    assert Topics(brokers).find(declared.topic) is None


def test_topics_that_are_there(client: Client, kafka: Kafka, brokers: dict[str, str]) -> None:
    declared = orders()
    kafka.create_topic(declared.topic, partitions=3)
    with pytest.raises(Conflict) as refused:
        create(declared, client, brokers)
    for said in ("retention.ms is '604800000', not '-1'", "it has 3 partitions, and 'bucket.num' says 2"):
        assert said in refused.value.message
    assert not client.namespaces.exists(declared.namespace)
    fitting = orders()
    kafka.create_topic(fitting.topic, partitions=2, config=SETTINGS)
    _produce(kafka, fitting.topic)
    with pytest.raises(Conflict, match="with about 1 records"):
        create(fitting, client, brokers)
    made = create(fitting, client, brokers, adopt=True)
    assert (made.made_topic, made.made_table) == (False, True)


@pytest.mark.parametrize("left", [0, 1])
def test_a_trimmed_log_is_not_taken(client: Client, kafka: Kafka, brokers: dict[str, str], left: int) -> None:
    """Its rows were in a table that was dropped: the new one could not begin where the log does."""
    declared = orders()
    create(declared, client, brokers)
    drop(client, brokers, declared.namespace, declared.name)
    for _ in range(2 + left):
        _produce(kafka, declared.topic, partition=0)
    (trimmed,) = kafka.admin.delete_records([TopicPartition(declared.topic, 0, 2)]).values()
    trimmed.result(PATIENCE)
    for adopt in (True, False):
        with pytest.raises(Conflict, match=f"first records were removed.*about {left} are left"):
            create(declared, client, brokers, adopt=adopt)
    with pytest.raises(NoSuchTable):
        client.tables.load(declared.namespace, declared.name)


@pytest.mark.parametrize("place", ["hot.create.topic"])
def test_a_create_that_died_can_be_repeated(client: Client, brokers: dict[str, str], place: str) -> None:
    declared = orders()
    program = f"""
from tests.hot.test_create import orders
from dataclasses import replace
from frazil.client import Client
from frazil.hot.create import create
with Client({client.uri!r}) as client:
    create(replace(orders(), namespace={declared.namespace!r}), client, {brokers!r})
"""
    environment = {**os.environ, "FRAZIL_FAILPOINT": place}
    died = subprocess.run([sys.executable, "-c", program], env=environment, check=False, capture_output=True)
    assert died.returncode == -signal.SIGKILL, died.stderr
    topic = Topics(brokers).find(declared.topic)
    assert topic is not None
    made = create(declared, client, brokers)
    assert (made.made_topic, made.table.binding.topic_id) == (False, topic.id)


def test_drop(client: Client, brokers: dict[str, str]) -> None:
    declared = orders()
    create(declared, client, brokers)
    assert not drop(client, brokers, declared.namespace, declared.name).topic_deleted
    assert Topics(brokers).find(declared.topic) is not None
    with pytest.raises(NoSuchTable):
        drop(client, brokers, declared.namespace, declared.name)
    # What a drop that died left behind.
    assert drop(client, brokers, declared.namespace, declared.name, topic=True).topic_deleted
    assert Topics(brokers).find(declared.topic) is None
    with pytest.raises(NoSuchTable, match="no topic that one could have left behind"):
        drop(client, brokers, declared.namespace, declared.name, topic=True)
    create(declared, client, brokers)
    assert drop(client, brokers, declared.namespace, declared.name, topic=True, purge=True).topic_deleted


def test_brokers_that_are_away_are_met_before_the_table_goes(client: Client, brokers: dict[str, str]) -> None:
    """Behind it a topic with records is nobody's any more, and is not deleted by the same command again."""
    declared = orders()
    create(declared, client, brokers)
    away = {"bootstrap.servers": "127.0.0.1:1"}
    with pytest.raises(Unavailable):
        drop(client, away, declared.namespace, declared.name, topic=True)
    assert load_hot_table(client, declared.namespace, declared.name).topic == declared.topic
    assert drop(client, brokers, declared.namespace, declared.name, topic=True).topic_deleted


def test_a_log_whose_table_is_not_known_is_not_deleted(
    client: Client, kafka: Kafka, brokers: dict[str, str]
) -> None:
    declared = orders()
    create(declared, client, brokers)
    _produce(kafka, declared.topic)
    drop(client, brokers, declared.namespace, declared.name)
    with pytest.raises(Conflict, match="1 records, which may be the log of a table elsewhere"):
        drop(client, brokers, declared.namespace, declared.name, topic=True)
    assert Topics(brokers).find(declared.topic) is not None


def test_a_foreign_topic_is_not_deleted(client: Client, kafka: Kafka, brokers: dict[str, str]) -> None:
    declared = orders()
    create(declared, client, brokers)
    Topics(brokers).delete(declared.topic)
    kafka.create_topic(declared.topic, partitions=2, config=SETTINGS)
    with pytest.raises(SourceChanged, match="was deleted and made again"):
        create(declared, client, brokers, if_not_exists=True)
    assert not drop(client, brokers, declared.namespace, declared.name, topic=True).topic_deleted
    assert Topics(brokers).find(declared.topic) is not None


def test_more_partitions_are_refused(client: Client, kafka: Kafka, brokers: dict[str, str]) -> None:
    declared = orders()
    create(declared, client, brokers)
    grow(kafka, declared.topic, 5)
    with pytest.raises(SourceChanged, match="made with 2 partitions and has 5"):
        create(declared, client, brokers, if_not_exists=True)


def test_tables_are_found(client: Client, kafka: Kafka, brokers: dict[str, str]) -> None:
    base = f"found{next(_numbers)}"
    kinds = {"columns": {"id": "long"}, "key": "id"}
    first = declare(f"{base}.one", **kinds)  # type: ignore[arg-type]
    nested = declare(f"{base}.deep.two", enabled=False, **kinds)  # type: ignore[arg-type]
    kafka.create_topic(f"{base}.nothing")
    kafka.create_topic(f"other{base}.nothing")
    client.namespaces.create([base])
    client.tables.create([base], "plain", first.columns)
    kafka.create_topic(f"{base}.plain")
    finder = HotTables(client, brokers, refresh_seconds=3600)

    def names() -> list[str]:
        return [str(one) for one in finder.look().tables if one.namespace[0] == base]

    assert names() == []
    create(first, client, brokers)
    create(nested, client, brokers)
    assert names() == [f"{base}.deep.two", f"{base}.one"]
    assert {
        str(one): one.enabled for one in find_hot_tables(client, brokers) if one.namespace[0] == base
    } == {
        f"{base}.deep.two": False,
        f"{base}.one": True,
    }
    # Made again between two looks, with another topic: nothing of what was seen before counts.
    drop(client, brokers, first.namespace, first.name, topic=True)
    again = create(first, client, brokers)
    assert [one for one in finder.look().tables if str(one) == f"{base}.one"] == [again.table]
    drop(client, brokers, first.namespace, first.name)
    assert names() == [f"{base}.deep.two"]


def test_changed_properties_and_tables_that_are_wrong(client: Client, brokers: dict[str, str]) -> None:
    declared = orders()
    create(declared, client, brokers)
    finder = HotTables(client, brokers, refresh_seconds=0)

    def freshness() -> float | None:
        return next((one.freshness for one in finder.look().tables if one.topic == declared.topic), None)

    assert freshness() == 30
    _set(client, declared, "table.datalake.freshness", "5s")
    assert freshness() == 5
    _set(client, declared, "table.datalake.freshness", "soon")
    assert freshness() is None
    assert "'soon' is no duration" in finder.look().problems[declared.topic].message
    with pytest.raises(InvalidInput, match="'soon' is no duration"):
        load_hot_table(client, declared.namespace, declared.name)
    client.tables.drop(declared.namespace, declared.name)


def _produce(kafka: Kafka, topic: str, partition: int = -1) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    producer.produce(topic, b"{}", partition=partition)
    assert producer.flush(PATIENCE) == 0


def _set(client: Client, declared: Declaration, name: str, value: str) -> None:
    from pyiceberg.catalog.rest import RestCatalog

    catalog = RestCatalog("c", **client.iceberg_properties())
    with catalog.load_table((*declared.namespace, declared.name)).transaction() as change:
        change.set_properties({name: value})
