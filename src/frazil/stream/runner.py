"""Runs pipelines side by side on one Spark session, each in its own thread."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from frazil.client import Client
from frazil.core.errors import FrazilError, ServiceError
from frazil.lake.catalog import Lake
from frazil.stream.config.model import PipelineConfig, Pipelines
from frazil.stream.events import Observer
from frazil.stream.loops import Loop
from frazil.stream.observe.fanout import Observers
from frazil.stream.pipeline import PipelineLoop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Loops:
    """Loops on one Spark session, with one connection of its JVM to the catalog."""

    def __init__(self, spark: SparkSession, client: Client) -> None:
        """The client is closed when the loops have ended."""
        self._spark = spark
        self._client = client
        self._lake: Lake | None = None
        self._lock = threading.Lock()
        self._loops: Sequence[Loop] = ()

    def run(self) -> dict[str, FrazilError]:
        """Until all pipelines ended; the errors of those that failed."""
        from pyspark import InheritableThread

        threads = [InheritableThread(target=loop.run, name=loop.name) for loop in self._loops]
        for thread in threads:
            thread.daemon = True
            thread.start()
        for thread in threads:
            _wait(thread)
        self._close()
        return {loop.name: loop.error for loop in self._loops if loop.error is not None}

    def stop(self) -> None:
        """Finish the rounds in hand, then end. May be called from a signal handler."""
        for loop in self._loops:
            loop.stop()

    def abort(self) -> None:
        """End now: the jobs are cancelled, nothing of their rounds becomes visible."""
        for loop in self._loops:
            loop.abort()
        self._spark.sparkContext.cancelAllJobs()

    def _connected(self) -> Lake:
        """One connection of the JVM for all pipelines, made when the first one needs it."""
        with self._lock:
            if self._lake is None:
                self._lake = Lake(self._spark, self._client)
            return self._lake

    def _close(self) -> None:
        if self._lake is not None:
            # With a dead JVM its connections are closed as well.
            with suppress(ServiceError):
                self._lake.close()
        self._client.close()


class Runner(Loops):
    """The pipelines of one file. One that fails does not stop the others.

    >>> runner = Runner(pipelines, spark, observer=observer, once=True)  # doctest: +SKIP
    >>> runner.run()  # the errors of those that failed, by name  # doctest: +SKIP
    {}
    """

    def __init__(
        self, pipelines: Pipelines, spark: SparkSession, *, observer: Observer, once: bool = False
    ) -> None:
        catalog = pipelines.catalog
        super().__init__(spark, Client(catalog.uri, warehouse=catalog.warehouse, token=catalog.token))
        shielded = Observers([observer])
        self._loops = [
            loop_of(config)(config, spark, self._connected, catalog.name, shielded, once=once)
            for config in pipelines.pipelines
        ]


def loop_of(config: PipelineConfig) -> type[Loop]:
    """Imported where it is used: few pipelines keep state, or change rows."""
    if config.changes is not None:
        from frazil.stream.cdc.loop import ChangeLoop

        return ChangeLoop
    if config.stateful is None:
        return PipelineLoop
    from frazil.stream.stateful.loop import StatefulLoop

    return StatefulLoop


def _wait(thread: threading.Thread) -> None:
    """In short steps, so that the main thread still meets its signals."""
    while thread.is_alive():
        thread.join(0.2)
