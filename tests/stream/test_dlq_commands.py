"""`frazil dlq` as somebody types it, with the Spark of the tests."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from confluent_kafka import Producer
from tests.stream.world import World, record

from frazil.cli import dlq
from frazil.stream.config import load_pipelines
from frazil.stream.events import RoundCommitted

_REPAIR = """
def unquoted(value):
    return value.replace(b'"7"', b"7")


def shortened(value):
    return value.rstrip(b'x"}') + b'"}'
"""
MEGABYTE = 1024**2


@pytest.fixture
def typed(world: World, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    monkeypatch.setattr(dlq, "with_spark", lambda _, work: work(world.spark))

    def run(*arguments: str) -> Result:
        return CliRunner().invoke(dlq.dlq, arguments)

    return run


def test_list_show_and_replay(world: World, typed: Callable[..., Result], tmp_path: Path) -> None:
    topic = world.topic([record(0), {"id": "7", "word": "x"}, b"\xff{"], partitions=1)
    file = tmp_path / "pipelines.yaml"
    document = {
        "catalog": {"uri": world.server.uri, "warehouse": world.warehouse},
        "kafka": {"bootstrap.servers": world.kafka.bootstrap_servers},
        "pipelines": {
            "typed": {
                "source": {"topics": topic},
                "schema": {"id": "long required", "word": "string"},
                "table": "paths.typed",
            }
        },
    }
    file.write_text(json.dumps(document))
    (tmp_path / "repairs_typed.py").write_text(_REPAIR)
    none = typed("list", str(file), "typed")
    assert "had no bad record yet" in str(none.exception)
    world.run(*load_pipelines(file).pipelines)

    listed = typed("list", str(file), "typed").stdout
    assert f"{topic}/0:1  type  " in listed
    assert f"{topic}/0:2  broken  " in listed
    shown = json.loads(typed("show", str(file), "typed", f"{topic}/0:2", "--json").stdout)
    assert (shown["offset"], shown["value"]) == (2, "0xff7b")
    assert "is no position" in str(typed("show", str(file), "typed", "here").exception)
    assert "is no position" in str(typed("show", str(file), "typed", f"{topic}/0:²").exception)

    done = typed("replay", str(file), "typed", "--repair", "repairs_typed:unquoted", "--yes")
    assert done.exit_code == 1, "one is still bad"
    assert "1 letter put back as 1 row, 1 still bad" in done.stdout
    assert f"  {topic}/0:2  " in done.stdout
    assert [row["id"] for row in world.rows("typed")] == [0, 7]


def test_a_letter_of_20_mb(world: World, typed: Callable[..., Result], tmp_path: Path) -> None:
    """More than `bytes_per_record` is without a setting, on a topic that takes it."""
    most = {"max.message.bytes": str(32 * MEGABYTE)}
    topic = world.kafka.create_topic(f"letters-{os.getpid()}", config=most)
    brokers = {"bootstrap.servers": world.kafka.bootstrap_servers}
    producer = Producer({**brokers, "message.max.bytes": 32 * MEGABYTE, "log_level": 0})
    large = b'{"id": 7, "word": "large' + b"x" * (20 * MEGABYTE) + b'"}'
    for value in (json.dumps(record(0)), large, json.dumps(record(2))):
        producer.produce(topic, value)
    assert producer.flush(120) == 0
    file = tmp_path / "pipelines.yaml"
    document = {
        "catalog": {"uri": world.server.uri, "warehouse": world.warehouse},
        "kafka": brokers,
        "pipelines": {
            "large": {
                "source": {"topics": topic},
                "schema": {"id": "long required", "word": "string"},
                "table": "paths.large_letters",
            }
        },
    }
    file.write_text(json.dumps(document))
    (tmp_path / "repairs_typed.py").write_text(_REPAIR)
    world.run(*load_pipelines(file).pipelines)
    (committed,) = [event for event in world.seen.events if isinstance(event, RoundCommitted)]
    assert (committed.read, committed.written, committed.bad) == (3, 2, 1)
    assert [row["id"] for row in world.rows("large_letters")] == [0, 2]
    (letter,) = world.rows("large_letters_dead_letters", ("offset",))
    assert (letter["fault"], letter["offset"], letter["value"] == large) == ("too-large", 1, True)
    place = f"{topic}/0:1"

    listed = typed("list", str(file), "large").stdout
    assert f"{place}  too-large  " in listed
    assert len(listed) < 1000
    shown = typed("show", str(file), "large", place).stdout
    assert f"… ({len(large):,} bytes; --raw gives them)" in shown
    assert len(shown) < 5000
    assert typed("show", str(file), "large", place, "--raw").stdout_bytes == large

    for count in (1, 0):
        done = typed("replay", str(file), "large", "--repair", "repairs_typed:shortened", "--yes")
        assert done.exit_code == 0, done.output
        assert f"{count} letter{'' if count else 's'} put back as" in done.stdout
    assert [(row["id"], row["word"]) for row in world.rows("large_letters")] == [
        (0, "w0"),
        (2, "w2"),
        (7, "large"),
    ]
    assert "No letters wait." in typed("list", str(file), "large").stdout
