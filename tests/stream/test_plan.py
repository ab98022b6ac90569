"""`frazil plan`, against a broker and a catalog."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from confluent_kafka import Producer
from tests.catalog.api.client import Catalog, add_snapshot, column, connect, schema, set_ref
from tests.cli.conftest import Command, Run
from tests.cli.conftest import command as command  # noqa: PLC0414 (a fixture)
from tests.stream.support import kafka_of

from frazil.core.stamp import Position, Stamp, stamp_key
from frazil.devstack.frazil_server import FrazilServer
from frazil.devstack.kafka import Kafka
from frazil.stream.config import load_pipelines
from frazil.stream.config.model import SparkConfig
from frazil.stream.kafka.log import KafkaLog
from frazil.stream.plan import parallelism

Stamping: TypeAlias = Callable[..., None]
PASSWORD = "password-of-the-catalog"
COLUMNS = (
    column(1, "id", required=True),
    column(2, "amount", "decimal(10, 2)"),
    column(3, "at", "timestamptz"),
)


@dataclass(frozen=True)
class World:
    """One topic of two partitions with 4 and 0 records, and a pipeline that reads it."""

    topic: str
    namespace: str
    directory: Path
    brokers: str
    catalog_uri: str
    catalog: Catalog
    command: Command

    def write(self, more: str = "", **changes: str) -> Path:
        file = self.directory / "pipelines.yaml"
        text = f"""\
catalog: {{uri: "{self.catalog_uri}", token: "${{CATALOG_TOKEN}}"}}
kafka: {{bootstrap.servers: "{self.brokers}", client.id: "${{CATALOG_TOKEN}}"}}
spark: {{master: "local[2]"}}
pipelines:
  orders:
    source: {{topics: {self.topic}}}
    schema:
      id: long required
      amount: decimal(10, 2)
      at: timestamptz
    table: {self.namespace}.orders
    partitioning: [day(at), bucket(16, id)]
{more}"""
        for old, new in changes.items():
            text = text.replace(old, new)
        file.write_text(text)
        return file

    def plan(self, file: Path, *arguments: str) -> Run:
        found = self.command("plan", str(file), *arguments, environment={"CATALOG_TOKEN": PASSWORD})
        assert PASSWORD not in found.stdout + found.stderr
        return found

    def planned(self, file: Path, *, code: int = 0) -> dict[str, Any]:
        run = self.plan(file, "--json")
        assert run.returncode == code, run.stdout + run.stderr
        (found,) = json.loads(run.stdout)
        assert isinstance(found, dict)
        return found

    def create(self, *columns: Any, table: str = "orders") -> None:
        self.catalog.create_namespace(self.namespace).ok()
        self.catalog.create_table([self.namespace], table, schema=schema(*columns)).ok()


@pytest.fixture
def world(kafka: Kafka, frazil_sqlite: FrazilServer, tmp_path: Path, command: Command) -> World:
    name = uuid.uuid4().hex[:8]
    topic = kafka.create_topic(f"plan-{name}", partitions=2)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for number in range(4):
        producer.produce(topic, json.dumps({"id": number}), partition=0)
    assert producer.flush(120) == 0
    return World(
        topic,
        f"plan_{name}",
        tmp_path,
        kafka.bootstrap_servers,
        frazil_sqlite.uri,
        connect(frazil_sqlite.port),
        command,
    )


def test_a_table_that_would_be_created(world: World) -> None:
    found = world.planned(world.write())
    assert found["topics"] == [{"topic": world.topic, "starts": [0, 0], "ends": [4, 0], "offsets": 4}]
    assert (found["path"], found["begins"], found["rounds"], found["tasks"]) == (
        "fused",
        "at the earliest record",
        1,
        1,
    )
    table = found["table"]
    assert (table["exists"], table["location"], table["format-version"]) == (False, None, 2)
    assert [row["name"] for row in table["schema"]["fields"]] == ["id", "amount", "at"]
    assert table["partitioning"] == ["day(at)", "bucket(16, id)"]
    assert (found["notes"], found["problems"]) == ([], [])
    assert world.catalog.load([world.namespace], "orders").status == 404


def test_it_reads_well(world: World) -> None:
    shown = world.plan(world.write())
    assert shown.returncode == 0
    lines = [line.rstrip() for line in shown.stdout.splitlines()]
    assert lines == [
        f"catalog {world.catalog_uri}, the server's default warehouse; Spark local[2]",
        "",
        "orders",
        f"  reads         {world.topic}: 4 offsets in 2 partitions (0 to 4, 0 to 0)",
        "  begins        at the earliest record",
        "  path          fused: no transform, so rows go from the source to files inside the tasks",
        f"  table         {world.namespace}.orders: would be created, and its namespace (Iceberg format 2)",
        "  columns       id      long not null",
        "                amount  decimal(10, 2)",
        "                at      timestamptz",
        "  partitioning  day(at), bucket(16, id)",
        "  location      chosen by the catalog",
        "  commits       every 30s, at most 4,000,000 records each; 1 round to catch up, 1 task in the first",
    ]


def test_limits_make_rounds_and_tasks(world: World) -> None:
    found = world.planned(world.write("    limits: {records_per_round: 3, records_per_task: 1}\n"))
    assert (found["rounds"], found["tasks"]) == (2, 2)


@pytest.mark.parametrize(
    ("start", "begins", "starts"),
    [
        ("latest", "at the latest record", [4, 0]),
        ("1999-01-01", "at 1999-01-01T00:00:00+00:00", [0, 0]),
        ("{TOPIC: [2]}", "at the given offsets", [2, 0]),
    ],
)
def test_starting_points(world: World, start: str, begins: str, starts: list[int]) -> None:
    source = f"topics: {world.topic}, start: {start.replace('TOPIC', world.topic)}"
    found = world.planned(world.write(**{f"topics: {world.topic}": source}))
    assert found["begins"] == begins
    assert found["topics"][0]["starts"] == starts


def test_a_transform_takes_the_spark_path(world: World) -> None:
    found = world.planned(world.write("    transform: SELECT * FROM source\n"))
    assert found["path"] == "spark"
    assert found["table"]["schema"] is None


def test_a_table_that_is_there(world: World) -> None:
    world.create(*COLUMNS)
    found = world.planned(world.write())
    assert found["table"]["exists"] is True
    assert found["table"]["location"].startswith("file:")
    assert found["table"]["partitioning"] == []
    assert found["problems"] == []
    assert "is for a new table only" in found["notes"][0]


def test_a_table_that_does_not_fit(world: World) -> None:
    world.create(column(1, "id", "string"), column(3, "at", "timestamptz"), column(4, "by", required=True))
    found = world.planned(world.write(), code=1)
    assert found["problems"] == [
        "'id' is string in the table, long in the rows",
        "the table has no column 'amount'",
        "the table requires 'by', which the rows do not have",
    ]


@pytest.fixture
def stamped(world: World) -> Stamping:
    """Makes the table, with a commit of the pipeline that read so many records of partition 0."""

    def stamp(read: int, table: str = "orders") -> None:
        world.create(*COLUMNS, table=table)
        (config,) = load_pipelines(world.write(), {"CATALOG_TOKEN": PASSWORD}).pipelines
        log = KafkaLog(kafka_of(config))
        positions = {world.topic: Position(id=log.topics()[world.topic].id, next=(read,))}
        text = Stamp(
            pipeline="orders",
            epoch=2,
            round=7,
            token="t",
            source=log.identity(),
            positions=positions,
            config=config.hash,
        ).encode()
        summary = {"operation": "append", stamp_key("orders"): text}
        updates = [add_snapshot(1, summary=summary), set_ref(1)]
        world.catalog.commit([world.namespace], table, *updates).ok()

    return stamp


def test_it_goes_on_after_the_last_commit(world: World, stamped: Stamping) -> None:
    stamped(3)
    found = world.planned(world.write())
    assert found["begins"] == "after its last commit (epoch 2, round 7)"
    # Partition 1 is new: it begins at 0.
    assert found["topics"][0]["starts"] == [3, 0]
    assert found["offsets"] == 1
    changed = world.planned(world.write(**{"decimal(10, 2)": "decimal(9, 2)"}))
    assert "not the one that made the last commit" in changed["notes"][-1]


def test_a_column_that_frazil_has_no_type_for_is_a_problem(world: World) -> None:
    world.catalog.create_namespace(world.namespace).ok()
    columns = schema(*COLUMNS, column(4, "measured", "timestamp_ns"))
    version = {"format-version": "3"}
    world.catalog.create_table([world.namespace], "orders", schema=columns, properties=version).ok()
    found = world.planned(world.write(), code=1)
    assert [row["name"] for row in found["table"]["schema"]["fields"]] == ["id", "amount", "at"]
    (problem,) = found["problems"]
    assert f"'measured' of the table {world.namespace}.orders is of the type timestamp_ns" in problem


def test_a_log_that_changed_is_a_problem(world: World, stamped: Stamping) -> None:
    stamped(9)
    found = world.planned(world.write(), code=1)
    assert "the log lost records" in found["problems"][0]
    assert found["topics"] == []


def test_what_cannot_be_reached_is_a_problem(world: World) -> None:
    found = world.planned(world.write(**{world.topic: f"{world.topic}x"}), code=1)
    assert f"similar: {world.topic}" in found["problems"][0]
    found = world.planned(world.write(**{world.catalog_uri: "http://127.0.0.1:9"}), code=1)
    assert found["table"]["exists"] is None
    assert "127.0.0.1:9" in found["problems"][0]
    shown = world.plan(world.write(**{world.catalog_uri: "http://127.0.0.1:9"})).stdout
    assert "not known whether it exists" in shown
    # Where it would go on is in the table.
    assert (found["begins"], found["offsets"], found["rounds"]) == ("not known", None, None)


def test_only_the_named_pipelines(world: World) -> None:
    second = "  other:\n    source: {topics: nothing}\n    schema: {id: long}\n    table: a.b\n"
    file = world.write(second)
    assert world.plan(file, "orders").returncode == 0
    assert world.plan(file).returncode == 1
    wrong = world.plan(file, "order")
    assert wrong.returncode == 1
    assert "no pipeline order" in wrong.stderr


def test_a_pattern_that_matches_nothing_yet(world: World) -> None:
    found = world.planned(world.write(**{f"topics: {world.topic}": "pattern: no-such-topic-.*"}))
    assert "no topic matches the pattern yet" in found["notes"][0]
    assert found["rounds"] == 0


def test_other_sources_and_routed_tables(world: World) -> None:
    world.create(*COLUMNS)
    other = f"""
  copies:
    source: {{table: {world.namespace}.elsewhere}}
    table: {world.namespace}.orders
  files:
    source: {{files: {{path: /data/in, pattern: "*.json"}}}}
    schema: {{id: long, kind: string}}
    table: {world.namespace}.of_{{kind}}
"""
    copies, files = json.loads(world.plan(world.write(other), "copies", "files", "--json").stdout)
    assert copies["source"] == f"what is appended to {world.namespace}.elsewhere"
    assert (copies["topics"], copies["problems"]) == ([], [])
    assert files["source"] == "files in /data/in, *.json"
    assert files["notes"] == [f"how far it is, is kept in {world.namespace}.of_dead_letters"]
    shown = world.plan(world.write(other.replace(f"{world.namespace}.orders", "new.one")), "copies", "files")
    assert "  columns       those of the source" in shown.stdout
    assert f"{world.namespace}.of_{{kind}}: one for each value, created as they come" in shown.stdout


def test_a_routed_pipeline_goes_on_where_its_home_table_is(world: World, stamped: Stamping) -> None:
    stamped(3, "routed_dead_letters")
    found = world.planned(world.write(**{f"{world.namespace}.orders": f"{world.namespace}.{{id}}"}))
    assert found["begins"] == "after its last commit (epoch 2, round 7)"
    assert found["offsets"] == 1


def test_a_wrong_file_is_told_with_its_lines(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "pipelines.yaml"
    file.write_text("pipelines:\n  orders:\n    tables: a.b\n")
    shown = command("plan", str(file))
    assert shown.returncode == 1
    assert f"{file}:3:5: unknown key 'tables' in pipeline 'orders'; did you mean 'table'?" in shown.stderr


def test_the_schema_is_printed(command: Command) -> None:
    shown = command("plan", "--schema")
    assert json.loads(shown.stdout)["title"] == "frazil pipelines"
    assert command("plan").returncode == 2


@pytest.mark.parametrize(
    ("master", "settings", "tasks"),
    [
        ("local", {}, 1),
        ("local[3]", {}, 3),
        ("local[3,2]", {}, 3),
        ("spark://host:7077", {}, None),
        ("spark://host:7077", {"spark.default.parallelism": "8"}, 8),
    ],
)
def test_parallelism(master: str, settings: dict[str, str], tasks: int | None) -> None:
    assert parallelism(SparkConfig(master, settings)) == tasks
