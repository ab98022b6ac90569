"""Keys for jobs that outlive them."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from frazil.client import AsyncRenewing, Renewing, VendedCredentials
from frazil.core.errors import (
    CommitStateUnknown,
    FrazilError,
    NoSuchGenericTable,
    StorageError,
    Unavailable,
)

_monotonic = time.monotonic


def passed(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    monkeypatch.setattr("frazil.client.renewing.monotonic", lambda: _monotonic() + seconds)


class Server:
    """Hands out keys that live `seconds` and counts how often it was asked."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.asked = 0
        self.failure: Exception | None = None
        self.gate = threading.Event()
        self.gate.set()

    def __call__(self) -> VendedCredentials:
        self.asked += 1
        assert self.gate.wait(60)
        if self.failure is not None:
            raise self.failure
        end = datetime.now(UTC) + timedelta(seconds=self.seconds)
        return VendedCredentials(
            "s3://b/t",
            {"s3.session-token": str(self.asked), "expiration-time": str(int(end.timestamp() * 1000))},
        )

    async def later(self) -> VendedCredentials:
        await asyncio.sleep(0)
        return self()


def test_keys_are_kept_until_shortly_before_their_end() -> None:
    server = Server(3600)
    keys = Renewing(server)
    assert keys.current() is keys.current()
    assert server.asked == 1


def test_keys_near_their_end_are_renewed() -> None:
    server = Server(-1)
    keys = Renewing(server)
    assert keys.current().config["s3.session-token"] == "1"
    server.seconds = 3600
    assert keys.current().config["s3.session-token"] == "2"
    assert keys.current().config["s3.session-token"] == "2"


def test_keys_that_the_server_gives_again_are_not_asked_for_at_once() -> None:
    """A server hands out what it has in its cache; asking again would change nothing."""
    server = Server(50)
    keys = Renewing(server, margin=60)
    for _ in range(10):
        keys.current()
    assert server.asked == 1


def test_one_thread_asks_for_all() -> None:
    server = Server(3600)
    server.gate.clear()
    keys = Renewing(server)
    with ThreadPoolExecutor(8) as pool:
        futures = [pool.submit(keys.current) for _ in range(8)]
        server.gate.set()
        assert len({id(future.result(60)) for future in futures}) == 1
    assert server.asked == 1


def test_a_server_that_is_away_is_bridged(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(3600)
    keys = Renewing(server, margin=60)
    first = keys.current()
    # As if most of the hour had passed.
    passed(monkeypatch, 3570)
    server.failure = Unavailable("away")
    assert keys.current() is first
    assert server.asked == 2
    # A server that cannot answer is not asked by every step of a job.
    assert keys.current() is first
    assert server.asked == 2
    passed(monkeypatch, 3580)
    server.failure = NoSuchGenericTable("dropped")
    with pytest.raises(NoSuchGenericTable):
        keys.current()


@pytest.mark.parametrize("failure", [StorageError("no STS"), CommitStateUnknown("no answer")])
def test_every_failure_that_may_pass_is_bridged(
    monkeypatch: pytest.MonkeyPatch, failure: FrazilError
) -> None:
    server = Server(3600)
    keys = Renewing(server, margin=60)
    first = keys.current()
    passed(monkeypatch, 3570)
    server.failure = failure
    assert keys.current() is first
    assert server.asked == 2


def test_a_machine_that_slept_asks_again() -> None:
    """The clock that counts the margin stands still meanwhile; the one on the wall does not."""
    server = Server(0.2)
    keys = Renewing(server, margin=-3600)
    first = keys.current()
    while not first.expires_soon(0.0):
        time.sleep(0.02)
    server.seconds = 3600
    assert keys.current() is not first


def test_expired_keys_bridge_nothing() -> None:
    server = Server(-1)
    keys = Renewing(server)
    keys.current()
    server.failure = Unavailable("away")
    with pytest.raises(Unavailable):
        keys.current()


async def test_tasks_share_one_request() -> None:
    server = Server(3600)
    keys = AsyncRenewing(server.later)
    found = await asyncio.gather(*(keys.current() for _ in range(8)))
    assert len({id(each) for each in found}) == 1
    assert server.asked == 1
    server = Server(-1)
    keys = AsyncRenewing(server.later)
    await keys.current()
    server.failure = Unavailable("away")
    with pytest.raises(Unavailable):
        await keys.current()
