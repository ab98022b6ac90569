"""One question for many callers, and nothing handed out that is about to end."""

from __future__ import annotations

import asyncio
import time

import pytest

from frazil.catalog.vending import Access, Vended, VendedCache
from frazil.catalog.vending.cache import Key
from frazil.core.errors import StorageError

KEY: Key = ("warehouse", 1, "s3://lake/t1", Access.READ)


class CountingVendor:
    """Says how often it was asked; answers when it is let."""

    def __init__(self, seconds: float = 3600) -> None:
        self.seconds = seconds
        self.asked = 0
        self.ready = asyncio.Event()
        self.ready.set()
        self.fail = False

    async def vend(self, location: str, access: Access) -> Vended:
        self.asked += 1
        await self.ready.wait()
        if self.fail:
            raise StorageError("STS said no")
        return Vended(location, {"n": str(self.asked)}, round((time.time() + self.seconds) * 1000))

    async def close(self) -> None:
        pass


class Clock:
    """Both clocks, moved by hand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.monotonic = self.wall = 0.0
        base, wall = time.monotonic(), time.time()
        monkeypatch.setattr(time, "monotonic", lambda: base + self.monotonic)
        monkeypatch.setattr(time, "time", lambda: wall + self.wall)
        monkeypatch.setattr(time, "time_ns", lambda: int((wall + self.wall) * 1e9))

    def pass_(self, seconds: float) -> None:
        self.monotonic += seconds
        self.wall += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_many_callers_make_one_request() -> None:
    cache, vendor = VendedCache(), CountingVendor()
    vendor.ready.clear()
    callers = [asyncio.create_task(cache.get(KEY, vendor)) for _ in range(50)]
    await settle()
    vendor.ready.set()
    held = await asyncio.gather(*callers)
    assert vendor.asked == 1
    assert len({entry.serial for entry in held}) == 1
    assert (await cache.get(KEY, vendor)) is held[0]
    assert vendor.asked == 1


@pytest.mark.parametrize(
    "other",
    [
        ("other", 1, "s3://lake/t1", Access.READ),
        ("warehouse", 2, "s3://lake/t1", Access.READ),
        ("warehouse", 1, "s3://lake/t10", Access.READ),
        ("warehouse", 1, "s3://lake/t1", Access.READ_WRITE),
    ],
)
async def test_what_differs_is_not_shared(other: Key) -> None:
    cache, vendor = VendedCache(), CountingVendor()
    first = await cache.get(KEY, vendor)
    second = await cache.get(other, vendor)
    assert vendor.asked == 2
    assert first.serial != second.serial


async def test_a_caller_that_goes_away_does_not_take_the_others_along() -> None:
    cache, vendor = VendedCache(), CountingVendor()
    vendor.ready.clear()
    first, second = (asyncio.create_task(cache.get(KEY, vendor)) for _ in range(2))
    await settle()
    first.cancel()
    await settle()
    assert first.cancelled()
    vendor.ready.set()
    assert (await second).vended.config == {"n": "1"}
    assert vendor.asked == 1


async def test_a_failure_reaches_all_who_wait_and_nobody_after() -> None:
    cache, vendor = VendedCache(), CountingVendor()
    vendor.fail = True
    vendor.ready.clear()
    callers = [asyncio.create_task(cache.get(KEY, vendor)) for _ in range(3)]
    await settle()
    vendor.ready.set()
    results = await asyncio.gather(*callers, return_exceptions=True)
    assert all(isinstance(result, StorageError) for result in results)
    assert vendor.asked == 1
    vendor.fail = False
    assert (await cache.get(KEY, vendor)).vended.config == {"n": "2"}


async def test_a_failure_that_nobody_waited_for_is_no_news(caplog: pytest.LogCaptureFixture) -> None:
    cache, vendor = VendedCache(), CountingVendor()
    vendor.fail = True
    vendor.ready.clear()
    caller = asyncio.create_task(cache.get(KEY, vendor))
    await settle()
    caller.cancel()
    vendor.ready.set()
    await settle()
    assert caller.cancelled()
    assert [record.message for record in caplog.records] == ["no credential for s3://lake/t1: STS said no"]


async def test_closing_ends_what_is_under_way() -> None:
    cache, vendor = VendedCache(), CountingVendor()
    vendor.ready.clear()
    caller = asyncio.create_task(cache.get(KEY, vendor))
    await settle()
    await cache.close()
    with pytest.raises(StorageError, match="stopping"):
        await caller


@pytest.mark.parametrize(("seconds", "good_for"), [(3600, 3000), (1200, 600), (60, 30)])
async def test_what_is_handed_out_has_life_left(clock: Clock, seconds: float, good_for: float) -> None:
    """Ten minutes, or half of what it had: Iceberg's clients renew at five."""
    cache, vendor = VendedCache(), CountingVendor(seconds)
    await cache.get(KEY, vendor)
    clock.pass_(good_for + 1)
    assert (await cache.get(KEY, vendor)).vended.config == {"n": "2"}


@pytest.mark.parametrize("clock_name", ["monotonic", "wall"])
async def test_either_clock_ends_it(clock: Clock, clock_name: str) -> None:
    cache, vendor = VendedCache(), CountingVendor()
    await cache.get(KEY, vendor)
    setattr(clock, clock_name, 3001.0)
    await cache.get(KEY, vendor)
    assert vendor.asked == 2


async def test_a_clock_that_is_set_back_does_not_lengthen_it(clock: Clock) -> None:
    cache, vendor = VendedCache(), CountingVendor()
    await cache.get(KEY, vendor)
    clock.monotonic, clock.wall = 3001.0, -7200.0
    await cache.get(KEY, vendor)
    assert vendor.asked == 2


async def test_it_is_renewed_before_anybody_must_wait(clock: Clock) -> None:
    cache, vendor = VendedCache(), CountingVendor()
    await cache.get(KEY, vendor)
    clock.pass_(2900)
    vendor.ready.clear()
    for _ in range(3):
        assert (await cache.get(KEY, vendor)).vended.config == {"n": "1"}
        await settle()
    assert vendor.asked == 2
    vendor.ready.set()
    await settle()
    assert (await cache.get(KEY, vendor)).vended.config == {"n": "2"}


async def test_a_renewal_that_fails_is_tried_again_a_little_later(clock: Clock) -> None:
    cache, vendor = VendedCache(), CountingVendor()
    await cache.get(KEY, vendor)
    clock.pass_(2900)
    vendor.fail = True
    for _ in range(3):
        await cache.get(KEY, vendor)
        await settle()
    assert vendor.asked == 2
    clock.pass_(16)
    vendor.fail = False
    await cache.get(KEY, vendor)
    await settle()
    assert vendor.asked == 3
    assert (await cache.get(KEY, vendor)).vended.config == {"n": "3"}


async def test_only_so_many_are_kept() -> None:
    cache, vendor = VendedCache(capacity=2), CountingVendor()
    keys: list[Key] = [("warehouse", 1, f"s3://lake/t{n}", Access.READ) for n in range(3)]
    await cache.get(keys[0], vendor)
    await cache.get(keys[1], vendor)
    await cache.get(keys[0], vendor)
    await cache.get(keys[2], vendor)
    await cache.get(keys[0], vendor)
    assert vendor.asked == 3
    await cache.get(keys[1], vendor)
    assert vendor.asked == 4


def test_a_credential_prints_no_key() -> None:
    assert "SECRET" not in repr(Vended("s3://lake/t", {"s3.secret-access-key": "SECRET"}, 1))
