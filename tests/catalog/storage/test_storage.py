"""Reading, writing and deleting, on local disk and in every cloud."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from tests.catalog.storage.conftest import s3_storage

from frazil.catalog.storage import LocalProfile, S3AccessKey, S3Profile, Status, Storage, open_storage, probe
from frazil.catalog.storage.probe import require_passed
from frazil.catalog.storage.s3 import open_s3
from frazil.core.errors import AlreadyExists, InvalidInput, NotFound, StorageError
from frazil.devstack.ports import free_port
from frazil.devstack.seaweed import ObjectStore


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


async def test_write_read_delete(storage: Storage) -> None:
    location = f"{storage.base}/t/metadata/00000-a.metadata.json"
    with pytest.raises(NotFound):
        await storage.read(location)
    await storage.write_new(location, b"{}")
    assert await storage.read(location) == b"{}"
    assert await storage.delete([location, f"{storage.base}/t/never-was"]) == []
    with pytest.raises(NotFound):
        await storage.read(location)
    assert await storage.delete([location]) == []


async def test_an_existing_file_is_not_overwritten(storage: Storage) -> None:
    location = f"{storage.base}/t/a"
    await storage.write_new(location, b"first")
    with pytest.raises(AlreadyExists):
        await storage.write_new(location, b"second")
    assert await storage.read(location) == b"first"


async def test_of_rivals_exactly_one_wins(storage: Storage) -> None:
    location = f"{storage.base}/new/folder/a"
    outcomes = await asyncio.gather(
        *(storage.write_new(location, b"%d" % n) for n in range(12)), return_exceptions=True
    )
    winners = [n for n, outcome in enumerate(outcomes) if outcome is None]
    assert len(winners) == 1
    assert all(isinstance(o, AlreadyExists) for o in outcomes if o is not None)
    assert await storage.read(location) == b"%d" % winners[0]


@pytest.mark.parametrize("name", ["ts=2020%3A01", "a b", "é#?*[]", "x~2F", "q'\"&<>", "..x", "%2e%2e"])
async def test_names_are_literal(storage: Storage, name: str) -> None:
    location = f"{storage.base}/t/{name}/f"
    await storage.write_new(location, name.encode())
    assert await storage.read(location) == name.encode()
    assert await storage.delete([location]) == []
    with pytest.raises(NotFound):
        await storage.read(location)


async def test_empty_and_large_files(storage: Storage) -> None:
    for size in (0, 1, 7 * 1024 * 1024):
        location = f"{storage.base}/size/{size}"
        await storage.write_new(location, bytes(size))
        assert len(await storage.read(location)) == size
    with pytest.raises(InvalidInput, match="over the limit"):
        await storage.read(f"{storage.base}/size/1", limit=0)


async def test_nothing_outside_the_base_is_touched(storage: Storage) -> None:
    outside = [
        f"{storage.base}",
        f"{storage.base}/../x",
        f"{storage.base}x/y",
        "file:///etc/passwd",
        "s3://other/x",
    ]
    for location in outside:
        with pytest.raises(InvalidInput):
            await storage.read(location)
        with pytest.raises(InvalidInput):
            await storage.write_new(location, b"")
    failed = await storage.delete(outside)
    assert [location for location, _ in failed] == outside


async def test_deleting_more_than_one_request_holds(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 1100
    if not storage.base.startswith(("s3:", "file:")):
        # The emulators are slow, and it is S3 that has a limit.
        count = 55
        monkeypatch.setattr("frazil.catalog.storage.objects._BULK", 50)
    locations = [f"{storage.base}/many/{n}" for n in range(count)]
    await asyncio.gather(*(storage.write_new(location, b"x") for location in locations[:: count // 11]))
    assert await storage.delete(locations) == []
    for location in locations[:: count // 11]:
        with pytest.raises(NotFound):
            await storage.read(location)


async def walked(storage: Storage, location: str) -> list[str]:
    return sorted([found async for batch in storage.walk(location) for found in batch])


async def test_walking_finds_everything_below_and_nothing_beside(storage: Storage) -> None:
    below = [f"{storage.base}/t1/{name}" for name in ("a", "data/p=1%2F2/b b", "data/é#?/c", "t1/d")]
    beside = [f"{storage.base}/{name}" for name in ("t10/a", "t", "t1.bak/a", "other/t1/a")]
    await asyncio.gather(*(storage.write_new(location, b"x") for location in below + beside))
    assert await walked(storage, f"{storage.base}/t1") == sorted(below)
    assert await walked(storage, f"{storage.base}/t1/data") == sorted(below[1:3])
    assert await walked(storage, f"{storage.base}/never-was") == []
    for outside in (storage.base, f"{storage.base}x", f"{storage.base}/../x"):
        with pytest.raises(InvalidInput):
            await walked(storage, outside)


async def test_what_is_walked_can_be_deleted_on_the_way(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("local", "objects"):
        monkeypatch.setattr(f"frazil.catalog.storage.{module}.WALK_BATCH", 50)
    locations = [f"{storage.base}/t/{n % 7}/{n}" for n in range(120)]
    await asyncio.gather(*(storage.write_new(location, b"") for location in locations))
    sizes = []
    async for batch in storage.walk(f"{storage.base}/t"):
        sizes.append(len(batch))
        assert await storage.delete(batch) == []
    assert sum(sizes) == len(locations)
    assert max(sizes) <= 50
    assert await walked(storage, f"{storage.base}/t") == []


async def test_the_probe_passes_and_leaves_nothing(storage: Storage) -> None:
    checks = await probe(storage)
    assert [(c.name, c.status) for c in checks] == [(n, Status.PASSED) for n in ("write", "read", "delete")]
    assert all(c.duration_ms is not None for c in checks)
    require_passed(checks)


async def test_local_spellings_are_one_place(local: Storage) -> None:
    path = local.base.removeprefix("file://")
    await local.write_new(f"file:{path}/t/a", b"x")
    assert await local.read(f"{path}/t/a") == b"x"
    assert local.client_config() == {}


async def test_local_empty_folders_go_and_the_base_stays(local: Storage) -> None:
    root = Path(local.base.removeprefix("file://"))
    await local.write_new(f"{local.base}/t/data/a", b"")
    await local.write_new(f"{local.base}/t/b", b"")
    await local.delete([f"{local.base}/t/data/a"])
    assert names(root / "t") == ["b"]
    await local.delete([f"{local.base}/t/b"])
    assert names(root) == []


async def test_local_writes_and_deletes_in_one_folder_do_not_disturb_each_other(local: Storage) -> None:
    async def come_and_go(n: int) -> None:
        for turn in range(40):
            location = f"{local.base}/shared/deep/{n}-{turn}"
            await local.write_new(location, b"x")
            assert await local.delete([location]) == []

    await asyncio.gather(*(come_and_go(n) for n in range(8)))


async def test_a_local_directory_that_vanishes_while_it_is_made_is_made_again(
    local: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, left = os.mkdir, [20]

    def vanish(path: str, mode: int = 0o777) -> None:
        make(path, mode)
        if path.endswith("/deep") and left[0]:
            left[0] -= 1
            os.removedirs(path)

    monkeypatch.setattr("frazil.catalog.storage.local.os.mkdir", vanish)
    location = f"{local.base}/shared/deep/file"
    await local.write_new(location, b"x")
    assert left == [0]
    assert await local.read(location) == b"x"


async def test_local_failures_say_which_step_and_why(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    storage = open_storage(LocalProfile(path=str(tmp_path / "file" / "wh")))
    checks = await probe(storage)
    assert [c.status for c in checks] == [Status.FAILED, Status.SKIPPED, Status.SKIPPED]
    with pytest.raises(InvalidInput, match=r"the write step failed: .*Not a directory"):
        require_passed(checks)
    failed = await open_storage(LocalProfile(path=str(tmp_path))).delete([f"file://{tmp_path}/file/x"])
    assert failed == []


async def test_local_name_too_long_is_bad_input(local: Storage) -> None:
    with pytest.raises(InvalidInput, match="too long"):
        await local.write_new(f"{local.base}/{'x' * 300}", b"")


async def test_a_failed_local_write_leaves_no_file(local: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr("frazil.catalog.storage.local.os.fsync", full)
    root = Path(local.base.removeprefix("file://"))
    os.mkdir(root)  # noqa: PTH102
    with pytest.raises(StorageError, match="No space left"):
        await local.write_new(f"{local.base}/a", b"x")
    assert names(root) == []


async def test_s3_client_config_has_no_key(object_store: ObjectStore, s3: Storage) -> None:
    config = s3.client_config()
    assert config == {
        "s3.endpoint": object_store.endpoint,
        "s3.region": "us-east-1",
        "client.region": "us-east-1",
        "region": "us-east-1",
        "s3.path-style-access": "true",
    }


async def test_s3_wrong_secret_is_named_without_the_key(object_store: ObjectStore) -> None:
    storage = s3_storage(object_store, "storage-tests", "wh", secret="wrong-secret-value")
    checks = await probe(storage)
    assert checks[0].status is Status.FAILED
    assert "SignatureDoesNotMatch" in (checks[0].error or "")
    location = f"{storage.base}/x"
    for work in (storage.read(location), storage.write_new(location, b"")):
        with pytest.raises(StorageError, match="SignatureDoesNotMatch") as caught:
            await work
        assert "wrong-secret-value" not in caught.value.message
        assert location in caught.value.message
    failed = await storage.delete([location])
    assert failed[0][1].startswith("SignatureDoesNotMatch")


async def test_s3_unknown_key_and_missing_bucket(object_store: ObjectStore) -> None:
    profile = S3Profile(bucket="abc", region="x", endpoint=object_store.endpoint, path_style_access=True)
    nobody = open_storage(
        profile, S3AccessKey(access_key_id="NOBODYATALL", secret_access_key="s3cr3t-s3cr3t")
    )
    with pytest.raises(StorageError, match="InvalidAccessKeyId") as caught:
        await nobody.write_new("s3://abc/x", b"")
    assert "s3cr3t" not in caught.value.message
    assert "NOBODYATALL" not in caught.value.message
    missing = s3_storage(object_store, "no-such-bucket-here", "wh")
    checks = await probe(missing)
    assert "failed" in [c.status for c in checks]
    with pytest.raises(InvalidInput, match="step failed"):
        require_passed(checks)


async def test_s3_unreachable_store_is_a_storage_error() -> None:
    endpoint = f"http://127.0.0.1:{free_port()}"
    profile = S3Profile(bucket="abc", region="x", endpoint=endpoint, path_style_access=True)
    storage = open_storage(profile, S3AccessKey(access_key_id="a", secret_access_key="b"))
    with pytest.raises(StorageError, match=f"write s3://abc/x: no answer from {endpoint}; is the endpoint"):
        await storage.write_new("s3://abc/x", b"")
    failed = await storage.delete([f"s3://abc/{n}" for n in range(50)])
    assert len(failed) == 50


@pytest.mark.parametrize(
    ("region", "host"),
    [("eu-west-1", "s3.eu-west-1.amazonaws.com"), ("cn-north-1", "s3.cn-north-1.amazonaws.com.cn")],
)
def test_s3_of_every_partition_of_aws_is_found(region: str, host: str) -> None:
    keys = S3AccessKey(access_key_id="a", secret_access_key="b")
    opened = open_s3(S3Profile(bucket="abc", region=region), keys)
    assert dict(opened.store.config)["endpoint"] == f"https://abc.{host}"


async def test_s3_ignores_the_servers_own_aws_environment(
    object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.setenv(name, "the-servers-own")
    monkeypatch.setenv("AWS_SKIP_SIGNATURE", "true")
    storage = s3_storage(object_store, object_store.create_bucket("storage-tests"), "env")
    require_passed(await probe(storage))


async def test_s3_a_put_that_was_sent_twice_is_not_a_conflict(s3: Storage) -> None:
    location = f"{s3.base}/twice"
    await s3.write_new(location, b"same")
    await s3.write_new(location, b"same")
    with pytest.raises(AlreadyExists):
        await s3.write_new(location, b"other")
