"""The tests' own tools: a workload whose change events, put together again, are the rows of the database."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import TYPE_CHECKING
from uuid import UUID

import pyarrow as pa
import pytest
from confluent_kafka import Message
from pyiceberg.catalog import load_catalog
from tests.stream.cdc.compare import ENGINES, Readers, canonical, differences, explain
from tests.stream.cdc.sources import MariaDbSource, PostgresSource, Row, Source
from tests.stream.cdc.workload import WEIGHTS, Workload

from frazil.devstack.connect import KafkaConnect
from frazil.devstack.frazil_server import FrazilServer
from frazil.devstack.kafka import Kafka

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_HOLE = "__debezium_unavailable_value"
#: Columns that JSON has as they are.
_PLAIN = {"id", "region", "number", "slug", "name", "email", "tally", "small", "big", "note", "mood"}
_PLAIN |= {"version", "body", "v", "word"}


@pytest.fixture(params=["postgres", "mariadb"])
def source(request: pytest.FixtureRequest, kafka: Kafka, connect: KafkaConnect) -> Iterator[Source]:
    made: Source
    if request.param == "postgres":
        made = PostgresSource(request.getfixturevalue("postgres_source"), kafka, connect)
    else:
        made = MariaDbSource(request.getfixturevalue("mariadb"), kafka, connect)
    with made:
        yield made


def folded(messages: list[Message]) -> list[Row]:
    """The rows that are left by the change events of one table; what came again counts once."""
    seen = set()
    rows: dict[str, Row] = {}
    gone: dict[str, Row] = {}
    for message in messages:
        if (value := message.value()) is None:
            continue
        event = json.loads(value)
        key = one_form(message.key())
        place = (key, event["op"], json.dumps(event["source"]))
        if place in seen:
            continue
        seen.add(place)
        if event["op"] == "t":
            rows.clear()
            continue
        before = rows.pop(key, {})
        if event["op"] == "d":
            gone[key] = before
        else:
            # The row of a key that was changed comes as a new one, with the holes of an update.
            old = gone.get(old_key(message), {})
            rows[key] = {
                name: before.get(name, old.get(name, _HOLE)) if v == _HOLE else v
                for name, v in event["after"].items()
            }
    return list(rows.values())


def old_key(message: Message) -> str:
    """The former key of a row whose key was changed."""
    return one_form(dict(message.headers() or ()).get("__debezium.oldkey"))


def one_form(key: str | bytes | None) -> str:
    """Headers escape other letters than keys do."""
    return json.dumps(json.loads(key)) if key else ""


def copies(source: Source, tables: list[str]) -> list[str]:
    lines = []
    for table in tables:
        with source.tail(table) as tail:
            found = folded(tail.raw(tail.end()))
        expected = [{name: row[name] for name in row.keys() & _PLAIN} for row in source.rows(table)]
        lines += [f"{table}: {line}" for line in differences(expected, found, source.key(table))]
    return lines


@pytest.mark.exhaustive
def test_the_events_of_a_workload_are_its_rows(source: Source, connect: KafkaConnect) -> None:
    workload = Workload(source, seed=7, weights={"new_table": 3, "widen_column": 4})
    workload.create()
    source.start()
    connect.wait_streaming(source.name)
    workload.run(100)
    connect.kill()
    workload.run(60)
    connect.start()
    workload.run(60)
    source.settle()
    assert workload.kinds >= WEIGHTS.keys()
    lines = copies(source, workload.tables)
    assert not lines, explain(lines)


def test_the_same_seed_makes_the_same_steps(source: Source) -> None:
    first = Workload(source, seed=3)
    first.create()
    first.run(40)
    for table in first.tables:
        source.run(f"DROP TABLE {table}")
    if source.dialect == "postgres":
        source.run("DROP TYPE mood")
    again = Workload(source, seed=3)
    again.create()
    again.run(15)
    again.run(25)
    assert again.steps == first.steps


def test_a_copy_is_read_by_all_engines(
    source: Source, frazil_sqlite: FrazilServer, spark: SparkSession
) -> None:
    # Spark opens no table with a `time`; the others are what Arrow cannot tell the type of by itself.
    workload = Workload(source, seed=5, without={"wakes", "numbers", "words", "ubig"})
    workload.create()
    workload.run(60)
    namespace, tables = f"copy_{source.dialect}", ("customers", "docs")
    with load_catalog("copy", type="rest", uri=frazil_sqlite.catalog_uri) as catalog:
        catalog.create_namespace(namespace)
        for table in tables:
            rows = source.rows(table)
            for row in rows:
                row |= {name: str(value) for name, value in row.items() if isinstance(value, UUID)}
            made = pa.Table.from_pylist(rows)
            known = [field.name for field in made.schema if not pa.types.is_null(field.type)]
            copied = catalog.create_table((namespace, table), made.select(known).schema)
            copied.append(made.select(known))
    with Readers(frazil_sqlite, spark) as readers:
        readers.compare(source, tables, namespace=namespace)
        source.run("UPDATE docs SET version = 12345")
        wrong = readers.wrong(source, "docs", namespace=namespace)
    assert len(wrong) == len(ENGINES) * len(source.rows("docs"))
    assert all("version: the database has 12345, the table" in line for line in wrong)


def test_differences_are_told() -> None:
    expected: list[Row] = [{"k": 1, "v": Decimal("1.50")}, {"k": 2, "v": None}, {"k": 3, "v": 3}]
    found: list[Row] = [
        {"k": 1, "v": Decimal("1.5")},
        {"k": 2, "v": 0},
        {"k": 2, "v": None},
        {"k": 4, "v": 3, "w": 1},
    ]
    assert differences(expected, found, ["k"]) == [
        "k=2: v: the database has None, the table 0",
        "k=2: there is more than one such row",
        "k=4: the database has no such row",
        "k=3: the row is missing",
    ]
    assert differences(expected[:2], [{"k": 1}, {"k": 2}], ["k"]) == ["k=1: there is no column v"]
    assert explain([str(number) for number in range(30)]).endswith("24\n… and 5 more")


def test_values_of_all_readers_are_comparable() -> None:
    moment = datetime(2026, 1, 1, 12, tzinfo=timezone(timedelta(hours=2)))
    assert canonical(moment) == datetime(2026, 1, 1, 10, tzinfo=UTC)
    assert canonical(float("nan")) == canonical(float("nan"))
    assert canonical(UUID(int=1)) == "00000000-0000-0000-0000-000000000001"
    assert canonical([bytearray(b"x"), None]) == [b"x", None]
    assert canonical(datetime(2026, 1, 1, 10)) != canonical(moment)  # noqa: DTZ001
