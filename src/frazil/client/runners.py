"""Run flows: with blocking calls, or on an event loop."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Generator, Iterator
from typing import Any, Protocol, TypeVar

import httpx

from frazil.client.exchange import Authorizer
from frazil.client.flow import Answer, Effect, Flow, Items, Listing, Request, Token, Wait
from frazil.core.errors import FrazilError

T = TypeVar("T")
Y = TypeVar("Y")

#: What a flow may catch; everything else ends it.
_FOR_THE_FLOW = (httpx.RequestError, FrazilError)


class Runner(Protocol):
    """Runs a flow to its end; the result is the answer or what is awaited for it."""

    def run(self, flow: Flow[Any]) -> Any:
        """The answer of the flow."""

    def iterate(self, flow: Listing[Any]) -> Any:
        """The items of the flow, page after page."""


class SyncRunner:
    """Blocks. May be used by several threads."""

    def __init__(self, http: httpx.Client, authorizer: Authorizer | None) -> None:
        self._http = http
        self._authorizer = authorizer
        self._lock = threading.Lock()

    def run(self, flow: Flow[T]) -> T:
        try:
            effect = next(flow)
            while True:
                effect = _resume(flow, self._perform(effect))
        except StopIteration as end:
            answer: T = end.value
            return answer

    def iterate(self, flow: Listing[T]) -> Iterator[T]:
        try:
            effect = next(flow)
            while True:
                if isinstance(effect, Items):
                    yield from effect.items
                    effect = next(flow)
                else:
                    effect = _resume(flow, self._perform(effect))
        except StopIteration:
            return

    def _perform(self, effect: Effect) -> object:
        """The result, or the error that the flow is to see."""
        try:
            match effect:
                case Request():
                    return _answer(self._http.request(**_arguments(effect)))
                case Wait(seconds):
                    time.sleep(seconds)
                case Token(refused):
                    return self._token(refused)
        except _FOR_THE_FLOW as error:
            return error
        return None

    def _token(self, refused: str | None) -> str:
        """Whoever comes while a token is being fetched waits for that one."""
        assert self._authorizer is not None, "only an authorizer's flows ask for tokens"
        if (token := self._authorizer.ready(refused)) is not None:
            return token
        with self._lock:
            if (token := self._authorizer.ready(refused)) is not None:
                return token
            return self.run(self._authorizer.renew(refused))


class AsyncRunner:
    """Runs on the event loop of its caller."""

    def __init__(self, http: httpx.AsyncClient, authorizer: Authorizer | None) -> None:
        self._http = http
        self._authorizer = authorizer
        self._lock = asyncio.Lock()

    async def run(self, flow: Flow[T]) -> T:
        try:
            effect = next(flow)
            while True:
                effect = _resume(flow, await self._perform(effect))
        except StopIteration as end:
            answer: T = end.value
            return answer

    async def iterate(self, flow: Listing[T]) -> AsyncIterator[T]:
        try:
            effect = next(flow)
            while True:
                if isinstance(effect, Items):
                    for item in effect.items:
                        yield item
                    effect = next(flow)
                else:
                    effect = _resume(flow, await self._perform(effect))
        except StopIteration:
            return

    async def _perform(self, effect: Effect) -> object:
        """The result, or the error that the flow is to see."""
        try:
            match effect:
                case Request():
                    return _answer(await self._http.request(**_arguments(effect)))
                case Wait(seconds):
                    await asyncio.sleep(seconds)
                case Token(refused):
                    return await self._token(refused)
        except _FOR_THE_FLOW as error:
            return error
        return None

    async def _token(self, refused: str | None) -> str:
        """Whoever comes while a token is being fetched waits for that one."""
        assert self._authorizer is not None, "only an authorizer's flows ask for tokens"
        if (token := self._authorizer.ready(refused)) is not None:
            return token
        async with self._lock:
            if (token := self._authorizer.ready(refused)) is not None:
                return token
            return await self.run(self._authorizer.renew(refused))


def _resume(flow: Generator[Y, Any, Any], result: object) -> Y:
    """Not a coroutine: StopIteration, the end of a flow, could not leave one."""
    return flow.throw(result) if isinstance(result, _FOR_THE_FLOW) else flow.send(result)


def _arguments(request: Request) -> dict[str, Any]:
    return {
        "method": request.method,
        "url": request.path,
        "params": list(request.query) or None,
        "headers": dict(request.headers),
        "content": request.body,
    }


def _answer(response: httpx.Response) -> Answer:
    return Answer(response.status_code, response.headers, response.content)
