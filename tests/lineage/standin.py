"""A stand-in for Flink's JobManager and SQL Gateway. It is not Flink: it replays what a real 2.1.3 cluster
answered (`fixtures/flink-2.1.3`), or one of five releases (`fixtures/clusters`), and can be made to fail in
ways that a real cluster fails only by chance.
"""

from __future__ import annotations

import http.server
import json
import re
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Self, cast

FIXTURES = Path(__file__).parent / "fixtures" / "flink-2.1.3"
CLUSTERS = Path(__file__).parent / "fixtures" / "clusters"
CAPTURED = (
    "datagen_to_blackhole",
    "iceberg_statement_set",
    "kafka_to_iceberg",
    "kafka_to_iceberg_v2sink",
    "kafka_to_kafka",
)

Json = dict[str, Any]
#: A statement of the gateway that every recorded cluster refused: it has no such table.
_REFUSED = "SHOW CREATE TABLE `default_catalog`.`default_database`.`nope`"


def captured(*path: str) -> Any:
    return json.loads(_text(*path))


@cache
def _text(*path: str) -> str:
    return FIXTURES.joinpath(*path).read_text()


def recorded(release: str) -> Json:
    """What a cluster answered: to each path of the JobManager, and to each statement of the gateway."""
    found: Json = json.loads((CLUSTERS / f"{release}.json").read_text())
    return found


@cache
def _original_id(name: str) -> str:
    return str(captured("jobs", name, "config.json")["jid"])


@cache
def _original_line(name: str) -> str:
    """Of the overview."""
    lines = captured("jobs_overview.json")["jobs"]
    return json.dumps(next(line for line in lines if line["name"] == name))


@dataclass(frozen=True)
class Reply:
    status: int = 200
    body: bytes = b"{}"
    #: Nothing is answered until the stand-in stops.
    stall: bool = False


@dataclass
class StandIn:
    """Both services on one port. `faults` come first: a path's pattern, and the answers in their order."""

    #: Names of captured jobs, or of copies: `kafka_to_kafka`, `kafka_to_kafka#17`.
    jobs: tuple[str, ...] = CAPTURED
    #: Statements of the gateway and the rows, or the captured file, that they give.
    statements: dict[str, str | list[list[Any]]] = field(default_factory=dict)
    #: Answers of another cluster, in the place of `jobs` and `statements`.
    recorded: Json | None = None
    faults: list[tuple[str, list[Reply]]] = field(default_factory=list)
    authorization: str | None = None
    tls: ssl.SSLContext | None = None
    change: Callable[[str, Any], Any] = lambda path, answer: answer
    seen: list[str] = field(default_factory=list)

    def __enter__(self) -> Self:
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._operations: dict[str, str] = {}
        self._names = {} if self.recorded else {self.job_id(name): name for name in self.jobs}
        self._catalog = "default_catalog"
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._server.daemon_threads = True
        if self.tls is not None:
            self._server.socket = self.tls.wrap_socket(self._server.socket, server_side=True)
        cast("Any", self._server).standin = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http{'s' * (self.tls is not None)}://127.0.0.1:{self._server.server_address[1]}"

    def count(self, pattern: str) -> int:
        return sum(1 for line in self.seen if re.search(pattern, line))

    def answer(self, method: str, path: str, body: bytes, authorization: str | None) -> Reply:
        with self._lock:
            self.seen.append(f"{method} {path}")
            for pattern, replies in self.faults:
                if re.search(pattern, path) and replies:
                    reply = replies.pop(0)
                    break
            else:
                reply = None
        if reply is not None:
            if reply.stall:
                self._closing.wait(120)
            return reply
        if self.authorization is not None and authorization != self.authorization:
            return Reply(401, b"")
        if path.startswith("/v1/sessions"):
            return self._gateway(method, path, body)
        return self._job_manager(path)

    def _job_manager(self, path: str) -> Reply:
        if self.recorded is not None:
            # Names of metrics were not kept: without a broker, none of them is a topic's.
            unknown: Any = [] if path.endswith("/metrics") else {"_http": 404, "errors": ["Not found."]}
            answer = self.recorded["jobmanager"].get(path, unknown)
            return Reply(answer.get("_http", 200) if answer else 200, json.dumps(answer).encode())
        if path == "/v1/config":
            return self._json(path, captured("config.json"))
        if path == "/v1/jobs/overview":
            return self._json(path, {"jobs": [self._overview(name) for name in self.jobs]})
        match = re.fullmatch(r"/v1/jobs/([^/]+)(/.*)?", path)
        name = self._names.get(match[1]) if match is not None else None
        if match is None or name is None:
            return Reply(404, b'{"errors":["Job could not be found."]}')
        file = {None: "job.json", "/checkpoints/config": "checkpoints_config.json", "/config": "config.json"}
        if match[2] not in file:
            return self._json(path, [])
        answer = captured("jobs", name.partition("#")[0], file[match[2]])
        return self._json(path, _renamed(answer, self.job_id(name), name))

    def job_id(self, name: str) -> str:
        original, hash_, number = name.partition("#")
        jid = _original_id(original)
        return jid if not hash_ else f"{jid[:24]}{int(number):08x}"

    def _overview(self, name: str) -> Json:
        line = json.loads(_original_line(name.partition("#")[0]))
        return {**line, "jid": self.job_id(name), "name": name}

    def _json(self, path: str, answer: Any) -> Reply:
        return Reply(body=json.dumps(self.change(path, answer)).encode())

    def _gateway(self, method: str, path: str, body: bytes) -> Reply:
        if path == "/v1/sessions":
            return Reply(body=b'{"sessionHandle":"28cd0053-5dde-4ec4-860f-50bd401856da"}')
        if method == "DELETE" or path.endswith("/cancel"):
            return Reply(body=b'{"status":"CLOSED"}')
        if path.endswith("/statements"):
            with self._lock:
                handle = f"operation-{len(self._operations)}"
                self._operations[handle] = str(json.loads(body)["statement"])
            return Reply(body=json.dumps({"operationHandle": handle}).encode())
        match = re.search(r"/operations/([^/]+)/result/(\d+)$", path)
        assert match is not None, path
        page = self._pages(self._operations[match[1]], path)[int(match[2])]
        return Reply(page.get("_http", 200), json.dumps(page).encode())

    def _pages(self, statement: str, path: str) -> list[Json]:
        if statement.startswith("USE CATALOG"):
            self._catalog = statement.split("`")[1]
            return [{"resultType": "EOS", "results": {"columns": [], "data": []}}]
        if statement == "SHOW DATABASES":
            statement = f"SHOW DATABASES IN `{self._catalog}`"
        if self.recorded is not None:
            answers = self.recorded["gateway"]
            return _continued(answers.get(statement, answers[_REFUSED]), path)
        told = self.statements.get(statement, "error_no_table.json")
        if isinstance(told, str):
            pages: list[Json] = captured("gateway", told)["pages"]
        else:
            pages = json.loads(json.dumps(captured("gateway", "show_catalogs.json")["pages"]))
            pages[0]["results"]["data"] = [{"kind": "INSERT", "fields": row} for row in told]
        return _continued(pages, path)


def _continued(pages: list[Json], path: str) -> list[Json]:
    """Pages of which each leads to the next, at the address that was asked for."""
    return [
        {**page, "nextResultUri": re.sub(r"\d+$", str(number), path)} if "nextResultUri" in page else page
        for number, page in enumerate(pages, 1)
    ]


def _renamed(answer: Any, jid: str, name: str) -> Any:
    """A copy of a captured job under another id and name."""
    if isinstance(answer, dict) and "jid" in answer:
        answer = {**answer, "jid": jid, "name": name}
        if "plan" in answer:
            answer["plan"] = _renamed(answer["plan"], jid, name)
    return answer


def created(file: str) -> str:
    """The statement in a captured answer to SHOW CREATE TABLE."""
    return str(captured("gateway", file)["pages"][0]["results"]["data"][0]["fields"][0])


def visible() -> dict[str, str | list[list[Any]]]:
    """A gateway whose session sees the tables that the captured jobs use. Tables whose definition was not
    captured are defined like those that were."""
    default = "`default_catalog`.`default_database`"
    kafka, hole = created("show_create_table_kafka.json"), created("show_create_table_bh.json")
    k_out = re.sub(r",\n  `ts`.*?SECOND", "", kafka, flags=re.DOTALL)
    k_out = k_out.replace("`k_orders`", "`k_out`").replace("'topic' = 'orders'", "'topic' = 'orders_out'")
    ice = created("show_create_table_iceberg.json")
    return {
        "SHOW CATALOGS": "show_catalogs.json",
        "SHOW DATABASES IN `default_catalog`": [["default_database"]],
        "SHOW DATABASES IN `ice`": "show_databases.json",
        f"SHOW TABLES FROM {default}": "show_tables.json",
        "SHOW TABLES FROM `ice`.`db`": [["orders"], ["orders2"], ["by_customer"]],
        "DESCRIBE CATALOG EXTENDED `ice`": "describe_catalog_ext_ice.json",
        "DESCRIBE CATALOG EXTENDED `default_catalog`": "describe_catalog_ext_default.json",
        f"SHOW CREATE TABLE {default}.`k_orders`": "show_create_table_kafka.json",
        f"SHOW CREATE TABLE {default}.`bh`": "show_create_table_bh.json",
        f"SHOW CREATE TABLE {default}.`k_out`": [[k_out]],
        f"SHOW CREATE TABLE {default}.`gen`": [
            [hole.replace("`bh`", "`gen`").replace("blackhole", "datagen")]
        ],
        "SHOW CREATE TABLE `ice`.`db`.`orders`": "show_create_table_iceberg.json",
        "SHOW CREATE TABLE `ice`.`db`.`orders2`": [[ice.replace("`orders`", "`orders2`")]],
    }


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    #: Head and body are two writes; without this, the second one waits 40 ms for the first one's receipt.
    disable_nagle_algorithm = True

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        standin: StandIn = cast("Any", self.server).standin
        reply = standin.answer(self.command, self.path, body, self.headers.get("Authorization"))
        self.send_response(reply.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(reply.body)))
        self.end_headers()
        self.wfile.write(reply.body)

    do_GET = do_POST = do_DELETE = _serve  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""
