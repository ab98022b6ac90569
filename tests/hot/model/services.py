"""The tiering service, run in all the ways in which it can go well or end."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self

import pytest
from tests.hot.model.world import World
from tests.stream.crash.runs import Run

from frazil.core.errors import FrazilError, Superseded
from frazil.hot.tiering.service import Tiering
from frazil.stream.events import Event

_SECONDS = 300.0
#: Many steps are taken while a service is held, each as slow as the machine is.
_HELD_SECONDS = 1800.0
#: Modules whose steps can be held.
_PLACES = ("frazil.lake.delivery", "frazil.stream.cdc.loop")


@dataclass
class Seen:
    events: list[Event] = field(default_factory=list)

    def notify(self, event: Event) -> None:
        self.events.append(event)


class Gate:
    """Holds the first service that comes to a named step, as if its machine had stopped for a while."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        for place in _PLACES:
            patch.setattr(f"{place}.reach", self._reach)
        self._wanted: str | None = None
        self._left = 0
        self._open = threading.Event()
        self.held = threading.Event()

    def close(self, point: str) -> None:
        """`commit.before`, or `commit.before@2` for the second time."""
        name, _, nth = point.partition("@")
        self._open.clear()
        self.held.clear()
        self._left, self._wanted = int(nth or 1), name

    def open(self) -> None:
        self._wanted = None
        self._open.set()

    def _reach(self, name: str) -> None:
        if name != self._wanted:
            return
        self._left -= 1
        if self._left <= 0:
            self._wanted = None
            self.held.set()
            assert self._open.wait(_HELD_SECONDS), "somebody opens the gate"


class InProcess:
    """A service in a thread; `once` or until the block ends. Only another service may end it earlier."""

    def __init__(self, world: World, *, once: bool) -> None:
        self.seen = Seen()
        self._service = Tiering(world.cluster(), world.spark, observer=self.seen, once=once)
        self._errors: dict[str, FrazilError] = {}
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._service.stop()
        self.join()

    @property
    def ended(self) -> bool:
        return not self._thread.is_alive()

    def join(self) -> list[FrazilError]:
        """What it ended with."""
        self._thread.join(_SECONDS)
        assert self.ended, self.seen.events[-8:]
        return list(self._errors.values())

    def _run(self) -> None:
        self._errors.update(self._service.run())


def once(world: World) -> None:
    """Tier all there is."""
    errors = Tiering(world.cluster(), world.spark, observer=Seen(), once=True).run()
    assert not errors, errors


def require_superseded(errors: list[FrazilError]) -> str:
    """Of a service that another one took over from: it may have been through already."""
    assert all(isinstance(error, Superseded) for error in errors), errors
    return "superseded" if errors else "through"


class Killed:
    """A service as a process of its own, which dies by SIGKILL at a failpoint."""

    def __init__(self, world: World, point: str) -> None:
        self._run = Run(world.config(), "--log-table", "none", failpoint=point, command="tier --config")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._run.close()

    @property
    def working(self) -> bool:
        """It has taken over a table, or is dead already."""
        return self.dead or bool(self._run.events("claimed"))

    @property
    def dead(self) -> bool:
        return self._run.process.poll() is not None

    def until(self, true: Callable[[], bool], meanwhile: Callable[[], None]) -> None:
        deadline = time.monotonic() + _SECONDS
        while not true():
            assert time.monotonic() < deadline, self._run.story()
            meanwhile()
            time.sleep(0.2)

    def reap(self) -> None:
        assert self._run.wait() == -signal.SIGKILL, self._run.story()
