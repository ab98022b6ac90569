"""`frazil run`, as far as it gets without Spark: what is run, how it is ended, where messages go."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest
from tests.cli.conftest import Command

from frazil.cli.quiet_spark import SparkLog, aside, quiet_spark, redirected
from frazil.cli.run import summary
from frazil.cli.stopping import EndedEarly, Signals
from frazil.stream.config.model import SparkConfig
from frazil.stream.events import RoundCommitted
from frazil.stream.observe import Board

_FILE = """
kafka: {bootstrap.servers: "127.0.0.1:1"}
defaults:
  schema: {id: long}
pipelines:
  orders: {source: {topics: orders}, table: shop.orders}
  clicks: {source: {topics: clicks}, table: shop.clicks}
"""


@pytest.fixture
def signals() -> Iterator[Signals]:
    """Handlers are of the process: they are put back."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    found = Signals()
    found.install()
    yield found
    for number, handler in before.items():
        signal.signal(number, handler)


class Work:
    """What a runner is to the command: it ends some time after it was asked to."""

    def __init__(self, *, obedient: bool = True, error: Exception | None = None) -> None:
        self.calls: list[str] = []
        self._obedient = obedient
        self._error = error
        self._end = threading.Event()
        self.running = threading.Event()

    def run(self) -> None:
        self.running.set()
        assert self._end.wait(30)
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        self.calls.append("stop")
        if self._obedient:
            self._end.set()

    def abort(self) -> None:
        self.calls.append("abort")
        self._end.set()

    def send(self, *numbers: signal.Signals) -> None:
        """The signals, one after the other, each after the one before was noticed."""

        def later() -> None:
            assert self.running.wait(30)
            for count, number in enumerate(numbers):
                while len(self.calls) < count:
                    time.sleep(0.01)
                os.kill(os.getpid(), number)

        threading.Thread(target=later, daemon=True).start()


class Left(Exception):
    """In place of the end of the process."""


def _leave(code: int) -> None:
    raise Left(code)


def test_the_first_signal_asks_and_waits(signals: Signals) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        work, told = Work(), threading.Event()
        watched = Signals()
        watched.install()
        work.send(number)
        watched.watch(work, stopping=told.set, aborting=_leave)
        assert work.calls == ["stop"]
        assert told.is_set()
        assert watched.asked


def test_the_second_signal_does_not_wait(signals: Signals) -> None:
    work = Work(obedient=False)
    work.send(signal.SIGINT, signal.SIGINT)
    with pytest.raises(Left, match="130"):
        signals.watch(work, stopping=lambda: None, aborting=_leave)
    assert work.calls == ["stop", "abort"]


def test_an_end_without_signal_and_its_error_reach_the_caller(signals: Signals) -> None:
    work = Work(error=ValueError("why"))
    threading.Thread(target=work.abort).start()
    with pytest.raises(ValueError, match="why"):
        signals.watch(work, stopping=lambda: None, aborting=_leave)
    assert not signals.asked


def test_a_signal_before_anything_runs_ends_it(signals: Signals) -> None:
    with pytest.raises(EndedEarly):
        signal.raise_signal(signal.SIGTERM)


def test_a_pipeline_that_is_not_in_the_file(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "pipelines.yaml"
    file.write_text(_FILE)
    for name in ("run", "status"):
        failed = command(name, str(file), "ordesr")
        assert failed.returncode == 1
        assert "no pipeline ordesr" in failed.stderr
        assert "orders, clicks" in failed.stderr


def test_a_file_that_is_not_there(command: Command, tmp_path: Path) -> None:
    for name in ("run", "status"):
        failed = command(name, str(tmp_path / "none.yaml"))
        assert failed.returncode != 0
        assert "none.yaml" in failed.stderr


def test_what_java_writes_goes_to_the_log(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    log = SparkLog.at(tmp_path / "spark.log")
    print("before")
    with redirected(log.path):
        subprocess.run(["sh", "-c", "echo out; echo err >&2"], check=True)
    print("after")
    assert capfd.readouterr() == ("before\nafter\n", "")
    assert log.path.read_text().split() == ["out", "err"]
    log.remove()
    assert log.path.exists(), "the user named it"


def test_a_log_that_cannot_be_written(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "pipelines.yaml"
    file.write_text(_FILE)
    failed = command("run", str(file), "--spark-log", str(tmp_path / "none" / "spark.log"))
    assert failed.returncode == 1
    assert "cannot write Spark's messages to" in failed.stderr


def test_a_temporary_log_is_kept_only_if_it_is_needed() -> None:
    log = SparkLog.at(None)
    log.keep = True
    log.remove()
    assert log.path.exists()
    log.keep = False
    log.remove()
    assert not log.path.exists()


def test_the_summary_counts_all_pipelines() -> None:
    board = Board(["orders", "clicks"])
    for name in ("orders", "clicks", "clicks"):
        board.notify(RoundCommitted(name, 1, 7, 1000, 1000, 1, 1, 1.0, 0.9, 0.1, 0, 1000, 1000))
    assert summary(board, 75, asked=True) == (
        "Stopped after 1m 15s: 3,000 rows in 3 commits; nothing in flight."
    )
    board.notify(RoundCommitted("orders", 1, 8, 1002, 1000, 1, 1, 1.0, 0.9, 0.1, 0, 2002, 2000, bad=2))
    assert "4,000 rows and 2 dead letters in 4 commits" in summary(board, 75, asked=True)


def test_that_spark_starts_is_said_by_commands_that_show_nothing_else(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("frazil.lake.session.spark_session", lambda *_, **__: Mock())
    with quiet_spark(SparkConfig("local[2]")):
        pass
    assert capsys.readouterr().err == "Starting Spark (local[2])…\n"


def test_a_signal_is_only_noted_once_spark_runs(signals: Signals) -> None:
    """To interrupt a call of Java would leave its answer to the next one."""
    signals.hold()
    signal.raise_signal(signal.SIGINT)
    work = Work()
    signals.watch(work, stopping=lambda: None, aborting=_leave)
    assert work.calls == ["stop"]


def test_an_abort_that_fails_is_not_told(signals: Signals, capfd: pytest.CaptureFixture[str]) -> None:
    class Dead(Work):
        def abort(self) -> None:
            super().abort()
            raise ConnectionError("no JVM")

    work = Dead(obedient=False)
    work.send(signal.SIGTERM, signal.SIGTERM)
    with pytest.raises(Left, match="143"):
        signals.watch(work, stopping=lambda: None, aborting=_leave)
    assert capfd.readouterr() == ("", "")


_READER_GOES = """
import sys
from frazil.cli.run import WhileRead
from frazil.stream.events import CaughtUp
from frazil.stream.observe import JsonLines

asked = []
lines = WhileRead(JsonLines(sys.stdout), lambda: asked.append(True))
while not asked:
    lines.notify(CaughtUp("orders"))
lines.notify(CaughtUp("orders"))
print("asked", len(asked), file=sys.stderr)
"""


def test_a_reader_of_the_lines_that_goes_away_asks_to_stop() -> None:
    command = [sys.executable, "-c", _READER_GOES]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert json.loads(process.stdout.readline())["event"] == "caught-up"
        process.stdout.close()
        assert process.stderr.read() == "asked 1\n"
    assert process.returncode == 0


def test_work_with_spark_is_left_alone_by_a_signal(signals: Signals) -> None:
    """It goes on in its thread; only who waits for it is interrupted."""
    begun, end, ended = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        assert end.wait(30)
        ended.set()

    def interrupt() -> None:
        assert begun.wait(30)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(EndedEarly):
        aside(work, name="work")
    end.set()
    assert ended.wait(30)


def test_the_result_and_the_error_of_work_with_spark() -> None:
    assert aside(lambda: 7, name="work") == 7
    with pytest.raises(ZeroDivisionError):
        aside(lambda: 1 // 0, name="work")


def test_a_verification_that_could_not_begin_does_not_say_that_rows_are_wrong(
    command: Command, tmp_path: Path
) -> None:
    file = tmp_path / "pipelines.yaml"
    file.write_text(f'catalog: {{uri: "http://127.0.0.1:1"}}\n{_FILE}')
    found = command("verify", str(file))
    assert (found.returncode, found.stdout) == (2, "")
    assert "cannot reach the server: GET http://127.0.0.1:1/" in found.stderr


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("dlq", "list", "{file}", "orders"), 1),
        (("rebuild", "{file}", "--yes"), 1),
        # That it is unknown how log and table compare.
        (("verify", "{file}"), 2),
    ],
)
def test_a_catalog_that_is_away_is_met_before_spark_starts(
    command: Command, tmp_path: Path, words: tuple[str, ...], code: int
) -> None:
    file = tmp_path / "pipelines.yaml"
    file.write_text("""
catalog: {uri: "http://127.0.0.1:9"}
kafka: {bootstrap.servers: "127.0.0.1:9"}
pipelines:
  orders: {source: {topics: orders}, table: shop.orders, schema: {id: long}}
""")
    failed = command(*(word.format(file=file) for word in words))
    assert failed.returncode == code
    assert "Is it up, and is this its address?" in failed.stderr
    assert "Starting Spark" not in failed.stderr
