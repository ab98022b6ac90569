"""A Spark session whose own messages go to a file, so that they do not tear what we show."""

from __future__ import annotations

import contextlib
import logging
import os
import socketserver
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from frazil.core.errors import ServiceError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from frazil.stream.config import Pipelines
    from frazil.stream.config.model import SparkConfig

T = TypeVar("T")
_POLL_SECONDS = 0.1


@dataclass
class SparkLog:
    """The file of Spark's messages: the user's, or a temporary one that is kept only if it is needed."""

    path: Path
    temporary: bool
    keep: bool = False

    @classmethod
    def at(cls, path: Path | None) -> SparkLog:
        if path is not None:
            try:
                path.open("ab").close()
            except OSError as error:
                raise ServiceError(f"cannot write Spark's messages to {path}: {error.strerror}") from None
            return cls(path, temporary=False)
        handle, name = tempfile.mkstemp(prefix="frazil-spark-", suffix=".log")
        os.close(handle)
        return cls(Path(name), temporary=True)

    def remove(self) -> None:
        """Unless somebody will want to read it."""
        if self.temporary and not self.keep:
            self.path.unlink(missing_ok=True)


def quiet_session(pipelines: Pipelines, log: SparkLog) -> SparkSession:
    """The session of a file of pipelines. Java and the Python workers write to the log."""
    from frazil.lake.session import spark_session

    with redirected(log.path):
        session = aside(
            lambda: spark_session(
                pipelines.spark.settings, master=pipelines.spark.master, s3a=pipelines.needs_s3a
            ),
            name="spark",
        )
    _log_lost_connections()
    return session


@contextlib.contextmanager
def quiet_spark(config: SparkConfig) -> Iterator[SparkSession]:
    """A session for one command, whose messages nobody sees."""
    from frazil.lake.session import spark_session

    # It takes seconds, in which nothing else is said.
    click.echo(f"Starting Spark ({config.master})…", err=True)
    log = SparkLog.at(None)
    try:
        with redirected(log.path):
            session = aside(lambda: spark_session(config.settings, master=config.master), name="spark")
        try:
            yield session
        finally:
            with redirected(log.path):
                session.stop()
    finally:
        log.remove()


def aside(work: Callable[[], T], *, name: str) -> T:
    """Work with Spark in a thread, so that Ctrl-C ends the wait for it and nothing else.

    A call of Java that is interrupted leaves its answer to the next call; and in the main thread PySpark puts
    a signal handler in place that itself calls Java. What still runs ends with this process.
    """
    found: list[T] = []
    failed: list[BaseException] = []

    def attempt() -> None:
        try:
            found.append(work())
        except BaseException as error:  # noqa: BLE001 - raised where somebody waits
            failed.append(error)

    thread = threading.Thread(target=attempt, name=name, daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(_POLL_SECONDS)
    if failed:
        raise failed[0]
    return found[0]


def _log_lost_connections() -> None:
    """When Java is killed, PySpark's server for accumulators would print a traceback over the display."""
    from pyspark import accumulators

    def log_it(_server: socketserver.BaseServer, _request: Any, _address: Any) -> None:
        logging.getLogger(__name__).warning("the connection to Spark's JVM was lost")

    for kind in (accumulators.AccumulatorTCPServer, accumulators.AccumulatorUnixServer):
        setattr(kind, "handle_error", log_it)  # noqa: B010 - mypy would want the exact types


@contextlib.contextmanager
def redirected(path: Path) -> Iterator[None]:
    """Standard output and error of this process, and of children started meanwhile, go to a file.

    By descriptor: Java writes to those it inherits, not to Python's streams.
    """
    target = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    sys.stdout.flush()
    sys.stderr.flush()
    saved = [(number, os.dup(number)) for number in (1, 2)]
    try:
        for number, _ in saved:
            os.dup2(target, number)
        os.close(target)
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for number, copy in saved:
            os.dup2(copy, number)
            os.close(copy)
