"""From files to a table through Spark and a catalog. PyIceberg counts, which shares nothing with us."""

from __future__ import annotations

import io
import itertools
import json
import os
import signal
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import fastavro
import obstore
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from obstore.store import S3Store
from pyspark.sql import SparkSession
from tests.stream.crash.conftest import bucket_shelf
from tests.stream.crash.points import IN_DRIVER
from tests.stream.crash.runs import Run
from tests.stream.crash.tables import Shelf
from tests.stream.crash.world import NAMESPACE
from tests.stream.files.support import put
from tests.stream.trail import Silent

from frazil.client import Client
from frazil.core.errors import BadRecord, RoundFailed, SourceChanged
from frazil.core.schema import Field, Schema
from frazil.devstack.frazil_server import FrazilServer
from frazil.devstack.seaweed import ObjectStore
from frazil.stream.config.model import (
    AvroFormat,
    CatalogConfig,
    CsvFormat,
    DeadLetters,
    FileSource,
    Format,
    JsonFormat,
    Limits,
    MetadataColumns,
    ParquetFormat,
    PipelineConfig,
    Pipelines,
    SparkConfig,
    TableConfig,
    Transform,
)
from frazil.stream.runner import Runner

SCHEMA = Schema((Field("id", "long", required=True), Field("word", "string")))
_numbers = itertools.count(1)


@dataclass
class Line:
    """A folder, a table, and the pipeline between them."""

    folder: Path
    shelf: Shelf
    spark: SparkSession
    config: PipelineConfig
    ids: itertools.count[int] = field(default_factory=itertools.count)
    expected: Counter[int] = field(default_factory=Counter)

    @property
    def table(self) -> str:
        return f"{NAMESPACE}.{self.config.table.name}"

    def records(self, count: int) -> list[dict[str, Any]]:
        numbers = list(itertools.islice(self.ids, count))
        self.expected.update(numbers)
        return [{"id": number, "word": f"w{number}"} for number in numbers]

    def put(self, name: str, count: int = 3, age: float = 60) -> None:
        put(self.folder, name, "".join(json.dumps(row) + "\n" for row in self.records(count)), age)

    def run(self) -> None:
        pipelines = Pipelines(CatalogConfig(self.shelf.server.uri), SparkConfig(), (self.config,))
        errors = Runner(pipelines, self.spark, observer=Silent(), once=True).run()
        if errors:
            raise errors[self.config.name]

    def check(self) -> None:
        assert ids(self.shelf, self.table) == self.expected

    def ledger(self) -> list[str]:
        return taken(self.shelf, f"{self.table}_files")


def ids(shelf: Shelf, table: str) -> Counter[int]:
    return Counter(shelf.load(table).scan().to_arrow()["id"].to_pylist())


def taken(shelf: Shelf, table: str) -> list[str]:
    """Names of files in the order in which they were taken."""
    if not shelf.exists(table):
        return []
    rows = shelf.load(table).scan().to_arrow().sort_by("number").to_pylist()
    assert [row["number"] for row in rows] == list(range(len(rows)))
    return [row["path"].rpartition("/")[2] for row in rows]


@pytest.fixture
def line(tmp_path: Path, spark: SparkSession, frazil_sqlite: FrazilServer) -> Line:
    name = f"files-{os.getpid()}-{next(_numbers)}"
    with Client(frazil_sqlite.uri) as client:
        client.namespaces.create(NAMESPACE, exist_ok=True)
    (tmp_path / "in").mkdir()
    config = PipelineConfig(
        name=name,
        source=FileSource(str(tmp_path / "in")),
        format=JsonFormat(),
        schema=SCHEMA,
        table=TableConfig((NAMESPACE,), name.replace("-", "_")),
        freshness=0.1,
        hash="the-same",
    )
    return Line(tmp_path / "in", Shelf(frazil_sqlite), spark, config)


def test_files_land_once(line: Line) -> None:
    line.config = replace(line.config, limits=Limits(records_per_round=2))
    for number in range(5):
        line.put(f"{number}.json", age=100 - number)
    line.run()
    line.check()
    assert line.ledger() == ["0.json", "1.json", "2.json", "3.json", "4.json"]
    line.run()
    line.put("late.json", age=1e6)
    line.put("0.json", count=1, age=10)
    line.run()
    line.check()
    assert line.ledger()[5:] == ["late.json", "0.json"]
    # Rows and ledger came in the same commits, three rounds and one.
    data, ledger = (line.shelf.load(name) for name in (line.table, f"{line.table}_files"))
    added = [each.summary["added-records"] for each in ledger.snapshots() if each.summary is not None]
    assert [number for number in added if number] == ["2", "2", "1", "2"]
    stamp = next(line.shelf.stamps(line.table, line.config.name))
    assert stamp["positions"]["files"]["next"] == [7]
    assert data.current_snapshot() is not None


def test_what_a_file_says_of_its_records(line: Line) -> None:
    beside = MetadataColumns(topic="path", offset="line", timestamp="modified")
    line.config = replace(line.config, metadata=beside)
    line.put("a.json", count=2)
    line.run()
    rows = line.shelf.load(line.table).scan().to_arrow().sort_by("line").to_pylist()
    path = line.folder / "a.json"
    assert [(row["path"], row["line"]) for row in rows] == [(str(path), 0), (str(path), 1)]
    assert int(rows[0]["modified"].timestamp() * 1000) == path.stat().st_mtime_ns // 1_000_000


def test_through_spark(line: Line) -> None:
    line.config = replace(line.config, transform=Transform(sql="SELECT id, upper(word) AS word FROM source"))
    for number in range(20):
        line.put(f"{number}.json", count=100)
    line.run()
    line.check()
    assert len(line.ledger()) == 20


def test_bad_records_are_set_aside(line: Line) -> None:
    letters = f"{line.config.table.name}_letters"
    line.config = replace(line.config, dead_letters=DeadLetters((NAMESPACE,), letters))
    line.put("good.json")
    put(line.folder, "bad.json", '\n{"id": "x"}\n')
    line.run()
    line.check()
    (letter,) = line.shelf.load(f"{NAMESPACE}.{letters}").scan().to_arrow().to_pylist()
    assert b'{"id": "x"}' in letter.values()
    assert str(line.folder / "bad.json") in letter.values()
    line.run()
    assert len(line.ledger()) == 2


def test_a_bad_record_stops_a_strict_pipeline(line: Line) -> None:
    """All of the round or nothing: there is no place inside a file to go on from."""
    line.put("good.json")
    path = put(line.folder, "bad.json", '{"id": "x"}\n')
    with pytest.raises(BadRecord, match=r"bad\.json"):
        line.run()
    assert ids(line.shelf, line.table) == Counter()
    path.unlink()
    line.run()
    line.check()


def _csv(rows: list[dict[str, Any]]) -> bytes:
    return b"word,id\n" + b"".join(b'"%b",%d\n' % (row["word"].encode(), row["id"]) for row in rows)


def _array(rows: list[dict[str, Any]]) -> bytes:
    return json.dumps(rows, indent=1).encode()


def _parquet(rows: list[dict[str, Any]]) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), out)
    return out.getvalue()


def _avro(rows: list[dict[str, Any]]) -> bytes:
    fields = [{"name": "id", "type": "int"}, {"name": "word", "type": ["null", "string"]}]
    out = io.BytesIO()
    fastavro.writer(out, {"type": "record", "name": "row", "fields": fields}, rows)
    return out.getvalue()


@pytest.mark.parametrize(
    ("form", "written"),
    [
        (JsonFormat(), _array),
        (CsvFormat(header=True), _csv),
        (ParquetFormat(), _parquet),
        (AvroFormat(), _avro),
    ],
    ids=["array", "csv", "parquet", "avro"],
)
def test_formats(line: Line, form: Format, written: Any) -> None:
    line.config = replace(line.config, format=form)
    put(line.folder, "a", written(line.records(10)))
    line.run()
    line.check()
    words = line.shelf.load(line.table).scan().to_arrow().sort_by("id")["word"].to_pylist()
    assert words == [f"w{number}" for number in range(10)]


@pytest.mark.parametrize("how", ["rolled back", "dropped"])
def test_a_ledger_that_does_not_go_with_the_stamp_is_refused(line: Line, how: str) -> None:
    for name in ("a.json", "b.json"):
        line.put(name)
        line.run()
    ledger = f"{line.table}_files"
    if how == "dropped":
        line.shelf.catalog().drop_table(ledger)
    else:
        older = [each for each in line.shelf.load(ledger).snapshots() if each.parent_snapshot_id is None]
        line.spark.sql(f"CALL frazil.system.rollback_to_snapshot('{ledger}', {older[0].snapshot_id})")
    with pytest.raises(SourceChanged, match=rf"its ledger {ledger} lacks"):
        line.run()
    line.check()


def test_a_table_that_was_rolled_back(line: Line) -> None:
    """Files come again, in another order; also where one file of the ledger has rows of both times."""
    line.put("a.json", age=90)
    line.run()
    first = next(line.shelf.stamps(line.table, line.config.name))
    snapshot = line.shelf.load(line.table).current_snapshot()
    assert snapshot is not None
    line.put("b.json", age=80)
    line.run()
    line.spark.sql(f"CALL frazil.system.rollback_to_snapshot('{line.table}', {snapshot.snapshot_id})")
    assert next(line.shelf.stamps(line.table, line.config.name)) == first
    line.put("late.json", age=1000)
    line.run()
    line.check()
    line.spark.sql(
        f"CALL frazil.system.rewrite_data_files(table => '{line.table}_files', strategy => 'sort', "
        "sort_order => 'epoch DESC', options => map('rewrite-all', 'true'))"
    )
    line.put("c.json")
    line.run()
    line.check()


def test_a_file_that_vanishes_each_time_ends_in_an_error(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks find that it is gone; what the driver raises says which."""
    from frazil.stream import loops
    from frazil.stream.files.feed import FileFeed

    monkeypatch.setattr(loops, "FAILED_ROUNDS", 1)
    plan = FileFeed.plan

    def vanish(feed: FileFeed, *arguments: Any) -> Any:
        found = plan(feed, *arguments)
        (line.folder / "a.json").unlink(missing_ok=True)
        return found

    monkeypatch.setattr(FileFeed, "plan", vanish)
    line.put("a.json")
    with pytest.raises(RoundFailed, match=r"a\.json was removed"):
        line.run()


def bucket_of(object_store: ObjectStore) -> S3Store:
    return S3Store(
        "arrivals",
        config={
            "endpoint": object_store.endpoint,
            "region": object_store.region,
            "access_key_id": object_store.admin.access,
            "secret_access_key": object_store.admin.secret,
        },
        client_options={"allow_http": True},
    )


def config_of(shelf: Shelf, object_store: ObjectStore, name: str) -> dict[str, Any]:
    """A pipeline from the bucket, a few files a round."""
    keys = {
        "s3.endpoint": object_store.endpoint,
        "s3.region": object_store.region,
        "s3.access-key-id": object_store.admin.access,
        "s3.secret-access-key": object_store.admin.secret,
    }
    pipeline = {
        "source": {
            "files": {"path": f"s3://arrivals/{name}", "pattern": "**/*.json", "settings": keys},
        },
        "schema": {"id": "long required"},
        "table": f"{NAMESPACE}.{name}",
        "freshness": "200ms",
        "limits": {"records_per_round": 4},
    }
    return {
        "catalog": {"uri": shelf.server.uri, "warehouse": shelf.warehouse},
        "spark": {"master": "local[2]"},
        "pipelines": {name: pipeline},
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    "points",
    [
        pytest.param(("commit.before", "commit.after"), id="commit"),
        pytest.param(IN_DRIVER, marks=pytest.mark.exhaustive, id="all"),
    ],
)
def test_the_driver_is_killed(
    frazil_sqlite: FrazilServer, object_store: ObjectStore, points: tuple[str, ...]
) -> None:
    """A bucket of files, one of tables; everything local is deleted between the deaths."""
    shelf = bucket_shelf(frazil_sqlite, object_store)
    name = f"killed-{os.getpid()}-{next(_numbers)}"
    object_store.create_bucket("arrivals")
    store, config = bucket_of(object_store), config_of(shelf, object_store, name)
    numbers, expected = itertools.count(), Counter[int]()

    def arrive(files: int, point: str) -> None:
        for number in range(files):
            found = list(itertools.islice(numbers, 20))
            text = "".join(json.dumps({"id": each}) + "\n" for each in found)
            obstore.put(store, f"{name}/{point}/{number}.json", text.encode())
            expected.update(found)

    for point in points:
        arrive(6, point)
        with Run(config, "--once", failpoint=point) as run:
            assert run.wait() == -signal.SIGKILL, run.story()
        if shelf.exists(f"{NAMESPACE}.{name}"):
            found = ids(shelf, f"{NAMESPACE}.{name}")
            assert found <= expected
            assert len(found) == 20 * len(taken(shelf, f"{NAMESPACE}.{name}_files"))
    arrive(1, "last")
    with Run(config, "--once") as run:
        assert run.wait() == 0, run.story()
    assert ids(shelf, f"{NAMESPACE}.{name}") == expected
    assert len(taken(shelf, f"{NAMESPACE}.{name}_files")) == 6 * len(points) + 1
    for table in (name, f"{name}_files"):
        assert not shelf.stray_files(f"{NAMESPACE}.{table}")
