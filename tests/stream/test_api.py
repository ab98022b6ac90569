"""`frazil.run`: what it is given, and how it ends. That rows land is shown by running docs/pipelines.md."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import pytest
from tests.stream.support import kafka_of

import frazil
from frazil.core.errors import FrazilError, InvalidConfig, SourceChanged
from frazil.stream import api
from frazil.stream.api import _pipelines, _watch
from frazil.stream.runner import Runner

FILE = """\
catalog: {uri: "http://here", name: ice}
kafka: {bootstrap.servers: "b:1"}
spark: {master: "local[3]"}
pipelines:
  p: {source: {topics: t}, schema: {id: long}, table: n.t}
"""


def test_a_file_or_pipelines(tmp_path: Path) -> None:
    file = tmp_path / "pipelines.yaml"
    file.write_text(FILE)
    found = _pipelines(file, None, None, None)
    assert (found.catalog.uri, found.catalog.name, found.spark.master) == ("http://here", "ice", "local[3]")
    found = _pipelines(str(file), "http://there", None, {"master": "local[1]"})
    assert (found.catalog.uri, found.spark.master) == ("http://there", "local[1]")
    assert kafka_of(found.pipelines[0]).settings == {"bootstrap.servers": "b:1"}
    with pytest.raises(InvalidConfig, match="leave out the keyword kafka"):
        _pipelines(file, None, {"client.id": "x"}, None)
    one = frazil.Pipeline("p", topics="t", schema={"id": "long"}, table="n.t")
    for given in (one, [one]):
        (made,) = _pipelines(given, None, {"bootstrap.servers": "b:1"}, None).pipelines
        assert made.hash == one.hash == found.pipelines[0].hash


class Stubborn:
    """Runs until it is told to stop, so many times; is interrupted as by somebody at the keyboard."""

    def __init__(self, times: int) -> None:
        self.told: list[str] = []
        self._times = times
        self._go_on = threading.Event()

    def run(self) -> dict[str, FrazilError]:
        self._go_on.wait(120)
        return {}

    def stop(self) -> None:
        self.told.append("stop")
        if len(self.told) == self._times:
            self._go_on.set()

    def abort(self) -> None:
        self.told.append("abort")
        self._go_on.set()


@pytest.fixture
def interrupt(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], None]]:
    """So many times, each when the runner is waited for.

    As in a program that nobody took SIGINT from: other tests run servers in this process.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    wait = api._wait

    def times(count: int) -> None:
        left = iter(range(count))

        def interrupted(worker: threading.Thread) -> None:
            # By the thread that waits, so that it comes neither before it waits nor too late.
            if next(left, None) is not None:
                os.kill(os.getpid(), signal.SIGINT)
            wait(worker)

        monkeypatch.setattr(api, "_wait", interrupted)

    yield times
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_finishes_the_round(interrupt: Callable[[int], None]) -> None:
    runner = Stubborn(1)
    interrupt(1)
    _watch(cast("Runner", runner))
    assert runner.told == ["stop"]


def test_a_second_interrupt_ends_at_once(interrupt: Callable[[int], None]) -> None:
    runner = Stubborn(2)
    interrupt(2)
    with pytest.raises(KeyboardInterrupt):
        _watch(cast("Runner", runner))
    assert runner.told == ["stop", "abort"]


class Failing:
    def __init__(self, **failed: FrazilError) -> None:
        self._failed = failed

    def run(self) -> dict[str, FrazilError]:
        return self._failed


def test_errors_are_raised_at_the_end() -> None:
    with pytest.raises(SourceChanged, match="gone"):
        _watch(cast("Runner", Failing(p=SourceChanged("gone"))))
    with pytest.raises(FrazilError, match="pipeline p: gone\npipeline q: no"):
        _watch(cast("Runner", Failing(p=SourceChanged("gone"), q=FrazilError("no"))))
