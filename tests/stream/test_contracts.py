"""Records that the table does not know: every change of a schema under each of the four words."""

from __future__ import annotations

from typing import Any

import pytest
from tests.stream.world import World

from frazil.core.errors import BadRecord
from frazil.stream.config import PipelineConfig

SCHEMA = {"id": "long required", "n": "int", "gone": "string"}
BY = ("partition", "offset")
GOOD = {"id": 0, "n": 1, "gone": "g"}
#: By kind of drift: the record that comes while the pipeline runs.
DRIFT: dict[str, dict[str, Any]] = {
    "new field": {"id": 1, "n": 2, "gone": "h", "more": {"a": 1.5}},
    "widened number": {"id": 1, "n": 5_000_000_000, "gone": "h"},
    "field gone": {"id": 1, "n": 2},
    "type conflict": {"id": 1, "n": "two", "gone": "h"},
    "renamed field": {"id": 1, "n": 2, "went": "h"},
}
#: What becomes of that record: the row, or where it went.
DEAD, STOP = "dead", "stop"
WORDS = ("evolve", "freeze", "discard_row", "discard_value")
EXPECTED: dict[str, dict[str, Any]] = {
    "new field": {
        "evolve": {"id": 1, "n": 2, "gone": "h", "more": {"a": 1.5}},
        "freeze": STOP,
        "discard_row": DEAD,
        "discard_value": {"id": 1, "n": 2, "gone": "h"},
    },
    "widened number": {
        "evolve": {"id": 1, "n": 5_000_000_000, "gone": "h"},
        "freeze": STOP,
        "discard_row": DEAD,
        "discard_value": {"id": 1, "n": None, "gone": "h"},
    },
    "field gone": {word: {"id": 1, "n": 2, "gone": None} for word in WORDS},
    "type conflict": {
        "evolve": DEAD,
        "freeze": STOP,
        "discard_row": DEAD,
        "discard_value": {"id": 1, "n": None, "gone": "h"},
    },
    "renamed field": {
        "evolve": {"id": 1, "n": 2, "gone": None, "went": "h"},
        "freeze": STOP,
        "discard_row": DEAD,
        "discard_value": {"id": 1, "n": 2, "gone": None},
    },
}


@pytest.mark.parametrize("word", WORDS)
def test_each_drift_under_each_word(world: World, word: str) -> None:
    """All kinds of drift side by side, each with a table of its own, and without a restart."""
    topics = {kind: world.topic([GOOD], partitions=1) for kind in DRIFT}
    pipelines = {
        kind: world.pipeline(
            topic, f"{word}_{number}", schema=SCHEMA, contract=word, name=f"{word.replace('_', '-')}-{number}"
        )
        for number, (kind, topic) in enumerate(topics.items())
    }
    good_later = {"id": 2, "n": 3, "gone": "i"}
    with world.running(*pipelines.values()) as run:
        run.until(lambda: all(_ids(world, p) == [0] for p in pipelines.values()))
        for kind, topic in topics.items():
            world.produce(topic, [DRIFT[kind], good_later], partitions=1)
        stopped = [kind for kind in DRIFT if EXPECTED[kind][word] == STOP]
        moving = {kind: p for kind, p in pipelines.items() if kind not in stopped}
        run.until(lambda: all(2 in _ids(world, p) for p in moving.values()))
        run.until(lambda: len(run.stopped()) == len(stopped))
    assert set(run.errors) == {pipelines[kind].name for kind in stopped}
    assert all(isinstance(error, BadRecord) for error in run.errors.values())
    for kind, pipeline in pipelines.items():
        rows, expected = world.rows(pipeline.table.name), EXPECTED[kind][word]
        dead = f"{pipeline.table.name}_dead_letters"
        letters = world.rows(dead, BY) if world.exists(dead) else []
        assert [letter["offset"] for letter in letters] == ([1] if expected == DEAD else []), kind
        found = [row for row in rows if row["id"] == 1]
        wanted = [] if expected in (DEAD, STOP) else [expected]
        assert found == wanted, kind


def _ids(world: World, pipeline: PipelineConfig) -> list[int]:
    table = pipeline.table.name
    return [row["id"] for row in world.rows(table)] if world.exists(table) else []


def test_a_table_that_grew_is_followed_after_a_restart(world: World) -> None:
    topic = world.topic([{"id": 1, "more": 7}], partitions=1)
    pipeline = world.pipeline(topic, "grown", schema={"id": "long"}, contract="evolve")
    world.run(pipeline)
    world.produce(topic, [{"id": 2, "more": 8}, {"id": 3, "more": 9, "again": [True]}], partitions=1)
    world.run(pipeline)
    assert [(row["id"], row["more"], row["again"]) for row in world.rows("grown")] == [
        (1, 7, None),
        (2, 8, None),
        (3, 9, [True]),
    ]
