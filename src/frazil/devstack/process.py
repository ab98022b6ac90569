"""What all services have in common: start, wait until healthy, stop, explain a failure."""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

from frazil.core.errors import ServiceError
from frazil.devstack.spawn import Command, spawn

_POLL_SECONDS = 0.05
_TAIL_LINES = 30


class Service(ABC):
    """One outside program as a child process; a context manager that starts and stops it.

    Without a `directory` it lives in a temporary one, which is removed when the service is closed.
    """

    name: ClassVar[str]
    start_seconds: ClassVar[float] = 120
    stop_seconds: ClassVar[float] = 20
    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM
    kill_signal: ClassVar[signal.Signals] = signal.SIGKILL

    def __init__(self, directory: Path | None = None) -> None:
        self._temporary = directory is None
        self.directory = directory or Path(tempfile.mkdtemp(prefix=f"frazil-{self.name}-"))
        self.directory.mkdir(parents=True, exist_ok=True)
        self._process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def command(self) -> Command:
        """What to run; called for every start."""

    @abstractmethod
    def healthy(self) -> bool:
        """Whether the running service answers."""

    @property
    def log(self) -> Path:
        return self.directory / f"{self.name}.log"

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        if self._process is None:
            raise ServiceError(f"{self.name} is not running; call start() first")
        return self._process.pid

    def start(self) -> Self:
        """Start the service and return when it is healthy."""
        if self.running:
            return self
        command = self.command()
        try:
            self._process = spawn(command, self.log)
        except OSError as error:
            raise ServiceError(f"{self.name} could not be started: {error}") from error
        _running[id(self)] = self
        try:
            self._wait_until_healthy()
        except BaseException:
            self.kill()
            raise
        return self

    def stop(self) -> None:
        """Ask the service to end and wait; kill it when it does not."""
        self._end(self.stop_signal)

    def kill(self) -> None:
        """End the service at once, as a crash would."""
        self._end(self.kill_signal)

    def restart(self) -> Self:
        """Stop and start again: same directory, same address."""
        self.stop()
        return self.start()

    def close(self) -> None:
        """Stop the service and remove its directory if that is temporary."""
        self.stop()
        if self._temporary:
            shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def log_tail(self, lines: int = _TAIL_LINES) -> str:
        """The last lines the service wrote."""
        try:
            text = self.log.read_text(errors="replace")
        except OSError:
            return "(no log)"
        return "\n".join(text.splitlines()[-lines:]) or "(empty log)"

    def _wait_until_healthy(self) -> None:
        deadline = time.monotonic() + self.start_seconds
        while not self.healthy():
            if not self.running:
                code = self._process.returncode if self._process else "?"
                raise ServiceError(self._explain(f"ended with exit code {code} before it was ready"))
            if time.monotonic() > deadline:
                raise ServiceError(self._explain(f"was not ready after {self.start_seconds:g} s"))
            time.sleep(_POLL_SECONDS)

    def _explain(self, what: str) -> str:
        return (
            f"{self.name} {what}. Read the end of its log below, correct what it complains about and "
            f"start it again.\n--- {self.log}\n{self.log_tail()}"
        )

    def _end(self, first: signal.Signals) -> None:
        process, self._process = self._process, None
        _running.pop(id(self), None)
        if process is None:
            return
        _signal_group(process, first)
        try:
            process.wait(self.stop_seconds)
        except subprocess.TimeoutExpired:
            pass
        finally:
            # Members of the group that outlived their leader end here as well.
            _signal_group(process, signal.SIGKILL)
            process.wait()


def _signal_group(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


_running: dict[int, Service] = {}


def _forget_after_fork() -> None:
    # A forked child must not stop the services of its parent when it exits.
    _running.clear()


def _stop_all() -> None:
    for service in reversed(list(_running.values())):
        with contextlib.suppress(Exception):
            service.close()


os.register_at_fork(after_in_child=_forget_after_fork)
atexit.register(_stop_all)
