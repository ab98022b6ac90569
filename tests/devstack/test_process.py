from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import pytest

from frazil.core.errors import ServiceError
from frazil.devstack.http import status
from frazil.devstack.ports import free_port
from frazil.devstack.process import Service
from frazil.devstack.spawn import Command


class WebServer(Service):
    """The smallest real service: Python's own file server."""

    name: ClassVar[str] = "web"
    start_seconds: ClassVar[float] = 60
    stop_seconds: ClassVar[float] = 2

    def __init__(self, directory: Path | None = None, prelude: str = "") -> None:
        super().__init__(directory)
        self.port = free_port()
        self._code = (
            f"{prelude}\nimport http.server as h\n"
            f"h.HTTPServer(('127.0.0.1', {self.port}), h.SimpleHTTPRequestHandler).serve_forever()"
        )

    def command(self) -> Command:
        return Command([sys.executable, "-c", self._code], dict(os.environ), self.directory)

    def healthy(self) -> bool:
        return status(self.port, "/") == 200


def wait_for(condition: Callable[[], bool], seconds: float = 60) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_starts_answers_and_leaves_nothing() -> None:
    with WebServer() as server:
        pid, directory = server.pid, server.directory
        assert alive(pid)
        assert status(server.port, "/", 60) == 200
    assert not alive(pid)
    assert not directory.exists()


def test_restart_keeps_the_address_and_a_given_directory(tmp_path: Path) -> None:
    with WebServer(tmp_path) as server:
        first, port = server.pid, server.port
        server.kill()
        assert status(port, "/") == 0
        server.restart()
        assert server.pid != first
        assert status(port, "/", 60) == 200
    assert (tmp_path / "web.log").is_file()


def test_a_service_that_ignores_sigterm_is_killed() -> None:
    prelude = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    with WebServer(prelude=prelude) as server:
        pid = server.pid
        server.stop()
        assert not alive(pid)


def test_a_failed_start_shows_the_end_of_the_log() -> None:
    with pytest.raises(ServiceError, match=r"(?s)exit code 1 before it was ready.*no such port today"):
        WebServer(prelude="raise SystemExit('no such port today')").__enter__()


def test_a_start_that_hangs_meets_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WebServer, "start_seconds", 0.3)
    with pytest.raises(ServiceError, match=r"not ready after 0\.3 s"):
        WebServer(prelude="import time; time.sleep(60)").__enter__()


def test_a_missing_program_is_a_service_error(monkeypatch: pytest.MonkeyPatch) -> None:
    server = WebServer()
    monkeypatch.setattr(server, "command", lambda: Command(["/nonexistent"], {}, server.directory))
    with pytest.raises(ServiceError, match="could not be started"), server:
        pass


def test_a_service_started_in_a_thread_outlives_the_thread() -> None:
    server = WebServer()
    thread = threading.Thread(target=server.start)
    thread.start()
    thread.join()
    time.sleep(0.2)
    try:
        assert server.running
    finally:
        server.close()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the parent-death signal is Linux's")
@pytest.mark.parametrize("end", [signal.SIGKILL, None])
def test_services_end_with_their_parent(end: signal.Signals | None, tmp_path: Path) -> None:
    program = textwrap.dedent(
        """
        import sys
        from pathlib import Path
        from tests.devstack.test_process import WebServer
        server = WebServer(Path(sys.argv[1])).start()
        print(server.pid, flush=True)
        input()
        """
    )
    root = Path(__file__).parents[2]
    parent = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=root,
    )
    with parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert alive(pid)
        if end is not None:
            parent.send_signal(end)
        else:
            assert parent.stdin is not None
            parent.stdin.write(b"\n")
    assert wait_for(lambda: not alive(pid))


def test_ports_are_not_given_twice() -> None:
    """Neither by this process nor by two, as long as both run."""
    ports = [free_port() for _ in range(50)]
    assert len(set(ports)) == len(ports)
    code = f"""
        from frazil.devstack import ports
        ports._RANGE = range({ports[0]}, {ports[0]} + 1)
        print(ports.free_port())
    """
    found = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=60, check=False
    )
    # Nobody listens there: it is the reservation that refuses it.
    assert "no free port found" in found.stderr


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.ENOTSUP])
def test_ports_where_files_have_no_locks(code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def lockf(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr("frazil.devstack.ports.fcntl.lockf", lockf)
    assert free_port() != free_port()


@pytest.mark.parametrize("code", [errno.EAGAIN, errno.EACCES])
def test_ports_that_all_are_taken(code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which of the two says so differs between systems."""

    def lockf(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr("frazil.devstack.ports.fcntl.lockf", lockf)
    with pytest.raises(ServiceError, match="no free port found"):
        free_port()
