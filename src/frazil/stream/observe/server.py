"""A small HTTP server beside the pipelines: /metrics and /health."""

from __future__ import annotations

import http.server
import json
import threading
from types import TracebackType
from typing import Any, Self

from prometheus_client import CONTENT_TYPE_LATEST

from frazil.core.errors import ServiceError
from frazil.stream.observe.board import Board, Row
from frazil.stream.observe.metrics import Metrics

#: How soon it notices that it shall end.
_POLL_SECONDS = 0.1


class MetricsServer:
    """Serves while its block runs. Port 0 takes a free one."""

    def __init__(self, board: Board, metrics: Metrics, *, host: str = "127.0.0.1", port: int = 0) -> None:
        class Handler(_Handler):
            pass

        Handler.board, Handler.metrics = board, metrics
        try:
            self._server = http.server.ThreadingHTTPServer((host, port), Handler)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ServiceError(
                f"cannot serve metrics on {host}:{port}: {reason}. "
                "Choose another with --metrics-port (0: any free one) or --metrics-host"
            ) from None
        self._server.daemon_threads = True

    @property
    def uri(self) -> str:
        host, port = self._server.server_address[:2]
        return f"http://{host!s}:{port}"

    def __enter__(self) -> Self:
        serve = self._server.serve_forever
        threading.Thread(target=serve, args=(_POLL_SECONDS,), name="metrics", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Handler(http.server.BaseHTTPRequestHandler):
    board: Board
    metrics: Metrics
    #: A caller that sends nothing must not keep its thread.
    timeout = 10

    def do_GET(self) -> None:
        match self.path.partition("?")[0]:
            case "/metrics":
                self._send(200, CONTENT_TYPE_LATEST, self.metrics.render())
            case "/health":
                document = health(self.board)
                code = 200 if document["status"] == "ok" else 503
                self._send(code, "application/json", json.dumps(document).encode())
            case _:
                self._send(404, "text/plain; charset=utf-8", b"/metrics and /health are served here\n")

    def _send(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
        """Requests are not news."""


def health(board: Board) -> dict[str, Any]:
    """`ok` while no pipeline was ended by an error; one that retries is not ended."""
    status = "failing" if board.failures() else "ok"
    return {"status": status, "pipelines": {row.pipeline: _facts(row) for row in board.rows()}}


def _facts(row: Row) -> dict[str, Any]:
    return {
        "state": row.phase.value,
        "lag": row.lag,
        "last-commit": row.committed_at,
        "trouble": row.trouble,
    }
