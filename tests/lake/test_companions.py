"""Several tables in one commit: all of them get their files, once, or none does."""

from __future__ import annotations

import json
import threading
import urllib.request
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from tests.client.faulty import Fault, Reply
from tests.lake.conftest import SCHEMA, MakeTable
from tests.lake.network import Accident, CommitNetwork, answered_within
from tests.lake.pairs import P, Pair
from tests.lake.support import at, first, foreign_append, local, write_file
from tests.lake.test_writers import claim, roll_back

from frazil.client import Client
from frazil.core.errors import (
    CommitStateUnknown,
    HistoryChanged,
    InvalidInput,
    NoSuchTable,
    Superseded,
    Unsupported,
)
from frazil.core.stamp import Stamp, stamp_key
from frazil.devstack.frazil_server import FrazilServer
from frazil.lake.catalog import Lake
from frazil.lake.delivery import Patience
from frazil.lake.leftovers import remove_leftovers
from frazil.lake.writers import PipelineWriter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SORRY = json.dumps({"error": {"message": "sorry", "type": "InternalServerError", "code": 500}}).encode()
JSON = {"Content-Type": "application/json"}


@pytest.fixture
def far(pair: Pair, far_lake: Lake, network: CommitNetwork) -> Pair:
    """Its writer sits behind the network and has written 1 to the one, 2 to the other."""
    pair.claim(far_lake, Patience(first_wait=0.01))
    pair.commit([1], [2])
    network.commits.clear()
    return pair


@pytest.mark.parametrize("server", ["frazil_sqlite", "frazil_postgres"])
def test_rounds(server: str, request: pytest.FixtureRequest, spark: SparkSession) -> None:
    running: FrazilServer = request.getfixturevalue(server)
    with Client(running.uri) as client:
        lake = Lake(spark, client)
        pair = Pair(client, *(lake.create(("together",), name, SCHEMA) for name in ("home", "other")))
        pair.commit([1], [2, 3])
        pair.commit([], [])
        pair.commit([4], [])
        pair.commit([], [5])
        stamp = pair.check([1, 4], [2, 3, 5])
        assert (stamp, stamp.round, stamp.read) == (pair.writer.stamp, 4, 5)
        metadata = pair.readers[1].metadata()
        stamps = [Stamp.decode(one["summary"][stamp_key(P)]) for one in metadata["snapshots"]]
        assert [(one.round, one.positions) for one in stamps] == [(1, at(3)), (4, at(5))]
        # Only the home table speaks for the pipeline.
        assert stamp_key(P) not in metadata["properties"]
        assert list(metadata["refs"]) == ["main"]
        assert len(pair.readers[0].metadata()["snapshots"]) == 5
        lake.close()


def test_a_round_for_the_home_table_alone_is_a_commit_of_one_table(far: Pair, network: CommitNetwork) -> None:
    far.commit([3], [])
    far.commit([], [4])
    assert [seen.path.rpartition("/")[2] for seen in network.commits] == [far.home.name, "commit"]


def test_every_table_asserts_what_its_main_is(far: Pair, network: CommitNetwork) -> None:
    heads = [reader.metadata()["current-snapshot-id"] for reader in reversed(far.readers)]
    far.commit([3], [4])
    (request,) = (json.loads(seen.body)["table-changes"] for seen in network.commits)
    found = [
        {
            one["type"]: one.get("snapshot-id")
            for one in change["requirements"]
            if one.get("ref") != f"frazil-{P}"
        }
        for change in request
    ]
    assert [one["assert-ref-snapshot-id"] for one in found] == heads
    assert all("assert-table-uuid" in one for one in found)


@pytest.mark.parametrize("moved", ["home", "other"])
def test_others_commit_first(moved: str, far: Pair, network: CommitNetwork) -> None:
    """All is built anew, on what is there then."""
    table = far.home if moved == "home" else far.other
    network.accidents = [Accident(before=lambda: foreign_append(table, [100])) for _ in range(2)]
    far.commit([3], [4])
    assert len(network.commits) == 3
    more = [100, 100]
    far.check([1, 3, *(more if moved == "home" else [])], [2, 4, *(more if moved == "other" else [])])
    # Of each commit a manifest and a list of them (a claim has a list only): what was refused is gone.
    for reader, each in zip(far.readers, (far.home, far.other), strict=True):
        manifests = [path for path in (local(each.location) / "metadata").iterdir() if path.suffix == ".avro"]
        assert len(manifests) <= 2 * len(reader.metadata()["snapshots"])


UNKNOWN = {
    "lost answer": [Accident(Fault.LOSE)],
    "never sent": [Accident(Fault.DROP)] * 3,
    "no answer in time, done": [Accident(Fault.STALL, arrives=True)],
    "503, done": [Accident(Reply(503, SORRY, JSON), arrives=True)],
    "503, not done": [Accident(Reply(503, SORRY, JSON))] * 2,
}


@pytest.mark.parametrize(
    ("accidents", "answer_ms"), [(one, answered_within(one)) for one in UNKNOWN.values()], ids=UNKNOWN.keys()
)
def test_an_unknown_outcome(accidents: list[Accident], far: Pair, network: CommitNetwork) -> None:
    network.accidents = [*accidents]
    stamp = far.commit([3], [4])
    assert far.check([1, 3], [2, 4]) == stamp
    assert len({seen.body for seen in network.commits}) == 1
    far.commit([5], [6])
    far.check([1, 3, 5], [2, 4, 6])


@pytest.mark.parametrize("done", [True, False])
@pytest.mark.parametrize("moved", ["home", "other"])
def test_others_commit_while_the_outcome_is_unknown(
    done: bool, moved: str, far: Pair, network: CommitNetwork
) -> None:
    """Theirs is above ours if ours landed, else ours is built anew; the lost request never lands then."""
    table = far.home if moved == "home" else far.other

    def interfere() -> None:
        if done:
            network.send(network.commits[-1])
        foreign_append(table, [100])

    network.accidents = [Accident(Fault.DROP, before=interfere, late=not done), Accident(Fault.DROP)]
    far.commit([3], [4])
    assert network.release() == ([] if done else [409])
    far.check([1, 3, *([100] if moved == "home" else [])], [2, 4, *([100] if moved == "other" else [])])


@pytest.mark.parametrize("load", range(5))
def test_a_lost_request_that_lands_between_any_two_loads(
    load: int, far: Pair, network: CommitNetwork
) -> None:
    """A companion that moved because of it is not taken for somebody else's doing."""
    network.accidents = [Accident(Fault.DROP, late=True), Accident(Fault.DROP)]
    ticket = far.writer.begin()
    network.loads = [*[lambda: None] * (2 + load), network.release]
    stamp = far.commit([3], [4], ticket)
    network.loads.clear()
    assert far.check([1, 3], [2, 4]) == stamp == far.writer.stamp
    network.release()
    far.commit([5], [6])
    far.check([1, 3, 5], [2, 4, 6])


@pytest.mark.parametrize("load", range(4))
def test_a_refused_try_that_lands_after_all(load: int, far: Pair, network: CommitNetwork) -> None:
    """The HTTP client tried twice; the second was refused because of the first, which lands later."""
    conflict = {"error": {"message": "busy", "type": "CommitFailedException", "code": 409}}
    network.accidents = [
        Accident(Reply(503, SORRY, JSON), late=True),
        Accident(Reply(409, json.dumps(conflict).encode(), JSON)),
    ]
    ticket = far.writer.begin()
    network.loads = [*[lambda: None] * (2 + load), network.release]
    stamp = far.commit([3], [4], ticket)
    assert far.check([1, 3], [2, 4]) == stamp == far.writer.stamp


def test_a_writer_that_was_superseded_stops(pair: Pair) -> None:
    old = pair.writer
    ticket = old.begin()
    files = pair.write(ticket, [1], [2])
    pair.claim()
    with pytest.raises(Superseded, match="epoch 2, this one has 1"):
        old.commit(ticket, files, positions=at(2), read=2, written=2, watermark=None)
    old.discard(ticket)
    assert pair.files() == set()
    pair.commit([1], [2])
    pair.check([1], [2])


def test_taken_over_at_the_last_moment(far: Pair, network: CommitNetwork) -> None:
    """Only the home table has moved, and that is enough."""
    network.accidents = [Accident(before=lambda: claim(far.home))]
    with pytest.raises(Superseded):
        far.commit([3], [4])
    far.check([1], [2])


def test_stopped_while_nobody_answers(far: Pair, network: CommitNetwork) -> None:
    """The files stay, because the commit may land; the next writer finds out."""
    stop = threading.Event()
    far.writer.patience = Patience(first_wait=0.01, stop=stop, waiting=lambda _: stop.set())
    network.accidents = [Accident(Fault.DROP, late=True)] * 2
    old, ticket = far.writer, far.writer.begin()
    with pytest.raises(CommitStateUnknown, match="the next run finds out"):
        far.commit([3], [4], ticket)
    old.discard(ticket)
    before = far.files()
    assert len(before) == 4
    assert 204 in network.release()
    again = far.claim()
    assert remove_leftovers(again).removed == ()
    assert again.stamp.positions == at(4)
    far.check([1, 3], [2, 4])


class TestRefused:
    def test_a_table_that_did_not_join(self, pair: Pair, make_table: MakeTable) -> None:
        third = make_table()
        ticket = pair.writer.begin()
        pair.writer.join(third)
        file = write_file(third, f"{third.data_location}/x", [1])
        with pytest.raises(InvalidInput, match="Join tables before"):
            pair.writer.commit(
                ticket, {str(third): [file]}, positions=at(1), read=1, written=1, watermark=None
            )
        ticket = pair.writer.begin()
        pair.writer.commit(ticket, {str(third): [file]}, positions=at(1), read=1, written=1, watermark=None)
        pair.writer.join(third)
        assert list(pair.writer.tables) == [str(pair.home), str(pair.other), str(third)]

    def test_the_home_of_a_pipeline_of_that_name(self, pair: Pair, make_table: MakeTable) -> None:
        """Our stamps there would be taken for its own."""
        other = claim(make_table()).table
        with pytest.raises(Unsupported, match="give one of them another name"):
            pair.writer.join(pair.home.lake.load(other.namespace, other.name))
        claim(pair.other, "clicks")
        pair.commit([1], [2])
        ticket = pair.writer.begin()
        claim(pair.other)
        with pytest.raises(Unsupported, match="give one of them another name"):
            pair.commit([3], [4], ticket)
        pair.check([1], [2])

    def test_tables_of_two_lakes(self, pair: Pair, far_lake: Lake) -> None:
        with pytest.raises(InvalidInput, match="same Lake"):
            pair.writer.join(far_lake.load(pair.other.namespace, pair.other.name))

    def test_a_catalog_without_transactions(
        self, spark: SparkSession, frazil_sqlite: FrazilServer, pair: Pair
    ) -> None:
        with Poor(frazil_sqlite.port) as network, Client(network.uri) as client:
            lake = Lake(spark, client)
            home, other = (lake.load(each.namespace, each.name) for each in (pair.home, pair.other))
            writer = PipelineWriter.claim(lake, home, P, first, "")
            with pytest.raises(Unsupported, match="cannot commit to several tables at once"):
                writer.join(other)
            lake.close()


class Poor(CommitNetwork):
    """A catalog that has no transactions."""

    def next_fault(self, seen: Any) -> Any:
        if "/v1/config" not in seen.path:
            return super().next_fault(seen)
        with urllib.request.urlopen(f"http://127.0.0.1:{self.upstream}{seen.path}") as answer:
            config = json.load(answer)
        config["endpoints"] = [one for one in config["endpoints"] if "transactions" not in one]
        return Reply(200, json.dumps(config).encode(), JSON)


def _drop(pair: Pair) -> None:
    pair.home.lake.client.tables.drop(pair.other.namespace, pair.other.name)


def _replace(pair: Pair) -> None:
    _drop(pair)
    pair.home.lake.create(pair.other.namespace, pair.other.name, SCHEMA)


def _require(pair: Pair) -> None:
    table = pair.home.lake.load(pair.other.namespace, pair.other.name)
    table.java.updateSchema().allowIncompatibleChanges().requireColumn("word").commit()


CHANGES: dict[str, tuple[Callable[[Pair], None], type[Exception]]] = {
    "dropped": (_drop, NoSuchTable),
    "made again": (_replace, HistoryChanged),
    "a required column": (_require, Unsupported),
}


@pytest.mark.parametrize(("change", "error"), CHANGES.values(), ids=CHANGES.keys())
def test_a_companion_changed_from_outside(
    change: Callable[[Pair], None], error: type[Exception], pair: Pair
) -> None:
    """Then nothing lands in the home table either."""
    ticket = pair.writer.begin()
    change(pair)
    with pytest.raises(error):
        pair.commit([1], [2], ticket)
    pair.readers[0].check(P, [])


def test_a_companion_that_was_rolled_back_goes_on(pair: Pair) -> None:
    """What its owner took out is out; the pipeline's place is where the home table says."""
    pair.commit([1], [2])
    head = pair.writer.tables[str(pair.other)].head
    assert head is not None
    pair.commit([3], [4])
    roll_back(pair.other, head)
    pair.commit([5], [6])
    assert pair.check([1, 3, 5], [2, 6]).positions == at(6)


def test_a_stateful_query(pair: Pair) -> None:
    ticket = pair.writer.begin()
    pair.writer.commit(ticket, {}, positions={}, read=0, written=0, watermark=7, query="q", batch=4)
    stamp = pair.claim().stamp
    assert (stamp.query, stamp.batch, stamp.watermark) == ("q", 4, 7)
