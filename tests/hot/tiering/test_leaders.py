"""One topic that has no leader, and tables that are tiered all the same."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from tests.hot.tiering.world import Running, Table, World

from frazil.core.errors import Unavailable
from frazil.stream.events import FreshnessReported, RoundRetried, TableStopped
from frazil.stream.kafka.log import KafkaLog


def _lose_leader(monkeypatch: pytest.MonkeyPatch, table: Table) -> None:
    """The answer that two real brokers lead to in tests/stream/kafka/test_log_leaders.py."""
    _answer(monkeypatch, table, KafkaError.LEADER_NOT_AVAILABLE)


def _answer(monkeypatch: pytest.MonkeyPatch, table: Table, error: int) -> None:
    """To whoever asks how long one of its partitions is."""
    ask = KafkaLog._ask

    def asked(self: KafkaLog, *what: Any) -> dict[tuple[str, int], Future[Any]]:
        found = ask(self, *what)
        lost: Future[Any] = Future()
        lost.set_exception(KafkaException(KafkaError(error)))
        return found | {place: lost for place in found if place == (table.hot.topic, 1)}

    monkeypatch.setattr(KafkaLog, "_ask", asked)


def _trouble(service: Running, table: Table) -> str | None:
    reports = service.seen.of(FreshnessReported)[-1:]
    return next(
        (one.trouble for report in reports for one in report.tables if one.table == str(table.hot)), None
    )


def test_a_bounded_run_tiers_the_others_and_tells(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    bad, good = world.table(), world.table()
    bad.put(*range(10))
    good.put(*range(10))
    _lose_leader(monkeypatch, bad)
    with pytest.raises(Unavailable, match=f"{bad.hot.topic}-1"):
        world.once()
    assert (good.complete(), bad.found()) == (True, [])
    monkeypatch.undo()
    world.once()
    assert bad.complete()


def test_the_others_go_on_and_it_goes_on_later(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    bad, good = world.table(), world.table()
    with world.tiering() as service:
        bad.put(*range(10))
        good.put(*range(10))
        service.until(lambda: good.complete() and bad.complete())
        _lose_leader(monkeypatch, bad)
        before = bad.found()
        bad.put(*range(20), word="late")
        for word in "ab":
            good.put(*range(20), word=word)
            service.until(good.complete)
        assert bad.found() == before
        service.until(lambda: f"{bad.hot.topic}-1" in str(_trouble(service, bad)))
        assert all(str(bad.hot) in event.reason for event in service.seen.of(RoundRetried))
        monkeypatch.undo()
        service.until(bad.complete)
        service.until(lambda: _trouble(service, bad) is None)
    assert not service.errors


def test_a_topic_that_was_refused_for_a_while(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing new comes to it, so no commit tells that it goes on."""
    idle, busy = world.table(), world.table()
    with world.tiering() as service:
        idle.put(1)
        busy.put(1)
        service.until(lambda: idle.complete() and busy.complete())
        _answer(monkeypatch, idle, KafkaError.TOPIC_AUTHORIZATION_FAILED)
        busy.put(2)
        service.until(lambda: str(idle.hot) in {event.table for event in service.seen.of(TableStopped)})
        service.until(lambda: _trouble(service, idle) is not None)
        monkeypatch.undo()
        service.until(lambda: _trouble(service, idle) is None, 30)
        service.until(busy.complete)
        idle.put(2)
        service.until(idle.complete)
    assert not service.errors
