"""What pipelines hold in the JVM does not grow from round to round."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.finalizer import ThreadSafeFinalizer
from tests.stream.world import World, records

ROUNDS = 40


def _held() -> int:
    """Java objects that Python refers to."""
    return len(ThreadSafeFinalizer.finalizers)


@contextmanager
def _not_by_itself() -> Iterator[None]:
    """Python collects when it has made so many objects, which may be in any round, or in none for hours."""
    thresholds = gc.get_threshold()
    gc.set_threshold(0)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)


def test_objects_of_past_rounds_are_let_go(world: World) -> None:
    topic = world.topic(records(1), partitions=1)
    config = world.pipeline(
        topic, "let_go", name="let-go", limits={"records_per_round": 1, "records_per_task": 1}
    )
    world.run(config)
    gc.collect()
    with _not_by_itself():
        before = _held()
        world.produce(topic, records(1), partitions=1)
        world.run(config)
        of_one = _held() - before
        world.produce(topic, records(ROUNDS), partitions=1)
        world.run(config)
        of_many = _held() - before - of_one
    assert len(world.snapshots("let_go")) > ROUNDS
    # Those of the last rounds are still there, and what a run begins with.
    assert of_many < 4 * of_one
