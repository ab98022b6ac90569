"""A seeded random workload over hot tables while tiering is killed, held up and restarted, files are
rewritten, ranges corrected, snapshots expire, the log is trimmed and columns come: every read equals the
model, exactly.

To replay a failure: `MODEL_SEED=… MODEL_CHAPTERS=… pytest tests/hot/model -k every_read`. What services do
meanwhile is not seeded.
"""

from __future__ import annotations

import os

import pytest
from tests.hot.model.conftest import MakeWorld
from tests.hot.model.log import murmur2
from tests.hot.model.services import Gate
from tests.hot.model.workload import STORIES, Workload
from tests.hot.model.world import World

from frazil.devstack.seaweed import ObjectStore

_SEED = int(os.environ.get("MODEL_SEED", "8"))
_CHAPTERS = int(os.environ.get("MODEL_CHAPTERS", str(len(STORIES))))
_STEPS = 75
#: Ten times through all stories: three thousand steps.
_LONG = 10 * len(STORIES)
_NEEDED = {
    "old, the same",
    "once",
    "compact",
    "correct",
    "expire",
    "care",
    "trim",
    "column",
    "spark",
    "transaction",
    "iceberg",
}


def _run(world: World, gate: Gate, seed: int, chapters: int) -> None:
    workload = Workload(world, gate, seed, _STEPS)
    try:
        workload.run(chapters)
    except BaseException as error:
        error.add_note(workload.story())
        raise
    print(dict(workload.taken))
    if chapters >= len(STORIES):
        assert workload.taken.keys() >= _NEEDED


@pytest.mark.slow
def test_every_read_is_the_model(make_world: MakeWorld, gate: Gate) -> None:
    _run(make_world(None), gate, _SEED, _CHAPTERS)


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_thousands_of_steps(make_world: MakeWorld, gate: Gate, seed: int) -> None:
    _run(make_world(None), gate, seed, _LONG)


@pytest.mark.exhaustive
def test_thousands_of_steps_in_an_object_store(
    make_world: MakeWorld, gate: Gate, object_store: ObjectStore
) -> None:
    _run(make_world(object_store), gate, 4, _LONG)


def test_the_models_own_partitioner() -> None:
    """Of Kafka's own tests of its hash."""
    known = {
        b"21": -973932308,
        b"foobar": -790332482,
        b"a-little-bit-long-string": -985981536,
        b"abc": 479470107,
    }
    assert {data: _signed(murmur2(data)) for data in known} == known


def _signed(value: int) -> int:
    return value - 2**32 if value >= 2**31 else value
