"""A handful of threads that wait on the disk for the event loop.

`run_in_executor` makes two futures and a condition for every call; on the commit path that cost as
much as the write's own Python. Here one queue feeds the threads and one wake-up brings a result back.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")

_Job = tuple[Callable[[], Any], "asyncio.Future[Any]", asyncio.AbstractEventLoop]


class WorkerThreads:
    """Daemon threads, started with the first job."""

    def __init__(self, count: int, name: str) -> None:
        self._count = count
        self._name = name
        self._jobs: SimpleQueue[_Job] = SimpleQueue()
        self._starting = threading.Lock()
        self._started = False

    async def run(self, work: Callable[[], T]) -> T:
        """Do `work` in a thread. A cancelled caller does not stop work that has begun."""
        if not self._started:
            self._start()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._jobs.put((work, future, loop))
        return await future

    def _start(self) -> None:
        with self._starting:
            if self._started:
                return
            for number in range(self._count):
                threading.Thread(target=self._serve, name=f"{self._name}-{number}", daemon=True).start()
            self._started = True

    def _serve(self) -> None:
        while True:
            work, future, loop = self._jobs.get()
            if future.cancelled():
                continue
            result, error = None, None
            try:
                result = work()
            except BaseException as failure:  # noqa: BLE001 -- carried to the caller, whatever it is
                error = failure
            # The loop may have been closed while the disk was busy; then nobody waits any more.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(_deliver, future, result, error)
            del work, future, loop, result, error


def _deliver(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
