"""What stands in a local warehouse without being a file of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from frazil.catalog.storage import LocalProfile, Storage, open_storage
from frazil.core.errors import InvalidInput


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "victim").write_bytes(b"not yours")
    return folder


@pytest.fixture
def storage(tmp_path: Path, outside: Path) -> Storage:
    base = tmp_path / "warehouse"
    base.mkdir()
    (base / "link").symlink_to(outside)
    (base / "linked-file").symlink_to(outside / "victim")
    os.mkfifo(base / "pipe")
    (base / "zeros").symlink_to("/dev/zero")
    return open_storage(LocalProfile(path=str(base)), None)


async def test_a_link_does_not_lead_out(storage: Storage, outside: Path) -> None:
    for location in ("link/victim", "linked-file", "zeros"):
        with pytest.raises(InvalidInput, match="link"):
            await storage.read(f"{storage.base}/{location}")
    with pytest.raises(InvalidInput, match="link"):
        await storage.write_new(f"{storage.base}/link/deeper/new", b"x")
    ((_, reason),) = await storage.delete([f"{storage.base}/link/victim"])
    assert "link" in reason
    assert os.listdir(outside) == ["victim"]  # noqa: PTH208 (a plain call is enough)


async def test_deleting_a_link_spares_what_it_names(storage: Storage, outside: Path) -> None:
    assert await storage.delete([f"{storage.base}/linked-file"]) == []
    assert (outside / "victim").read_bytes() == b"not yours"


async def test_walking_names_links_and_does_not_follow_them(storage: Storage, outside: Path) -> None:
    await storage.write_new(f"{storage.base}/t/a", b"x")
    folder = Path(storage.base.removeprefix("file://")) / "t"
    (folder / "link").symlink_to(outside)
    (folder / "loop").symlink_to(folder)
    found = sorted([location async for batch in storage.walk(f"{storage.base}/t") for location in batch])
    assert found == [f"{storage.base}/t/{name}" for name in ("a", "link", "loop")]
    assert await storage.delete(found) == []
    assert (outside / "victim").read_bytes() == b"not yours"
    assert not folder.exists()


@pytest.mark.parametrize("location", ["link", "link/deeper"])
async def test_walking_does_not_start_at_a_link(storage: Storage, location: str) -> None:
    with pytest.raises(InvalidInput, match="link"):
        await anext(storage.walk(f"{storage.base}/{location}"))


async def test_a_pipe_is_not_waited_for(storage: Storage) -> None:
    with pytest.raises(InvalidInput, match="regular"):
        await storage.read(f"{storage.base}/pipe")


async def test_a_warehouse_may_itself_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "alias").symlink_to(tmp_path / "real")
    storage = open_storage(LocalProfile(path=str(tmp_path / "alias")), None)
    await storage.write_new(f"{storage.base}/a/b", b"x")
    assert await storage.read(f"{storage.base}/a/b") == b"x"
