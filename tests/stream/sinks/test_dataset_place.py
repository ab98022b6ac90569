"""Files of a dataset: there once, whole, and with their stamp."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import boto3
import pytest

from frazil.client import VendedCredentials
from frazil.core.errors import HistoryChanged, StorageError, Unsupported
from frazil.core.stamp import Position, Stamp
from frazil.devstack.seaweed import ObjectStore
from frazil.stream.sinks.dataset_place import Place, Taken, file_name, newest_stamp, place_of

_numbers = itertools.count(1)
Read = Callable[[str], bytes]


def stamp(token: str, partitions: int = 2, topic: str = "t") -> Stamp:
    return Stamp(
        pipeline="p",
        epoch=1,
        round=1,
        token=token,
        source="kafka:c",
        positions={topic: Position(id="i", next=tuple(range(partitions)))},
    )


@pytest.fixture(params=["local", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Place, Read]:
    """The place, and another way to read its files."""
    if request.param == "local":
        return place_of(f"file://{tmp_path}", None), lambda name: (tmp_path / name).read_bytes()
    store: ObjectStore = request.getfixturevalue("object_store")
    client: Any = boto3.client(
        "s3",
        endpoint_url=store.endpoint,
        region_name=store.region,
        aws_access_key_id=store.admin.access,
        aws_secret_access_key=store.admin.secret,
    )
    prefix = f"dataset-{next(_numbers)}"
    client.create_bucket(Bucket=prefix)
    keys = VendedCredentials(
        f"s3://{prefix}/d",
        {
            "s3.endpoint": store.endpoint,
            "client.region": store.region,
            "s3.access-key-id": store.admin.access,
            "s3.secret-access-key": store.admin.secret,
            "s3.path-style-access": "true",
        },
    )
    return (
        place_of(f"s3://{prefix}/d", keys),
        lambda name: client.get_object(Bucket=prefix, Key=f"d/{name}")["Body"].read(),
    )


def test_a_file_is_put_once(place: tuple[Place, Read]) -> None:
    files, read = place
    first = file_name("p", 1, "json")
    files.put(first, b"[1]", stamp("a"))
    with pytest.raises(Taken):
        files.put(first, b"[2]", stamp("b"))
    assert read(first) == b"[1]"
    assert files.stamp(first) == stamp("a")


def test_the_newest_is_found(place: tuple[Place, Read]) -> None:
    files, _ = place
    assert files.newest("p", 0) == 0
    for number in (1, 2, 10):
        files.put(file_name("p", number, "json"), b"[]", stamp(str(number)))
    # Other pipelines of the dataset, one of which has a longer name.
    files.put(file_name("p-x", 99, "json"), b"[]", stamp("x"))
    files.put(file_name("a", 50, "json"), b"[]", stamp("a"))
    assert [files.newest("p", after) for after in (0, 1, 2, 10, 11)] == [10, 10, 10, 10, 11]
    assert files.stamp(file_name("p", 10, "json")).token == "10"
    assert files.stamp(file_name("p-x", 99, "json")).token == "x"


def test_large_stamps_and_odd_names(place: tuple[Place, Read]) -> None:
    files, _ = place
    large = stamp("large", partitions=2000, topic='tøpic "\u20ac" \U0001f600')
    files.put(file_name("p", 1, "json"), b"[]", large)
    assert files.stamp(file_name("p", 1, "json")) == large


def test_only_the_newest_says_how_far_it_goes(place: tuple[Place, Read]) -> None:
    """Files come for years: what lies beside them must not."""
    files, _ = place
    names = [file_name("p", number, "json") for number in (1, 2, 3)]
    # Another pipeline's stays.
    files.put(file_name("p-x", 1, "json"), b"[]", stamp("x", partitions=2000))
    for token, name in zip("abc", names, strict=True):
        files.put(name, b"[]", stamp(token, partitions=2000))
    for name in names[:2]:
        with pytest.raises(HistoryChanged, match="does not say how far it goes"):
            files.stamp(name)
    assert newest_stamp(files, "p", "json") == (3, stamp("c", partitions=2000))
    assert newest_stamp(files, "p-x", "json") == (1, stamp("x", partitions=2000))


def test_one_of_many_rivals_wins(place: tuple[Place, Read]) -> None:
    files, read = place
    name = file_name("p", 1, "json")
    won: list[str] = []

    def put(token: str) -> None:
        try:
            files.put(name, json.dumps([token] * 1000).encode(), stamp(token))
            won.append(token)
        except Taken:
            pass

    threads = [threading.Thread(target=put, args=(f"t{number}",)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (winner,) = won
    assert json.loads(read(name)) == [winner] * 1000
    assert files.stamp(name).token == winner


def test_a_file_of_somebody_else(tmp_path: Path) -> None:
    (tmp_path / file_name("p", 1, "json")).write_bytes(b"[]")
    with pytest.raises(HistoryChanged, match="does not say how far it goes"):
        place_of(str(tmp_path), None).stamp(file_name("p", 1, "json"))


def test_places_that_cannot_be() -> None:
    with pytest.raises(Unsupported, match="gs://bucket/d"):
        place_of("gs://bucket/d", None)


def test_no_key_in_an_error() -> None:
    keys = {
        "s3.endpoint": "http://127.0.0.1:9",
        "s3.access-key-id": "open-sesame",
        "s3.secret-access-key": "x" * 9,
    }
    place = place_of("s3://b/d", VendedCredentials("s3://b/d", keys))
    with pytest.raises(StorageError) as found:
        place.stamp("p-000000000001.json")
    assert "open-sesame" not in str(found.value)
