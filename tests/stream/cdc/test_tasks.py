"""The two stages of a round, without Spark: its exchange is done by hand."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.stream.cdc.changing import UNCHANGED, ChangingTable, Event

from frazil.core.partitioning import PartitionSpec
from frazil.core.schema import Field, Schema
from frazil.core.stamp import Mark
from frazil.lake.files import WriteTarget
from frazil.stream.cdc.result import LaneResult
from frazil.stream.cdc.spread import spread_by_key
from frazil.stream.cdc.tasks import fetched, folded
from frazil.stream.cdc.work import Job, LaneReport, LaneWork, Place
from frazil.stream.config.model import DebeziumFormat
from frazil.stream.source import RawBatch, Slice

TOPIC = "pg.inv.orders"
SCHEMA = Schema((Field("id", "long"), Field("word", "string"), Field("body", "string"))).with_fresh_ids()


@dataclass(frozen=True)
class Events:
    """A log by partition."""

    partitions: tuple[tuple[Event, ...], ...]

    def read(self, slices: Sequence[Slice]) -> Iterator[RawBatch]:
        for part in slices:
            for start in range(part.start, part.end, 7):
                yield self._batch(part, range(start, min(start + 7, part.end)))

    def _batch(self, part: Slice, offsets: range) -> RawBatch:
        events = [self.partitions[part.partition][offset] for offset in offsets]
        headers = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
        return RawBatch(
            part.topic,
            part.partition,
            pa.array([value for _, value, _ in events], pa.binary()),
            pa.array(list(offsets), pa.int64()),
            pa.array([0] * len(events), pa.int64()),
            keys=pa.array([key for key, _, _ in events], pa.binary()),
            headers=pa.array([[{"key": k, "value": v} for k, v in h.items()] for _, _, h in events], headers),
            slice_start=part.start,
        )

    @property
    def slices(self) -> list[Slice]:
        return [Slice(TOPIC, number, 0, len(events)) for number, events in enumerate(self.partitions)]


def run(place: Path, log: Events, **settings: Any) -> LaneResult:
    """One task for each partition, then one for each bucket."""
    target = WriteTarget(f"file://{place}", SCHEMA, PartitionSpec())
    rows = Place("shop.orders", target, f"file://{place}/round")
    work = LaneWork(
        TOPIC, "p", DebeziumFormat(), SCHEMA, ("id",), (), rows, spread=spread_by_key(SCHEMA, ["id"])
    )
    work = replace(work, **settings)
    job = cast("Any", SimpleNamespace(value=Job(log, {TOPIC: work}, {}, work.buckets)))
    handed: dict[int, list[Any]] = defaultdict(list)
    for number, part in enumerate(log.slices):
        for bucket, each in fetched(iter([(number, (part,))]), job):
            handed[bucket].append((bucket, each))
    reports: list[LaneReport] = []
    for several in handed.values():
        reports += folded(iter(several), job)
    return LaneResult.of(reports)


def written(result: LaneResult) -> list[dict[str, Any]]:
    found = [pq.read_table(file.path.removeprefix("file://")) for file in result.files["shop.orders"]]
    return sorted((row for table in found for row in table.to_pylist()), key=lambda row: row["id"])


def changing(count: int) -> ChangingTable:
    source = ChangingTable()
    for number in range(count):
        source.put(id=number % 20, word=f"w{number}", body="b")
    for number in range(5):
        source.delete(number)
    return source


@pytest.mark.parametrize("buckets", [1, 3])
def test_each_key_is_folded_once(tmp_path: Path, buckets: int) -> None:
    source = changing(60)
    result = run(tmp_path, Events((tuple(source.events),)), buckets=buckets)
    assert result.failure is None
    assert written(result) == [source.rows[key] for key in sorted(source.rows)]
    keys = [key for table in result.keys for key in table.column("id").to_pylist()]
    assert sorted(keys) == list(range(20))
    assert len(result.keys) == buckets
    assert (result.upserted, result.deleted) == (15, 5)
    assert result.marks[0] == Mark("lsn", (source.lsn - 10, source.lsn, 0), source.ts_ms)


def test_a_truncate_reaches_all_partitions_and_buckets(tmp_path: Path) -> None:
    """What another partition has from before it is void, and what comes later is not."""
    source = ChangingTable()
    source.put(id=1, word="void", body="b")
    source.put(id=2, word="void", body="b")
    before, source.events = source.events, []
    source.truncate()
    (truncate,), source.events = source.events, []
    source.put(id=2, word="new", body="b")
    after = source.events
    log = Events(((before[0], truncate), (before[1], *after)))
    result = run(tmp_path, log, buckets=2)
    assert result.truncated
    assert result.floor is not None
    assert written(result) == [{"id": 2, "word": "new", "body": "b"}]


def test_rows_with_a_new_key_are_folded_where_the_old_one_is(tmp_path: Path) -> None:
    source = ChangingTable()
    source.put(id=1, word="a", body="large")
    source.change_key((1,), id=2, word="a", body=UNCHANGED)
    log = Events((tuple(source.events),))
    assert run(tmp_path, log, buckets=2).alone
    result = run(tmp_path, log)
    assert not result.alone
    assert written(result) == [{"id": 2, "word": "a", "body": "large"}]


def test_half_of_a_new_key_is_left_for_the_next_round(tmp_path: Path) -> None:
    source = ChangingTable()
    source.put(id=1, word="a", body="b")
    source.change_key((1,), id=2, word="a", body="b")
    for end, cut in ((1, None), (2, (TOPIC, 0, 1)), (3, (TOPIC, 0, 1)), (4, None)):
        assert run(tmp_path, Events((tuple(source.events[:end]),))).cut == cut
    given_up = run(tmp_path, Events((tuple(source.events[:3]),)), halves=True)
    assert (given_up.cut, given_up.half) == (None, (TOPIC, 0, 1))
    assert written(given_up) == []
    assert [table.column("id").to_pylist() for table in given_up.keys] == [[1]]


def test_a_bad_record_stops_the_lane(tmp_path: Path) -> None:
    source = changing(6)
    log = Events(((*source.events, (b'{"id":1}', b"{", {})),))
    result = run(tmp_path, log)
    assert result.failure is not None
    assert result.failure.position == (TOPIC, 0, len(source.events))


def test_the_shape_of_records_without_a_table(tmp_path: Path) -> None:
    log = Events((tuple(changing(6).events),))
    found = run(tmp_path, log, schema=None, rows=None).shape
    assert found is not None
    assert [field.name for field in found.columns] == ["id", "word", "body"]
    assert found.key == ("id",)
