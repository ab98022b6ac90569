"""Free TCP ports on the loopback interface."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import random
import socket

from frazil.core.cache import cache_dir
from frazil.core.errors import ServiceError

# Below the range from which kernels take ports for outgoing connections, so that none of those
# can occupy a port between its choice here and the moment the service listens on it.
_RANGE = range(20_000, 32_000)
_ATTEMPTS = 500

_chooser = random.SystemRandom()
_taken: set[int] = set()


def free_port() -> int:
    """A port that nothing listens on and that no process that still runs was given before."""
    for _ in range(_ATTEMPTS):
        port = _chooser.choice(_RANGE)
        if port not in _taken and _reserve(port) and _is_free(port):
            _taken.add(port)
            return port
    raise ServiceError(
        f"no free port found between {_RANGE.start} and {_RANGE.stop} after {_ATTEMPTS} tries; "
        "stop services that are left over from other runs"
    )


def _reserve(port: int) -> bool:
    """Others may look while our service is about to listen: a byte of a file stands for each port.

    The lock on it goes when this process does, however it ends.
    """
    # Where no file can be made, or its file system has no locks, it does without.
    with contextlib.suppress(OSError):
        register = _register()
        try:
            fcntl.lockf(register, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
        except (BlockingIOError, PermissionError):
            return False
    return True


@functools.cache
def _register() -> int:
    """Open for as long as this process lives: to close it would give all ports back."""
    return os.open(cache_dir() / "ports", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
