"""Listings that come in pages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from frazil.client.answers import decoded
from frazil.client.flow import Answer, Flow, Items, Listing
from frazil.core.errors import FrazilError

PAGE_SIZE = 1000


class Page(Protocol):
    """A page, and where the next one begins."""

    @property
    def next_page_token(self) -> str | None: ...


class Send(Protocol):
    """Sends to one of the APIs of a warehouse."""

    def __call__(self, method: str, path: str, *, query: Sequence[tuple[str, str]]) -> Flow[Answer]: ...


PageT = TypeVar("PageT", bound=Page)
T = TypeVar("T")


def pages(
    send: Send,
    path: str,
    kind: type[PageT],
    items: Callable[[PageT], tuple[T, ...]],
    query: Sequence[tuple[str, str]] = (),
) -> Listing[T]:
    """Page after page. An empty token asks for the first one (the REST spec's rule)."""
    token = ""
    while True:
        page_query = [*query, ("pageToken", token), ("pageSize", str(PAGE_SIZE))]
        page = decoded((yield from send("GET", path, query=page_query)), kind)
        yield Items(items(page))
        if not page.next_page_token:
            return
        if page.next_page_token == token:
            raise FrazilError(f"the server gives the same page of {path} again and again")
        token = page.next_page_token
