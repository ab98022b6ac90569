"""Files that were never committed, in tables that ride in the commits of another."""

from __future__ import annotations

from tests.lake.conftest import MakeTable
from tests.lake.pairs import Pair
from tests.lake.support import at, foreign_append, write_file
from tests.lake.test_writers import claim, expire

from frazil.lake.leftovers import remove_leftovers


def test_of_writers_that_died(pair: Pair) -> None:
    pair.commit([1], [2])
    twice = pair.write(pair.writer.begin(), [3], [4])
    pair.commit([5], [])
    # A task ran twice, and the companion got nothing in that round but for that.
    ticket = pair.writer.begin()
    more = pair.write(ticket, [6], [7], number=7)
    pair.commit([6], [8], ticket)
    lost = {file.path for files in (*twice.values(), *more.values()) for file in files}
    assert set(remove_leftovers(pair.claim()).removed) == lost
    pair.check([1, 5, 6], [2, 8])
    assert pair.files() == pair.readers[0].all_files() | pair.readers[1].all_files()


def test_a_table_loaded_before_the_last_commit_landed(pair: Pair) -> None:
    """What it knew must not be what is swept by."""
    stale = pair.other.lake.load(pair.other.namespace, pair.other.name)
    pair.commit([1], [2])
    writer = claim(pair.home)
    writer.join(stale)
    assert remove_leftovers(writer, stale).removed == ()
    pair.check([1], [2])


def test_expired_stamps(pair: Pair) -> None:
    """Their files are in the table all the same; a file in no snapshot goes."""
    for number in range(3):
        pair.commit([], [number])
    lost = pair.write(pair.writer.begin(), [], [3])
    expire(pair.other)
    foreign_append(pair.other, [100])
    expire(pair.other)
    (path,) = remove_leftovers(pair.claim()).removed
    assert [path] == [file.path for file in lost[str(pair.other)]]
    pair.check([], [0, 1, 2, 100])


def test_another_pipeline_of_that_name_with_another_home(pair: Pair, make_table: MakeTable) -> None:
    """It may be running: what it is about to commit is not ours to judge, whatever its epoch."""
    rival = claim(make_table())
    rival.join(pair.other.lake.load(pair.other.namespace, pair.other.name))
    ticket = rival.begin()
    pair.claim()
    file = write_file(pair.other, ticket.prefixes[str(pair.other)], [7])
    pair.commit([1], [2])
    assert remove_leftovers(pair.claim()).removed == ()
    rival.commit(ticket, {str(pair.other): [file]}, positions=at(1), read=1, written=1, watermark=None)
    expire(pair.other)
    assert remove_leftovers(pair.claim()).removed == ()
    pair.check([1], [2, 7])
