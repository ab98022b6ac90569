"""Others change the table between a lookup and its commit: it is looked up again, and nothing is lost."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from tests.client.faulty import Fault
from tests.lake.network import Accident, CommitNetwork
from tests.lake.support import SOURCE, foreign_append, local, write_file
from tests.lake.test_upserts import Shape, rounds
from tests.lake.test_writers import roll_back
from tests.lake.upserts import PIPELINE, KeyedWorld

from frazil.client import Client
from frazil.core.errors import Conflict, HistoryChanged, InvalidInput
from frazil.core.stamp import Mark, Position
from frazil.lake.catalog import Lake
from frazil.lake.delivery import Patience
from frazil.lake.delta import Deltas, RowDelta
from frazil.lake.leftovers import remove_leftovers
from frazil.lake.table import LakeTable
from frazil.lake.writers import PipelineWriter

REWRITE = "CALL frazil.system.rewrite_{what}(table => '{name}', options => map('rewrite-all', 'true'))"
RIVALS: dict[str, Callable[[KeyedWorld], None]] = {
    "compaction": lambda world: world.sql(REWRITE.format(what="data_files", name=world.name[7:])),
    "compaction of deletes": lambda world: world.sql(
        REWRITE.format(what="position_delete_files", name=world.name[7:])
    ),
    "manifests": lambda world: world.sql(f"CALL frazil.system.rewrite_manifests('{world.name[7:]}')"),
    "append": lambda world: world.sql("INSERT INTO {t} VALUES (3, 'c', 'p', 'w'), (77, 'c', 'p', 'w')"),
    "delete": lambda world: world.sql("DELETE FROM {t} WHERE id % 2 = 0"),
    "properties": lambda world: world.sql("ALTER TABLE {t} SET TBLPROPERTIES ('a' = 'b')"),
}


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("rival", RIVALS)
def test_a_rival(rival: str, version: int, lake: Lake, client: Client) -> None:
    shape, rng = Shape(version=version), random.Random(7)
    world = KeyedWorld(lake, client, schema=shape.schema, version=version)
    world.sql("ALTER TABLE {t} SET TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')")
    rounds(world, shape, rng, 3)
    world.upsert([shape.row(number, rng) for number in range(20)])
    if rival == "append":
        row = {"code": "c", "place": "p", "word": "w"}
        world.model |= {(number,): row | {"id": number} for number in (3, 77)}
    elif rival == "delete":
        world.model = {key: row for key, row in world.model.items() if key[0] % 2}
    rows = [shape.row(number, rng) for number in (1, 2, 3, 4)]
    world.upsert(rows, gone=[(5,), (6,)], before=lambda: RIVALS[rival](world))
    world.check()
    rounds(world, shape, rng, 1)
    world.check()


def test_files_of_the_first_lookup_go(lake: Lake, client: Client) -> None:
    world = KeyedWorld(lake, client)
    world.upsert([{"id": number, "word": "a"} for number in range(9)])
    world.upsert([{"id": 1, "word": "b"}], before=lambda: RIVALS["compaction"](world))
    world.check()
    table = world.writer.table
    written = [path for path in table.storage().list(f"{world.writer.folder(table)}/") if "-k" in path]
    assert [path for path in written if path.endswith(".puffin")] == [
        path for path in written if "-k002-" in path
    ]
    assert len(written) == 1


class Old:
    """Deltas of a lookup that is older than the table, the first time."""

    def __init__(self, first: RowDelta, then: RowDelta | None) -> None:
        self.asked = 0
        self._first, self._then = first, then

    def at(self, table: LakeTable) -> RowDelta:
        self.asked += 1
        return self._first if self.asked == 1 or self._then is None else RowDelta(table.head, self._then.rows)

    def landed(self) -> None:
        """Nothing to remove."""


def commit(world: KeyedWorld, deltas: Deltas) -> None:
    world.writer.commit(
        world.writer.begin(),
        {str(world.writer.table): deltas},
        positions={"people": Position("topic-1", (1,))},
        read=0,
        written=0,
        watermark=None,
    )


def test_iceberg_refuses_what_was_looked_up_before_a_compaction(lake: Lake, client: Client) -> None:
    """Also if the commit itself would find main where it asserts it."""
    world = KeyedWorld(lake, client)
    world.upsert([{"id": number, "word": "a"} for number in range(9)])
    world.upsert([{"id": 1, "word": "b"}])
    now, live = world.live()
    target = next(found for file in live.data if (found := live.target(file)).vector is not None)
    assert target.vector is not None
    stale = RowDelta(now.head, replaced=[target.vector.to_json()])
    RIVALS["compaction"](world)
    deltas = Old(stale, RowDelta(None))
    commit(world, deltas)
    assert deltas.asked == 2
    world.check()
    # The same of a table that did not change is no accident.
    with pytest.raises(Conflict, match="Missing required files"):
        commit(world, Old(RowDelta(world.writer.table.head, replaced=[target.vector.to_json()]), None))
    world.check()


@pytest.mark.parametrize("accidents", [[Fault.LOSE], [Fault.DROP] * 2, [Fault.LOSE] * 2])
def test_lost_answers(
    accidents: list[Fault], network: CommitNetwork, far_lake: Lake, lake: Lake, client: Client
) -> None:
    shape, rng = Shape(), random.Random(1)
    world = KeyedWorld(lake, client, schema=shape.schema)
    far = far_lake.load(world.table.namespace, world.table.name)
    first = SOURCE, {"people": Position("topic-1", (0,))}
    world.writer = PipelineWriter.claim(far_lake, far, PIPELINE, lambda: first, "", Patience(first_wait=0.01))
    rounds(world, shape, rng, 2)
    network.accidents = [Accident(fault) for fault in accidents]
    rounds(world, shape, rng, 2)
    world.check()


def test_a_lost_answer_and_a_rival(
    network: CommitNetwork, far_lake: Lake, lake: Lake, client: Client
) -> None:
    """The commit never arrived, and somebody else's did: all is looked up again."""
    shape, rng = Shape(), random.Random(1)
    world = KeyedWorld(lake, client, schema=shape.schema)
    far = far_lake.load(world.table.namespace, world.table.name)
    first = SOURCE, {"people": Position("topic-1", (0,))}
    world.writer = PipelineWriter.claim(far_lake, far, PIPELINE, lambda: first, "", Patience(first_wait=0.01))
    rounds(world, shape, rng, 2)
    network.accidents = [
        Accident(Fault.DROP, before=lambda: RIVALS["compaction"](world)),
        Accident(Fault.DROP),
    ]
    world.upsert([shape.row(number, rng) for number in range(5)])
    world.check()


def test_a_rollback(lake: Lake, client: Client) -> None:
    world = KeyedWorld(lake, client)
    world.upsert([{"id": number, "word": "a"} for number in range(9)])
    older, model = world.writer.table.head, dict(world.model)
    assert older is not None
    world.upsert([{"id": 1, "word": "b"}])
    roll_back(world.table, older)
    with pytest.raises(HistoryChanged):
        world.upsert([{"id": 2, "word": "c"}])
    world.model = model
    world.check()
    world.writer = world.claim()
    # What was rolled back is still in a snapshot.
    assert remove_leftovers(world.writer).removed == ()
    world.upsert([{"id": 2, "word": "d"}, {"id": 1, "word": "e"}])
    world.check()


def test_files_of_a_dead_writer(lake: Lake, client: Client) -> None:
    """Deletion vectors that never landed go; those that did, and what they share a file with, stay."""
    shape, rng = Shape(partitioning=("bucket(3, id)",)), random.Random(2)
    world = KeyedWorld(lake, client, schema=shape.schema, partitioning=shape.partitioning)
    rounds(world, shape, rng, 3)
    landed = set(world.writer.table.storage().list(f"{world.writer.folder(world.writer.table)}/"))

    def superseded() -> None:
        world.writer, other = world.claim(), world.writer
        assert other is not world.writer

    with pytest.raises(Exception, match="another writer took over"):
        world.upsert([shape.row(number, rng) for number in range(9)], before=superseded)
    left = set(world.writer.table.storage().list(f"{world.writer.folder(world.writer.table)}/")) - landed
    assert any(path.endswith(".puffin") for path in left)
    assert set(remove_leftovers(world.writer).removed) == left
    world.check()
    rounds(world, shape, rng, 1)
    assert remove_leftovers(world.claim()).removed == ()
    world.check()


def test_a_lookup_that_ran_twice(lake: Lake, client: Client) -> None:
    """Its round landed with the files of the other run; a vector's file is told from it by its name."""
    world = KeyedWorld(lake, client)
    world.upsert([{"id": number, "word": "a"} for number in range(9)])
    world.upsert([{"id": 1, "word": "b"}])
    (puffin,) = (
        path
        for path in world.writer.table.storage().list(f"{world.writer.table.data_location}/")
        if path.endswith(".puffin")
    )
    twice = puffin.replace(".puffin", "0.puffin")
    local(twice).write_bytes(local(puffin).read_bytes())
    assert remove_leftovers(world.claim()).removed == (twice,)
    world.check()


def test_current_rows_and_the_log_of_changes_in_one_commit(lake: Lake, client: Client) -> None:
    world = KeyedWorld(lake, client)
    world.upsert([{"id": number, "word": "a"} for number in range(9)])
    other = lake.create(("keyed",), f"{world.table.name}_log", world.writer.table.schema)
    world.writer.join(other)
    ticket = world.writer.begin()
    _, live = world.live()
    removed = RowDelta(world.writer.table.head, removed=[file.to_json() for file in live.data])
    file = write_file(other, ticket.prefixes[str(other)], [1, 2, 3])
    marks = {"people": (Mark("lsn", (1, 2, 3), 4), None)}
    stamp = world.writer.commit(
        ticket,
        {str(world.writer.table): Old(removed, None), str(other): [file]},
        positions={"people": Position("topic-1", (9,))},
        read=0,
        written=0,
        watermark=None,
        marks=marks,
        incarnation=2,
    )
    assert (stamp.marks, stamp.incarnation) == (marks, 2)
    world.model = {}
    world.check()
    rows = lake.spark.table(f"{world.name}_log").toArrow()
    assert rows["id"].to_pylist() == [1, 2, 3]
    # What is not said stays.
    assert world.upsert([{"id": 1, "word": "b"}]).marks == marks
    assert world.claim().stamp.incarnation == 2


def test_a_table_that_did_not_begin(lake: Lake, client: Client, table: LakeTable) -> None:
    world = KeyedWorld(lake, client)
    foreign_append(table, [1])
    with pytest.raises(InvalidInput, match="which the round did not begin with"):
        world.writer.commit(
            world.writer.begin(),
            {str(table): Old(RowDelta(None), None)},
            positions={},
            read=0,
            written=0,
            watermark=None,
        )
