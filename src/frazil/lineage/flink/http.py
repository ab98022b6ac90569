"""How Flink's two services are spoken to: timeouts, retries, credentials, and errors without secrets."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx
import msgspec

from frazil.client.exchange import Retry, exchange
from frazil.client.flow import Answer, Flow, Request, Wait
from frazil.client.runners import SyncRunner
from frazil.core.errors import FrazilError, NotAllowed, NotFound, Unauthenticated, Unavailable
from frazil.lineage.flink.config import Connection

Json = dict[str, Any]
T = TypeVar("T")


class Service:
    """One of Flink's REST services. Threads may share it. It follows no redirect: credentials stay here."""

    def __init__(self, url: str, what: str, connection: Connection) -> None:
        self.url = url
        self._what = what
        self._retry = Retry(attempts=max(1, connection.max_retries), first=0.5)
        self._http = httpx.Client(
            base_url=url,
            headers={"Accept": "application/json", **_credentials(connection)},
            timeout=connection.timeout_seconds,
            # Without TLS, reading the certificates would only cost time.
            verify=connection.verify_ssl and url.lower().startswith("https:"),
            follow_redirects=False,
        )
        self._runner = SyncRunner(self._http, None)

    def read(self, path: str, kind: type[T]) -> T:
        """A GET that is repeated while the service is away; a body that does not fit is an error."""
        try:
            answer = self._runner.run(exchange(Request("GET", path, repeatable=True), self._retry))
        except FrazilError as error:
            raise self._explained(path, error) from None
        return self.decoded(path, answer, kind)

    def once(
        self, method: str, path: str, body: object = None, *, again: Callable[[Answer], bool] | None = None
    ) -> Answer:
        """A request whose failure is an answer too.

        Only one that was never sent is repeated, unless `again` says which answers are none: then one that
        was lost is, too.
        """
        data = None if body is None else msgspec.json.encode(body)
        headers = {} if data is None else {"Content-Type": "application/json"}
        request = Request(method, path, headers=headers, body=data)
        for attempt in range(1, self._retry.attempts + 1):
            wait = self._retry.wait(attempt, None)
            try:
                answer = self._runner.run(_single(request))
                if wait is None or again is None or not again(answer):
                    return answer
            except httpx.RequestError as error:
                if wait is None or (again is None and not isinstance(error, httpx.ConnectError)):
                    reason = str(error) or type(error).__name__
                    raise Unavailable(f"{self._what}: no answer to {method} {path}: {reason}") from None
            self._runner.run(_waited(wait))
        raise AssertionError("the last attempt returns or raises")

    def decoded(self, path: str, answer: Answer, kind: type[T]) -> T:
        """The body of an answer; what is wrong with it is told without repeating it."""
        try:
            return msgspec.json.decode(answer.body, type=kind)
        except msgspec.ValidationError as error:
            reason = str(error)
        except msgspec.DecodeError:
            reason = f"not whole JSON ({len(answer.body)} bytes)"
        raise FrazilError(
            f"{self._what}: the answer to {path} cannot be read: {reason}", kind="UnreadableAnswer"
        )

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _explained(self, path: str, error: FrazilError) -> FrazilError:
        """The same kind of error in words about Flink."""
        where = f"{self._what} at {self.url}"
        match error:
            case Unauthenticated():
                said = "401, it does not know who is asking; set token, or username and password"
                return Unauthenticated(f"{where} answered {path} with {said}")
            case NotAllowed():
                return NotAllowed(f"{where} refused {path} (403); the credentials may not read it")
            case NotFound():
                return NotFound(f"{where} has no {path} (404)")
            case Unavailable():
                return Unavailable(f"{where}: {error.message}", kind=error.kind)
        return FrazilError(f"{where}: {path} failed; is this the address of {self._what}?", kind=error.kind)


def _single(request: Request) -> Flow[Answer]:
    answer: Answer = yield request
    return answer


def _waited(seconds: float) -> Flow[None]:
    yield Wait(seconds)


def _credentials(connection: Connection) -> dict[str, str]:
    if connection.token:
        return {"Authorization": f"Bearer {connection.token}"}
    if connection.username and connection.password:
        pair = b64encode(f"{connection.username}:{connection.password}".encode()).decode()
        return {"Authorization": f"Basic {pair}"}
    return {}
