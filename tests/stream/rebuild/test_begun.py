"""Rebuilds of pipelines that began with a history, and tables that were rebuilt as the history of others."""

from __future__ import annotations

import pytest
from confluent_kafka import TopicPartition
from tests.stream.rebuild.again import counted, gathered, metadata, rebuilds, rebuilt
from tests.stream.world import World, records

from frazil.client import Client
from frazil.core.errors import (
    CommitStateUnknown,
    Conflict,
    FrazilError,
    InvalidInput,
    NoSuchTable,
    SourceChanged,
)
from frazil.core.stamp import Position, Stamp, stamp_key
from frazil.lake.catalog import Lake
from frazil.maintenance.actions import expire
from frazil.stream.config import PipelineConfig
from frazil.stream.config.model import KafkaSource, MetadataColumns
from frazil.stream.rebuild.past_kafka import KafkaPast
from frazil.stream.rebuild.sink import RebuildSink
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


@pytest.mark.parametrize("offset", [15, 25])
def test_offsets_that_were_edited(world: World, offset: int) -> None:
    """`run` does not look at them again; records would come twice, or be lost."""
    topic = world.topic(records(20), partitions=1)
    raw, name = f"edited_raw_{offset}", f"edited-{offset}"
    world.run(world.pipeline(topic, raw, name=f"{name}-raw"))

    def at(offset: int) -> PipelineConfig:
        history = {"table": f"paths.{raw}", "offsets": {topic: [offset]}}
        return world.pipeline(topic, name, name=name, history=history)

    world.produce(topic, records(30)[20:], partitions=1)
    world.run(at(20))
    world.run(at(offset))
    assert rebuilt(world, at(offset)).after == 30
    assert ids(world, name) == list(range(30))


def test_a_history_that_came_later(world: World) -> None:
    """The pipeline began with the log, and read nothing of that table."""
    topic = world.topic(records(10), partitions=1)
    world.run(world.pipeline(topic, "came_later", name="came-later"))
    world.spark_sql("CREATE TABLE {}.came_other (id bigint, word string) USING iceberg")
    world.spark_sql("INSERT INTO {}.came_other VALUES (100, 'other')")
    history = {"table": "paths.came_other", "offsets": {topic: [5]}}
    edited = world.pipeline(topic, "came_later", name="came-later", history=history)
    assert rebuilt(world, edited).after == 10
    assert ids(world, "came_later") == list(range(10))
    with pytest.raises(InvalidInput, match="none of its snapshots has a stamp"):
        rebuilt(world, edited, history="paths.came_other")


def test_a_history_with_a_dot_in_its_name(world: World) -> None:
    topic = world.topic(records(20), partitions=1)
    table = r"dotted\.raw"
    world.run(world.pipeline(topic, table, name="dotted-raw"))
    derived = world.pipeline(topic, "dotted", name="dotted", history=f"paths.{table}")
    world.run(derived)
    assert rebuilt(world, derived).after == 20
    plain = world.pipeline(topic, "dotted", name="dotted")
    with pytest.raises(NoSuchTable, match="name it by --history"):
        rebuilt(world, plain)
    assert rebuilt(world, plain, history=f"paths.{table}").after == 20


def tags(world: World, table: str) -> set[str]:
    return {name for name in metadata(world, table)["refs"] if name.startswith("frazil-history.")}


@pytest.mark.parametrize(
    ("step", "error"), [("take_over", Conflict("not now")), ("swap", CommitStateUnknown("who knows"))]
)
def test_one_that_fails_keeps_no_snapshot(
    world: World, monkeypatch: pytest.MonkeyPatch, step: str, error: FrazilError
) -> None:
    word = f"kept_{step}"
    _, _, derived = begun(world, word)
    seen: set[str] = set()

    def failing(*_: object) -> None:
        seen.update(tags(world, f"{word}_raw"))
        raise error

    monkeypatch.setattr(RebuildSink, step, failing)
    with pytest.raises(type(error), match=error.message):
        rebuilt(world, derived)
    assert seen == {f"frazil-history.{word}_rebuild"}
    assert not tags(world, f"{word}_raw")


def test_what_one_that_died_kept_is_abandoned(world: World) -> None:
    """The table is known from the stamp, from the settings, or because it is named again."""
    topic, _, derived = begun(world, "died")
    alone = world.pipeline(topic, "died_alone", name="alone")
    settled = world.pipeline(topic, "died_alone", name="alone", history="paths.died_raw")
    plain = world.pipeline(topic, "died_derived", name="died")
    world.run(alone)
    for one, wishes in ((derived, {}), (plain, {}), (settled, {}), (alone, {"history": "paths.died_raw"})):
        tag = f"frazil-history.{one.name}_rebuild"
        world.spark_sql(f"ALTER TABLE {{}}.died_raw CREATE TAG `{tag}`")
        assert tags(world, "died_raw") == {tag}
        assert rebuilds(world, one, abandon=True, **wishes).run() == {}
        assert not tags(world, "died_raw")


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
