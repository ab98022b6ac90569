"""Bad requests: what they have in common, and how each is judged."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.catalog.api.client import Answer
from tests.catalog.api.victim import Victim

NAMESPACES = "/namespaces"
TABLES = "/namespaces/ns/tables"
TABLE = "/namespaces/ns/tables/t"
VIEWS = "/namespaces/ns/views"
VIEW = "/namespaces/ns/views/v"
PROPERTIES = "/namespaces/ns/properties"
POSTS = [
    NAMESPACES,
    PROPERTIES,
    TABLES,
    TABLE,
    TABLE + "/metrics",
    "/namespaces/ns/register",
    "/namespaces/ns/register-view",
    "/tables/rename",
    "/transactions/commit",
    VIEWS,
    VIEW,
    "/views/rename",
]


@dataclass
class Nasty:
    """One bad request and what the answer must say."""

    path: str
    body: Any = None
    words: tuple[str, ...] = ()
    status: tuple[int, ...] = (400,)
    method: str = "POST"
    headers: dict[str, str] = field(default_factory=dict)


def check(victim: Victim, nasty: Nasty) -> Answer:
    before = victim.everything()
    answer = victim.catalog.send(nasty.method, nasty.path, nasty.body, nasty.headers)
    assert answer.status in nasty.status, f"{answer.status}: {answer.body[:500]!r}"
    if nasty.method != "HEAD":
        message = answer.error()["message"]
        for word in nasty.words:
            assert word in message, message
        assert len(message) < 5000, "an error must not throw a large body back"
    assert victim.everything() == before
    return answer


def short(value: Any) -> str:
    text = value.decode("latin-1") if isinstance(value, bytes) else str(value)
    return ascii(text[:40])
