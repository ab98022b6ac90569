"""Child processes that do not outlive this one, even when it is killed."""

from __future__ import annotations

import ctypes
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Command:
    """What to run and as whom; the environment is complete, nothing is inherited."""

    arguments: Sequence[str]
    environment: Mapping[str, str]
    directory: Path
    user: int | None = None
    group: int | None = None
    orphan_signal: signal.Signals = signal.SIGTERM


def spawn(command: Command, log: Path) -> subprocess.Popen[bytes]:
    """Start `command` in a session of its own with both outputs appended to `log`."""
    started: Future[subprocess.Popen[bytes]] = Future()
    _spawner().put((command, log, started))
    return started.result()


def _start(command: Command, log: Path) -> subprocess.Popen[bytes]:
    with log.open("ab") as output:
        return subprocess.Popen(
            list(command.arguments),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=command.directory,
            env=dict(command.environment),
            start_new_session=True,
            user=command.user,
            group=command.group,
            extra_groups=[] if command.user is not None else None,
            # It only calls prctl, which is safe between fork and exec.
            preexec_fn=_die_with_parent(command.orphan_signal),  # noqa: PLW1509
        )


def _die_with_parent(orphan_signal: signal.Signals) -> Callable[[], None] | None:
    if not sys.platform.startswith("linux"):
        return None
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    parent = os.getpid()

    def in_child() -> None:
        prctl(_PR_SET_PDEATHSIG, int(orphan_signal), 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)

    return in_child


_Request = tuple[Command, Path, "Future[subprocess.Popen[bytes]]"]
_requests: queue.SimpleQueue[_Request] | None = None
_lock = threading.Lock()


def _spawner() -> queue.SimpleQueue[_Request]:
    """The queue of one daemon thread that starts all children.

    Linux sends the parent-death signal when the *thread* that forked ends, not the process, so
    children are started from a thread that lives as long as the interpreter does.
    """
    global _requests  # noqa: PLW0603
    with _lock:
        if _requests is None:
            _requests = queue.SimpleQueue()
            threading.Thread(target=_serve, args=(_requests,), name="devstack-spawn", daemon=True).start()
        return _requests


def _serve(requests: queue.SimpleQueue[_Request]) -> None:
    while True:
        command, log, started = requests.get()
        try:
            started.set_result(_start(command, log))
        except BaseException as error:  # noqa: BLE001 - handed to the waiting caller
            started.set_exception(error)


def _forget_after_fork() -> None:
    global _requests  # noqa: PLW0603
    _requests = None


os.register_at_fork(after_in_child=_forget_after_fork)
