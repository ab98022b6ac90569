"""Operations as flows: each is written once and run by the sync and by the async client.

A flow is a generator. It yields what it wants to have done (send a request, wait, get a token), is given the
result, and returns the answer. It knows nothing of threads or event loops; `runners.py` does.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from types import MethodType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeAlias, TypeVar, overload

if TYPE_CHECKING:
    from frazil.client.session import Session

P = ParamSpec("P")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request. Its headers and body may hold secrets, so they never print."""

    method: str
    #: Below the server's address, or a whole URL (a token endpoint).
    path: str
    query: tuple[tuple[str, str], ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes | None = field(default=None, repr=False)
    #: Sending it twice does no more than sending it once.
    repeatable: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back, whatever its status."""

    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Wait:
    """Sleep before the next attempt."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Token:
    """A bearer token is needed, another one than `refused`."""

    refused: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Items(Generic[T_co]):
    """A page of a listing, for whoever iterates over it."""

    items: tuple[T_co, ...]


Effect: TypeAlias = Request | Wait | Token
Flow: TypeAlias = Generator[Effect, Any, T]
Listing: TypeAlias = Generator[Effect | Items[T], Any, None]


class Sync:
    """Marks a resource whose methods block and return their answer."""


class Async:
    """Marks a resource whose methods are awaited."""


M = TypeVar("M")


class Resource(Generic[M]):
    """A part of the API: methods marked `operation` or `listing`."""

    def __init__(self, session: Session) -> None:
        self._session = session


class Operation(Generic[P, T]):
    """A method that returns `T` on a sync client and is awaited for it on an async one."""

    def __init__(self, flow: Callable[Concatenate[Any, P], Flow[T]]) -> None:
        @functools.wraps(flow)
        def method(resource: Resource[Any], *args: P.args, **kwargs: P.kwargs) -> Any:
            return resource._session.runner.run(flow(resource, *args, **kwargs))  # noqa: SLF001

        self._method = _documented(method, flow, "Flow[", "")

    @overload
    def __get__(self, instance: None, owner: Any) -> Callable[..., Any]: ...
    @overload
    def __get__(self, instance: Resource[Sync], owner: Any) -> Callable[P, T]: ...
    @overload
    def __get__(self, instance: Resource[Async], owner: Any) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, instance: Any, owner: Any) -> Any:
        return self._method if instance is None else MethodType(self._method, instance)


class ListingOperation(Generic[P, T]):
    """A method that gives an iterator on a sync client and an async iterator on an async one.

    Pages are fetched when the iteration reaches them.
    """

    def __init__(self, flow: Callable[Concatenate[Any, P], Listing[T]]) -> None:
        @functools.wraps(flow)
        def method(resource: Resource[Any], *args: P.args, **kwargs: P.kwargs) -> Any:
            return resource._session.runner.iterate(flow(resource, *args, **kwargs))  # noqa: SLF001

        self._method = _documented(method, flow, "Listing[", "Iterator[")

    @overload
    def __get__(self, instance: None, owner: Any) -> Callable[..., Any]: ...
    @overload
    def __get__(self, instance: Resource[Sync], owner: Any) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, instance: Resource[Async], owner: Any) -> Callable[P, AsyncIterator[T]]: ...
    def __get__(self, instance: Any, owner: Any) -> Any:
        return self._method if instance is None else MethodType(self._method, instance)


def _documented(
    method: Callable[..., Any], flow: Callable[..., Any], generator: str, result: str
) -> Callable[..., Any]:
    """`help` shows what a caller gets, not the generator behind it."""
    signature = inspect.signature(flow)
    shown = str(signature.return_annotation)
    if shown.startswith(generator):
        shown = f"{result}{shown.removeprefix(generator)}"
        signature = signature.replace(return_annotation=shown if result else shown.removesuffix("]"))
    method.__signature__ = signature  # type: ignore[attr-defined]
    return method


def operation(flow: Callable[Concatenate[Any, P], Flow[T]]) -> Operation[P, T]:
    """Make a method of a flow."""
    return Operation(flow)


def listing(flow: Callable[Concatenate[Any, P], Listing[T]]) -> ListingOperation[P, T]:
    """Make a method that iterates over pages of a flow."""
    return ListingOperation(flow)
