"""The rows of a table are read again when somebody asks, while changes go on."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from tests.stream.cdc.sources import PostgresSource
from tests.stream.cdc.test_lanes import pipeline
from tests.stream.world import World

from frazil.cli.main import cli
from frazil.devstack.connect import KafkaConnect
from frazil.devstack.postgres import Postgres


def ask(place: Path, world: World, source: PostgresSource, signals: str | None) -> str:
    """`frazil snapshot`, as somebody types it."""
    changes = {} if signals is None else {"signals": signals}
    document = {
        "kafka": {"bootstrap.servers": world.kafka.bootstrap_servers},
        "pipelines": {
            "again": {
                "source": {"topics": [source.topic("parts")]},
                "format": "debezium",
                "changes": changes,
                "table": "paths.cdc_parts",
            }
        },
    }
    (place / "pipelines.yaml").write_text(yaml.safe_dump(document))
    done = CliRunner().invoke(cli, ["snapshot", str(place / "pipelines.yaml"), "again"])
    return done.output if done.exit_code == 0 else str(done.exception)


@pytest.mark.slow
def test_rows_come_again(
    tmp_path: Path, world: World, postgres_source: Postgres, connect: KafkaConnect
) -> None:
    with PostgresSource(postgres_source, world.kafka, connect) as source:
        source.run("CREATE TABLE parts (id INT PRIMARY KEY, name TEXT)", *source.publishing("parts"))
        source.run(*(f"INSERT INTO parts VALUES ({n}, 'p{n}')" for n in range(20)))
        source.start()
        connect.wait_streaming(source.name)
        source.run("UPDATE parts SET name = 'changed' WHERE id = 3", "DELETE FROM parts WHERE id = 4")
        source.settle()
        line = pipeline(world, source.topic("parts"), "cdc_parts", name="again")
        world.run(line)
        world.spark_sql("DELETE FROM {}.cdc_parts WHERE id BETWEEN 5 AND 9")
        assert len(world.rows("cdc_parts")) == 14
        assert "changes.signals" in ask(tmp_path, world, source, None)
        with source.tail("parts") as tail:
            tail.skip()
            assert "rows of public.parts" in ask(tmp_path, world, source, source.capture.signals)
            source.run("UPDATE parts SET name = 'after' WHERE id = 5")
            tail.until(lambda event: event["op"] == "r" and event["after"]["id"] == 19)
        world.run(line)
        expected = sorted(source.rows("parts"), key=lambda row: row["id"])
    assert world.rows("cdc_parts") == expected
