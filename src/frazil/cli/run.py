"""`frazil run`: run pipelines until stopped, or until they have caught up."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from frazil.cli.pipelines import load, starting
from frazil.cli.quiet_spark import SparkLog, quiet_session
from frazil.cli.stopping import EndedEarly, Signals, Stoppable
from frazil.core.durations import show_duration

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from pyspark.sql import SparkSession

    from frazil.stream.config import Pipelines
    from frazil.stream.events import Event, Observer
    from frazil.stream.observe import Board, Terminal

F = TypeVar("F", bound=Callable[..., Any])
_HOW_TO_STOP = "Ctrl-C finishes the round in hand and stops"
_STOPPING = "Stopping: the round in hand is finished first. Ctrl-C again stops at once and loses nothing."


@dataclasses.dataclass
class _Display:
    """How this run is shown: live on a terminal, as lines, or as JSON."""

    board: Board
    as_json: bool
    terminal: Terminal | None = None

    def say(self, text: str) -> None:
        """A remark beside the events; on standard error where a program reads the output."""
        click.echo(text, err=self.as_json)

    def stopping(self) -> None:
        if self.terminal is not None:
            self.terminal.headline = _STOPPING
        else:
            self.say(_STOPPING)


#: How a command that runs on and on is shown and watched.
_SHOWN = (
    click.option(
        "--metrics-port",
        type=click.IntRange(0, 65535),
        metavar="PORT",
        help="Serve /metrics (Prometheus) and /health there; 0 takes a free port.",
    ),
    click.option(
        "--metrics-host",
        default="127.0.0.1",
        show_default=True,
        metavar="HOST",
        help="Address to serve them on.",
    ),
    click.option(
        "--json", "as_json", is_flag=True, help="Print one JSON object for each event, for programs."
    ),
    click.option("--plain", is_flag=True, help="Log lines instead of live progress, on a terminal too."),
    click.option(
        "--spark-log",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        help="Where Spark's own messages go.  [default: a temporary file, kept after a failure]",
    ),
)


def shown_options(command: F) -> F:
    """`--metrics-port`, `--json` and the like, as `run_loops` takes them."""
    for option in reversed(_SHOWN):
        command = option(command)
    return command


@click.command(short_help="Run pipelines into Iceberg tables, exactly once.")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.argument("names", nargs=-1, metavar="[PIPELINE]...")
@click.option("--once", is_flag=True, help="Stop when everything that is in the log now has been written.")
@shown_options
def run(
    file: Path,
    names: tuple[str, ...],
    once: bool,
    metrics_port: int | None,
    metrics_host: str,
    as_json: bool,
    plain: bool,
    spark_log: Path | None,
) -> None:
    """Run the pipelines of FILE, or only those that are named, until stopped.

    The table is the only checkpoint: whatever ends this command, the next run goes on after the last commit.
    Ctrl-C (or SIGTERM) finishes the round in hand; a second one stops at once and loses nothing. One
    pipeline that fails does not stop the others; the exit code is then 1.
    """
    pipelines = load(file, names)
    run_pipelines(
        pipelines,
        once=once,
        metrics_port=metrics_port,
        metrics_host=metrics_host,
        as_json=as_json,
        plain=plain,
        spark_log=spark_log,
    )


def run_pipelines(
    pipelines: Pipelines,
    *,
    once: bool,
    metrics_port: int | None,
    metrics_host: str,
    as_json: bool,
    plain: bool,
    spark_log: Path | None,
) -> None:
    """Until they end or somebody stops them; the options are those of the command."""
    from frazil.stream.runner import Runner

    def made(spark: SparkSession, observer: Observer) -> Stoppable:
        return Runner(pipelines, spark, observer=observer, once=once)

    run_loops(
        Work(pipelines, tuple(pipeline.name for pipeline in pipelines.pipelines), made),
        metrics_port=metrics_port,
        metrics_host=metrics_host,
        as_json=as_json,
        plain=plain,
        spark_log=spark_log,
    )


@dataclasses.dataclass(frozen=True)
class Work:
    """What runs, and what it is called in what is shown."""

    #: For Spark's settings.
    pipelines: Pipelines
    names: tuple[str, ...]
    made: Callable[[SparkSession, Observer], Stoppable]
    #: An observer that adds to the metrics.
    measured: Callable[[CollectorRegistry], Observer] | None = None


def run_loops(
    work: Work,
    *,
    metrics_port: int | None,
    metrics_host: str,
    as_json: bool,
    plain: bool,
    spark_log: Path | None,
) -> None:
    """Until it ends or somebody stops it."""
    from frazil.stream.observe import Board

    board = Board(work.names)
    display = _Display(board, as_json)
    signals, log = Signals(), SparkLog.at(spark_log)
    # Errors are told by what they raise; what libraries log (py4j whole tracebacks) is for the file.
    logging.basicConfig(filename=log.path, level=logging.WARNING)
    signals.install()
    began = time.monotonic()
    try:
        address = (metrics_host, metrics_port)
        with _observers(display, work, plain, address, signals) as observers:
            _run(work, display, signals, log, observers)
    except EndedEarly:
        display.say("Stopped before anything was read.")
        return
    finally:
        log.keep = bool(board.failures())
        log.remove()
    display.say(summary(board, time.monotonic() - began, asked=signals.asked))
    if board.failures():
        _tell_failures(display, log)
        sys.exit(1)


class WhileRead:
    """Lines on standard output for a reader that may go away, as `head` does: then `closed` is called."""

    def __init__(self, lines: Observer, closed: Callable[[], None]) -> None:
        self._lines = lines
        self._closed = closed

    def notify(self, event: Event) -> None:
        try:
            self._lines.notify(event)
        except BrokenPipeError:
            # What is still to be written, at exit too, goes nowhere.
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, sys.stdout.fileno())
            os.close(nowhere)
            self._closed()


def summary(board: Board, seconds: float, *, asked: bool) -> str:
    """What a run did, in a few lines."""
    from frazil.stream.observe.texts import counted

    rows = board.rows()
    total = sum(row.written for row in rows)
    commits = sum(row.commits for row in rows)
    bad = sum(row.bad for row in rows)
    letters = f" and {counted(bad, 'dead letter')}" if bad else ""
    verb = "Stopped" if asked else "Ended" if board.failures() else "Done"
    return (
        f"{verb} after {show_duration(seconds)}: {counted(total, 'row')}{letters} in "
        f"{counted(commits, 'commit')}; nothing in flight."
    )


def _run(
    work: Work,
    display: _Display,
    signals: Signals,
    log: SparkLog,
    observers: Sequence[Observer],
) -> None:
    from frazil.stream.observe import Observers

    display.say(starting(work.pipelines))
    spark = quiet_session(work.pipelines, log)
    signals.hold()
    try:
        runner = work.made(spark, Observers(observers))
        with display.terminal or contextlib.nullcontext():
            signals.watch(runner, stopping=display.stopping, aborting=lambda code: _abort(display, log, code))
    finally:
        _stop_spark(spark)


def _abort(display: _Display, log: SparkLog, code: int) -> None:
    """End the process now. Java ends when its pipe to us closes, and the workers with it."""
    if display.terminal is not None:
        display.terminal.close()
    display.say("Stopped at once: what was not committed will be read again by the next run.")
    log.remove()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _stop_spark(spark: SparkSession) -> None:
    # It may have been killed; that is no second error.
    with contextlib.suppress(Exception):
        spark.stop()


@contextlib.contextmanager
def _observers(
    display: _Display,
    work: Work,
    plain: bool,
    address: tuple[str, int | None],
    signals: Signals,
) -> Iterator[list[Observer]]:
    """Those who listen; the server of metrics runs meanwhile."""
    from frazil.stream.observe import JsonLines, Metrics, MetricsServer, PlainLines

    found: list[Observer] = [display.board]
    headline = f"{work.pipelines.spark.master} · {_HOW_TO_STOP}"
    with contextlib.ExitStack() as stack:
        host, port = address
        if port is not None:
            metrics = Metrics(work.names)
            server = stack.enter_context(MetricsServer(display.board, metrics, host=host, port=port))
            display.say(f"Metrics at {server.uri}/metrics, health at {server.uri}/health")
            found.append(metrics)
            if work.measured is not None:
                found.append(work.measured(metrics.registry))
        if display.as_json:
            found.append(WhileRead(JsonLines(sys.stdout), signals.ask))
        elif plain or not _is_terminal():
            found.append(WhileRead(PlainLines(sys.stdout), signals.ask))
        else:
            display.terminal = _terminal(display.board, headline)
        yield found


def _is_terminal() -> bool:
    return sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"


def _terminal(board: Board, headline: str) -> Terminal:
    from rich.console import Console

    from frazil.stream.observe import Terminal

    return Terminal(board, Console(), headline=headline)


def _tell_failures(display: _Display, log: SparkLog) -> None:
    # The live picture, which stays, has the reasons already.
    failures = display.board.failures() if display.terminal is None else {}
    for name, reason in failures.items():
        click.echo(f"frazil: pipeline {name} failed: {reason}", err=True)
    click.echo(f"Spark's own messages, and details, are in {log.path}", err=True)
