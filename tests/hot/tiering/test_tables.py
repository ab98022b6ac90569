"""Hot tables in Iceberg, as an independent reader finds them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.hot.tiering.world import World

from frazil.core.errors import BadRecord, InvalidConfig, SourceChanged
from frazil.hot.tiering.status import hot_status
from frazil.stream.kafka.log import KafkaLog, LogView


def test_keyed_tables_and_logs_in_one_round(world: World) -> None:
    keyed, log, empty = world.table(), world.table(key=()), world.table()
    keyed.put(*range(50))
    log.put(*range(20))
    world.once()
    assert (keyed.found(), log.found(), empty.found()) == (keyed.wanted(), log.wanted(), [])
    keyed.put(*range(0, 60, 3), word="new")
    keyed.delete(1, 2, 99)
    keyed.put(2, word="back")
    log.put(3, 3)
    world.once()
    assert (keyed.found(), log.found()) == (keyed.wanted(), log.wanted())
    names = [
        column["name"] for column in world.client.tables.load(*_where(keyed)).metadata["schemas"][0]["fields"]
    ]
    assert names == ["id", "word", "price"]


def test_a_log_that_lost_records_stops_its_table(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends before what is in Iceberg, so that nothing seems to wait; what comes would be left out."""
    short, good = world.table(bucket__num="1"), world.table()
    short.put(*range(5))
    world.once()
    good.put(1)
    look = KafkaLog.look_at_each

    def shortened(self: KafkaLog, *, wait: bool = False) -> LogView:
        view = look(self, wait=wait)
        return replace(view, ends={**view.ends, short.hot.topic: (4,)})

    monkeypatch.setattr(KafkaLog, "look_at_each", shortened)
    with pytest.raises(SourceChanged, match="read up to 5 and now ends at 4: the log lost records"):
        world.once()
    assert good.complete()


def _where(table: object) -> tuple[tuple[str, ...], str]:
    hot = table.hot  # type: ignore[attr-defined]
    return hot.namespace, hot.name


def test_a_bad_record_stops_its_table_alone(world: World) -> None:
    bad, good = world.table(bucket__num="1"), world.table()
    bad.put(1)
    bad.send(b'{"id":2}', b"{broken")
    bad.put(3)
    good.put(1, 2)
    with pytest.raises(BadRecord, match=r"offset 1.*dead-letters"):
        world.once()
    assert good.complete()
    assert [row["id"] for row in bad.found()] == [1]
    statuses = {one.table: one for one in hot_status(world.client, world.settings)}
    assert "offset 1" in statuses[str(bad.hot)].problems[0]
    assert statuses[str(bad.hot)].backlog == 2
    assert statuses[str(good.hot)].problems == ()
    bad.alter(frazil__hot__dead_letters=f"{bad.hot.namespace[0]}.letters")
    assert {one.table: one for one in hot_status(world.client, world.settings)}[str(bad.hot)].problems == ()
    world.once()
    assert bad.complete()


def test_a_record_without_a_key_is_bad_in_several_partitions_alone(world: World) -> None:
    """Changes of its row may be in each of them."""
    several, alone = world.table(), world.table(bucket__num="1")
    for table in (several, alone):
        table.put(1, word="old")
        table.send(None, b'{"id": 1, "word": "w1", "price": 0.5}')
    with pytest.raises(BadRecord, match=r"it has no key, and the topic has several partitions.*dead-letters"):
        world.once()
    assert alone.found() == [{"id": 1, "word": "w1", "price": 0.5}]
    said = {one.table: one.problems for one in hot_status(world.client, world.settings)}
    assert "it has no key" in said[str(several.hot)][0]
    assert said[str(alone.hot)] == ()
    several.alter(frazil__hot__dead_letters=f"{several.hot.namespace[0]}.strays")
    world.once()
    assert several.complete()


def test_bad_records_do_not_go_to_a_table_of_something_else(world: World) -> None:
    """It would get rows of nulls."""
    bad = world.table(bucket__num="1")
    other = world.table(key=())
    bad.put(1)
    bad.alter(frazil__hot__dead_letters=str(other.hot))
    with pytest.raises(InvalidConfig, match=f"{other.hot} is named for bad records, and is one of something"):
        world.once()
    assert other.found() == []
