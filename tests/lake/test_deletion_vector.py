"""Deletion vectors: bytes as Iceberg in Java writes them, and its files read back."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from pyroaring import BitMap64
from tests.lake.support import local
from tests.lake.upserts import KeyedWorld

from frazil.client import Client
from frazil.core.errors import StorageError
from frazil.lake.catalog import Lake
from frazil.lake.deletion_vector import bitmap_of, decoded, encoded, positions_of, write_vectors
from frazil.lake.storage import FileStorage


def some_positions(seed: int) -> BitMap64:
    """Runs, single ones, dense and thin containers, and more than 32 bits."""
    rng = random.Random(seed)
    found = BitMap64(rng.sample(range(500_000), rng.randrange(20_000)))
    found.update(range(700_000, 700_000 + rng.randrange(200_000)))
    if seed % 2:
        found.update(rng.sample(range(1 << 33, (1 << 33) + 100_000), 50))
    return found


@pytest.mark.parametrize("seed", range(6))
def test_what_was_written_is_read(seed: int, tmp_path: Path) -> None:
    vectors = [(f"file:/data/{number}.parquet", some_positions(seed + number)) for number in range(3)]
    storage, path = FileStorage.of(str(tmp_path), None), f"{tmp_path}/v.puffin"
    size, placed = write_vectors(storage, path, vectors)
    assert size == Path(path).stat().st_size
    for (name, bitmap), vector in zip(vectors, placed, strict=True):
        assert (vector.references, vector.records) == (name, len(bitmap))
        blob = Path(path).read_bytes()[vector.offset : vector.offset + vector.length]
        assert decoded(blob, path) == bitmap
    assert bitmap_of(positions_of(vectors[0][1])) == vectors[0][1]


def test_damage_is_noticed() -> None:
    blob = encoded(BitMap64([1, 5]))
    for at in (0, 5, 20, len(blob) - 1):
        spoilt = blob[:at] + bytes([blob[at] ^ 1]) + blob[at + 1 :]
        with pytest.raises(StorageError, match="deletion vector"):
            decoded(spoilt, "v.puffin")
    with pytest.raises(StorageError, match="no deletion vector"):
        decoded(b"", "v.puffin")


@pytest.mark.parametrize("condition", ["id % 3 = 0", "id < 1500 OR id IN (1999, 1777)", "id = 7"])
def test_bytes_are_those_of_java(condition: str, lake: Lake, client: Client) -> None:
    world = KeyedWorld(lake, client)
    world.sql("ALTER TABLE {t} SET TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')")
    world.upsert([{"id": number, "word": "a"} for number in range(2000)])
    world.sql(f"DELETE FROM {{t}} WHERE {condition}")
    _, live = world.live()
    vector = live.target(live.data[0]).vector
    assert vector is not None
    assert vector.offset is not None
    assert vector.length is not None
    written = local(vector.path).read_bytes()[vector.offset : vector.offset + vector.length]
    where = world.lake.spark.createDataFrame([(n,) for n in range(2000)], "id long").where(condition)
    positions = np.array(sorted(row.id for row in where.collect()))
    assert encoded(bitmap_of(positions)) == written
