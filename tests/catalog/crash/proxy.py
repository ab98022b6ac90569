"""A stretch of network between the server and PostgreSQL that can be cut at an exact word."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import Self


class Proxy:
    """Passes bytes on until PostgreSQL answers with `cut_at`; that answer is lost and the line dies.

    So PostgreSQL has done what it was asked, and the server does not learn of it.
    """

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        #: The command tag to lose, e.g. `COMMIT`; None lets everything pass.
        self.cut_at: bytes | None = None
        #: Whether new connections are refused once a line was cut.
        self.stay_cut = False
        self.cuts = 0
        self._down = False
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._run(self._accept)

    def restore(self) -> None:
        with self._lock:
            self._down = False
            self.cut_at = None

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._hang_up()
        for thread in self._threads:
            thread.join(10)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self, target: object, *args: object) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self._down:
                client.close()
                continue
            try:
                server = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                client.close()
                continue
            with self._lock:
                self._open |= {client, server}
            self._run(self._pass, client, server, False)
            self._run(self._pass, server, client, True)

    def _pass(self, source: socket.socket, sink: socket.socket, watched: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                if watched and self.cut_at is not None and self.cut_at + b"\0" in data:
                    self.cuts += 1
                    self.cut_at = None
                    if self.stay_cut:
                        self._down = True
                        self._hang_up()
                    break
                sink.sendall(data)
        for each in (source, sink):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            with self._lock:
                self._open.discard(each)
        if watched:
            source.close()
            sink.close()

    def _hang_up(self) -> None:
        with self._lock:
            sockets, self._open = self._open, set()
        for each in sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
