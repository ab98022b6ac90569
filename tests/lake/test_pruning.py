"""Files that cannot hold a key are not read; those that can are, by as many tasks as are of use."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.lake.test_upserts import Shape, rounds
from tests.lake.upserts import KeyedWorld

from frazil.client import Client
from frazil.core.errors import Unsupported
from frazil.core.partitioning import PartitionField, PartitionSpec
from frazil.core.schema import Field, Schema
from frazil.lake import keyed, lookup
from frazil.lake.catalog import Lake
from frazil.lake.data_rows import open_rows
from frazil.lake.files import WriteTarget
from frazil.lake.keyed import KeyedRound, KeyedTable, Round, plan_lookup
from frazil.lake.live import LiveFiles
from frazil.lake.lookup import Found, Lookup, LookupTask, look_up
from frazil.lake.manifests import DATA, EQUALITY, POSITIONS, ContentFile
from frazil.lake.pruning import KeyRanges
from frazil.lake.storage import FileStorage

KEY = Schema((Field("id", "long", id=1),))
BUCKETS = PartitionSpec((PartitionField("id", "bucket[4]", "b", 1, 1000),), 7)


def long(value: int) -> bytes:
    return value.to_bytes(8, "little", signed=True)


def data(name: str, low: int | None = None, high: int | None = None, **more: Any) -> ContentFile:
    bounds = {} if low is None else {1: long(low)}, {} if high is None else {1: long(high)}
    given: dict[str, Any] = {
        "spec_id": 0,
        "partition": {},
        "sequence": 3,
        "records": 10,
        "nulls": {1: 0},
    } | more
    return ContentFile(name, "parquet", DATA, size=1, lower=bounds[0], upper=bounds[1], **given)


def asked(keys: Sequence[int | None], schema: Schema = KEY) -> Lookup:
    table = pa.table({"id": pa.array(keys, pa.int64())})
    return Lookup(schema, table, 3, "/x", WriteTarget("/x", schema, PartitionSpec()))


def met(
    files: Sequence[ContentFile], keys: Sequence[int | None], spec: PartitionSpec | None = None
) -> set[str]:
    specs = {0: PartitionSpec()} if spec is None else {spec.id: spec}
    tasks = plan_lookup(LiveFiles(files, specs), asked(keys), specs, 1)
    return {target.file.path for task in tasks for target in task.targets}


def test_bounds() -> None:
    files = [data("a", 0, 9), data("b", 10, 19), data("c", -5, -1), data("d"), data("e", low=15)]
    assert met(files, [9]) == {"a", "d"}
    assert met(files, [10, -5]) == {"b", "c", "d"}
    assert met(files, [19, 100]) == {"b", "d", "e"}
    assert met(files, [None]) == set()
    assert met([data("n", 0, 9, nulls={1: 2}), data("u", 0, 9, nulls={})], [None, 50]) == {"n", "u"}


def test_partitions() -> None:
    files = [data(f"b{n}", spec_id=7, partition={1000: n}) for n in range(4)]
    assert met(files, [34], BUCKETS) == {"b3"}
    assert len(met(files, list(range(100)), BUCKETS)) == 4
    null = data("null", spec_id=7, partition={1000: None}, nulls={1: 10})
    assert met([*files, null], [None], BUCKETS) == {"null"}
    # Laid out by a rule that nobody here knows, and by an older one.
    strange = PartitionSpec((PartitionField("id", "zorder", "z", 1, 1000),), 7)
    assert len(met(files, [34], strange)) == 4


def test_what_reaches_a_data_file() -> None:
    """Positions reach files of the same commit and older ones, values only older ones, in their place."""
    base: dict[str, Any] = {"records": 1, "size": 1, "spec_id": 7, "partition": {1000: 1}}
    deletes = [
        ContentFile("own", "parquet", POSITIONS, sequence=3, references="a", **base),
        ContentFile("too old", "parquet", POSITIONS, sequence=2, references="a", **base),
        ContentFile("shared", "parquet", POSITIONS, sequence=3, **base),
        ContentFile("shared, elsewhere", "parquet", POSITIONS, sequence=3, **base | {"partition": {1000: 2}}),
        ContentFile("values", "parquet", EQUALITY, sequence=4, **base),
        ContentFile("values of the same commit", "parquet", EQUALITY, sequence=3, **base),
        ContentFile(
            "values everywhere", "parquet", EQUALITY, sequence=4, **base | {"spec_id": 0, "partition": {}}
        ),
        ContentFile("vector", "puffin", POSITIONS, sequence=3, references="b", **base),
    ]
    a, b = (data(name, spec_id=7, partition={1000: 1}) for name in "ab")
    live = LiveFiles([a, b, *deletes], {7: BUCKETS, 0: PartitionSpec()})
    found = live.target(a)
    assert [file.path for file in found.own] == ["own"]
    assert [file.path for file in found.shared] == ["shared"]
    assert {file.path for file in found.equality} == {"values", "values everywhere"}
    assert found.vector is None
    assert live.target(b).vector is deletes[-1]
    with pytest.raises(Unsupported, match="b has two deletion vectors"):
        LiveFiles(
            [b, deletes[-1], ContentFile("2", "puffin", POSITIONS, sequence=5, references="b", **base)], {}
        )


def test_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyed, "_TASK_ROWS", 200)
    monkeypatch.setattr(keyed, "_FILE_ROWS", 0)
    specs = {0: PartitionSpec()}
    files = LiveFiles([data(str(n), 0, 9, records=100 + n) for n in range(10)], specs)
    tasks = plan_lookup(files, asked([1]), specs, 3)
    sums = [sum(target.file.records for target in task.targets) for task in tasks]
    assert len(tasks) == 3
    assert max(sums) - min(sums) < 150
    assert [task.number for task in tasks] == [0, 1, 2]
    assert len(plan_lookup(files, asked([1]), specs, 100)) == 5


def test_row_groups(tmp_path: Path) -> None:
    kinds = {
        "id": pa.array(np.arange(400)),
        "s": pa.array([f"{n:03d}" for n in range(400)]),
        "u": pa.array([bytes([n % 256]) * 16 for n in range(400)], pa.binary(16)),
    }
    fields = [
        pa.field(name, kinds[name].type, metadata={"PARQUET:field_id": str(at)})
        for at, name in enumerate(kinds, 1)
    ]
    path = f"{tmp_path}/f.parquet"
    pq.write_table(pa.table(kinds, pa.schema(fields)), path, row_group_size=100)

    def groups(name: str, kind: str, value: Any, at: int) -> list[int]:
        ranges = KeyRanges(Schema((Field(name, kind, id=at),)), pa.table({name: value}))
        with open_rows(FileStorage.of(str(tmp_path), None), path, "parquet") as rows:
            return [group.first for group in rows.groups() if ranges.meet_group(group)]

    assert groups("id", "long", [150, 399], 1) == [100, 300]
    assert groups("s", "string", ["099", "1000"], 2) == [0, 100]
    assert groups("u", "uuid", pa.array([bytes(16)]), 3) == [0, 100, 200, 300]
    assert groups("late", "long", [1], 9) == [0, 100, 200, 300]


def test_the_schema_of_a_file_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many groups it has: in wide tables that takes longer than all else that is asked of one."""
    fields = [pa.field(f"c{at}", pa.int64(), metadata={"PARQUET:field_id": str(at)}) for at in range(1, 4)]
    table = pa.Table.from_arrays([pa.array(np.arange(100))] * 3, schema=pa.schema(fields))
    path = f"{tmp_path}/f.parquet"
    pq.write_table(table, path, row_group_size=10)
    made: list[int] = []
    schema_arrow = pq.ParquetFile.schema_arrow

    def counted(file: pq.ParquetFile) -> pa.Schema:
        made.append(1)
        return schema_arrow.fget(file)

    monkeypatch.setattr(pq.ParquetFile, "schema_arrow", property(counted))
    with open_rows(FileStorage.of(str(tmp_path), None), path, "parquet") as rows:
        found = [group.bounds(at) for group in rows.groups() for at in range(1, 5)]
    assert [one is None for one in found] == [False, False, False, True] * 10
    assert len(made) == 1


@pytest.mark.parametrize("version", [2, 3])
def test_many_threads(version: int, lake: Lake, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the store is far away."""
    monkeypatch.setattr(lookup, "is_local", lambda _: False)
    shape, rng = Shape(partitioning=("bucket(4, id)",), version=version), random.Random(3)
    world = KeyedWorld(lake, client, schema=shape.schema, partitioning=shape.partitioning, version=version)
    rounds(world, shape, rng, 3)
    world.check()


def test_on_spark(lake: Lake, client: Client) -> None:
    """What tasks get and give can be sent."""
    world = KeyedWorld(lake, client, partitioning=("bucket(4, id)",))
    world.upsert([{"id": number, "word": "a"} for number in range(100)])
    ticket = world.writer.begin()
    context, location = lake.spark.sparkContext, world.writer.table.data_location

    def run(wanted: Lookup, tasks: Sequence[LookupTask]) -> list[Found]:
        shared = context.broadcast(wanted)
        work = context.parallelize(tasks, len(tasks))
        return work.map(lambda task: look_up(task, shared.value, FileStorage.of(location, None))).collect()

    keys = world.keys_table([(number,) for number in range(0, 100, 9)], ticket.schema)
    deltas = KeyedRound(KeyedTable(("id",)), Round(keys), ticket.prefix, run)
    world.writer.commit(
        ticket, {str(world.writer.table): deltas}, positions={}, read=0, written=0, watermark=None
    )
    world.model = {key: row for key, row in world.model.items() if key[0] % 9}
    world.check()
