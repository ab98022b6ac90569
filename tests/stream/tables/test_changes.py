"""All that happens to a table, followed snapshot by snapshot: exactly the changes, each once."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from tests.lake.changing import States, Story, changed, check_updates, shown
from tests.lake.upserts import KeyedWorld
from tests.stream.tables.follower import Follower

from frazil.client import Client
from frazil.core.errors import SourceChanged, Unsupported
from frazil.lake.catalog import Lake
from frazil.stream.config.model import Limits

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_numbers = itertools.count(1)
Sql = Callable[[str], Any]
Follow = Callable[..., Follower]


@pytest.fixture
def name() -> str:
    return f"changes{next(_numbers)}"


@pytest.fixture
def sql(spark: SparkSession, client: Client, name: str) -> Sql:
    """`{t}` stands for the table."""
    return lambda text: spark.sql(text.replace("{t}", f"frazil.tables.{name}")).collect()


@pytest.fixture(scope="module")
def lake(spark: SparkSession, client: Client) -> Iterator[Lake]:
    opened = Lake(spark, client)
    yield opened
    opened.close()


@pytest.fixture
def follow(client: Client, name: str) -> Follow:
    return lambda **options: Follower(client, name, changes=True, **options)


def brief(rows: list[dict[str, Any]]) -> list[str]:
    marks = {"INSERT": "+", "DELETE": "-", "UPDATE_BEFORE": "<", "UPDATE_AFTER": ">"}
    return sorted(f"{marks[row['_change_type']]}{row['id']}{row['word'] or ''}" for row in rows)


@pytest.mark.parametrize(
    ("mode", "version"), [("merge-on-read", 2), ("merge-on-read", 3), ("copy-on-write", 3)]
)
def test_what_is_there_and_then_all_that_happens(
    sql: Sql, name: str, follow: Follow, version: int, mode: str
) -> None:
    modes = ", ".join(f"'write.{what}.mode' = '{mode}'" for what in ("delete", "update", "merge"))
    sql(
        "CREATE TABLE {t} (id BIGINT NOT NULL, word STRING) USING iceberg "
        f"TBLPROPERTIES ('format-version' = '{version}', {modes})"
    )
    sql("INSERT INTO {t} SELECT /*+ COALESCE(1) */ id, 'a' FROM range(5)")
    sql("DELETE FROM {t} WHERE id = 3")
    follower, late = follow(), follow(at="latest").claim()
    first = follower.round()
    assert brief(first) == ["+0a", "+1a", "+2a", "+4a"]
    sql("UPDATE {t} SET word = 'b' WHERE id = 1")
    sql(f"CALL frazil.system.rewrite_data_files('tables.{name}', options => map('rewrite-all', 'true'))")
    sql("DELETE FROM {t} WHERE id = 2")
    sql("INSERT INTO {t} VALUES (7, 'c')")
    found = follower.round()
    assert brief(found) == ["+1b", "+7c", "-1a", "-2a"]
    assert [row["_change_ordinal"] for row in found] == sorted(row["_change_ordinal"] for row in found)
    assert {row["_correction"] for row in found} == {None}
    sql("ALTER TABLE {t} SET IDENTIFIER FIELDS id")
    follower.feed = follower.restarted()
    sql("UPDATE {t} SET word = 'd' WHERE id IN (0, 7)")
    assert brief(follower.round()) == ["<0a", "<7c", ">0d", ">7d"]
    assert follower.round() == []
    assert brief(late.round()) == ["+1b", "+7c", "-1a", "-2a", "<0a", "<7c", ">0d", ">7d"]


@pytest.mark.parametrize(
    "records",
    [pytest.param(1, marks=pytest.mark.exhaustive), 7, pytest.param(1000, marks=pytest.mark.exhaustive)],
)
def test_a_story_in_rounds_of_all_sizes(records: int, lake: Lake, client: Client) -> None:
    """Commits that are divided among rounds and tasks are the same changes."""
    world, rng = KeyedWorld(lake, client, version=3), random.Random(11)
    limits = Limits(records_per_round=records, records_per_task=max(1, records // 3))
    follower = Follower(client, world.table.name, changes=True, namespace=("keyed",), limits=limits)
    follower.claim()
    story = Story(world, rng)
    rows: list[dict[str, Any]] = []
    for _ in range(3 if records == 1 else 5):
        story.run(2)
        while follower.plan().tasks:
            rows += follower.round()
            follower.feed = follower.restarted()
    states = States(lake.spark, client, world.name)
    names, main = states.names(None), states.main()
    for before, after in itertools.pairwise([None, *main]):
        mine = [row for row in rows if row["_commit_snapshot_id"] == after]
        kept = set(names.values())
        went, came = changed(
            [{name: row.get(name) for name in kept} | {"_change_type": row["_change_type"]} for row in mine]
        )
        was, now = states.at(before, names), states.at(after, names)
        assert (went - came, came - went) == (was - now, now - was)


def test_columns_change_while_a_commit_is_read(sql: Sql, follow: Follow) -> None:
    """A part of a large commit is read, then a column is added: the rest is what was not read."""
    sql("CREATE TABLE {t} (id BIGINT, word STRING) USING iceberg")
    follower = follow(limits=Limits(records_per_round=16, records_per_task=16)).claim()
    sql("INSERT INTO {t} SELECT /*+ COALESCE(1) */ id, 'a' FROM range(50)")
    follower.stamp = follow(at="latest").claim().stamp
    sql("UPDATE {t} SET word = 'b' WHERE id % 2 = 0")
    rows = follower.round()
    sql("ALTER TABLE {t} ADD COLUMN more STRING")
    sql("ALTER TABLE {t} RENAME COLUMN word TO text")
    follower.feed = follower.restarted()
    while found := follower.round():
        rows += found
    went, came = Counter[int](), Counter[int]()
    for row in rows:
        (came if row["_change_type"] == "INSERT" else went)[row["id"]] += 1
    assert went == came == Counter(range(0, 50, 2))


def test_a_parent_that_expired(sql: Sql, name: str, follow: Follow) -> None:
    sql("CREATE TABLE {t} (id BIGINT, word STRING) USING iceberg")
    sql("INSERT INTO {t} VALUES (1, 'a')")
    followers = [follow(), follow()]
    assert [brief(each.round()) for each in followers] == [["+1a"]] * 2
    when = "older_than => now(), retain_last => 1"
    expire = f"CALL frazil.system.expire_snapshots(table => 'tables.{name}', {when})"
    sql("INSERT INTO {t} VALUES (2, 'b')")
    sql(expire)
    assert brief(followers[0].round()) == ["+2b"]
    sql("DELETE FROM {t} WHERE id = 1")
    sql(expire)
    with pytest.raises(SourceChanged, match=r"cannot be followed: .* the one before it expired"):
        followers[0].plan()
    with pytest.raises(SourceChanged, match="expired before they were read"):
        followers[1].plan()


def test_columns_of_a_changelog_are_taken(sql: Sql, follow: Follow) -> None:
    sql("CREATE TABLE {t} (id BIGINT, _change_type STRING) USING iceberg")
    with pytest.raises(Unsupported, match="_change_type, which is what a changelog calls"):
        follow().claim()


def test_a_column_that_nobody_reads_is_dropped_and_the_rest_goes_on(sql: Sql, follow: Follow) -> None:
    """What was committed while it was there, too."""
    sql(
        "CREATE TABLE {t} (id BIGINT, word STRING, doc VARIANT) USING iceberg "
        "TBLPROPERTIES ('format-version' = '3')"
    )
    sql("ALTER TABLE {t} DROP COLUMN doc")
    sql("INSERT INTO {t} VALUES (1, 'a'), (2, 'a')")
    follower = follow()
    assert brief(follower.round()) == ["+1a", "+2a"]
    sql("ALTER TABLE {t} ADD COLUMN doc VARIANT")
    sql("INSERT OVERWRITE {t} SELECT 1, 'b', parse_json('[1]')")
    with pytest.raises(Unsupported, match=r"the column 'doc' of the table .* is of the type variant"):
        follower.plan()
    sql("ALTER TABLE {t} DROP COLUMN doc")
    assert brief(follower.round()) == ["+1b", "-1a", "-2a"]


def test_the_helpers_tell_pairs() -> None:
    rows = [{"id": 1, "_change_type": "DELETE"}, {"id": 1, "_change_type": "INSERT"}]
    with pytest.raises(AssertionError):
        check_updates(rows, ["id"])
    assert changed(rows) == (Counter([shown({"id": 1})]), Counter([shown({"id": 1})]))
