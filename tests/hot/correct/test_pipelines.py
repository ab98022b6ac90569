"""A range of a log is made again as its pipeline makes it: with columns of a registry, by its own catalog."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.hot.correct.test_streams import known
from tests.stream.test_formats import avro
from tests.stream.world import World, records

import frazil
from frazil.cli.main import cli
from frazil.client import Client
from frazil.core.errors import Conflict, InvalidConfig
from frazil.devstack.registry import SchemaRegistry

#: A column that is null is no error.
ORDER: dict[str, Any] = {
    "type": "record",
    "name": "CorrectedOrder",
    "fields": [
        {"name": "id", "type": ["null", "long"]},
        {"name": "word", "type": ["null", "string"]},
    ],
}
UPPER = "SELECT id, upper(word) AS word FROM source"
JOINED = "SELECT s.id, t.word FROM source s JOIN ice.paths.words t ON s.id = t.id"


@pytest.mark.parametrize(
    "transform", [None, "SELECT id, upper(word) AS word FROM source"], ids=["rows", "sql"]
)
def test_columns_of_a_registry(
    world: World, client: Client, registry: SchemaRegistry, transform: str | None
) -> None:
    table = f"registered_{'rows' if transform is None else 'sql'}"
    topic = world.topic(partitions=1)
    number = registry.register(f"{topic}-value", json.dumps(ORDER))
    values = [avro(number, ORDER, id=one, word=f"W{one}") for one in range(3)]
    world.produce(topic, [*values, b"no avro"], partitions=1)
    pipeline = world.pipeline(
        topic, table, schema=None, format="avro", registry=registry.url, transform=transform
    )
    world.run(pipeline)
    # What the schema got since is no column of the table yet.
    newer = ORDER | {
        "fields": [*ORDER["fields"], {"name": "note", "type": ["null", "string"], "default": None}]
    }
    registry.register(f"{topic}-value", json.dumps(newer))
    made = frazil.correct(
        world.spark,
        f"paths.{table}",
        offsets=f"{topic}=0:0-4",
        pipeline=known(world, pipeline),
        publish=True,
        catalog=client,
    )
    assert made.difference is not None
    assert made.difference.total.unchanged == 3
    assert [(one["id"], one["word"]) for one in world.rows(table)] == [(0, "W0"), (1, "W1"), (2, "W2")]


def test_the_catalog_has_the_name_that_the_file_says(world: World, client: Client) -> None:
    topic = world.topic(records(4), partitions=1)
    world.run(world.pipeline(topic, "words"))
    pipeline = world.pipeline(topic, "joined", transform=JOINED)
    catalog = {"uri": world.server.uri, "warehouse": world.warehouse, "name": "ice"}
    kafka = {"bootstrap.servers": world.kafka.bootstrap_servers}
    frazil.run([pipeline], catalog=catalog, kafka=kafka, spark=world.spark, once=True, observer=world.seen)

    def again(**given: Any) -> int:
        made = frazil.correct(
            world.spark, "paths.joined", offsets=f"{topic}=0:0-4", pipeline=pipeline, kafka=kafka, **given
        )
        assert made.difference is not None
        return made.difference.total.unchanged

    assert again(catalog=client, catalog_name="ice") == 4
    assert again(catalog=catalog) == 4
    with pytest.raises(InvalidConfig, match="ice"):
        again(catalog=client)


def test_the_command_says_what_the_file_calls_the_catalog(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[dict[str, Any]] = []

    def correct(*_: Any, **more: Any) -> None:
        given.append(more)
        raise Conflict("enough")

    monkeypatch.setattr("frazil.hot.correct.correct", correct)
    monkeypatch.setattr("frazil.cli.clusters.At.spark", lambda _at: nullcontext())
    pipelines = {
        "one": {"source": {"topics": "t"}, "schema": {"id": "long"}, "table": "paths.one"},
        "two": {"source": {"topics": "t"}, "schema": {"id": "long"}, "table": "paths.two"},
    }
    document = {
        "catalog": {"name": "ice"},
        "kafka": {"bootstrap.servers": "127.0.0.1:1"},
        "pipelines": pipelines,
    }
    file = tmp_path / "pipelines.yaml"
    file.write_text(json.dumps(document))
    options = ["--offsets", "t=0:0-1", "--uri", "http://127.0.0.1:1"]
    CliRunner().invoke(cli, ["correct", "paths.two", *options, "--pipelines", str(file), "--pipeline", "two"])
    CliRunner().invoke(cli, ["correct", "paths.hot", *options])
    assert [one["catalog_name"] for one in given] == ["ice", None]
    assert [one["pipeline"] and one["pipeline"].name for one in given] == ["two", None]
