"""`frazil dlq` as somebody types it, with the Spark of the tests."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.stream.world import World, record

from frazil.cli import dlq
from frazil.stream.config import load_pipelines

_REPAIR = """
def unquoted(value):
    return value.replace(b'"7"', b"7")
"""


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

    done = typed("replay", str(file), "typed", "--repair", "repairs_typed:unquoted", "--yes")
    assert done.exit_code == 1, "one is still bad"
    assert "1 letter put back as 1 row, 1 still bad" in done.stdout
    assert f"  {topic}/0:2  " in done.stdout
    assert [row["id"] for row in world.rows("typed")] == [0, 7]
