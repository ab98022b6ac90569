from __future__ import annotations

import itertools
import json
import pickle
import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pyarrow as pa
import pytest

from frazil.core.errors import InvalidConfig, NotAllowed, NotFound, Unauthenticated, Unavailable
from frazil.devstack.registry import SchemaRegistry
from frazil.stream import registry as module
from frazil.stream.config.model import Registry
from frazil.stream.registry import NO_HEADER, NO_VALUE, RegistryClient, header_ids, split_header

Answer = Callable[[str, str | None], tuple[int, str]]
_numbers = itertools.count(1)


def record(name: str, *fields: tuple[str, str]) -> str:
    members = [{"name": field, "type": kind} for field, kind in fields]
    return json.dumps({"type": "record", "name": name, "fields": members})


class Fake(ThreadingHTTPServer):
    """What no healthy registry does: answers as told, and remembers what was asked."""

    def __init__(self, answer: Answer) -> None:
        self.asked: list[str] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked.append(self.path)
                status, body = answer(self.path, self.headers.get("Authorization"))
                self.send_response(status)
                self.send_header("Content-Length", str(len(body.encode())))
                self.end_headers()
                self.wfile.write(body.encode())

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                pass

        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/{next(_numbers)}"


@pytest.fixture
def serve() -> Iterator[Callable[[Answer], Fake]]:
    running: list[Fake] = []

    def start(answer: Answer) -> Fake:
        running.append(Fake(answer))
        threading.Thread(target=running[-1].serve_forever, kwargs={"poll_interval": 0.01}).start()
        return running[-1]

    yield start
    for server in running:
        server.shutdown()
        server.server_close()


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FIRST_PAUSE", 0.001)


def test_by_id_and_by_subject(registry: SchemaRegistry) -> None:
    first = registry.register("reg-order", record("RegOrder", ("id", "long")))
    client = RegistryClient(Registry(registry.url + "/"))
    found = client.schema(first)
    assert (found.id, found.kind, found.references) == (first, "AVRO", {})
    assert json.loads(found.text)["name"] == "RegOrder"
    assert client.latest("reg-order").id == first
    newer = record("RegOrder", ("id", "long")).replace(
        "}]}", '},{"name":"n","type":["null","int"],"default":null}]}'
    )
    second = registry.register("reg-order", newer)
    assert client.latest("reg-order").id == second != first
    with pytest.raises(NotFound, match="987654"):
        client.schema(987654)
    with pytest.raises(NotFound, match="reg-none"):
        client.latest("reg-none")


def test_references_come_with_it_deepest_first(registry: SchemaRegistry) -> None:
    registry.register("reg-a", record("RegA", ("x", "int")))
    one: dict[str, str | int] = {"name": "RegA", "subject": "reg-a", "version": 1}
    registry.register("reg-b", record("RegB", ("a", "RegA")), references=[one])
    two: dict[str, str | int] = {"name": "RegB", "subject": "reg-b", "version": 1}
    number = registry.register("reg-c", record("RegC", ("b", "RegB")), references=[two])
    found = RegistryClient(Registry(registry.url)).schema(number)
    assert list(found.references) == ["RegA", "RegB"]
    assert json.loads(found.references["RegA"]) == json.loads(record("RegA", ("x", "int")))


def test_protobuf(registry: SchemaRegistry) -> None:
    registry.register("reg.proto", 'syntax = "proto3"; message P { int32 x = 1; }', "PROTOBUF")
    reference: dict[str, str | int] = {"name": "reg.proto", "subject": "reg.proto", "version": 1}
    text = 'syntax = "proto3"; import "reg.proto"; message Q { P p = 1; }'
    number = registry.register("reg-q", text, "PROTOBUF", [reference])
    found = RegistryClient(Registry(registry.url)).schema(number)
    assert found.kind == "PROTOBUF"
    assert list(found.references) == ["reg.proto"]


def test_an_id_is_asked_for_once(serve: Callable[[Answer], Fake], monkeypatch: pytest.MonkeyPatch) -> None:
    """By all clients of a process; an unknown one again, but not at once."""
    there = {1}

    def answer(path: str, _auth: str | None) -> tuple[int, str]:
        known = int(path.rpartition("/")[2]) in there
        return (200, '{"schema":"\\"int\\""}') if known else (404, '{"error_code":40403,"message":"no"}')

    server = serve(answer)
    settings = Registry(server.url)
    # However long the requests below take.
    monkeypatch.setattr(module, "_UNKNOWN_SECONDS", 3600.0)
    for _ in range(3):
        assert RegistryClient(pickle.loads(pickle.dumps(settings))).schema(1).text == '"int"'
        with pytest.raises(NotFound):
            RegistryClient(settings).schema(2)
    assert len(server.asked) == 2
    there.add(2)
    later = time.monotonic() + 3600
    monkeypatch.setattr(time, "monotonic", lambda: later)
    assert RegistryClient(settings).schema(2).text == '"int"'


def test_errors_tell_what_to_do_and_no_secret(serve: Callable[[Answer], Fake]) -> None:
    statuses = {"1": 401, "2": 403, "3": 404, "4": 200, "5": 302, "6": 422}
    server = serve(lambda path, _: (statuses[path.rpartition("/")[2]], "<html>"))
    address = server.url.replace("//", "//urluser:urlsecret@")
    client = RegistryClient(Registry(address, "user", "hunter2"))
    raised = {}
    for number in (1, 2, 3, 4, 5, 6):
        with pytest.raises((Unauthenticated, NotAllowed, InvalidConfig)) as caught:
            client.schema(number)
        raised[number] = type(caught.value)
        shown = f"{caught.value} {caught.value!r} {client.url}"
        assert "hunter2" not in shown
        assert "urlsecret" not in shown
        assert "127.0.0.1" in shown
    assert raised == {1: Unauthenticated, 2: NotAllowed, 3: InvalidConfig, 4: InvalidConfig} | dict.fromkeys(
        (5, 6), InvalidConfig
    )
    assert len(server.asked) == 6


@pytest.mark.parametrize("where", ["settings", "url"])
def test_basic_auth(serve: Callable[[Answer], Fake], where: str) -> None:
    expected = "Basic dXNlcjpwYSBzcw=="  # user:pa ss
    server = serve(lambda _, auth: (200 if auth == expected else 401, '{"schema":"x","schemaType":"JSON"}'))
    inside = server.url.replace("//", "//user:pa%20ss@")
    settings = Registry(server.url, "user", "pa ss") if where == "settings" else Registry(inside)
    assert RegistryClient(settings).schema(7).kind == "JSON"
    assert "pa" not in server.asked[0]


def test_a_short_outage_is_waited_for(serve: Callable[[Answer], Fake]) -> None:
    answers = iter([(503, ""), (429, ""), (500, "x"), (200, '{"schema":"s"}')])
    assert RegistryClient(Registry(serve(lambda *_: next(answers)).url)).schema(1).text == "s"


def test_no_answer(serve: Callable[[Answer], Fake]) -> None:
    server = serve(lambda *_: (500, ""))
    with pytest.raises(Unavailable, match="500"):
        RegistryClient(Registry(server.url)).schema(1)
    assert len(server.asked) == 4
    # Nobody listens there, nor can anybody else take the port meanwhile.
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(Unavailable, match="ConnectError"):
            RegistryClient(Registry(f"http://127.0.0.1:{taken.getsockname()[1]}")).schema(1)


@pytest.mark.parametrize(
    "url", ["", "localhost:8081", "ftp://host", "http://", "http://host:port", "kafka:secret@"]
)
def test_no_url(url: str) -> None:
    with pytest.raises(InvalidConfig, match="http") as caught:
        RegistryClient(Registry(url))
    assert "secret" not in str(caught.value)


def test_headers() -> None:
    assert split_header(b"\0\0\0\1\2abc") == (258, b"abc")
    assert split_header(b"\0\xff\xff\xff\xff") == (2**32 - 1, b"")
    assert split_header(b"\0\0\0\1") is None
    assert split_header(b"\1\0\0\1\2abc") is None
    assert split_header(b"") is None
    records = [b"x", None, b"\0\0\0\0\1", b"\0\xff\xff\xff\xffabc", b"\1\0\0\0\1", b"\0\0\0\0", b"", None]
    values = pa.array(records, pa.binary())
    wanted = [NO_HEADER, NO_VALUE, 1, 2**32 - 1, NO_HEADER, NO_HEADER, NO_HEADER, NO_VALUE]
    for start in range(len(records)):
        assert header_ids(values[start:]).tolist() == wanted[start:]
    assert header_ids(values[:1])[0] == NO_HEADER
    assert header_ids(pa.array([None], pa.binary())).tolist() == [NO_VALUE]
    assert header_ids(pa.array([], pa.binary())).tolist() == []
