from __future__ import annotations

import gzip
import io
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import obstore
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from obstore.store import S3Store
from tests.stream.files.support import Pipeline, bucket_source

from frazil.core.errors import InvalidConfig, InvalidInput, NotAllowed, NotFound, RoundFailed
from frazil.devstack import s3
from frazil.devstack.seaweed import ObjectStore
from frazil.stream.config.model import FileSource, Limits, ParquetFormat
from frazil.stream.files import reader as reader_module
from frazil.stream.files.place import place_of, settings_of
from frazil.stream.files.s3 import complete_settings

_numbers = count()
Put = Callable[[str, bytes], None]


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def location(object_store: ObjectStore) -> str:
    object_store.create_bucket("arrivals")
    return f"s3://arrivals/in-{next(_numbers)}"


@pytest.fixture
def put(object_store: ObjectStore, location: str) -> Put:
    store = S3Store(
        "arrivals",
        config={
            "endpoint": object_store.endpoint,
            "region": object_store.region,
            "access_key_id": object_store.admin.access,
            "secret_access_key": object_store.admin.secret,
        },
        client_options={"allow_http": True},
    )
    prefix = location.removeprefix("s3://arrivals/")

    def put(name: str, data: bytes) -> None:
        if data:
            obstore.put(store, f"{prefix}/{name}", data)
        else:
            obstore.delete(store, f"{prefix}/{name}")

    return put


@pytest.fixture
def pipeline(object_store: ObjectStore, location: str) -> Pipeline:
    return Pipeline(bucket_source(object_store, location))


def test_each_object_is_taken_once(put: Put, location: str, pipeline: Pipeline) -> None:
    put("a.json", b"1\n2\n")
    put("2026/b.json.gz", gzip.compress(b"3\n"))
    put("_SUCCESS", b"x")
    put("_temporary/0/a.json", b"x")
    assert pipeline.round() == ["2026/b.json.gz", "a.json"]
    assert pipeline.round() == []
    pipeline.restart()
    put("c.json", b"4\n")
    assert pipeline.round() == ["c.json"]
    assert pipeline.values() == [b"1", b"2", b"3", b"4"]
    assert pipeline.rows[-1] == (f"{location}/c.json", b"4")


def test_a_prefix_is_a_folder(put: Put, object_store: ObjectStore, location: str) -> None:
    put("a.json", b"1\n")
    put("ab/b.json", b"1\n")
    assert Pipeline(bucket_source(object_store, f"{location}/a")).round() == []
    assert Pipeline(bucket_source(object_store, f"{location}/ab")).round() == ["b.json"]


def test_overwritten_objects(put: Put, pipeline: Pipeline) -> None:
    put("a.json", b"1\n")
    pipeline.round()
    put("a.json", b"2\n")
    assert pipeline.round() == ["a.json"]
    # The same bytes once more, as a producer that tries again does: not another version.
    put("a.json", b"2\n")
    assert pipeline.round() == []
    assert pipeline.values() == [b"1", b"2"]


def test_an_object_that_changes_or_vanishes_fails_the_round(put: Put, pipeline: Pipeline) -> None:
    put("a.json", b"1\n")
    plan = pipeline.plan()
    put("a.json", b"2\n")
    with pytest.raises(RoundFailed, match=r"a\.json was overwritten"):
        pipeline.read(plan)
    plan = pipeline.plan()
    put("a.json", b"")
    with pytest.raises(RoundFailed, match=r"a\.json was removed"):
        pipeline.read(plan)
    assert pipeline.round() == []


def test_an_object_that_changes_while_it_is_read_fails_the_round(
    put: Put, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader_module, "_CHUNK", 1000)
    put("a.json", b"1234\n" * 1000)
    plan = pipeline.plan()
    batches = pipeline.feed.reader(pipeline.stamp).read(plan.tasks[0])
    next(batches)
    put("a.json", b"5678\n" * 1000)
    with pytest.raises(RoundFailed, match="was overwritten"):
        list(batches)


@pytest.mark.parametrize(
    "name", ["sp ace", "ü/日本", "a%2Fb", "q?x=1#y&z", "pl+us", "'\"", "~a", "*[a]", "%", "tr "]
)
def test_odd_names(put: Put, pipeline: Pipeline, location: str, name: str) -> None:
    put(name, b"1\n")
    assert pipeline.round() == [name]
    pipeline.restart()
    assert pipeline.round() == []
    assert pipeline.rows == [(f"{location}/{name}", b"1")]


def test_names_that_cannot_be_read_are_said(
    put: Put, object_store: ObjectStore, pipeline: Pipeline, location: str
) -> None:
    put("a.json", b"1\n")
    url = f"{object_store.endpoint}/{location.removeprefix('s3://')}/x%0Ay.json"
    assert s3.send("PUT", url, object_store.admin, object_store.region, b"1")[0] == 200
    with pytest.raises(InvalidInput, match=r"x\\ny\.json.*Rename or remove it"):
        pipeline.plan()


@pytest.mark.parametrize("size", [10, 1_000_000])
def test_parquet(put: Put, object_store: ObjectStore, location: str, size: int) -> None:
    out = io.BytesIO()
    table = pa.table({"a": [(number * 7919) % 1_000_003 for number in range(size)]})
    pq.write_table(table, out, compression="none", use_dictionary=False)
    put("a.parquet", out.getvalue())
    pipeline = Pipeline(bucket_source(object_store, location), ParquetFormat())
    batches = pipeline.read(pipeline.plan())
    assert pa.Table.from_batches([batch.rows for batch in batches]).equals(table)
    assert min(batch.timestamps[0].as_py() for batch in batches) > 0


def test_many_objects(put: Put, object_store: ObjectStore, location: str) -> None:
    """More than a page of a listing."""
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda number: put(f"{number}.json", b"%d\n" % number), range(1200)))
    pipeline = Pipeline(bucket_source(object_store, location), limits=Limits(records_per_round=1000))
    assert [len(pipeline.round()) for _ in range(3)] == [1000, 200, 0]
    assert sorted(map(int, pipeline.values())) == list(range(1200))


def test_keys_of_the_environment_reach_tasks(
    put: Put, object_store: ObjectStore, location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    put("a.json", b"1\n")
    given = {
        "AWS_ENDPOINT_URL": object_store.endpoint,
        "AWS_ACCESS_KEY_ID": object_store.admin.access,
        "AWS_SECRET_ACCESS_KEY": object_store.admin.secret,
        "AWS_REGION": object_store.region,
    }
    with monkeypatch.context() as environment:
        for name, value in given.items():
            environment.setenv(name, value)
        pipeline = Pipeline(FileSource(location))
    assert pipeline.round() == ["a.json"]


def test_a_token_of_the_environment_does_not_join_given_keys(
    put: Put, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    put("a.json", b"1\n")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "of-somebody-else")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1")
    assert pipeline.round() == ["a.json"]


def test_keys_that_are_refused(object_store: ObjectStore, location: str) -> None:
    wrong = {"s3.access-key-id": "nobody", "s3.secret-access-key": "hush-hush-hush"}
    pipeline = Pipeline(bucket_source(object_store, location, **wrong))
    with pytest.raises(NotAllowed, match="the store refused it") as caught:
        pipeline.plan()
    assert "hush" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert "hush" not in repr(pipeline.source)


def test_no_bucket(object_store: ObjectStore) -> None:
    with pytest.raises(NotFound, match="no bucket nowhere"):
        Pipeline(bucket_source(object_store, "s3://nowhere/in")).plan()


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"s3.acess-key-id": "x"}, r"s3\.acess-key-id: no setting of a bucket"),
        ({"s3.access-key-id": "x"}, "given together"),
    ],
)
def test_wrong_settings(settings: dict[str, str], reason: str) -> None:
    with pytest.raises(InvalidConfig, match=reason):
        complete_settings(settings)


@pytest.mark.parametrize("location", ["gs://b/x", "relative/path", "s3://", "file:relative", ""])
def test_wrong_locations(location: str) -> None:
    with pytest.raises(InvalidConfig, match=f"'{location}'"):
        place_of(location, settings_of(location, {}))
