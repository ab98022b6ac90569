"""Send a request until there is an answer, repeating only what may be repeated."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Protocol

import httpx

from frazil.client.failures import READS, TRY_AGAIN, failure_of, retry_after, unknown_outcome
from frazil.client.flow import Answer, Flow, Request, Token, Wait
from frazil.core.errors import (
    CommitStateUnknown,
    FrazilError,
    InvalidConfig,
    StorageError,
    Unauthenticated,
    Unavailable,
)

#: The `kind` of the error when no server was reached at all.
UNREACHABLE = "Unreachable"
#: Failed before a byte was sent.
_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol)


class Authorizer(Protocol):
    """Gives the tokens of one client."""

    @property
    def renewable(self) -> bool:
        """Whether another token can be had when one is refused."""

    def ready(self, refused: str | None) -> str | None:
        """A token that can be used now and is not `refused`; None: one must be fetched."""

    def renew(self, refused: str | None) -> Flow[str]:
        """Fetch a token and keep it."""

    def explained(self, error: Unauthenticated) -> FrazilError:
        """The refusal, and what to do about it."""

    def iceberg_properties(self) -> dict[str, str]:
        """The same identity in the words of Iceberg's own REST clients."""


@dataclass(frozen=True)
class Retry:
    """How often and how patiently a request is repeated.

    The wait doubles from `first` seconds up to `longest`, and is shortened by up to half at random. A server
    that asks for a longer wait is given it, up to `patience`; beyond that the error is raised at once.
    """

    attempts: int = 5
    first: float = 0.2
    longest: float = 10.0
    patience: float = 60.0

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise InvalidConfig(f"attempts: {self.attempts} is not legal. Legal: 1 (no retries) or more")
        if not 0 <= self.first <= self.longest or self.patience < 0:
            raise InvalidConfig("retry: legal is 0 <= first <= longest, and a patience that is not negative")

    def wait(self, attempt: int, asked: float | None) -> float | None:
        """Seconds before the next attempt, or None when there is to be none."""
        if attempt >= self.attempts or (asked is not None and asked > self.patience):
            return None
        longest = min(self.longest, self.first * 2.0 ** min(attempt - 1, 60))
        # Not for secrecy: clients that failed together must not come back together.
        return max(longest * random.uniform(0.5, 1.0), asked or 0.0)  # noqa: S311


@dataclass(frozen=True, slots=True)
class _Failed:
    """An attempt without success."""

    error: FrazilError
    #: The server may have done it all the same.
    perhaps_done: bool = False
    #: Seconds that the server asks to wait.
    asked: float | None = None
    #: Another attempt would be answered the same.
    settled: bool = False


@dataclass(slots=True)
class _Attempts:
    made: int = 0
    perhaps_done: bool = False


def exchange(request: Request, retry: Retry, authorizer: Authorizer | None = None) -> Flow[Answer]:
    """The successful answer to `request`; every other end is an error of the tree."""
    attempts = _Attempts()
    try:
        return (yield from _repeat(request, retry, authorizer, attempts))
    except (Unavailable, StorageError, Unauthenticated) as error:
        # The last attempt did nothing, but one before it may have.
        if attempts.perhaps_done:
            raise unknown_outcome(request, error.message) from error
        raise


def _repeat(
    request: Request, retry: Retry, authorizer: Authorizer | None, attempts: _Attempts
) -> Flow[Answer]:
    refused: str | None = None
    while True:
        attempts.made += 1
        token: str | None = None if authorizer is None else (yield Token(refused))
        outcome = yield from _attempt(request, token)
        if isinstance(outcome, Answer):
            return outcome
        if isinstance(outcome.error, Unauthenticated) and authorizer is not None:
            if refused is not None or not authorizer.renewable:
                raise authorizer.explained(outcome.error)
            refused = token
            continue
        attempts.perhaps_done |= outcome.perhaps_done
        repeat = not outcome.settled and (request.repeatable or not outcome.perhaps_done)
        wait = retry.wait(attempts.made, outcome.asked) if repeat else None
        if wait is None:
            raise outcome.error
        yield Wait(wait)


def _attempt(request: Request, token: str | None) -> Flow[Answer | _Failed]:
    sent = request
    if token is not None:
        sent = replace(request, headers={**request.headers, "Authorization": f"Bearer {token}"})
    try:
        answer: Answer = yield sent
    except _NOT_SENT as error:
        return _Failed(
            Unavailable(
                f"cannot reach the server: {_shown(request, error)}. Is it up, and is this its address?",
                kind=UNREACHABLE,
            )
        )
    except httpx.RequestError as error:
        return _Failed(_lost(request, error), perhaps_done=request.method not in READS)
    if 200 <= answer.status < 300:
        return answer
    failure = failure_of(request, answer)
    perhaps_done = isinstance(failure, CommitStateUnknown)
    settled = answer.status not in TRY_AGAIN
    return _Failed(failure, perhaps_done, retry_after(answer), settled)


def _lost(request: Request, error: httpx.RequestError) -> FrazilError:
    if request.method in READS:
        return Unavailable(f"no answer to {_shown(request, error)}")
    return unknown_outcome(request, _reason(error))


def _shown(request: Request, error: httpx.RequestError) -> str:
    try:
        address = str(error.request.url.copy_with(query=None))
    except RuntimeError:
        address = request.path
    return f"{request.method} {address}: {_reason(error)}"


def _reason(error: httpx.RequestError) -> str:
    """Time-outs often have no text of their own."""
    return str(error) or type(error).__name__
