"""kill -9 at every step of a round of changes; in the end the rows are those of the source."""

from __future__ import annotations

import signal
from random import Random
from typing import Any

import pytest
from confluent_kafka import Producer
from tests.stream.cdc.changing import UNCHANGED, ChangingTable
from tests.stream.crash.conftest import bucket_shelf
from tests.stream.crash.points import IN_DRIVER, IN_TASKS
from tests.stream.crash.runs import Run
from tests.stream.crash.tables import Shelf
from tests.stream.crash.world import NAMESPACE, fresh

from frazil.devstack.frazil_server import FrazilServer
from frazil.devstack.kafka import Kafka
from frazil.devstack.seaweed import ObjectStore

pytestmark = [pytest.mark.services, pytest.mark.jvm, pytest.mark.slow]


@pytest.fixture
def shelf(frazil_sqlite: FrazilServer, object_store: ObjectStore) -> Shelf:
    return bucket_shelf(frazil_sqlite, object_store)


def some_changes(rng: Random, source: ChangingTable, count: int) -> None:
    for _ in range(count):
        number = rng.randrange(40)
        if (number,) in source.rows and rng.random() < 0.3:
            source.delete(number, whole=rng.random() < 0.5)
        else:
            there = (number,) in source.rows
            body = UNCHANGED if there and rng.random() < 0.5 else f"b{rng.random()}"
            source.put(id=number, word=f"w{rng.random()}", body=body)


def config(shelf: Shelf, kafka: Kafka, topic: str, table: str, version: int) -> dict[str, Any]:
    return {
        "catalog": {"uri": shelf.server.uri, "warehouse": shelf.warehouse},
        "kafka": {"bootstrap.servers": kafka.bootstrap_servers},
        "spark": {"master": "local[2]"},
        "pipelines": {
            table: {
                "source": {"topics": [topic]},
                "format": "debezium",
                "table": f"{NAMESPACE}.{table}",
                "format_version": version,
                "changes": {"mode": "changelog"},
                "freshness": "200ms",
                "limits": {"records_per_round": 60},
            }
        },
    }


def check(shelf: Shelf, table: str, source: ChangingTable, events: int) -> None:
    found = shelf.load(f"{NAMESPACE}.{table}").scan().to_arrow().to_pylist()
    assert sorted(found, key=lambda row: row["id"]) == [source.rows[key] for key in sorted(source.rows)]
    changes = shelf.load(f"{NAMESPACE}.{table}_changes").scan().to_arrow().column("_offset").to_pylist()
    assert len(changes) == len(set(changes)) == events, "every change once"


@pytest.mark.parametrize(
    ("version", "points"),
    [
        # Before these, changes are as all other records.
        pytest.param(3, IN_DRIVER[3:], id="3"),
        pytest.param(2, IN_DRIVER, id="2-all", marks=pytest.mark.exhaustive),
        pytest.param(3, IN_DRIVER, id="3-all", marks=pytest.mark.exhaustive),
    ],
)
def test_the_rows_survive_every_kill(
    shelf: Shelf, kafka: Kafka, version: int, points: tuple[str, ...]
) -> None:
    """One after the other, so that each start is also the recovery from the death before."""
    rng, source, table = Random(version), ChangingTable(), fresh("changed")
    topic = kafka.create_topic(f"{table}.inv.orders", partitions=1)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0})
    given, sent = config(shelf, kafka, topic, table, version), 0
    for point in points:
        some_changes(rng, source, 80)
        sent += sum(value is not None for _, value, _ in source.events)
        source.send(producer, topic)
        with Run(given, "--once", failpoint=point) as run:
            assert run.wait() == -signal.SIGKILL, run.story()
    with Run(given, "--once", trap=(",".join(IN_TASKS), "kill")) as run:
        assert run.wait() == 0, run.story()
        assert run.trapped == set(IN_TASKS)
    check(shelf, table, source, sent)
    for name in (table, f"{table}_changes"):
        assert not shelf.stray_files(f"{NAMESPACE}.{name}")
