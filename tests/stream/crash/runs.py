"""`frazil run` as a process of its own, with everything local in a directory that can be thrown away."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

_TRAP = Path(__file__).parent / "trap"
_SECONDS = 600.0


class Screen:
    """A terminal of its own: what is typed goes through the kernel, as on a real one."""

    def __init__(self, record: Path) -> None:
        self.keyboard, self._slave = os.openpty()
        termios.tcsetwinsize(self._slave, (40, 120))
        self._record = record
        record.touch()
        self._reader = threading.Thread(target=self._read, daemon=True)

    def start(self, command: list[str], cwd: Path, environment: dict[str, str]) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            command,
            cwd=cwd,
            env=environment | {"TERM": "xterm-256color"},
            stdin=self._slave,
            stdout=self._slave,
            stderr=self._slave,
            start_new_session=True,
            # Makes it the terminal of the new session, so that Ctrl-C reaches the group in front.
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509
        )
        os.close(self._slave)
        self._reader.start()
        return process

    def drain(self) -> None:
        """When the last process has let go of it: what they wrote is on record then."""
        self._reader.join(_SECONDS)

    def close(self) -> None:
        self._reader.join(60)
        os.close(self.keyboard)

    def _read(self) -> None:
        with contextlib.suppress(OSError), self._record.open("ab", buffering=0) as record:
            while data := os.read(self.keyboard, 65536):
                record.write(data)


class Run:
    """One `frazil run --json`; it is killed, with all its children, when its block ends.

    With `terminal` it runs as somebody would start it in a terminal, who can also type.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        *arguments: str,
        failpoint: str | None = None,
        trap: tuple[str, str] | None = None,
        terminal: bool = False,
        command: str = "run",
        modules: Mapping[str, str] | None = None,
    ) -> None:
        """`failpoint`: where the driver or a worker dies; `trap`: points and what happens there once;
        `modules`: Python files beside the file of pipelines."""
        self.directory = Path(tempfile.mkdtemp(prefix="frazil-crash-"))
        (self.directory / "tmp").mkdir()
        file = self.directory / "pipelines.yaml"
        file.write_text(json.dumps(config))
        for name, text in (modules or {}).items():
            (self.directory / name).write_text(text)
        environment = _environment(self.directory / "tmp")
        if failpoint is not None:
            environment["FRAZIL_FAILPOINT"] = failpoint
        if trap is not None:
            environment |= {"CRASH_AT": trap[0], "CRASH_DO": trap[1]}
            environment |= {"CRASH_ONCE": str(self.directory / "trapped"), "PYTHONPATH": str(_TRAP)}
            (self.directory / "trapped").mkdir()
        self._out = self.directory / "out"
        self._err = self.directory / "err"
        self._screen: Screen | None = None
        started = [sys.executable, "-m", "frazil.cli", *command.split(), str(file), *arguments]
        if command in ("run", "submit"):
            started += ["--spark-log", str(self.directory / "spark.log")]
        if terminal:
            self._screen = Screen(self._out)
            self.process = self._screen.start(started, self.directory, environment)
            return
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(
                [*started, "--json"],
                cwd=self.directory,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )

    @property
    def trapped(self) -> set[str]:
        """The points at which the trap was sprung."""
        return {path.name for path in (self.directory / "trapped").iterdir()}

    @property
    def errors(self) -> str:
        return self._err.read_text() if self._err.exists() else ""

    @property
    def shown(self) -> str:
        """What was written to the terminal."""
        return self._out.read_text(errors="replace")

    def press(self, keys: bytes) -> None:
        assert self._screen is not None, "it runs without a terminal"
        os.write(self._screen.keyboard, keys)

    def document(self) -> Any:
        """What a command printed that prints one answer."""
        return json.loads(self._out.read_text())

    def events(self, kind: str | None = None, pipeline: str | None = None) -> list[dict[str, Any]]:
        whole = self._out.read_text().splitlines(keepends=True)
        found = [json.loads(line) for line in whole if line.endswith("\n")]
        return [
            event
            for event in found
            if kind in (None, event["event"]) and pipeline in (None, event["pipeline"])
        ]

    def wait(self, seconds: float = _SECONDS) -> int:
        """The exit code, after the JVM and the workers have ended too."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {seconds:g} s\n{self.story()}") from None
        if code == -signal.SIGKILL:
            # As if the machine went down: a JVM that is left alone takes seconds to notice.
            self._kill()
        self.until(lambda: not _members(self.process.pid), "the children end")
        if self._screen is not None:
            self._screen.drain()
        return code

    def until(self, condition: Callable[[], object], what: str, seconds: float = _SECONDS) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                raise AssertionError(f"waited in vain: {what}\n{self.story()}")
            time.sleep(0.05)

    def until_event(self, kind: str, count: int = 1, pipeline: str | None = None) -> None:
        def seen() -> bool:
            enough = len(self.events(kind, pipeline)) >= count
            if not enough and self.process.poll() is not None:
                raise AssertionError(f"ended before {kind}\n{self.story()}")
            return enough

        self.until(seen, f"{count} of {kind}")

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def wake(self) -> None:
        """Every process of the run that was stopped goes on."""
        for pid in _members(self.process.pid):
            # It may end while others are woken.
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def story(self) -> str:
        """For the report of a test that failed."""
        spark = self.directory / "spark.log"
        log = spark.read_text(errors="replace")[-6000:] if spark.exists() else ""
        events = self._out.read_text()[-6000:]
        return f"--- events\n{events}\n--- errors\n{self.errors[-4000:]}\n--- spark\n{log}"

    def close(self) -> None:
        """Kill what is left, and delete everything local."""
        self._kill()
        self.process.wait(120)
        if self._screen is not None:
            self._screen.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _kill(self) -> None:
        for pid in _members(self.process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def frazil(config: Mapping[str, Any], *arguments: Sequence[str] | str) -> subprocess.CompletedProcess[str]:
    """Another command over the same file: `frazil(config, "status", FILE, "--json")` without the FILE."""
    with tempfile.TemporaryDirectory(prefix="frazil-crash-") as directory:
        file = Path(directory) / "pipelines.yaml"
        file.write_text(json.dumps(config))
        command, *rest = map(str, arguments)
        return subprocess.run(
            [sys.executable, "-m", "frazil.cli", command, str(file), *rest],
            env=_environment(Path(directory)),
            cwd=directory,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=_SECONDS,
        )


def _environment(temporary: Path) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith(("FRAZIL_", "PYSPARK_"))}
    return own | {"TMPDIR": str(temporary), "PYTHONFAULTHANDLER": "1"}


def _members(session: int) -> list[int]:
    """All processes of a session that have not ended."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(fields[3]) == session and fields[0] != "Z":
                    found.append(int(entry.name))
    return found
