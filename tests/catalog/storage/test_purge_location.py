"""The purge of a whole location, on disk and on a store with habits that no disk has."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import cast

from frazil.catalog.storage import LocalProfile, Storage, open_storage, purge_location


def disk(root: Path) -> Storage:
    root.mkdir(parents=True, exist_ok=True)
    return open_storage(LocalProfile(path=str(root)), None)


def write(folder: Path, *names: str) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_text("x")
    return [folder / name for name in names]


async def always() -> bool:
    return True


async def test_who_lost_the_lease_deletes_nothing_more(tmp_path: Path) -> None:
    """Somebody else may own the place by then."""
    storage = disk(tmp_path)
    files = write(tmp_path / "t", *(f"{n:04}" for n in range(2500)))
    asked = iter([True, False])

    async def once() -> bool:
        return next(asked)

    report = await purge_location(storage, f"{storage.base}/t", once)
    assert not report.complete
    assert "taken over" in report.failures[0][1]
    assert sum(path.exists() for path in files) == 1500
    report = await purge_location(storage, f"{storage.base}/t", always)
    assert (report.complete, report.deleted) == (True, 1500)


async def test_what_cannot_be_deleted_is_reported() -> None:
    storage = Store(["t/a", "t/b"], refuse={"t/b"})
    report = await purge_location(storage.as_storage(), "t", always)
    assert (report.complete, report.deleted) == (False, 1)
    assert report.failures == [("t/b", "refused")]


async def test_a_writer_with_keys_is_outlasted_or_reported() -> None:
    twice = Store(["t/a"], after=lambda n: [f"t/new{n}"] if n < 3 else [])
    report = await purge_location(twice.as_storage(), "t", always)
    assert report.complete
    assert twice.names == []
    forever = Store(["t/a"], after=lambda n: [f"t/new{n}"])
    report = await purge_location(forever.as_storage(), "t", always)
    assert not report.complete
    assert "somebody writes" in report.failures[0][1]


async def test_directory_markers_do_not_hold_a_purge_up() -> None:
    """S3A leaves objects like `t/dir/`; the store's client lists and deletes them as `t/dir`: in vain."""
    markers = {f"t/dir{n}" for n in range(3)}
    store = Store([*sorted(markers), "t/x"], immortal=markers)
    report = await purge_location(store.as_storage(), "t", always)
    assert report.complete
    assert store.names == sorted(markers)
    assert (report.skipped, report.skips[0].location) == (3, "t/dir0")


class Store:
    """Names in memory; `after(n)` are those that a writer adds after the n-th walk."""

    def __init__(
        self,
        names: Sequence[str],
        *,
        refuse: set[str] | None = None,
        immortal: set[str] | None = None,
        after: Callable[[int], list[str]] = lambda _: [],
    ) -> None:
        self.names = list(names)
        self._refuse = refuse or set()
        self._immortal = immortal or set()
        self._after = after
        self._walks = 0

    def as_storage(self) -> Storage:
        return cast("Storage", self)

    async def walk(self, location: str) -> AsyncIterator[list[str]]:
        self._walks += 1
        if self.names:
            yield list(self.names)
        self.names += self._after(self._walks)

    async def delete(self, locations: Sequence[str]) -> list[tuple[str, str]]:
        kept = self._refuse | self._immortal
        self.names = [name for name in self.names if name not in locations or name in kept]
        return [(name, "refused") for name in locations if name in self._refuse]
