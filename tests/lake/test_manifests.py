"""Manifests read without an engine say what Iceberg says."""

from __future__ import annotations

import random
import uuid
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from tests.lake.test_upserts import Shape, rounds
from tests.lake.upserts import KeyedWorld

from frazil.client import Client
from frazil.core.schema import Field, Schema
from frazil.lake import manifests
from frazil.lake.catalog import Lake
from frazil.lake.manifest_avro import read_manifest
from frazil.lake.manifests import Manifests
from frazil.lake.scan import live_files
from frazil.lake.storage import FileStorage

VALUES: dict[str, tuple[str, list[Any]]] = {
    "b": ("boolean", [True, None]),
    "i": ("int", [-5, 7]),
    "f": ("double", [1.5, None]),
    "dec": ("decimal(9, 2)", [Decimal("-1.28"), Decimal("3.00")]),
    "big": ("decimal(30, 3)", [Decimal("-12345678901234567890.125"), None]),
    "d": ("date", [date(1969, 12, 30), date(2024, 2, 29)]),
    "ts": ("timestamp", [datetime(1960, 1, 1, 1, 2, 3, 4), None]),  # noqa: DTZ001 - it has no zone
    "tz": ("timestamptz", [datetime(2024, 1, 1, tzinfo=UTC), datetime(1969, 1, 1, tzinfo=UTC)]),
    "s": ("string", ["a/b=c é", None]),
    "u": ("uuid", [uuid.UUID(int=7).bytes, None]),
    "bin": ("binary", [b"\xff\x00", b""]),
}


def test_partitions_of_every_type(lake: Lake, client: Client) -> None:
    """Iceberg finds what is to be removed by the partition that it is told."""
    columns = [Field(name, kind) for name, (kind, _) in VALUES.items()]
    schema = Schema((Field("id", "long", required=True), *columns))
    world = KeyedWorld(
        lake,
        client,
        schema=schema,
        partitioning=[*VALUES, "day(ts)", "month(d)", "hour(tz)", "truncate(3, s)", "bucket(3, id)"],
    )
    for start in (0, 3, 6):
        rows = [
            {"id": number} | {name: values[number % 2] for name, (_, values) in VALUES.items()}
            for number in range(start, start + 12)
        ]
        world.upsert(rows)
    assert world.rounds[-1].matched == 9
    found = lake.spark.table(world.name).select("id", "i", "s").collect()
    assert sorted(row.id for row in found) == list(range(18))
    assert {(row.i, row.s) for row in found} == {(-5, "a/b=c é"), (7, None)}
    world.check_vectors()


def test_files_are_those_of_iceberg(lake: Lake, client: Client) -> None:
    """After changes by us and by Spark, and after its manifests were written anew."""
    shape, rng = Shape(partitioning=("bucket(3, id)",)), random.Random(2)
    world = KeyedWorld(lake, client, schema=shape.schema, partitioning=shape.partitioning)
    rounds(world, shape, rng, 4)
    world.sql("ALTER TABLE {t} SET TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')")
    world.sql("DELETE FROM {t} WHERE id % 5 = 1")
    world.sql(f"CALL frazil.system.rewrite_manifests('{world.name[len('frazil.') :]}')")
    now, live = world.live()
    assert now.head is not None
    targets = [live.target(file) for file in live.data]
    mine = {
        (each.file.path, each.file.records, each.vector.records if each.vector else 0) for each in targets
    }
    assert mine == {(file.path, file.records, file.deleted) for file in live_files(now, now.head)}


def test_a_manifest_is_read_once(lake: Lake, client: Client, monkeypatch: Any) -> None:
    world = KeyedWorld(lake, client)
    read: list[str] = []
    real = read_manifest

    def spy(storage: FileStorage, path: str) -> bytes:
        read.append(path)
        return real(storage, path)

    monkeypatch.setattr(manifests, "read_manifest", spy)
    world.upsert([{"id": number, "word": "a"} for number in range(9)])
    world.upsert([{"id": 1, "word": "b"}])
    world.upsert([{"id": 2, "word": "c"}])
    before = set(read)
    assert len(before) == len(read) > 4
    read.clear()
    world.upsert([{"id": 3, "word": "d"}])
    assert read
    assert before.isdisjoint(read)


def test_what_is_kept_is_bounded(lake: Lake, client: Client) -> None:
    world = KeyedWorld(lake, client)
    for number in range(4):
        world.upsert([{"id": number, "word": "a"}])
    now = lake.load(world.table.namespace, world.table.name)
    path = str(now.metadata.currentSnapshot().manifestListLocation())
    small = Manifests({1}, most=2)
    storage = FileStorage.of(now.location, None)
    assert [file.records for file in small.live(storage, path)] == [1, 1, 1, 1]
    assert len(small._kept) == 2
    assert len(small.live(storage, path)) == 4
