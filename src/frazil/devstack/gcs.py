"""Google Cloud Storage, emulated: fake-gcs-server, built from its Go module.

It checks no token. Its XML interface cannot be written to, so a front in this process turns such a write,
with its precondition, into the one of the JSON interface; everything else passes through.
"""

from __future__ import annotations

import http.client
import json
import os
import threading
import urllib.parse
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar, Self
from uuid import uuid4

from frazil.core.errors import ServiceError
from frazil.devstack.golang import GoProgram, built
from frazil.devstack.http import status
from frazil.devstack.ports import free_port
from frazil.devstack.process import Service
from frazil.devstack.spawn import Command

_PROGRAM = GoProgram(
    "github.com/fsouza/fake-gcs-server", "v1.52.3", "h1:hXddOPMGDKq5ENmttw6xkodVJy0uVhf7HhWvQgAOH6g="
)
_PRECONDITION = "x-goog-if-generation-match"
_NOT_PASSED_ON = {"connection", "transfer-encoding", "content-length", "date", "server"}


class GcsEmulator(Service):
    """Buckets on a loopback port, kept in memory."""

    name: ClassVar[str] = "gcs"

    def __init__(self, directory: Path | None = None) -> None:
        super().__init__(directory)
        self._port = free_port()
        self._program = built(_PROGRAM)
        #: Every `Authorization` header that a client sent.
        self.authorizations: set[str] = set()
        self._front: ThreadingHTTPServer | None = None

    @property
    def endpoint(self) -> str:
        if self._front is None:
            raise ServiceError("the GCS emulator is not running; call start() first")
        return f"http://127.0.0.1:{self._front.server_port}"

    def create_bucket(self, name: str) -> str:
        """Create the bucket `name` if it is not there; returns its name."""
        body = json.dumps({"name": name}).encode()
        with closing(http.client.HTTPConnection("127.0.0.1", self._port, timeout=10)) as connection:
            connection.request(
                "POST", "/storage/v1/b?project=frazil", body, {"content-type": "application/json"}
            )
            code = connection.getresponse().status
        if code not in (200, 409):
            raise ServiceError(f"the GCS emulator did not create the bucket {name}: HTTP {code}")
        return name

    def start(self) -> Self:
        super().start()
        if self._front is None:
            self._front = _FrontServer(("127.0.0.1", 0), _handler(self._port, self.authorizations))
            threading.Thread(target=self._front.serve_forever, name="gcs-front", daemon=True).start()
        return self

    def close(self) -> None:
        front, self._front = self._front, None
        if front is not None:
            front.shutdown()
            front.server_close()
        super().close()

    def healthy(self) -> bool:
        return status(self._port, "/_internal/healthcheck") == 200

    def command(self) -> Command:
        arguments = [str(self._program), "-backend", "memory", "-scheme", "http", "-host", "127.0.0.1"]
        arguments += ["-port", str(self._port), "-public-host", f"127.0.0.1:{self._port}"]
        environment = {"PATH": os.environ.get("PATH", ""), "HOME": str(self.directory)}
        return Command(arguments, environment, self.directory)


class _FrontServer(ThreadingHTTPServer):
    request_queue_size = 512
    daemon_threads = True


def _handler(port: int, authorizations: set[str]) -> type[BaseHTTPRequestHandler]:
    class Front(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def pass_on(self) -> None:
            authorizations.update(self.headers.get_all("authorization", []))
            body = b"".join(_body(self))
            method, path = self.command, self.path
            headers = {k: v for k, v in self.headers.items() if k.lower() not in {*_NOT_PASSED_ON, "host"}}
            if method == "PUT" and not path.startswith(("/upload/", "/storage/")):
                method, path, headers, body = _json_upload(path, self.headers.get(_PRECONDITION), body)
            with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
                connection.request(method, path, body, headers)
                answer = connection.getresponse()
                data = answer.read()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in _NOT_PASSED_ON:
                    self.send_header(name, value)
            if self.command == "PUT" and answer.status == 200:
                self.send_header("etag", f'"{json.loads(data)["etag"]}"')
            length = answer.getheader("content-length", "0") if self.command == "HEAD" else str(len(data))
            self.send_header("content-length", length)
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = do_PATCH = pass_on  # noqa: N815 (http.server's names)

        def log_message(self, *_: object) -> None:
            """The emulator has a log of its own."""

    return Front


def _json_upload(path: str, precondition: str | None, data: bytes) -> tuple[str, str, dict[str, str], bytes]:
    """The upload of the JSON interface that heeds preconditions is the one in several parts."""
    bucket, _, name = urllib.parse.urlsplit(path).path.removeprefix("/").partition("/")
    query = {"uploadType": "multipart"}
    if precondition is not None:
        query["ifGenerationMatch"] = precondition
    boundary = uuid4().hex
    about = json.dumps({"name": urllib.parse.unquote(name)})
    head = f"--{boundary}\r\ncontent-type: application/json\r\n\r\n{about}\r\n"
    head += f"--{boundary}\r\ncontent-type: application/octet-stream\r\n\r\n"
    body = head.encode() + data + f"\r\n--{boundary}--\r\n".encode()
    headers = {"content-type": f"multipart/related; boundary={boundary}"}
    return "POST", f"/upload/storage/v1/b/{bucket}/o?{urllib.parse.urlencode(query)}", headers, body


def _body(request: BaseHTTPRequestHandler) -> Iterator[bytes]:
    """The body of a request; some clients send theirs in chunks."""
    if "chunked" not in request.headers.get("transfer-encoding", ""):
        yield request.rfile.read(int(request.headers.get("content-length", 0)))
        return
    while size := int(request.rfile.readline().split(b";")[0], 16):
        yield request.rfile.read(size)
        request.rfile.readline()
    while request.rfile.readline().strip():
        pass
