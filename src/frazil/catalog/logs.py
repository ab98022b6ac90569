"""Structured logs: one JSON object a line on standard error."""

from __future__ import annotations

import asyncio
import logging
import sys
import time
import traceback
from typing import TYPE_CHECKING, Any, BinaryIO

import msgspec

from frazil.catalog.identity import ANONYMOUS, Principal

if TYPE_CHECKING:
    from frazil.catalog.http.message import Response
    from frazil.catalog.http.routing import Endpoint

_encode = msgspec.json.Encoder().encode
_GATHER_SECONDS = 0.05


class JsonFormatter(logging.Formatter):
    """Formats the records of libraries and background work the same way as requests."""

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, Any] = {
            "time": _time(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return _encode(entry).decode()


def configure_logging(level: str) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)


class RequestLog:
    """A line for each request; bypasses `logging`, which would cost more than a table load.

    Lines are written together, some twenty times a second: a system call for each would cost more
    than making it.
    """

    def __init__(self, enabled: bool, stream: BinaryIO | None = None) -> None:
        self._enabled = enabled
        self._stream = stream or sys.stderr.buffer
        self._lines: list[bytes] = []
        self._second = 0
        self._second_text = ""

    def request(
        self,
        request_id: str,
        scope: Any,
        endpoint: Endpoint | None,
        response: Response,
        seconds: float,
        principal: Principal,
    ) -> None:
        if not self._enabled:
            return
        self._add(
            {
                "time": self._time(),
                "level": "info" if response.status < 500 else "error",
                "request-id": request_id,
                "method": scope["method"],
                # The path only: a query string may carry what does not belong in a log.
                "path": scope["raw_path"].decode("ascii", "replace"),
                "operation": endpoint.name if endpoint else None,
                "principal": None if principal is ANONYMOUS else principal.id,
                "status": response.status,
                "ms": round(seconds * 1000, 3),
            }
        )

    def failure(self, request_id: str, error: Exception) -> None:
        """An error that nobody foresaw, with its traceback."""
        self._add(
            {
                "time": self._time(),
                "level": "error",
                "request-id": request_id,
                "message": f"unhandled {type(error).__name__}",
                "exception": "".join(traceback.format_exception(error)),
            }
        )

    def flush(self) -> None:
        """Write what has gathered."""
        lines, self._lines = self._lines, []
        self._stream.write(b"".join(lines))
        self._stream.flush()

    def _add(self, line: dict[str, Any]) -> None:
        if not self._lines:
            asyncio.get_running_loop().call_later(_GATHER_SECONDS, self.flush)
        self._lines.append(_encode(line) + b"\n")

    def _time(self) -> str:
        now = time.time()
        second = int(now)
        if second != self._second:
            self._second, self._second_text = second, time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
        return f"{self._second_text}.{int((now - second) * 1000):03d}Z"


def _time(seconds: float) -> str:
    whole = int(seconds)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole)) + f".{int((seconds - whole) * 1000):03d}Z"
