"""Keys are found in files of any format, age and writer."""

from __future__ import annotations

import random
import uuid
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.lake.support import local
from tests.lake.upserts import KeyedWorld, Row

from frazil.client import Client
from frazil.core.errors import InvalidConfig, Unsupported
from frazil.core.schema import Field, Schema, SchemaChange
from frazil.lake.catalog import Lake
from frazil.lake.files import FileOptions
from frazil.lake.keyed import KeyedTable

#: A value for each number, in no order.
KEYS: dict[str, Any] = {
    "int": lambda n: n * 7919 % 1000 - 500,
    "date": lambda n: date(1970, 1, 1) + timedelta(days=n * 37 % 1000 - 300),
    "timestamptz": lambda n: datetime(2020, 1, 1, tzinfo=UTC) + timedelta(seconds=n * 7919 % 1000),
    "decimal(9, 2)": lambda n: Decimal(n * 37 % 1000 - 400).scaleb(-2),
    "decimal(38, 3)": lambda n: Decimal((n * 37 % 1000 - 400) * 10**25).scaleb(-3),
    "string": lambda n: f"{'é' * (n % 3)}a key that is longer than bounds are {n * 37 % 1000}",
    "uuid": lambda n: uuid.UUID(int=(n * 37 % 1000) << 64 | (1 << 127)).bytes,
    "binary": lambda n: (n * 37 % 1000).to_bytes(2, "big") * 9,
    "boolean": lambda n: n % 2 == 0,
}


def rows_of(kind: str, numbers: Sequence[int], word: str) -> list[Row]:
    made = {KEYS[kind](number): {"id": KEYS[kind](number), "word": f"{word}{number}"} for number in numbers}
    return list(made.values())


@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.parametrize("format_", ["parquet", "orc", "avro"])
def test_keys_of_every_type(kind: str, format_: str, lake: Lake, client: Client) -> None:
    """Bounds must not hide a file that has a key, and rows outside of those must not be touched."""
    schema = Schema((Field("id", kind, required=True), Field("word", "string")))
    divided = () if kind == "boolean" or format_ != "parquet" else ("bucket(3, id)",)
    options = FileOptions(format=format_)
    world = KeyedWorld(lake, client, schema=schema, partitioning=divided, options=options)
    for start in (0, 20, 40):
        world.upsert(rows_of(kind, range(start, start + 20), "a"))
    count = len(world.model)
    world.upsert(rows_of(kind, range(5, 50, 3), "b"), gone=[(KEYS[kind](n),) for n in (1, 21, 45)])
    assert count >= world.rounds[-1].matched > 1 + len(divided)
    read = lake.spark.table(world.name)
    named = {row["word"] for row in world.model.values()}
    assert sorted(row.word for row in read.select("word").collect()) == sorted(named)


def test_a_key_that_was_renamed_after_files_without_ids(lake: Lake, client: Client, tmp_path: Path) -> None:
    """Such files know it by its old name only, and the table knows of that."""
    schema = Schema((Field("code", "long"), Field("word", "string")))
    world = KeyedWorld(lake, client, schema=schema, key=("id",))
    pq.write_table(pa.table({"code": [1, 2, 3], "word": ["a", "b", "c"]}), tmp_path / "others.parquet")
    world.sql(f"CALL frazil.system.add_files('keyed.{world.table.name}', '`parquet`.`{tmp_path}`')")
    world.sql("ALTER TABLE {t} RENAME COLUMN code TO id")
    world.upsert([{"id": 1, "word": "z"}, {"id": 9, "word": "y"}], gone=[(2,)])
    assert world.rounds[-1].matched == 2
    read = lake.spark.table(world.name).orderBy("id").collect()
    assert [tuple(row) for row in read] == [(1, "z"), (3, "c"), (9, "y")]


def test_files_of_spark(lake: Lake, client: Client) -> None:
    """In its own layout, with several row groups, and in each format."""
    schema = Schema(
        (Field("id", "long", required=True), Field("word", "string"), Field("v", "decimal(9, 2)"))
    )
    world = KeyedWorld(lake, client, schema=schema)
    world.sql("ALTER TABLE {t} SET TBLPROPERTIES ('write.parquet.row-group-size-bytes' = '2000')")
    for number, format_ in enumerate(("parquet", "orc", "avro")):
        world.sql(f"ALTER TABLE {{t}} SET TBLPROPERTIES ('write.format.default' = '{format_}')")
        ids = range(number * 3000, (number + 1) * 3000)
        world.sql(
            "INSERT INTO {t} SELECT id, 'w' || id, CAST(id AS decimal(9, 2)) "
            f"FROM range({ids.start}, {ids.stop})"
        )
        world.model |= {(n,): {"id": n, "word": f"w{n}", "v": Decimal(f"{n}.00")} for n in ids}
    chosen = random.Random(3).sample(range(9000), 400)
    holes = [({"id": n, "word": "?", "v": Decimal("1.50")}, ["word"]) for n in chosen[:60]]
    world.upsert([{"id": n, "word": "new", "v": None} for n in chosen[60:]], holes=holes)
    assert world.rounds[-1].matched == 400
    # PyIceberg reads no Avro.
    world.check(pyiceberg=False)


@pytest.mark.parametrize("version", [2, 3])
def test_columns_that_changed(version: int, lake: Lake, client: Client) -> None:
    """Renamed, widened, dropped, added: of old files too the key is found and holes are filled."""
    schema = Schema((Field("id", "int", required=True), Field("old", "float"), Field("word", "string")))
    world = KeyedWorld(lake, client, schema=schema, version=version)
    world.upsert([{"id": n, "old": n / 2, "word": f"w{n}"} for n in range(20)])
    for change in (
        "RENAME COLUMN id TO key",
        "ALTER COLUMN key TYPE bigint",
        "RENAME COLUMN old TO number",
        "ALTER COLUMN number TYPE double",
        "ADD COLUMN late string",
        "ADD COLUMN part string",
    ):
        world.sql(f"ALTER TABLE {{t}} {change}")
    world.key, world.keyed = ("key", "part"), KeyedTable(("key", "part"))
    names = {"id": "key", "old": "number", "word": "word"}
    rows = [{names[name]: value for name, value in row.items()} for row in world.model.values()]
    world.model = {(row["key"], None): row for row in rows}
    big = 1 << 40
    world.upsert(
        [{"key": 1, "part": None, "late": "x"}, {"key": big, "part": "p", "number": 0.1}],
        gone=[(2, None), (3, "p")],
        holes=[({"key": 4, "part": None, "late": "?", "word": "four"}, ["number", "late"])],
    )
    assert world.model[(4, None)]["number"] == 2.0
    world.check()
    world.sql("ALTER TABLE {t} DROP COLUMN word")
    world.upsert(gone=[(5, None), (big, "p")], holes=[({"key": 6, "part": None, "late": "l"}, ["number"])])
    world.check()


def test_a_column_added_during_the_round(lake: Lake, client: Client) -> None:
    world = KeyedWorld(lake, client)
    world.upsert([{"id": n, "word": "a"} for n in range(5)])

    def change() -> None:
        world.sql("ALTER TABLE {t} ADD COLUMN late string")
        world.sql("INSERT INTO {t} VALUES (1, 'p', 'rival', 'late')")

    world.upsert([{"id": 2, "word": "b"}], gone=[(1,)], before=change)
    world.check()


def delete_by_value(world: KeyedWorld, column: str, values: Sequence[Any]) -> None:
    """As Flink does."""
    table = lake_table = world.lake.load(world.table.namespace, world.table.name)
    field = table.schema.field(column)
    path = f"{table.data_location}/eq-{uuid.uuid4().hex}.parquet"
    arrow = pa.schema([table.schema.to_arrow().field(column)])
    pq.write_table(pa.Table.from_arrays([pa.array(values, arrow[0].type)], schema=arrow), local(path))
    document = {
        "spec-id": table.spec.id,
        "content": "equality-deletes",
        "file-path": path,
        "file-format": "parquet",
        "partition": {},
        "file-size-in-bytes": local(path).stat().st_size,
        "record-count": len(values),
        "equality-ids": [field.id],
    }
    tree = lake_table.lake.json.readTree(msgspec.json.encode(document).decode())
    parsed = table.lake.iceberg.ContentFileParser.fromJson(tree, table.java.specs())
    table.java.newRowDelta().addDeletes(parsed).commit()


@pytest.mark.parametrize("version", [2, 3])
def test_rows_that_others_deleted_by_value(version: int, lake: Lake, client: Client) -> None:
    """They are gone: nothing is taken from them, and nothing deleted twice. Younger rows are not."""
    world = KeyedWorld(lake, client, version=version)
    world.upsert([{"id": n, "place": "p", "word": f"w{n}"} for n in range(10)])
    delete_by_value(world, "id", [1, 2, 3])
    delete_by_value(world, "word", ["w4", None])
    world.model = {key: row for key, row in world.model.items() if key[0] not in (1, 2, 3, 4)}
    world.upsert(
        [{"id": 1, "word": "again"}, {"id": 5, "word": "w4"}],
        gone=[(2,)],
        holes=[({"id": n, "place": "new", "word": "?"}, ["word"]) for n in (3, 4, 6)],
    )
    assert world.rounds[-1].matched == 2
    assert world.rounds[-1].unfound == (0, 1)
    assert [world.model[(n,)]["word"] for n in (3, 4, 6)] == [None, None, "w6"]
    by_spark = lake.spark.table(world.name).toArrow().to_pylist()
    assert sorted((row["id"], row["word"] or "") for row in by_spark) == sorted(
        (row["id"], row["word"] or "") for row in world.model.values()
    )


def test_what_cannot_be_a_key(lake: Lake, client: Client) -> None:
    world = KeyedWorld(lake, client, schema=Schema((Field("id", "long"), Field("word", "string"))))
    world.table.evolve([SchemaChange(("tags",), "string")])
    world.keyed = KeyedTable(("name",))
    with pytest.raises(InvalidConfig, match="there is no column 'name'; there are: id"):
        world.upsert([{"id": 1}])


def test_format_1(lake: Lake, client: Client) -> None:
    world = KeyedWorld(lake, client, version=1)
    with pytest.raises(Unsupported, match=r"of format 1.*upgrade it"):
        world.upsert([{"id": 1}])
