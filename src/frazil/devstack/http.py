"""One plain GET, for health checks."""

from __future__ import annotations

import http.client


def status(port: int, path: str, seconds: float = 2) -> int:
    """The HTTP status that 127.0.0.1:`port` answers with; 0 when it does not answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=seconds)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return 0
    finally:
        connection.close()
