"""Files that were never committed go away; none that a snapshot refers to ever does."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from tests.lake.support import Reader, commit, foreign_append, local, write_file
from tests.lake.test_writers import P, claim, expire, roll_back

from frazil.lake import leftovers
from frazil.lake.leftovers import remove_leftovers
from frazil.lake.table import LakeTable


def listed(table: LakeTable) -> set[str]:
    return set(table.storage().list(f"{table.data_location}/{P}/"))


def test_nothing_to_do(table: LakeTable) -> None:
    assert remove_leftovers(claim(table)).removed == ()


def test_a_writer_that_died(table: LakeTable, reader: Reader) -> None:
    dead = claim(table)
    commit(dead, [0])
    lost = write_file(dead.table, dead.begin().prefix, [1])
    # Not named by a round of this pipeline: not ours to judge.
    strange = write_file(dead.table, f"{dead.table.data_location}/{P}/000001/notes", [1])
    other = write_file(dead.table, f"{dead.table.data_location}/clicks/000001/00000001-aaaaaaaa", [1])
    writer = claim(table)
    running = write_file(writer.table, writer.begin().prefix, [1])
    swept = remove_leftovers(writer)
    assert swept.removed == (lost.path,)
    assert not local(lost.path).exists()
    assert all(local(file.path).exists() for file in (strange, other, running))
    commit(writer, [1])
    reader.check(P, [0, 1])


def test_a_task_that_ran_twice(table: LakeTable, reader: Reader) -> None:
    """Its round landed, with the files of the other run."""
    dead = claim(table)
    ticket = dead.begin()
    twice = write_file(dead.table, ticket.prefix, [0], number=7)
    commit(dead, [0], ticket)
    assert remove_leftovers(claim(table)).removed == (twice.path,)
    reader.check(P, [0])


def test_after_a_rollback(table: LakeTable, reader: Reader) -> None:
    """What was rolled back is not in main, but its snapshots are there, and with them their files."""
    dead = claim(table)
    commit(dead, [0])
    older = dead.table.head
    assert older is not None
    commit(dead, [1])
    lost = write_file(dead.table, dead.begin().prefix, [2])
    roll_back(table, older)
    swept = remove_leftovers(claim(table))
    assert swept.removed == (lost.path,)
    assert reader.all_files() == listed(table)


def test_files_on_a_branch_whose_commit_expired(table: LakeTable, reader: Reader) -> None:
    """The stamp is gone with its snapshot, the file is not: a branch grew on it before the rollback."""
    dead = claim(table)
    commit(dead, [0])
    older = dead.table.head
    commit(dead, [1])
    assert older is not None
    java = table.lake.load(table.namespace, table.name).java
    java.manageSnapshots().createBranch("kept", dead.table.head).commit()
    java.newFastAppend().toBranch("kept").commit()
    roll_back(table, older)
    claim(table)
    lost = write_file(dead.table, f"{table.data_location}/{P}/000001/00000003-aaaaaaaa", [2])
    expire(table)
    assert len(reader.all_files()) == 2
    swept = remove_leftovers(claim(table))
    assert swept.removed == (lost.path,)
    assert reader.all_files() == listed(table)


def test_files_of_expired_commits(table: LakeTable, reader: Reader) -> None:
    """They are part of main all the same."""
    dead = claim(table)
    for number in range(3):
        commit(dead, [number])
    lost = write_file(dead.table, dead.begin().prefix, [3])
    expire(table)
    expire(table)
    writer = claim(table)
    expire(table)
    assert len(reader.metadata()["snapshots"]) == 1
    writer = claim(table)
    assert remove_leftovers(writer).removed == (lost.path,)
    reader.check(P, [0, 1, 2])


def test_a_commit_that_was_picked_back(table: LakeTable, reader: Reader) -> None:
    """Rolled back, then cherry-picked by somebody: in main without its stamp, which then expires."""
    dead = claim(table)
    commit(dead, [0])
    older = dead.table.head
    commit(dead, [1])
    picked = dead.table.head
    assert older is not None
    lost = write_file(dead.table, dead.begin().prefix, [2])
    roll_back(table, older)
    foreign_append(table, [100])
    table.lake.load(table.namespace, table.name).java.manageSnapshots().cherrypick(picked).commit()
    writer = claim(table)
    expire(table)
    assert reader.ids() == [0, 1, 100]
    assert remove_leftovers(claim(writer.table)).removed == (lost.path,)
    assert reader.ids() == [0, 1, 100]


def test_too_much_to_prove(table: LakeTable, monkeypatch: pytest.MonkeyPatch) -> None:
    dead = claim(table)
    lost = write_file(dead.table, dead.begin().prefix, [0])
    foreign_append(table, [100])
    monkeypatch.setattr(leftovers, "_MOST_SNAPSHOTS", 1)
    swept = remove_leftovers(claim(table))
    assert (swept.removed, swept.unproven) == ((), (lost.path,))
    assert local(lost.path).exists()


@pytest.mark.parametrize("seed", [1, 2])
def test_any_history(seed: int, table: LakeTable, reader: Reader) -> None:
    """Whatever happens to the table, no file that a snapshot has is removed."""
    chance = random.Random(seed)
    writer = claim(table)
    for number in range(14):
        match chance.choice(["round", "round", "round", "crash", "foreign", "roll back", "expire", "branch"]):
            case "round":
                commit(writer, [number])
            case "foreign":
                foreign_append(table, [100 + number])
            case "branch":
                java = table.lake.load(table.namespace, table.name).java
                if java.currentSnapshot() is not None:
                    java.manageSnapshots().createBranch(f"b{number}").commit()
                    java.newFastAppend().toBranch(f"b{number}").commit()
            case "roll back":
                older = [view.id for view in writer.table.ancestry() if view.summary]
                roll_back(table, older[-1] if len(older) < 2 else older[1])
            case "expire":
                commit(claim(table), [number])
                expire(table)
        write_file(table, f"{table.data_location}/{P}/{writer.stamp.epoch:06d}/{number:08d}-aaaaaaaa", [1])
        writer = claim(table)
        needed = reader.all_files()
        remove_leftovers(writer)
        assert needed - listed(table) == {path for path in needed if f"/{P}/" not in path}
    assert not any("aaaaaaaa" in path for path in listed(table))


def test_a_place_that_other_tables_may_share(table: LakeTable, tmp_path: Path) -> None:
    """`write.data.path` may be that of another table, with a pipeline of the same name: its files stay."""
    place = f"file://{tmp_path}/shared"
    table.lake.load(table.namespace, table.name).java.updateProperties().set(
        "write.data.path", place
    ).commit()
    theirs = write_file(table, f"{place}/{P}/000001/00000001-aaaaaaaa", [1])
    table.refresh()
    dead = claim(table)
    ticket = dead.begin()
    twice = write_file(dead.table, ticket.prefix, [0], number=7)
    commit(dead, [0], ticket)
    swept = remove_leftovers(claim(table))
    assert (swept.removed, swept.unproven) == ((twice.path,), (theirs.path,))
    assert local(theirs.path).exists()
