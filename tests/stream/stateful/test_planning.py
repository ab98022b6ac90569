"""Batches as the data source plans them, and when a checkpoint and a table belong together."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from pyspark import cloudpickle

from frazil.core.errors import HistoryChanged
from frazil.core.stamp import Position, Stamp
from frazil.stream.config.model import Limits, SensorSource
from frazil.stream.sensors.feed import SensorFeed
from frazil.stream.source import Slice
from frazil.stream.stateful.checkpoint import Checkpoint, First, Offset, least, most, require_agreement
from frazil.stream.stateful.source import Planning, SliceReader, between, slice_source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SOURCE = SensorSource(sensors=2, rate=10.0, records=100)
BEGAN = datetime.now(UTC) - timedelta(hours=1)


def offset(*next_: int, **others: tuple[int, ...]) -> Offset:
    given = {"t": next_, **others}
    return Offset("kafka:c", {name: Position(id=f"id-{name}", next=part) for name, part in given.items()})


def stamp(positions: Offset, **more: Any) -> Stamp:
    fields: dict[str, Any] = {"pipeline": "clicks", "epoch": 1, "round": 0, "token": "x", **more}
    return Stamp(source=positions.source, positions=positions.positions, **fields)


def planning() -> Planning:
    feed = SensorFeed(SOURCE)
    source, _ = feed.first()
    begin = Offset(source, {"sensors": Position(id=BEGAN.isoformat(), next=(0,))})
    limits = Limits(records_per_round=40, records_per_task=15)
    return Planning(lambda: SensorFeed(SOURCE), begin, stamp(begin), limits, 2, freshness=0.0)


def ends(reader: SliceReader, count: int) -> list[int]:
    return [reader.latestOffset()["positions"]["sensors"]["next"][0] for _ in range(count)]


def test_batches_are_bounded_and_end_where_the_source_ends() -> None:
    reader = SliceReader(planning())
    assert reader.initialOffset()["positions"]["sensors"]["next"] == (0,)
    assert ends(reader, 4) == [40, 80, 100, 100]


def test_a_batch_is_not_begun_before_its_time() -> None:
    given = replace(planning(), limits=Limits(records_per_round=1000), freshness=3600.0)
    late = SliceReader(replace(given, feed=lambda: SensorFeed(replace(SOURCE, records=None))))
    first = ends(late, 1)[0]
    assert first > 0
    assert ends(late, 5) != [first] * 5, "what is left over is taken at once"
    caught_up = SliceReader(given)
    assert ends(caught_up, 1) == [100]
    assert caught_up._due > 0


def test_a_bounded_run_ends_at_its_goal() -> None:
    reader = SliceReader(replace(planning(), goal=lambda at, _: at.positions["sensors"].next[0] >= 80))
    assert ends(reader, 4) == [40, 80, 80, 80]


def test_a_batch_is_cut_into_tasks_that_can_be_read_again() -> None:
    reader = SliceReader(planning())
    start, end = offset(5, 0), offset(25, 10, new=(3,))
    for _ in range(2):
        tasks = [
            msgspec.json.decode(part.value, type=tuple[Slice, ...])
            for part in reader.partitions(start.encode(), end.encode())
        ]
        assert len(tasks) == 2
        assert sorted(part for task in tasks for part in task) == [
            Slice("new", 0, 0, 3),
            Slice("t", 0, 5, 18),
            Slice("t", 0, 18, 25),
            Slice("t", 1, 0, 10),
        ]
    assert reader.partitions(end.encode(), end.encode()) == []


def test_the_data_source_is_sent_as_it_is() -> None:
    source = slice_source("frazil-clicks", planning())
    sent: Any = cloudpickle.loads(cloudpickle.dumps(source))  # type: ignore[no-untyped-call]
    assert sent.name() == "frazil-clicks"
    assert ends(sent({}).streamReader(None), 1) == [40]


def test_the_same_place_is_the_same_text() -> None:
    one, other = offset(1, b=(2,), a=(3,)), offset(1, a=(3,), b=(2,))
    assert msgspec.json.encode(one.encode()) == msgspec.json.encode(other.encode())
    assert Offset.decode(msgspec.json.decode(msgspec.json.encode(one.encode()))) == other


def test_readers_that_are_apart() -> None:
    assert least([offset(4, 9), offset(6, 2), offset(5)]) == offset(4, 0)
    assert most([offset(4, 9), offset(6, 2), offset(5, b=(1,))]) == offset(6, 9, b=(1,))
    assert least([offset(7, 8)]) == most([offset(7, 8)]) == offset(7, 8)
    assert between(least([offset(4), offset(6)]), offset(6)) == [Slice("t", 0, 4, 6)]


class Folder:
    """A checkpoint as Structured Streaming writes it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def started(self, query: str) -> Folder:
        self.path.mkdir()
        (self.path / "metadata").write_text(f'{{"id":"{query}"}}')
        return self

    def planned(self, number: int, end: Offset, watermark: int = 0) -> Folder:
        text = f'v1\n{{"batchWatermarkMs":{watermark},"batchTimestampMs":1,"conf":{{}}}}\n'
        return self._put(f"offsets/{number}", text + msgspec.json.encode(end.encode()).decode())

    def ended(self, number: int) -> Folder:
        return self._put(f"commits/{number}", 'v1\n{"nextBatchWatermarkMs":0}')

    def _put(self, name: str, text: str) -> Folder:
        (self.path / name).parent.mkdir(exist_ok=True)
        (self.path / name).write_text(text)
        # Hadoop's checksum beside a file of its own.
        (self.path / name).with_name(f".{Path(name).name}.crc").write_bytes(b"")
        return self


def landed(batch: int, *next_: int, query: str = "q") -> Stamp:
    return stamp(offset(*next_), query=query, batch=batch)


def test_a_checkpoint_is_read_as_spark_writes_it(spark: SparkSession, tmp_path: Path) -> None:
    empty = Checkpoint(spark, str(tmp_path / "none"))
    assert (empty.query(), empty.newest(), empty.committed(), empty.first()) == (None, None, None, None)
    Folder(tmp_path / "c").started("q").planned(9, offset(3)).ended(9).planned(10, offset(5), 7000)
    found = Checkpoint(spark, str(tmp_path / "c"))
    found.begin(First("clicks", offset(1)))
    found.begin(First("clicks", offset(2)))
    assert (found.query(), found.newest(), found.committed()) == ("q", 10, 9)
    assert found.first() == First("clicks", offset(2))
    logged = found.batch(10)
    assert logged is not None
    assert (logged.ends, logged.watermark_ms) == ((offset(5),), 7000)
    assert found.batch(11) is None


def test_a_query_goes_on_only_with_the_checkpoint_of_its_table(spark: SparkSession, tmp_path: Path) -> None:
    one = Folder(tmp_path / "one").started("q").planned(0, offset(3)).ended(0).planned(1, offset(5))
    checkpoint = Checkpoint(spark, str(one.path))
    checkpoint.begin(First("clicks", offset(0)))
    # The batch landed and its end was not noted; or it did not land.
    require_agreement(checkpoint, landed(1, 5))
    require_agreement(checkpoint, landed(0, 3))
    wrong = {
        "another query": landed(1, 5, query="other"),
        "does not have the batch 2": landed(2, 9),
        "does not have the batch 1": landed(1, 6),
        "nothing of the query": stamp(offset(0)),
        "pipeline 'clicks'": stamp(offset(3), pipeline="others", query="q", batch=0),
    }
    for reason, given in wrong.items():
        with pytest.raises(HistoryChanged, match=reason):
            require_agreement(checkpoint, given)
    one.ended(1)
    with pytest.raises(HistoryChanged, match="rolled back"):
        require_agreement(checkpoint, landed(0, 3))
    (one.path / "frazil").unlink()
    with pytest.raises(HistoryChanged, match="not whole"):
        require_agreement(checkpoint, landed(1, 5))
    with pytest.raises(HistoryChanged, match="is not there"):
        require_agreement(Checkpoint(spark, str(tmp_path / "lost")), landed(1, 5))


def test_a_first_batch_that_never_landed_is_run_again(spark: SparkSession, tmp_path: Path) -> None:
    folder = Folder(tmp_path / "first").started("q").planned(0, offset(3))
    checkpoint = Checkpoint(spark, str(folder.path))
    checkpoint.begin(First("clicks", offset(0)))
    require_agreement(checkpoint, stamp(offset(0)))
    with pytest.raises(HistoryChanged, match="nothing of the query"):
        require_agreement(checkpoint, stamp(offset(1)))
