"""Free TCP ports on the loopback interface."""

from __future__ import annotations

import random
import socket

from frazil.core.errors import ServiceError

# Below the range from which kernels take ports for outgoing connections, so that none of those
# can occupy a port between its choice here and the moment the service listens on it.
_RANGE = range(20_000, 32_000)
_ATTEMPTS = 500

_chooser = random.SystemRandom()
_taken: set[int] = set()


def free_port() -> int:
    """A port that nothing listens on and that this process was not given before."""
    for _ in range(_ATTEMPTS):
        port = _chooser.choice(_RANGE)
        if port not in _taken and _is_free(port):
            _taken.add(port)
            return port
    raise ServiceError(
        f"no free port found between {_RANGE.start} and {_RANGE.stop} after {_ATTEMPTS} tries; "
        "stop services that are left over from other runs"
    )


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
