"""Databases, Debezium and Kafka together. One connector for each database serves all tests of the file."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from tests.stream.cdc.sources import MariaDbSource, PostgresSource, Source, Tail

from frazil.core.errors import ServiceError
from frazil.devstack.connect import KafkaConnect
from frazil.devstack.debezium import Capture, postgres_connector
from frazil.devstack.kafka import Kafka
from frazil.devstack.mariadb import MariaDb
from frazil.devstack.postgres import Postgres
from frazil.devstack.registry import SchemaRegistry

TABLE = "CREATE TABLE ice (id INT PRIMARY KEY, word VARCHAR(20))"


@pytest.fixture(scope="module", params=["postgres", "mariadb"])
def source(request: pytest.FixtureRequest, kafka: Kafka, connect: KafkaConnect) -> Iterator[Source]:
    made: Source
    if request.param == "postgres":
        made = PostgresSource(request.getfixturevalue("postgres_source"), kafka, connect)
    else:
        made = MariaDbSource(request.getfixturevalue("mariadb"), kafka, connect)
    with made:
        made.run(TABLE, "INSERT INTO ice VALUES (1, 'floe'), (2, 'frazil')")
        made.publish("ice")
        made.start()
        yield made


@pytest.fixture
def tail(source: Source) -> Iterator[Tail]:
    with source.tail("ice") as reader:
        yield reader


def test_rows_are_snapshotted_and_changes_follow(source: Source, tail: Tail) -> None:
    found = tail.take(2)
    assert [(each["op"], each["after"]["id"]) for each in found] == [("r", 1), ("r", 2)]
    source.run("INSERT INTO ice VALUES (3, 'grease')", "UPDATE ice SET word = 'nilas' WHERE id = 2")
    source.run("DELETE FROM ice WHERE id = 1", "TRUNCATE TABLE ice", "INSERT INTO ice VALUES (4, 'pancake')")
    assert [each["op"] for each in tail.take(5)] == ["c", "u", "d", "t", "c"]


def test_a_killed_worker_goes_on(source: Source, tail: Tail, connect: KafkaConnect) -> None:
    tail.skip()
    connect.wait_streaming(source.name)
    connect.kill()
    source.run("INSERT INTO ice VALUES (5, 'brash')")
    connect.start()
    # What was not yet noted as read comes again.
    tail.until(lambda each: each["op"] == "c" and each["after"]["id"] == 5)


def test_one_table_is_snapshotted_again_on_command(source: Source, tail: Tail) -> None:
    tail.skip()
    source.run("INSERT INTO ice VALUES (6, 'rime')")
    tail.until(lambda each: each["op"] == "c" and each["after"]["id"] == 6)
    source.snapshot("ice")
    found = tail.until(lambda each: each["op"] == "r" and each["after"]["id"] == 6)
    assert found["source"]["snapshot"] == "incremental"


def test_a_new_table_arrives_without_a_restart(source: Source) -> None:
    source.run("CREATE TABLE bergs (id INT PRIMARY KEY)", *source.publishing("bergs"))
    source.run("INSERT INTO bergs VALUES (1)")
    with source.tail("bergs") as reader:
        assert [(each["op"], each["after"]["id"]) for each in reader.take(1)] == [("c", 1)]


def test_passwords_are_in_no_answer(source: Source, connect: KafkaConnect) -> None:
    config = connect.config(source.name)
    assert config["database.password"].startswith("${file:")
    secrets = connect.directory / f"{source.name}.secrets"
    assert secrets.stat().st_mode & 0o077 == 0


def test_avro_has_schemas_in_the_registry(
    postgres_source: Postgres, kafka: Kafka, connect: KafkaConnect, registry: SchemaRegistry
) -> None:
    address = f"http://127.0.0.1:{registry.port}"
    with PostgresSource(postgres_source, kafka, connect, format="avro", registry=address) as source:
        source.run(TABLE, "INSERT INTO ice VALUES (1, 'floe')")
        source.publish("ice")
        source.start()
        with source.tail("ice") as reader:
            (message,) = reader.raw(1)
    value = message.value()
    assert value is not None
    assert value[0] == 0
    number = int.from_bytes(value[1:5])
    answer = httpx.get(f"{registry.url}/schemas/ids/{number}", trust_env=False)
    assert answer.json()["schema"].startswith('{"type":"record","name":"Envelope"')


def test_a_connector_that_cannot_start_says_why(
    mariadb: MariaDb, postgres_source: Postgres, kafka: Kafka, connect: KafkaConnect
) -> None:
    capture = Capture("broken", postgres_source.port, "nobody", "nowhere", kafka.bootstrap_servers)
    with pytest.raises(ServiceError, match="nobody"):
        connect.create_connector(
            "broken", postgres_connector(capture), secrets={"database.password": "wrong"}
        )
    assert "broken" not in connect.connectors()
