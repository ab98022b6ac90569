"""A table to which everything happens, and what a changelog of it must say: the difference of two reads."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from tests.lake.test_upserts_files import delete_by_value
from tests.lake.upserts import KeyedWorld

from frazil.client import Client
from frazil.lake.changelog import read_changes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Rows = Counter[str]
UPDATES = ("UPDATE_BEFORE", "UPDATE_AFTER")


def canonical(value: Any) -> Any:
    """Equal where a changelog calls values equal: maps have no order, and NaN is NaN."""
    if isinstance(value, dict):
        return {key: canonical(inner) for key, inner in value.items()}
    if isinstance(value, list) and value and all(isinstance(each, tuple) for each in value):
        return sorted((canonical(list(each)) for each in value), key=repr)
    if isinstance(value, list):
        return [canonical(each) for each in value]
    return value


def shown(row: dict[str, Any]) -> str:
    return repr(sorted((name, canonical(value)) for name, value in row.items()))


class States:
    """The rows of every snapshot of a table, read by Spark."""

    def __init__(self, spark: SparkSession, client: Client, name: str) -> None:
        """`name`: with Spark's catalog in front."""
        self.spark = spark
        self.client = client
        self.name = name
        _, self.namespace, self.table = name.split(".")
        self._read: dict[int, list[dict[str, Any]]] = {}

    def metadata(self) -> dict[str, Any]:
        return dict(self.client.tables.load(self.namespace, self.table).metadata)

    def main(self) -> list[int]:
        """Main's snapshots, oldest first."""
        metadata = self.metadata()
        parents = {row["snapshot-id"]: row.get("parent-snapshot-id") for row in metadata["snapshots"]}
        at, found = metadata["current-snapshot-id"], []
        while at is not None:
            found.append(at)
            at = parents[at]
        return found[::-1]

    def at(self, snapshot: int | None, names: dict[int, str]) -> Rows:
        """Under the names that columns with those ids have."""
        if snapshot is None:
            return Counter()
        if snapshot not in self._read:
            frame = self.spark.sql(f"SELECT * FROM {self.name} VERSION AS OF {snapshot}")
            self._read[snapshot] = frame.toArrow().to_pylist()
        then = {number: name for number, name in self.names(snapshot).items() if number in names}
        empty = dict.fromkeys(names.values())
        return Counter(
            shown(empty | {names[number]: row[name] for number, name in then.items()})
            for row in self._read[snapshot]
        )

    def names(self, snapshot: int | None) -> dict[int, str]:
        """Of columns, by id, at a snapshot or now."""
        metadata = self.metadata()
        wanted = metadata["current-schema-id"]
        if snapshot is not None:
            wanted = next(row["schema-id"] for row in metadata["snapshots"] if row["snapshot-id"] == snapshot)
        schema = next(each for each in metadata["schemas"] if each["schema-id"] == wanted)
        return {field["id"]: field["name"] for field in schema["fields"]}

    def check(self, since: int | None, until: int | None, **options: Any) -> list[dict[str, Any]]:
        """The changes between the two are those of each commit, row for row."""
        batches = read_changes(
            self.client, f"{self.namespace}.{self.table}", since=since, until=until, **options
        )
        return self.check_rows(rows_of(batches), since, until, **options)

    def check_rows(
        self, rows: list[dict[str, Any]], since: int | None, until: int | None, **options: Any
    ) -> list[dict[str, Any]]:
        names, main = self.names(until), self.main()
        steps = main[0 if since is None else main.index(since) + 1 :]
        steps = steps if until is None else steps[: steps.index(until) + 1 if until in steps else 0]
        pairs = [(since, steps[-1] if steps else since)]
        if not options.get("net"):
            pairs = list(zip([since, *steps[:-1]], steps, strict=True))
            assert {row["_commit_snapshot_id"] for row in rows} <= set(steps)
        for before, after in pairs:
            mine = [row for row in rows if options.get("net") or row["_commit_snapshot_id"] == after]
            was, now = self.at(before, names), self.at(after, names)
            went, came = changed(mine)
            assert (went, came) == (was - now, now - was), f"{before} -> {after}"
            check_updates(mine, options.get("key") or ())
        ordinals = [row["_change_ordinal"] for row in rows]
        assert options.get("net") or ordinals == sorted(ordinals)
        return rows


def rows_of(batches: Iterable[pa.RecordBatch]) -> list[dict[str, Any]]:
    return [row for batch in batches for row in batch.to_pylist()]


def changed(rows: Iterable[dict[str, Any]]) -> tuple[Rows, Rows]:
    """What went and what came, without the columns that tell so."""
    found: tuple[Rows, Rows] = Counter(), Counter()
    for row in rows:
        plain = {name: value for name, value in row.items() if not is_told(name)}
        found[row["_change_type"] in ("INSERT", "UPDATE_AFTER")][shown(plain)] += 1
    return found


def is_told(name: str) -> bool:
    return name.startswith(("_change_", "_commit_", "_correction"))


def check_updates(rows: list[dict[str, Any]], key: Iterable[str]) -> None:
    """Pairs stand together, and nothing that could be a pair is left."""
    names = tuple(key)

    def key_of(row: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(row[name] for name in names)

    kinds = [row["_change_type"] for row in rows]
    for number, row in enumerate(rows):
        if kinds[number] == "UPDATE_BEFORE":
            assert kinds[number + 1] == "UPDATE_AFTER"
            assert key_of(rows[number + 1]) == key_of(row)
    assert kinds.count("UPDATE_BEFORE") == kinds.count("UPDATE_AFTER")
    if not names:
        assert not set(kinds) & set(UPDATES)
        return
    went = {key_of(row) for row in rows if row["_change_type"] == "DELETE"}
    assert not went & {key_of(row) for row in rows if row["_change_type"] == "INSERT"}


class Story:
    """Steps on one table, at random. Columns: id, place, word, and those that are added."""

    def __init__(self, world: KeyedWorld, rng: random.Random) -> None:
        self.world = world
        self.rng = rng
        self.columns = 0
        self.divided = False
        self.begun = False
        self.steps: list[Callable[[], None]] = [
            self.upsert,
            self.upsert,
            self.insert,
            self.delete,
            self.update,
            self.merge,
            self.compaction,
            self.compaction,
            self.by_value,
            self.column,
            self.partitions,
            self.nothing,
            self.all_new,
            self.truncate,
        ]

    def run(self, steps: int) -> None:
        self.upsert()
        if not self.begun:
            self.several()
        for _ in range(steps):
            self.rng.choice(self.steps)()

    def row(self, number: int) -> dict[str, Any]:
        return {
            "id": number,
            "place": self.rng.choice(["a", "b", None]),
            "word": self.rng.choice([None, "x", "y", f"w{number}"]),
        }

    def upsert(self) -> None:
        numbers = self.rng.sample(range(40), 12)
        # The model is not looked at: what others do is not in it.
        self.world.upsert(
            [self.row(number) for number in numbers[:8]], gone=[(number,) for number in numbers[8:]]
        )

    def truncate(self) -> None:
        self.world.upsert([self.row(number) for number in range(5)], truncates=True)

    def insert(self) -> None:
        number = self.rng.randrange(40)
        self.sql(
            f"INSERT INTO {{t}} (id, place, word) SELECT id + {number}, 'a', 'x' FROM range(6) "
            "UNION ALL SELECT 7, 'dup', 'dup' FROM range(2)"
        )

    def several(self) -> None:
        """Delete files that reach more than one data file: by value, and (format 2) by position."""
        self.begun = True
        self.insert()
        delete_by_value(self.world, "id", [7])
        self.insert()
        self.insert()
        self.sql(
            "ALTER TABLE {t} SET TBLPROPERTIES ('write.delete.mode' = 'merge-on-read', "
            "'write.delete.granularity' = 'partition')"
        )
        self.sql("DELETE FROM {t} WHERE id = 7")

    def mode(self, operation: str) -> None:
        mode = self.rng.choice(["merge-on-read", "merge-on-read", "copy-on-write"])
        granularity = self.rng.choice(["file", "partition"])
        self.sql(
            f"ALTER TABLE {{t}} SET TBLPROPERTIES ('write.{operation}.mode' = '{mode}', "
            f"'write.delete.granularity' = '{granularity}')"
        )

    def delete(self) -> None:
        self.mode("delete")
        self.sql(f"DELETE FROM {{t}} WHERE id % 5 = {self.rng.randrange(5)}")

    def update(self) -> None:
        self.mode("update")
        self.sql(f"UPDATE {{t}} SET word = 'u' WHERE id % 4 = {self.rng.randrange(4)}")

    def merge(self) -> None:
        self.mode("merge")
        first = self.rng.randrange(60)
        self.sql(
            f"MERGE INTO {{t}} USING (SELECT id + {first} AS id FROM range(6)) s ON {{t}}.id = s.id "
            "WHEN MATCHED AND s.id % 2 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET word = 'merged' "
            "WHEN NOT MATCHED THEN INSERT (id, place) VALUES (s.id, 'm')"
        )

    def compaction(self) -> None:
        what = self.rng.choice(["data_files", "data_files", "position_delete_files"])
        self.sql(
            f"CALL frazil.system.rewrite_{what}(table => '{self.world.name[7:]}', "
            "options => map('rewrite-all', 'true'))"
        )
        if self.rng.random() < 0.3:
            self.sql(f"CALL frazil.system.rewrite_manifests('{self.world.name[7:]}')")

    def by_value(self) -> None:
        if not self.divided:
            column = self.rng.choice(["id", "word"])
            values: dict[str, list[Any]] = {"id": [1, 2, 3], "word": ["x", None]}
            delete_by_value(self.world, column, values[column])

    def column(self) -> None:
        self.columns += 1
        change = self.rng.choice(["ADD", "ADD", "RENAME", "DROP"]) if self.columns > 1 else "ADD"
        name = f"extra{self.columns}"
        there = [field.name for field in self.fields() if field.name.startswith("extra")]
        if change == "ADD" or not there:
            self.sql(f"ALTER TABLE {{t}} ADD COLUMN {name} INT")
            self.sql(f"INSERT INTO {{t}} (id, {name}) VALUES (50, 1), (51, null)")
        elif change == "RENAME":
            self.sql(f"ALTER TABLE {{t}} RENAME COLUMN {there[0]} TO {name}")
        else:
            self.sql(f"ALTER TABLE {{t}} DROP COLUMN {there[0]}")

    def partitions(self) -> None:
        change = self.rng.choice(["ADD PARTITION FIELD bucket(3, id)", "ADD PARTITION FIELD place"])
        if not self.divided:
            self.divided = True
            self.sql(f"ALTER TABLE {{t}} {change}")
            self.insert()

    def nothing(self) -> None:
        if self.rng.random() < 0.5:
            self.world.writer = self.world.claim()
        else:
            self.sql("DELETE FROM {t} WHERE id = -1")

    def all_new(self) -> None:
        """What is there is written again, some of it."""
        self.sql("INSERT OVERWRITE {t} SELECT * FROM {t} WHERE id % 7 != 3")

    def fields(self) -> Iterable[Any]:
        return self.world.lake.load(self.world.table.namespace, self.world.table.name).schema

    def sql(self, text: str) -> None:
        self.world.sql(text)
