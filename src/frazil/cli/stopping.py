"""How a run ends: a first signal finishes the round in hand, a second one ends the process at once."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Protocol

_POLL_SECONDS = 0.2
#: How long the jobs may take to be cancelled before the process goes anyway.
_ABORT_SECONDS = 3.0


class Stoppable(Protocol):
    def run(self) -> object: ...
    def stop(self) -> None: ...
    def abort(self) -> None: ...


class EndedEarly(BaseException):
    """A signal came before anything was running. No error: nobody may catch it as one."""


class Signals:
    """Counts SIGINT and SIGTERM. Before `hold`, the first one raises EndedEarly and a second one exits."""

    def __init__(self) -> None:
        self._held = False
        self._seen: list[int] = []

    def install(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._handle)

    def hold(self) -> None:
        """From here on a signal interrupts nothing; `watch` acts on it."""
        self._held = True

    def ask(self) -> None:
        """As if the first signal had come."""
        self._seen.append(signal.SIGTERM)

    def watch(
        self, runner: Stoppable, *, stopping: Callable[[], None], aborting: Callable[[int], None]
    ) -> None:
        """Run it in a thread of its own and return when it ended, with its error if it had one.

        The main thread only waits: whatever the runner is doing, a signal is noticed. `stopping` is called
        at the first one, `aborting` with the exit code at the second; it does not return.
        """
        self.hold()
        error: list[BaseException] = []
        thread = threading.Thread(target=_run, args=(runner, error), name="runner", daemon=True)
        thread.start()
        asked = False
        while thread.is_alive():
            thread.join(_POLL_SECONDS)
            if len(self._seen) > 1:
                _in_background(runner.abort, _ABORT_SECONDS)
                aborting(128 + self._seen[-1])
            if self._seen and not asked:
                asked = True
                stopping()
                runner.stop()
        if error:
            raise error[0]

    @property
    def asked(self) -> bool:
        return bool(self._seen)

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        self._seen.append(number)
        if self._held:
            return
        if len(self._seen) > 1:
            os._exit(128 + number)
        raise EndedEarly


def _run(runner: Stoppable, error: list[BaseException]) -> None:
    try:
        runner.run()
    except BaseException as raised:  # noqa: BLE001 - handed to the main thread
        error.append(raised)


def _in_background(call: Callable[[], None], seconds: float) -> None:
    """Try it, but not for longer: what it talks to may be what is stuck."""

    def attempt() -> None:
        # It may be gone already.
        with contextlib.suppress(Exception):
            call()

    thread = threading.Thread(target=attempt, daemon=True)
    thread.start()
    deadline = time.monotonic() + seconds
    while thread.is_alive() and time.monotonic() < deadline:
        thread.join(_POLL_SECONDS)
