"""Processes of their own for Spark drivers, so that their trees can be told apart."""

from __future__ import annotations

import multiprocessing
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from frazil.stream.events import Event

_END_SECONDS = 60


class DriverProcess:
    """A function in a process of its own that answers when it is ready, and then each message."""

    def __init__(self, target: Callable[..., None], *arguments: Any) -> None:
        spawned = multiprocessing.get_context("spawn")
        self._connection, theirs = spawned.Pipe()
        self._process = spawned.Process(target=target, args=(theirs, *arguments))
        self._process.start()
        theirs.close()
        try:
            self._answer()
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        assert self._process.pid is not None, "it was started"
        return self._process.pid

    def call(self, message: object) -> Any:
        self._connection.send(message)
        return self._answer()

    def close(self) -> None:
        self._connection.close()
        self._process.join(_END_SECONDS)
        self._process.kill()

    def _answer(self) -> Any:
        try:
            error, value = self._connection.recv()
        except EOFError:
            error, value = "its process ended", None
        if error is not None:
            raise RuntimeError(f"the driver failed: {error}")
        return value


def serve(
    connection: Connection,
    start: Callable[..., tuple[Callable[..., Any], Callable[[], None]]],
    *arguments: Any,
) -> None:
    """`start` gives what works on a message, whose parts are its arguments, and what ends it all."""
    try:
        work, end = start(*arguments)
        connection.send((None, None))
    except Exception:  # noqa: BLE001 - the other end raises it
        connection.send((traceback.format_exc(), None))
        return
    while True:
        try:
            message = connection.recv()
        except EOFError:
            break
        try:
            connection.send((None, work(*message)))
        except Exception:  # noqa: BLE001 - the other end raises it
            connection.send((traceback.format_exc(), None))
    end()


class Silent:
    """Nobody watches."""

    def notify(self, event: Event) -> None:
        pass
