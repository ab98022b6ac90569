"""Many jobs at once: what their threads share, and what is kept of each while it waits for the others."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.lineage.flink.resolving import K_ORDERS, World, read, write

from frazil.lineage.model import Resolution


@pytest.fixture
def hasty_threads() -> Iterator[None]:
    """Each is interrupted as often as can be."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("hasty_threads")
def test_threads_learn_while_others_look() -> None:
    world = World()
    resolver, facts = world.resolver(), world.facts()

    def learn(first: int) -> None:
        names = (f"t{number}" for number in range(first, first + 1_000))
        sinks = (write(name, "ice", "db", name, operator="…", connector="iceberg") for name in names)
        resolver.resolve(world.traced(*sinks), facts)

    def look() -> None:
        endpoint = write("large", "ice2", "db", "large", operator="ice2.db.large: Writer")
        for _ in range(300):
            resolver.resolve(world.traced(endpoint), facts)

    with ThreadPoolExecutor(3) as pool:
        for work in [pool.submit(look), *(pool.submit(learn, first) for first in range(0, 3_000, 1_000))]:
            work.result()
    sink = write("large", "ice", "db", "large", operator="ice.db.large: Writer")
    assert isinstance(resolver.resolve(world.traced(sink), facts)[sink.id], Resolution)


def test_what_is_kept_of_a_job_does_not_grow_with_what_nobody_asks_for() -> None:
    """Vertices have thousands of metrics, and the jobs that wait for others may be a thousand."""

    def kept(more: int) -> int:
        world, reading = World(), "Source__k_orders[9].KafkaSourceReader.topic.orders.partition"
        names = [f"{n}.{reading}.{n}.currentOffset" for n in range(more)]
        world.metrics = {"v1": (*names, *(f"{n}.Calc[10].numRecordsIn" for n in range(more)))}
        world.parameters = {f"parameter{n}": "x" for n in range(more)}
        facts, source = world.facts(), read("k_orders", *K_ORDERS)
        answer = world.resolver().resolve(world.traced(source), facts)[source.id]
        assert isinstance(answer, Resolution)
        assert str(answer.dataset) == "kafka:orders"
        answers = {name: value for name, value in vars(facts).items() if not callable(value)}
        return len(pickle.dumps(answers))

    assert kept(2_000) == kept(1)
