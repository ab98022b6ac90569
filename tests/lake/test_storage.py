from __future__ import annotations

import pickle
from pathlib import Path

import pyarrow as pa
import pytest

from frazil.client import VendedCredentials
from frazil.core.errors import InvalidInput, Outcome, StorageError, Unsupported
from frazil.core.partitioning import PartitionSpec
from frazil.core.schema import Field, Schema
from frazil.devstack.seaweed import ObjectStore
from frazil.lake.files import FileOptions, WriteTarget
from frazil.lake.storage import FileStorage
from frazil.lake.writer import TableWriter


def put(storage: FileStorage, path: str, data: bytes = b"rows") -> int:
    output = storage.open_output(path)
    output.sink.write(data)
    return output.close()


@pytest.mark.parametrize("root", ["file://{}", "file:{}", "{}"])
def test_local_paths_keep_their_spelling(tmp_path: Path, root: str) -> None:
    location = root.format(tmp_path)
    storage = FileStorage.of(location, None)
    path = f"{location}/p/000001/a%20b-000.parquet"
    assert put(storage, path) == 4
    assert (tmp_path / "p/000001/a%20b-000.parquet").read_bytes() == b"rows"
    assert storage.size(path) == 4
    assert list(storage.list(f"{location}/p/")) == [path]
    assert list(storage.list(f"{location}/p/0000")) == [path]
    assert list(storage.list(f"{location}/p/000002/")) == []
    assert list(storage.list(f"{location}/q/")) == []
    storage.delete([path, path])
    assert list(storage.list(f"{location}/p/")) == []
    with pytest.raises(StorageError, match="there is no such file"):
        storage.size(path)


def test_local_files_are_on_disk_before_they_are_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(
        "os.fsync", lambda descriptor: synced.append(Path(f"/proc/self/fd/{descriptor}").readlink())
    )
    storage = FileStorage.of(f"file://{tmp_path}", None)
    output = storage.open_output(f"file://{tmp_path}/a/b/c.parquet")
    assert synced == []
    output.close()
    # The file, and each folder that has a new name in it.
    assert synced == [tmp_path / "a/b/c.parquet", tmp_path / "a/b", tmp_path / "a", tmp_path]


def test_what_cannot_be_opened() -> None:
    with pytest.raises(Unsupported, match="no keys for s3://bucket/t: switch vending on"):
        FileStorage.of("s3://bucket/t", None)
    with pytest.raises(InvalidInput, match="no local path"):
        FileStorage.of("file://host", None).size("file://host")


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="write file://"):
        FileStorage.of(f"file://{tmp_path}", None).open_output(f"file://{tmp_path}/file/x.parquet")
    with pytest.raises(StorageError, match="1 of 2 files were not removed"):
        FileStorage.of(f"file://{tmp_path}", None).delete([f"file://{tmp_path}", f"file://{tmp_path}/none"])


def keys(store: ObjectStore, prefix: str, secret: str | None = None) -> VendedCredentials:
    config = {
        "s3.access-key-id": store.admin.access,
        "s3.secret-access-key": secret or store.admin.secret,
        "s3.endpoint": store.endpoint,
        "s3.region": store.region,
        "s3.path-style-access": "true",
    }
    return VendedCredentials(prefix, config)


@pytest.mark.parametrize("scheme", ["s3", "s3a"])
def test_s3(object_store: ObjectStore, scheme: str) -> None:
    location = f"{scheme}://{object_store.create_bucket('writer-storage')}/{scheme}-table/data"
    # As it comes to a task: by broadcast.
    credentials = pickle.loads(pickle.dumps(keys(object_store, location)))
    storage = FileStorage.of(location, credentials)
    paths = [f"{location}/p/000001/{number}-000.parquet" for number in range(12)]
    for path in paths:
        assert put(storage, path) == 4
    large = f"{location}/p/000002/large-000.parquet"
    assert put(storage, large, b"x" * 12_000_000) == storage.size(large) == 12_000_000
    assert sorted(storage.list(f"{location}/p/000001/")) == sorted(paths)
    assert sorted(storage.list(f"{location}/p/")) == sorted([*paths, large])
    assert list(storage.list(f"{location}/none/")) == []
    storage.delete([*paths, paths[0], f"{location}/never/was.parquet"])
    assert list(storage.list(f"{location}/p/")) == [large]
    with pytest.raises(StorageError, match="there is no such file"):
        storage.size(paths[0])


def test_s3_refuses(object_store: ObjectStore) -> None:
    location = f"s3://{object_store.create_bucket('writer-storage')}/refused"
    secret = "not-the-secret-of-this-store"
    storage = FileStorage.of(location, keys(object_store, location, secret))
    with pytest.raises(StorageError, match="the store refused it; the keys do not reach there") as caught:
        put(storage, f"{location}/x.parquet")
    assert caught.value.outcome is Outcome.RETRY
    assert caught.value.__cause__ is None
    shown = f"{caught.value} {storage!r}"
    assert secret not in shown


def test_a_table_on_s3(object_store: ObjectStore) -> None:
    location = f"s3a://{object_store.create_bucket('writer-storage')}/t1/data"
    schema = Schema((Field("id", "long"), Field("word", "string"))).with_fresh_ids()
    target = WriteTarget(location, schema, PartitionSpec(), FileOptions(size=30_000))
    storage = FileStorage.of(location, keys(object_store, location))
    writer = TableWriter(target, storage, f"{location}/p/000001/00000001-t-00000")
    for start in range(0, 20_000, 1000):
        ids = list(range(start, start + 1000))
        writer.write(pa.record_batch({"id": ids, "word": [f"word {n}" for n in ids]}))
    files = writer.close()
    assert len(files) > 1
    assert {file.path: file.size for file in files} == {
        path: storage.size(path) for path in storage.list(location + "/")
    }
    again = TableWriter(target, storage, f"{location}/p/000001/00000002-t-00000")
    again.write(pa.record_batch({"id": [1], "word": ["x"]}))
    again.close()
    again.abort()
    assert sorted(storage.list(f"{location}/")) == sorted(file.path for file in files)
