"""What the SQL Gateway tells of catalogs and tables, asked in a session of our own."""

from __future__ import annotations

import re
import threading
import time
from contextlib import suppress
from typing import Any

import msgspec

from frazil.client.flow import Answer
from frazil.core.errors import FrazilError, Unauthenticated, Unavailable, Unprocessable
from frazil.lineage.flink.config import Connection
from frazil.lineage.flink.http import Service

_POLL_SECONDS = 0.1
_CAUSE = re.compile(r"Caused by: ([^\n]+)")


class _Session(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    session_handle: str


class _Operation(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    operation_handle: str


class _Row(msgspec.Struct, frozen=True):
    fields: list[Any]


class _Results(msgspec.Struct, frozen=True):
    data: list[_Row] = []


class _Page(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    result_type: str
    next_result_uri: str | None = None
    results: _Results = _Results()


class _Errors(msgspec.Struct, frozen=True):
    errors: list[str]


class Refused(Unprocessable):
    """A statement that Flink refused; `reason` is what Flink says, without the statement."""

    def __init__(self, statement: str, reason: str) -> None:
        super().__init__(f"Flink refused {statement!r}: {reason}")
        self.reason = reason


class Gateway:
    """The SQL Gateway's REST API. Threads may share one: their statements run one after the other."""

    def __init__(self, connection: Connection) -> None:
        assert connection.sql_gateway_url is not None, "whoever asks has looked"
        self.url = connection.sql_gateway_url
        self._service = Service(self.url, "Flink's SQL Gateway", connection)
        self._seconds = connection.sql_gateway_operation_timeout_seconds
        self._session: str | None = None
        self._lock = threading.Lock()

    def catalogs(self) -> list[str]:
        """The catalogs that a new session sees."""
        return self._names("SHOW CATALOGS")

    def databases(self, catalog: str) -> list[str]:
        """The databases of a catalog. Before 1.19, only those of the current one can be listed."""
        with self._lock:
            self._execute(f"USE CATALOG {quoted(catalog)}")
            return [str(row[0]) for row in self._execute("SHOW DATABASES")]

    def tables(self, catalog: str, database: str) -> list[str]:
        """Tables and views of a database."""
        return self._names(f"SHOW TABLES FROM {quoted(catalog, database)}")

    def describe_catalog(self, catalog: str) -> dict[str, str]:
        """Type and options of a catalog (Flink 1.20 and newer; not of the built-in one)."""
        rows = self.execute(f"DESCRIBE CATALOG EXTENDED {quoted(catalog)}")
        return {str(name).removeprefix("option:"): str(value) for name, value in rows if value is not None}

    def create_table(self, catalog: str, database: str, table: str) -> str:
        """The statement that would make the table again."""
        return str(self.execute(f"SHOW CREATE TABLE {quoted(catalog, database, table)}")[0][0])

    def execute(self, statement: str) -> list[list[Any]]:
        """The rows of a statement. One that it refuses is `Refused`, with Flink's own reason."""
        with self._lock:
            return self._execute(statement)

    def close(self) -> None:
        """End the session; one that cannot be ended is ended by the gateway after a while."""
        if self._session is not None:
            with suppress(FrazilError):
                self._service.once("DELETE", f"/v1/sessions/{self._session}")
            self._session = None
        self._service.close()

    def _names(self, statement: str) -> list[str]:
        return [str(row[0]) for row in self.execute(statement)]

    def _execute(self, statement: str) -> list[list[Any]]:
        answer = self._submit(statement)
        if answer.status == 404 and self._session is not None:
            # The gateway forgets a session that nobody used for a while.
            self._session = None
            answer = self._submit(statement)
        self._check(answer, statement)
        operation = self._service.decoded("a statement", answer, _Operation).operation_handle
        return self._rows(f"/v1/sessions/{self._session}/operations/{operation}", statement)

    def _submit(self, statement: str) -> Answer:
        if self._session is None:
            answer = self._asked("POST", "/v1/sessions", {"sessionName": "frazil-lineage"})
            self._check(answer, "opening a session")
            self._session = self._service.decoded("/v1/sessions", answer, _Session).session_handle
        return self._asked("POST", f"/v1/sessions/{self._session}/statements", {"statement": statement})

    def _asked(self, method: str, path: str, body: object = None) -> Answer:
        """Repeated while the gateway is away: all that is asked here only reads."""
        return self._service.once(method, path, body, again=_is_away)

    def _rows(self, operation: str, statement: str) -> list[list[Any]]:
        path = f"{operation}/result/0"
        deadline = time.monotonic() + self._seconds
        rows: list[list[Any]] = []
        while True:
            answer = self._asked("GET", path)
            self._check(answer, statement)
            page = self._service.decoded(path, answer, _Page)
            rows += [row.fields for row in page.results.data]
            if page.result_type == "EOS" or (page.result_type != "NOT_READY" and not page.next_result_uri):
                return rows
            if time.monotonic() > deadline:
                self._service.once("POST", f"{operation}/cancel")
                raise Unavailable(
                    f"Flink's SQL Gateway had no result of {statement!r} after {self._seconds} s; for a slow "
                    "catalog set a longer sql_gateway_operation_timeout_seconds"
                )
            if page.result_type == "NOT_READY":
                time.sleep(_POLL_SECONDS)
            else:
                path = _own(page.next_result_uri or "")

    def _check(self, answer: Answer, doing: str) -> None:
        """A statement that failed answers its result with 500: the status alone tells nothing."""
        if 200 <= answer.status < 300:
            return
        where = f"Flink's SQL Gateway at {self.url}"
        if answer.status in (401, 403):
            raise Unauthenticated(
                f"{where} answered {answer.status}; it takes the same token, or username and password, as "
                "the JobManager"
            )
        reason = _reason(answer)
        if reason is None:
            raise Unavailable(f"{where} answered {answer.status} to {doing!r}")
        raise Refused(doing, reason)


def _is_away(answer: Answer) -> bool:
    """A statement that failed answers with 500 as well, and says so."""
    return answer.status in (408, 429) or (answer.status >= 500 and _reason(answer) is None)


def _own(path: str) -> str:
    """Credentials go with every request, so a page elsewhere is not fetched."""
    if not path.startswith("/") or path.startswith("//"):
        raise FrazilError(
            "Flink's SQL Gateway continues its answer at another address, which is not followed"
        )
    return path


def quoted(*names: str) -> str:
    """A path of identifiers that is always legal."""
    return ".".join("`" + name.replace("`", "``") + "`" for name in names)


def _reason(answer: Answer) -> str | None:
    """The innermost cause of a Java stack; None when the answer is not one of Flink's errors."""
    try:
        text = "\n".join(msgspec.json.decode(answer.body, type=_Errors).errors)
    except msgspec.DecodeError:
        return None
    causes = _CAUSE.findall(text)
    return str(causes[-1] if causes else text.partition("\n")[0])[:500]
