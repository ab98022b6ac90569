"""`frazil status`: from a real table and a real topic, without a JVM of its own."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from pyiceberg.catalog import load_catalog
from tests.cli.conftest import Command, Run

from frazil.devstack.frazil_server import FrazilServer
from frazil.devstack.kafka import Kafka


@dataclass
class Place:
    """A topic of two partitions, three records in the first and one in the second, and a pipeline on it."""

    kafka: Kafka
    server: FrazilServer
    name: str
    file: Path

    def stamp(self, **changes: Any) -> dict[str, Any]:
        admin = AdminClient({"bootstrap.servers": self.kafka.bootstrap_servers})
        from confluent_kafka import TopicCollection

        (described,) = admin.describe_topics(TopicCollection([self.name])).values()
        cluster = admin.describe_cluster().result(30).cluster_id
        topic = str(described.result(30).topic_id)
        return {
            "v": 1,
            "pipeline": self.name,
            "epoch": 4,
            "round": 9,
            "token": "t",
            "source": f"kafka:{cluster}",
            "positions": {self.name: {"id": topic, "next": [1, 1]}},
            "read": 20,
            "written": 18,
            "watermark": 1_767_225_600_000_000,
            **changes,
        }

    def commit(self, stamp: dict[str, Any] | None) -> None:
        """A snapshot with the stamp, made by another library than ours."""
        catalog = load_catalog("status", type="rest", uri=self.server.catalog_uri)
        catalog.create_namespace_if_not_exists("status")
        data = pa.table({"id": pa.array([1], pa.int64())})
        table = catalog.create_table_if_not_exists(f"status.{self.name}", data.schema)
        properties = {} if stamp is None else {f"frazil.stamp.{self.name}": json.dumps(stamp)}
        table.append(data, snapshot_properties=properties)

    def status(self, command: Command, *arguments: str) -> Run:
        return command("status", str(self.file), *arguments)


@pytest.fixture
def place(kafka: Kafka, frazil_sqlite: FrazilServer, tmp_path: Path) -> Place:
    name = f"status-{uuid.uuid4().hex[:8]}"
    kafka.create_topic(name, partitions=2)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0})
    for partition in (0, 0, 0, 1):
        producer.produce(name, b"{}", partition=partition)
    assert producer.flush(30) == 0
    config = {
        "catalog": {"uri": frazil_sqlite.uri},
        "kafka": {"bootstrap.servers": kafka.bootstrap_servers},
        "pipelines": {
            name: {"source": {"topics": [name]}, "schema": {"id": "long"}, "table": f"status.{name}"}
        },
    }
    file = tmp_path / "pipelines.yaml"
    file.write_text(json.dumps(config))
    return Place(kafka, frazil_sqlite, name, file)


def test_a_pipeline_that_never_ran(place: Place, command: Command) -> None:
    shown = place.status(command)
    assert shown.returncode == 0, shown.stderr
    assert "(not created yet)" in shown.stdout
    assert "nothing read yet; the log ends at offset 4" in shown.stdout


def test_the_newest_commit_and_the_lag_of_each_partition(place: Place, command: Command) -> None:
    place.commit(place.stamp(round=8))
    place.commit(place.stamp())
    # Somebody else's commit comes after it.
    place.commit(None)
    found = place.status(command, "--json")
    assert found.returncode == 0, found.stderr
    (document,) = json.loads(found.stdout)
    age = datetime.now(UTC) - datetime.fromisoformat(document.pop("committed-at"))
    assert 0 <= age.total_seconds() < 600
    assert document.pop("snapshot-id") > 0
    health = document.pop("health")
    assert (health["files"], health["snapshots"], health["small_files"]) == (3, 3, 3)
    assert document == {
        "pipeline": place.name,
        "table": f"status.{place.name}",
        "exists": True,
        "epoch": 4,
        "round": 9,
        "read": 20,
        "written": 18,
        "watermark": "2026-01-01T00:00:00.000Z",
        "history": None,
        "lag": 2,
        "partitions": [
            {"topic": place.name, "partition": 0, "next": 1, "end": 3, "lag": 2},
            {"topic": place.name, "partition": 1, "next": 1, "end": 1, "lag": 0},
        ],
        "problems": [],
    }
    text = place.status(command).stdout
    assert "(epoch 4, round 9)" in text
    assert f"2 ({place.name}-0: 2)" in text


def test_what_would_stop_the_pipeline_is_told(place: Place, command: Command) -> None:
    place.commit(place.stamp(positions={place.name: {"id": "another", "next": [3, 1]}}))
    found = place.status(command)
    assert found.returncode == 1
    assert "was deleted and made again" in found.stdout
    (document,) = json.loads(place.status(command, "--json").stdout)
    assert len(document["problems"]) == 1
    assert document["epoch"] == 4


def test_the_lag_in_a_topic_that_is_not_there_is_not_known(place: Place, command: Command) -> None:
    place.file.write_text(place.file.read_text().replace(f'"topics": ["{place.name}"]', '"topics": ["gone"]'))
    found = place.status(command)
    assert found.returncode == 1
    assert "no topic gone" in found.stdout
    assert "lag          not known" in found.stdout
    (document,) = json.loads(place.status(command, "--json").stdout)
    assert document["lag"] is None


def test_a_history_without_the_last_commit_is_told(place: Place, command: Command) -> None:
    place.commit(None)
    catalog = load_catalog("status", type="rest", uri=place.server.catalog_uri)
    table = catalog.load_table(f"status.{place.name}")
    mirror = json.dumps({"snapshot_id": 99, "stamp": place.stamp()})
    with table.transaction() as change:
        change.set_properties({f"frazil.stamp.{place.name}": mirror})
    found = place.status(command)
    assert found.returncode == 1
    assert "not in main's history" in found.stdout
    assert "--to-stamp" in found.stdout


def test_a_broker_that_does_not_answer_is_told_beside_the_rest(place: Place, command: Command) -> None:
    place.commit(place.stamp())
    config = json.loads(place.file.read_text())
    config["kafka"]["bootstrap.servers"] = "127.0.0.1:1"
    place.file.write_text(json.dumps(config))
    (document,) = json.loads(place.status(command, "--json").stdout)
    assert (document["epoch"], document["lag"]) == (4, None)
    assert "127.0.0.1:1" in document["problems"][0]
