"""Exactly the reachable files, and a purge that can be killed anywhere."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table
from pyiceberg.table.statistics import StatisticsFile
from tests.catalog.storage.iceberg_files import manifest, manifest_list

from frazil.catalog.storage import (
    READ_LIMIT,
    Batch,
    LocalProfile,
    Phase,
    Storage,
    open_storage,
    purge_files,
    reachable_files,
)
from frazil.core.errors import NotFound, StorageError


def on_disk(root: Path) -> set[str]:
    return {f"file://{path}" for path in root.rglob("*") if path.is_file()}


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "p": pa.array([f"p/{i % 2}:x" for i in ids])})


async def collect(storage: Storage, metadata: dict[str, Any], location: str | None = None) -> list[Batch]:
    return [batch async for batch in reachable_files(storage, metadata, location)]


def locations(batches: Sequence[Batch]) -> list[str]:
    return [location for batch in batches for location in batch.locations]


@pytest.fixture
def written(tmp_path: Path) -> tuple[Table, Storage]:
    """A partitioned table with appends, copy-on-write deletes, an overwrite and statistics."""
    warehouse = tmp_path / "wh"
    catalog = SqlCatalog("c", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{warehouse}")
    catalog.create_namespace("ns")
    table = catalog.create_table("ns.t", rows(1).schema, properties={"format-version": "2"})
    with table.update_spec() as spec:
        spec.add_identity("p")
    for ids in ((1, 2), (3, 4, 5), (6,)):
        table.append(rows(*ids))
    table.delete("id == 3")
    table.overwrite(rows(7, 8), overwrite_filter="id == 1")
    table.delete("p == 'p/0:x'")
    snapshot = table.current_snapshot()
    assert snapshot is not None
    stats = f"{table.location()}/metadata/stats.puffin"
    Path(stats.removeprefix("file://")).write_bytes(b"PFA1")
    file = StatisticsFile.model_validate(
        {
            "snapshot-id": snapshot.snapshot_id,
            "statistics-path": stats,
            "file-size-in-bytes": 4,
            "file-footer-size-in-bytes": 4,
            "blob-metadata": [],
        }
    )
    with table.update_statistics() as update:
        update.set_statistics(file)
    catalog.engine.dispose()
    return table, open_storage(LocalProfile(path=str(warehouse)))


def document(table: Table) -> dict[str, Any]:
    text = Path(table.metadata_location.removeprefix("file://")).read_text()
    parsed: dict[str, Any] = json.loads(text)
    return parsed


async def test_every_file_of_a_real_table_and_no_other(
    written: tuple[Table, Storage], tmp_path: Path
) -> None:
    table, storage = written
    stranger = tmp_path / "wh" / "ns" / "t" / "data" / "not-ours.parquet"
    before = on_disk(tmp_path / "wh")
    stranger.write_text("")
    batches = await collect(storage, document(table), table.metadata_location)
    found = locations(batches)
    assert set(found) == before
    assert len(found) == len(before)
    assert [b.phase for b in batches] == sorted(b.phase for b in batches)
    assert found[-1] == table.metadata_location
    assert not any(b.skipped for b in batches)


async def test_the_answer_is_pyicebergs(written: tuple[Table, Storage]) -> None:
    table, storage = written
    batches = await collect(storage, document(table))
    files = {location for b in batches if b.phase is Phase.FILES for location in b.locations}
    lists = {location for b in batches if b.phase is Phase.MANIFEST_LISTS for location in b.locations}
    manifests = {location for b in batches if b.phase is Phase.MANIFESTS for location in b.locations}
    assert files == set(table.inspect.all_files()["file_path"].to_pylist())
    assert manifests == set(table.inspect.all_manifests()["path"].to_pylist())
    assert lists == {snapshot.manifest_list for snapshot in table.snapshots()}


async def test_expired_snapshots_do_not_count(written: tuple[Table, Storage]) -> None:
    table, storage = written
    metadata = document(table)
    metadata["snapshots"] = [
        s for s in metadata["snapshots"] if s["snapshot-id"] == metadata["current-snapshot-id"]
    ]
    files = {x for b in await collect(storage, metadata) if b.phase is Phase.FILES for x in b.locations}
    assert files == set(table.inspect.files()["file_path"].to_pylist())


async def test_purge_leaves_only_strangers(written: tuple[Table, Storage], tmp_path: Path) -> None:
    table, storage = written
    stranger = tmp_path / "wh" / "ns" / "t" / "data" / "not-ours.parquet"
    stranger.write_text("")
    count = len(on_disk(tmp_path / "wh")) - 1
    report = await purge_files(storage, document(table), table.metadata_location)
    assert report.complete
    assert (report.deleted, report.skipped) == (count, 0)
    assert on_disk(tmp_path / "wh") == {f"file://{stranger}"}


class Killed(Exception):
    pass


class Dying:
    """A storage whose process dies after so many deleted files, in the middle of a batch."""

    def __init__(self, inner: Storage, deletes: int) -> None:
        self._inner = inner
        self._left = deletes

    @property
    def base(self) -> str:
        return self._inner.base

    async def read(self, location: str, *, limit: int = READ_LIMIT) -> bytes:
        return await self._inner.read(location, limit=limit)

    async def write_new(self, location: str, data: bytes) -> None:
        await self._inner.write_new(location, data)

    async def delete(self, locations: Sequence[str]) -> list[tuple[str, str]]:
        # From the back, so that a batch's order is not what makes it work.
        for location in reversed(locations):
            if self._left == 0:
                raise Killed
            self._left -= 1
            await self._inner.delete([location])
        return []

    def walk(self, location: str) -> AsyncIterator[list[str]]:
        return self._inner.walk(location)

    def is_missing(self, location: str) -> bool:
        return self._inner.is_missing(location)

    def client_config(self) -> dict[str, str]:
        return {}

    async def close(self) -> None:
        pass


async def test_a_purge_killed_anywhere_is_finished_by_starting_over(
    written: tuple[Table, Storage], tmp_path: Path
) -> None:
    table, storage = written
    metadata, location = document(table), table.metadata_location
    contents = {path: path.read_bytes() for path in (tmp_path / "wh").rglob("*") if path.is_file()}
    for step in range(len(contents) + 1):
        for path, content in contents.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        try:
            await purge_files(Dying(storage, step), metadata, location)
        except Killed:
            assert step < len(contents)
        report = await purge_files(storage, metadata, location)
        assert report.complete, step
        assert on_disk(tmp_path / "wh") == set(), step


class Refusing(Dying):
    """A storage that will not delete data files for now."""

    async def delete(self, locations: Sequence[str]) -> list[tuple[str, str]]:
        refused = [location for location in locations if location.endswith("b.parquet")]
        await self._inner.delete([location for location in locations if location not in refused])
        return [(location, "AccessDenied") for location in refused]


async def put_table(storage: Storage, files: dict[str, bytes]) -> None:
    for name, data in files.items():
        await storage.write_new(f"{storage.base}/{name}", data)


async def test_nothing_that_leads_to_a_file_goes_before_the_file(storage: Storage) -> None:
    base = storage.base
    files = {
        "t/a.parquet": b"",
        "t/b.parquet": b"",
        "t/m.avro": manifest([(1, f"{base}/t/a.parquet"), (1, f"{base}/t/b.parquet")]),
        "t/l.avro": manifest_list([f"{base}/t/m.avro"]),
    }
    await put_table(storage, files)
    metadata = {"snapshots": [{"manifest-list": f"{base}/t/l.avro"}]}
    report = await purge_files(Refusing(storage, 0), metadata)
    assert not report.complete
    assert report.failures == [(f"{base}/t/b.parquet", "AccessDenied")]
    assert await storage.read(f"{base}/t/m.avro") == files["t/m.avro"]
    assert (await purge_files(storage, metadata)).complete
    for name in files:
        with pytest.raises(NotFound):
            await storage.read(f"{base}/{name}")


@pytest.mark.parametrize("codec", ["null", "deflate", "snappy", "zstandard"])
async def test_codecs_statuses_and_contents(local: Storage, codec: str) -> None:
    base = local.base
    data = manifest([(0, f"{base}/t/existing"), (1, f"{base}/t/added"), (2, f"{base}/t/deleted")], codec)
    deletes = manifest([(1, f"{base}/t/dv.puffin"), (1, f"{base}/t/dv.puffin")], codec, content=1)
    await put_table(
        local,
        {"m1": data, "m2": deletes, "l": manifest_list([f"{base}/m1", f"{base}/m2"], codec)},
    )
    batches = await collect(local, {"snapshots": [{"manifest-list": f"{base}/l"}]})
    files = [x for b in batches if b.phase is Phase.FILES for x in b.locations]
    assert files == [f"{base}/t/existing", f"{base}/t/added", f"{base}/t/dv.puffin"]


async def test_version_one_inline_manifests(local: Storage) -> None:
    base = local.base
    await put_table(local, {"m1": manifest([(1, f"{base}/a")]), "m2": manifest([(1, f"{base}/b")])})
    snapshots = [{"manifests": [f"{base}/m1"]}, {"manifests": [f"{base}/m1", f"{base}/m2"]}]
    found = locations(await collect(local, {"snapshots": snapshots}))
    assert found == [f"{base}/{name}" for name in ("a", "b", "m1", "m2")]


async def test_statistics_and_logs(local: Storage) -> None:
    base = local.base
    metadata = {
        "statistics": [{"statistics-path": f"{base}/s"}],
        "partition-statistics": [{"statistics-path": f"{base}/p"}],
        "metadata-log": [{"metadata-file": f"{base}/0.json"}, {"metadata-file": f"{base}/1.json"}],
    }
    found = locations(await collect(local, metadata, f"{base}/2.json"))
    assert found == [f"{base}/{name}" for name in ("s", "p", "0.json", "1.json", "2.json")]


async def test_other_peoples_files_are_listed_and_left(local: Storage, tmp_path: Path) -> None:
    base = local.base
    victim = tmp_path / "victim"
    victim.write_text("precious")
    entries = [(1, f"{base}/ok"), (1, f"file://{victim}"), (1, f"{base}/../victim"), (1, "s3://other/x")]
    foreign = tmp_path / "foreign.avro"
    foreign.write_bytes(manifest([(1, f"{base}/imported")]))
    lists = manifest_list([f"{base}/m", f"file://{foreign}"])
    await put_table(local, {"ok": b"", "m": manifest(entries), "l": lists})
    metadata = {
        "snapshots": [{"manifest-list": f"{base}/l"}],
        "metadata-log": [{"metadata-file": f"file://{victim}"}, {"metadata-file": "/etc/passwd"}],
    }
    report = await purge_files(local, metadata)
    assert report.complete
    assert victim.read_text() == "precious"
    assert foreign.exists()
    assert {s.location for s in report.skips} == {
        f"file://{victim}",
        f"{base}/../victim",
        "s3://other/x",
        f"file://{foreign}",
        "/etc/passwd",
    }
    assert report.deleted == 3


async def test_missing_manifests_are_reported_and_do_not_stop_it(local: Storage) -> None:
    base = local.base
    await put_table(
        local, {"m2": manifest([(1, f"{base}/b")]), "l": manifest_list([f"{base}/m1", f"{base}/m2"])}
    )
    metadata = {"snapshots": [{"manifest-list": f"{base}/l"}, {"manifest-list": f"{base}/gone"}]}
    batches = await collect(local, metadata)
    assert {s.location for b in batches for s in b.skipped} == {f"{base}/m1", f"{base}/gone"}
    assert f"{base}/b" in locations(batches)


@pytest.mark.parametrize("damage", [b"", b"not avro", manifest([(1, "x")])[:-20], manifest_list(["x"])])
async def test_a_damaged_manifest_is_kept_as_evidence(local: Storage, damage: bytes) -> None:
    base = local.base
    good = manifest([(1, f"{base}/b")])
    await put_table(local, {"bad": damage, "good": good, "l": manifest_list([f"{base}/bad", f"{base}/good"])})
    batches = await collect(local, {"snapshots": [{"manifest-list": f"{base}/l"}]})
    assert f"{base}/bad" not in locations(batches)
    assert f"{base}/b" in locations(batches)
    assert [s.location for b in batches for s in b.skipped if s.location == f"{base}/bad"]


async def test_batches_are_bounded_and_each_manifest_is_read_once(local: Storage) -> None:
    base = local.base
    reads: list[str] = []

    class Counting(Dying):
        async def read(self, location: str, *, limit: int = READ_LIMIT) -> bytes:
            reads.append(location)
            return await self._inner.read(location, limit=limit)

    entries = [(1, f"{base}/data/{n}") for n in range(2500)]
    files = {"m": manifest(entries)}
    snapshots = []
    for n in range(20):
        files[f"l{n}"] = manifest_list([f"{base}/m"])
        snapshots.append({"manifest-list": f"{base}/l{n}"})
    await put_table(local, files)
    batches = await collect(Counting(local, 0), {"snapshots": snapshots})
    assert [len(b.locations) for b in batches] == [1000, 1000, 500, 1, 20]
    assert sorted(reads) == sorted(f"{base}/{name}" for name in files)


async def test_a_store_that_does_not_answer_stops_it_before_anything_later(local: Storage) -> None:
    base = local.base
    entries = [(1, f"{base}/a")]
    await put_table(local, {"m": manifest(entries), "l": manifest_list([f"{base}/m", f"{base}/m2"])})

    class Broken(Dying):
        async def read(self, location: str, *, limit: int = READ_LIMIT) -> bytes:
            if location.endswith("m2"):
                raise StorageError("no answer")
            return await self._inner.read(location, limit=limit)

    with pytest.raises(StorageError):
        await purge_files(Broken(local, 10), {"snapshots": [{"manifest-list": f"{base}/l"}]})
    assert await local.read(f"{base}/m")
    assert await local.read(f"{base}/l")
