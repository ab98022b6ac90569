"""MySQL's changes, as its connector sends them, through a pipeline."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer
from tests.stream.cdc.mysql import SERVER, MySqlTable
from tests.stream.cdc.test_lanes import pipeline, rows, topic_of
from tests.stream.world import World

from frazil.core.errors import SourceChanged
from frazil.core.stamp import Stamp, stamp_key


@pytest.mark.parametrize(("gtids", "version"), [(SERVER, 3), (None, 2)], ids=["gtids", "files"])
def test_a_copy_of_a_table(world: World, producer: Producer, gtids: str | None, version: int) -> None:
    """Over several files of the log, and with what a connector sends once more after it was killed."""
    topic, source = topic_of(world, "customers"), MySqlTable(gtids=gtids, file=999_998)
    table = f"mysql_{version}"
    line = pipeline(world, topic, table, format_version=version)
    for number in range(30):
        source.read(id=number, word=f"w{number}", price=number / 2)
    with source.transaction():
        source.put(id=1, word="changed", price=None)
        source.delete(2)
        source.put(id=2, word="again", price=0.5)
    source.rotate()
    source.insert(*({"id": number, "word": "many", "price": 1.0} for number in range(40, 45)))
    source.change_key((4,), id=400, word="moved", price=4.0)
    source.send(producer, topic)
    world.run(line)
    assert rows(world, table) == source.rows
    source.rotate()
    with source.transaction():
        source.put(id=400, word="moved", price=4.5)
        source.change_key((400,), id=401, word="moved on", price=5.0)
        source.put(id=4, word="another", price=0.0)
    source.delete(40)
    late = list(source.events)
    source.send(producer, topic)
    world.run(line)
    # All of it is below the mark by now, but the delete that is the mark.
    source.send(producer, topic, late)
    world.run(line)
    assert rows(world, table) == source.rows
    source.truncate()
    source.put(id=7, word="after", price=1.5)
    source.send(producer, topic)
    world.run(line)
    assert rows(world, table) == source.rows == {(7,): {"id": 7, "word": "after", "price": 1.5}}
    stamp = Stamp.decode(world.snapshots(table)[-1]["summary"][stamp_key(line.name)])
    (mark,) = stamp.marks[topic]
    assert mark is not None
    place = (f"gtid:{gtids}", source.number) if gtids else ("binlog:223344", 1_000_000)
    assert (mark.line, *mark.at) == (*place, source.pos, 0)
    source.reset()
    source.put(id=8, word="anew", price=None)
    source.send(producer, topic)
    with pytest.raises(SourceChanged, match=r"changes\.incarnation"):
        world.run(line)
    world.run(pipeline(world, topic, table, format_version=version, changes={"incarnation": 1}))
    assert rows(world, table) == source.rows
