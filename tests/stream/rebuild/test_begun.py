"""Rebuilds of pipelines that began with a history, and tables that were rebuilt as the history of others."""

from __future__ import annotations

import pytest
from confluent_kafka import TopicPartition
from tests.stream.rebuild.again import counted, gathered, rebuilt
from tests.stream.world import World, records

from frazil.client import Client
from frazil.core.errors import Conflict, InvalidInput, SourceChanged
from frazil.core.stamp import Position, Stamp, stamp_key
from frazil.lake.catalog import Lake
from frazil.maintenance.actions import expire
from frazil.stream.config import PipelineConfig
from frazil.stream.config.model import KafkaSource, MetadataColumns
from frazil.stream.rebuild.past_kafka import KafkaPast
from frazil.stream.reset import ToHistory, parse_offsets, reset

MARKED = "SELECT id, concat(word, '!') AS word, at, ref FROM source"


def ids(world: World, table: str) -> list[int]:
    return [row["id"] for row in world.rows(table)]


def begun(world: World, word: str) -> tuple[str, PipelineConfig, PipelineConfig]:
    """A topic of 30 records, its raw copy of 20, and a pipeline that began with that."""
    topic = world.topic(records(20), partitions=1)
    raw = world.pipeline(topic, f"{word}_raw", name=f"{word}-raw")
    world.run(raw)
    derived = world.pipeline(topic, f"{word}_derived", name=word, history=f"paths.{word}_raw")
    world.produce(topic, records(30)[20:], partitions=1)
    world.run(derived)
    return topic, raw, derived


@pytest.mark.parametrize("named", [None, "another"])
def test_it_takes_its_history_again(world: World, named: str | None) -> None:
    """Its first rows are not in the log any more, and the settings do not name them any more either."""
    word = f"begun_{named}".lower()
    topic, _, derived = begun(world, word)
    (done,) = world.kafka.admin.delete_records([TopicPartition(topic, 0, 20)]).values()
    done.result(30)
    settings = {} if named is None else {"history": f"paths.{named}"}
    changed = world.pipeline(topic, f"{word}_derived", name=word, transform=MARKED, **settings)
    found = rebuilt(world, changed)
    assert (found.read, found.before, found.after) == (30, 30, 30)
    assert ids(world, f"{word}_derived") == list(range(30))
    assert all(row["word"].endswith("!") for row in world.rows(f"{word}_derived"))
    world.produce(topic, records(33)[30:], partitions=1)
    world.run(changed)
    assert ids(world, f"{word}_derived") == list(range(33))
    with pytest.raises(InvalidInput, match=f"began with the rows of paths.{word}_raw"):
        rebuilt(world, derived, history=f"paths.{word}_derived")


def test_the_history_as_it_was(world: World) -> None:
    """What others took out of the table before and after belongs to it or does not, as for the pipeline."""
    topic = world.topic(records(10), partitions=1)
    world.run(world.pipeline(topic, "then_raw", name="then-raw"))
    world.spark_sql("DELETE FROM {}.then_raw WHERE id = 3")
    derived = world.pipeline(topic, "then_derived", name="then", history="paths.then_raw")
    world.run(derived)
    world.spark_sql("DELETE FROM {}.then_raw WHERE id = 4")
    before = counted(world, "then_derived")
    assert rebuilt(world, derived).after == 9
    assert counted(world, "then_derived") == before


def test_its_snapshot_expired(world: World, lake: Lake) -> None:
    """The copy went on, and has what the log does not have any more."""
    topic, raw, derived = begun(world, "later")
    world.run(raw)
    table = lake.load(("paths",), "later_raw")
    expire(
        table,
        [row["snapshot-id"] for row in world.snapshots("later_raw") if row["snapshot-id"] != table.head],
    )
    (done,) = world.kafka.admin.delete_records([TopicPartition(topic, 0, 30)]).values()
    done.result(30)
    found = rebuilt(world, derived)
    assert (found.read, found.after) == (30, 30)
    assert ids(world, "later_derived") == list(range(30))
    # Now the copy is another one's, of which nobody can say what it has.
    world.spark_sql("DROP TABLE {}.later_raw")
    world.run(world.pipeline(topic, "later_raw", name="later-raw", start={topic: [30]}))
    with pytest.raises(InvalidInput):
        rebuilt(world, derived)
    assert ids(world, "later_derived") == list(range(30))


def test_in_the_middle_of_its_history(world: World) -> None:
    """The pipeline would go on with rows that the rebuilt table has already."""
    topic = world.topic(records(20), partitions=1)
    world.run(world.pipeline(topic, "middle_raw", name="middle-raw"))
    derived = world.pipeline(
        topic, "middle", name="middle", history="paths.middle_raw", limits={"records_per_round": 5}
    )
    world.run(derived)
    key, place = stamp_key("middle"), "paths.middle_raw/history"
    stamps = {
        row["snapshot-id"]: Stamp.decode(row["summary"][key])
        for row in world.snapshots("middle")
        if key in row["summary"]
    }
    (halfway,) = [at for at, stamp in stamps.items() if stamp.positions[place].next == (10,)]
    world.spark_sql(f"CALL world.system.rollback_to_snapshot('paths.middle', {halfway})")
    with pytest.raises(Conflict, match="has taken 10 of 20 rows of its history"):
        rebuilt(world, derived)
    world.run(derived)
    assert ids(world, "middle") == list(range(20))


def test_what_a_reset_leaves(world: World, lake: Lake) -> None:
    """To other offsets, the history is not in the stamp any more; to the history, it is another one."""
    topic, raw, derived = begun(world, "moved")
    (settled,) = gathered(world, derived).pipelines
    reset(settled, lake, parse_offsets([f"{topic}=0:25"]))
    world.run(derived)
    assert len(ids(world, "moved_derived")) == 35
    assert rebuilt(world, derived).after == 30
    assert ids(world, "moved_derived") == list(range(30))
    world.run(raw)
    with Client(world.server.uri, warehouse=world.warehouse) as client:
        target = ToHistory(client.tables.load("paths", "moved_raw").metadata)
    reset(settled, lake, target)
    world.run(derived)
    assert len(ids(world, "moved_derived")) == 60
    assert rebuilt(world, derived).after == 30
    assert ids(world, "moved_derived") == list(range(30))


def test_a_rebuilt_table_is_a_history(world: World) -> None:
    """Of a new pipeline and of a rebuild: the swap, the claim of a dry run, or more rows are its newest."""
    topic = world.topic(records(10), partitions=1)
    raw = world.pipeline(topic, "twice_raw", name="twice")
    derived = world.pipeline(topic, "twice_derived", name="twice-derived")
    world.run(raw)
    world.run(derived)
    rebuilt(world, raw)

    def copied(name: str, count: int) -> None:
        world.run(world.pipeline(topic, name, name=name, history="paths.twice_raw"))
        assert ids(world, name) == list(range(count))
        assert rebuilt(world, derived, history="paths.twice_raw").after == count
        assert ids(world, "twice_derived") == list(range(count))

    copied("twice-swap", 10)
    rebuilt(world, raw, dry_run=True)
    copied("twice-claim", 10)
    world.produce(topic, records(14)[10:], partitions=1)
    world.run(raw)
    world.run(derived)
    copied("twice-more", 14)


def test_a_topic_that_the_stamp_lost() -> None:
    """What was read of it cannot be read again, and its rows would go."""

    def stamp(epoch: int, *topics: str) -> Stamp:
        positions = {name: Position(id=name, next=(0,)) for name in topics}
        return Stamp(pipeline="p", epoch=epoch, round=0, token="", source="kafka:x", positions=positions)

    source = KafkaSource({"bootstrap.servers": "127.0.0.1:1"}, ("b",))
    past = KafkaPast(source, MetadataColumns(), stamp(2, "b"))
    with pytest.raises(SourceChanged, match="it began with a too"):
        past._claimed(stamp(1, "a", "b"))
    assert past._claimed(stamp(1, "b")) == {"b": (0,)}
