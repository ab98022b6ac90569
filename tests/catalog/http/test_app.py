"""The HTTP kernel alone, without a socket or a database."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from frazil.catalog.http import Endpoint, HttpApp, Request, Response, json_response, no_content
from frazil.catalog.logs import RequestLog
from frazil.catalog.metrics import RequestMetrics
from frazil.core import errors


class Query(msgspec.Struct, frozen=True):
    number: int = 5
    flag: bool = False
    text: str | None = None


async def echo(_state: Any, request: Request) -> Response:
    return json_response({"body": request.body.decode(), "params": request.params, "id": request.id})


async def query(_state: Any, request: Request) -> Response:
    return json_response(request.query(Query))


async def nothing(_state: Any, _request: Request) -> Response:
    return no_content()


async def broken(_state: Any, _request: Request) -> Response:
    raise ZeroDivisionError("secret detail")


async def refuse(state: Any, _request: Request) -> Response:
    raise state["error"]


@dataclass
class Kernel:
    """Calls the application as a server would."""

    state: dict[str, Any] = field(default_factory=dict)
    log: io.BytesIO = field(default_factory=io.BytesIO)

    def __post_init__(self) -> None:
        endpoints = [
            Endpoint("POST", "/echo/{name}", echo, "t"),
            Endpoint("GET", "/echo/{name}", echo, "t"),
            Endpoint("GET", "/query", query, "t"),
            Endpoint("HEAD", "/query", query, "t"),
            Endpoint("DELETE", "/nothing", nothing, "t"),
            Endpoint("GET", "/broken", broken, "t"),
            Endpoint("GET", "/refuse", refuse, "t"),
        ]
        self.metrics = RequestMetrics()
        self.lines = RequestLog(enabled=True, stream=self.log)
        self.app = HttpApp(endpoints, state=self.state, log=self.lines, metrics=self.metrics)

    async def send(
        self,
        method: str,
        path: str,
        chunks: Iterable[bytes] = (b"",),
        headers: Iterable[tuple[bytes, bytes]] = (),
        query: bytes = b"",
    ) -> tuple[int, dict[str, str], bytes]:
        messages = [{"type": "http.request", "body": chunk, "more_body": True} for chunk in chunks]
        messages[-1]["more_body"] = False
        incoming = iter(messages)
        sent: list[Any] = []

        async def receive() -> Any:
            return next(incoming)

        async def reply(message: Any) -> None:
            sent.append(message)

        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": query,
            "headers": list(headers),
            "scheme": "http",
        }
        await self.app(scope, receive, reply)
        start, body = sent
        return start["status"], {k.decode(): v.decode() for k, v in start["headers"]}, body["body"]


def error(body: bytes) -> tuple[int, str, str]:
    found = json.loads(body)["error"]
    return found["code"], found["type"], found["message"]


async def test_a_body_in_pieces_is_put_together() -> None:
    status, headers, body = await Kernel().send("POST", "/echo/x%2Fy", [b"a", b"", b"bc"])
    assert status == 200
    assert json.loads(body)["body"] == "abc"
    assert json.loads(body)["params"] == {"name": "x/y"}
    assert headers["content-length"] == str(len(body))


async def test_a_body_over_the_limit_is_refused_while_it_comes() -> None:
    piece = b" " * (1024 * 1024)
    status, _, body = await Kernel().send("POST", "/echo/x", [piece] * 32)
    assert status == 200
    status, _, body = await Kernel().send("POST", "/echo/x", [*[piece] * 32, b" ", b"never read"])
    assert error(body)[:2] == (413, "PayloadTooLarge")
    assert status == 413
    assert str(32 * 1024 * 1024) in error(body)[2]


async def test_the_body_of_a_get_is_not_read() -> None:
    status, _, body = await Kernel().send("GET", "/echo/x", [b"ignored"])
    assert (status, json.loads(body)["body"]) == (200, "")


async def test_methods_and_paths_that_are_not_there() -> None:
    kernel = Kernel()
    status, headers, body = await kernel.send("PUT", "/echo/x")
    assert (status, headers["allow"]) == (405, "GET, POST")
    assert error(body)[:2] == (405, "MethodNotAllowed")
    status, headers, body = await kernel.send("GET", "/none")
    assert error(body)[:2] == (404, "NoSuchEndpoint")
    assert "allow" not in headers


@pytest.mark.parametrize(
    ("site", "status"),
    [
        (None, 200),
        (b"same-origin", 200),
        (b"none", 200),
        (b"cross-site", 403),
        (b"same-site", 403),
        (b"x", 403),
    ],
)
async def test_pages_of_other_sites_cannot_write(site: bytes | None, status: int) -> None:
    headers = [] if site is None else [(b"sec-fetch-site", site)]
    assert (await Kernel().send("POST", "/echo/x", headers=headers))[0] == status
    assert (await Kernel().send("GET", "/echo/x", headers=headers))[0] == 200


async def test_head_has_the_length_but_not_the_body() -> None:
    status, headers, body = await Kernel().send("HEAD", "/query")
    assert (status, body) == (200, b"")
    assert headers["content-length"] != "0"


async def test_no_content_has_neither() -> None:
    status, headers, body = await Kernel().send("DELETE", "/nothing")
    assert (status, body) == (204, b"")
    assert not {"content-length", "content-type"} & set(headers)


@pytest.mark.parametrize(
    ("raw", "number", "flag"),
    [
        (b"", 5, False),
        (b"number=7&flag=true", 7, True),
        (b"flag=false&unknown=1", 5, False),
        (b"flag=1", 5, True),
    ],
)
async def test_queries(raw: bytes, number: int, flag: bool) -> None:
    _, _, body = await Kernel().send("GET", "/query", query=raw)
    assert (json.loads(body)["number"], json.loads(body)["flag"]) == (number, flag)


@pytest.mark.parametrize(
    "raw", [b"number=x", b"flag=maybe", b"text=%ff", b"text=\xff", b"text=%00", b"number="]
)
async def test_queries_that_are_none(raw: bytes) -> None:
    status, _, body = await Kernel().send("GET", "/query", query=raw)
    assert status == 400
    assert error(body)[1] == "BadRequestException"


async def test_an_unforeseen_error_says_nothing_of_itself_but_to_the_log() -> None:
    kernel = Kernel()
    status, headers, body = await kernel.send("GET", "/broken", headers=[(b"x-request-id", b"abc")])
    assert status == 500
    assert error(body)[1] == "InternalServerError"
    assert "abc" in error(body)[2]
    assert b"secret detail" not in body
    assert headers["x-request-id"] == "abc"
    kernel.lines.flush()
    lines = [json.loads(line) for line in kernel.log.getvalue().splitlines()]
    assert "ZeroDivisionError: secret detail" in lines[0]["exception"]
    assert lines[0]["request-id"] == lines[1]["request-id"] == "abc"
    assert (lines[1]["status"], lines[1]["level"]) == (500, "error")


@pytest.mark.parametrize(
    ("raised", "status", "kind"),
    [
        (errors.InvalidInput("x"), 400, "BadRequestException"),
        (errors.Unprocessable("x"), 422, "UnprocessableEntityException"),
        (errors.PayloadTooLarge("x"), 413, "PayloadTooLarge"),
        (errors.NoSuchWarehouse("x"), 404, "NoSuchWarehouseException"),
        (errors.NoSuchNamespace("x"), 404, "NoSuchNamespaceException"),
        (errors.NoSuchTable("x"), 404, "NoSuchTableException"),
        (errors.NoSuchView("x"), 404, "NoSuchViewException"),
        (errors.NotAllowed("x"), 403, "ForbiddenException"),
        (errors.Unsupported("x"), 406, "UnsupportedOperationException"),
        (errors.AlreadyExists("x"), 409, "AlreadyExistsException"),
        (errors.NamespaceNotEmpty("x"), 409, "NamespaceNotEmptyException"),
        (errors.PurgeUnfinished("x"), 409, "WarehouseHasUnfinishedTasks"),
        (errors.CommitFailed("x"), 409, "CommitFailedException"),
        (errors.Conflict("x", kind="LocationAlreadyTaken"), 409, "LocationAlreadyTaken"),
        (errors.CommitStateUnknown("x"), 500, "CommitStateUnknownException"),
        (errors.StorageError("x"), 503, "StorageError"),
        (errors.Unavailable("x"), 503, "ServiceUnavailableException"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else str(value),
)
async def test_errors_have_one_status_each(raised: errors.FrazilError, status: int, kind: str) -> None:
    kernel = Kernel({"error": raised})
    got, headers, body = await kernel.send("GET", "/refuse")
    assert (got, *error(body)[:2]) == (status, status, kind)
    assert ("retry-after" in headers) is (status == 503)


async def test_a_long_message_is_cut_in_its_middle() -> None:
    kernel = Kernel({"error": errors.InvalidInput("begin" + "x" * 1_000_000 + "end")})
    _, _, body = await kernel.send("GET", "/refuse")
    message = error(body)[2]
    assert len(message) < 2100
    assert message.startswith("begin")
    assert message.endswith("end")


async def test_the_log_has_the_path_and_never_the_query() -> None:
    kernel = Kernel()
    await kernel.send("GET", "/query", query=b"text=hunter2")
    kernel.lines.flush()
    (line,) = kernel.log.getvalue().splitlines()
    entry = json.loads(line)
    assert b"hunter2" not in line
    assert (entry["path"], entry["operation"], entry["status"]) == ("/query", "query", 200)


async def test_requests_are_counted_by_operation() -> None:
    kernel = Kernel()
    for path in ("/query", "/query", "/none"):
        await kernel.send("GET", path)
    text = kernel.metrics.render().decode()
    assert 'frazil_http_requests_total{operation="query",status="200"} 2.0' in text
    assert 'frazil_http_requests_total{operation="none",status="404"} 1.0' in text


async def test_a_caller_that_goes_away_gets_no_answer() -> None:
    kernel = Kernel()
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.disconnect"}

    async def reply(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/echo/x",
        "raw_path": b"/echo/x",
        "query_string": b"",
        "headers": [],
        "scheme": "http",
    }
    await kernel.app(scope, receive, reply)
    assert sent == []
