"""Keys in data files, against a look at every row."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from frazil.core.schema import Field, Schema
from frazil.lake.key_index import KeyIndexes, KeySearch
from frazil.lake.manifests import DATA, ContentFile
from frazil.lake.storage import FileStorage

_TYPES = {"long": pa.int64(), "int": pa.int32(), "date": pa.date32(), "string": pa.string()}


class Counted(FileStorage):
    """How often a file was opened."""

    opened = 0

    def open_input(self, path: str) -> pa.NativeFile:
        self.opened += 1
        return super().open_input(path)


def written(path: Path, schema: Schema, columns: dict[str, list[Any]]) -> ContentFile:
    arrow = pa.schema(
        [
            pa.field(each.name, _TYPES[str(each.type)], metadata={"PARQUET:field_id": str(each.id)})
            for each in schema
        ]
    )
    table = pa.table(columns, schema=arrow)
    pq.write_table(table, path, row_group_size=50)
    return ContentFile(str(path), "parquet", DATA, len(table), path.stat().st_size, 0, {}, 1)


def found(
    schema: Schema, keys: list[tuple[Any, ...]], storage: FileStorage, indexes: KeyIndexes, file: ContentFile
) -> list[int]:
    columns = {
        each.name: pa.array([key[number] for key in keys], _TYPES[str(each.type)])
        for number, each in enumerate(schema)
    }
    search = KeySearch(schema, pa.table(columns), storage, {}, indexes)
    positions: list[int] = search.positions(file).tolist()
    return positions


def value(kind: str, number: int) -> Any:
    return f"k{number}" if kind == "string" else number


@pytest.mark.parametrize("kinds", [("long",), ("int",), ("date",), ("string",), ("int", "string")])
@pytest.mark.parametrize("shape", ["in order", "any order", "twice", "nulls", "near", "near, in order"])
def test_every_search_finds_the_same(tmp_path: Path, kinds: tuple[str, ...], shape: str) -> None:
    rng = random.Random(f"{kinds} {shape}")
    schema = Schema(tuple(Field(f"c{number}", kind, id=number + 1) for number, kind in enumerate(kinds)))
    # So far apart that each number cannot have a place of its own, or so near that it can.
    among = range(300, 900) if shape.startswith("near") else range(1000)
    numbers: list[int | None] = list(rng.sample(among, 300))
    if shape.endswith("in order"):
        numbers.sort(key=lambda number: number or 0)
    elif shape == "twice":
        numbers = [number for number in numbers for _ in range(rng.randint(1, 3))]
        rng.shuffle(numbers)
    elif shape == "nulls":
        numbers[7] = numbers[200] = None
    rows = [tuple(None if n is None else value(kind, n) for kind in kinds) for n in numbers]
    file = written(
        tmp_path / "f.parquet",
        schema,
        {each.name: [row[number] for row in rows] for number, each in enumerate(schema)},
    )
    storage, indexes = Counted(str(tmp_path), pa.fs.LocalFileSystem()), KeyIndexes()
    for _ in range(5):
        keys = [tuple(value(kind, n) for kind in kinds) for n in rng.sample(range(-50, 1050), 40)]
        wanted = [number for number, row in enumerate(rows) if row in keys]
        assert found(schema, keys, storage, indexes, file) == wanted
    kept = kinds != ("string",) and len(kinds) == 1 and shape != "nulls"
    assert storage.opened == (2 if kept else 5), "one that is searched again is kept, if it can be"


def test_keys_outside_of_the_file(tmp_path: Path) -> None:
    schema = Schema((Field("id", "long", id=1),))
    file = written(tmp_path / "f.parquet", schema, {"id": [5, 7, 9]})
    storage, indexes = FileStorage(str(tmp_path), pa.fs.LocalFileSystem()), KeyIndexes()
    for _ in range(3):
        assert found(schema, [(1,), (6,), (10,)], storage, indexes, file) == []
        assert found(schema, [(9,), (5,), (100,)], storage, indexes, file) == [0, 2]


def test_there_is_room_for_so_much(tmp_path: Path) -> None:
    schema = Schema((Field("id", "long", id=1),))
    # Too far apart for a place for each number.
    storage = Counted(str(tmp_path), pa.fs.LocalFileSystem())
    files = [
        written(tmp_path / f"{name}.parquet", schema, {"id": list(range(0, 1000, 10))}) for name in range(4)
    ]
    indexes = KeyIndexes(most=2500)  # Three of 800 bytes.
    for _ in range(2):
        for file in files[:3]:
            assert found(schema, [(420,)], storage, indexes, file) == [42]
    storage.opened = 0
    for file in files[:3]:
        assert found(schema, [(420,)], storage, indexes, file) == [42]
    assert storage.opened == 0
    for _ in range(2):
        found(schema, [(420,)], storage, indexes, files[3])
    storage.opened = 0
    assert found(schema, [(420,)], storage, indexes, files[1]) == [42]
    assert storage.opened == 0
    assert found(schema, [(420,)], storage, indexes, files[0]) == [42]
    assert storage.opened == 1, "what was not asked for the longest went"
    large = written(tmp_path / "large.parquet", schema, {"id": list(range(0, 10_000, 10))})
    for _ in range(3):
        assert found(schema, [(420,)], storage, indexes, large) == [42]
    assert found(schema, [(420,)], storage, indexes, files[1]) == [42]
