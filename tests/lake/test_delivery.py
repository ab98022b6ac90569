"""Commits whose answers are lost, late or wrong, through a real network to a real catalog."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
from tests.client.faulty import Fault, Reply
from tests.lake.network import Accident, CommitNetwork, answered_within
from tests.lake.support import Reader, commit, first, foreign_append, local

from frazil.core.errors import CommitFailed, CommitStateUnknown, InvalidInput, Superseded
from frazil.devstack.frazil_server import FrazilServer
from frazil.lake.catalog import Lake
from frazil.lake.delivery import Patience
from frazil.lake.table import LakeTable
from frazil.lake.writers import PipelineWriter

#: An error as our server words it.
SORRY = json.dumps({"error": {"message": "sorry", "type": "InternalServerError", "code": 500}}).encode()
JSON = {"Content-Type": "application/json"}


@pytest.fixture
def far(far_lake: Lake, table: LakeTable) -> LakeTable:
    """The table as seen through the network."""
    return far_lake.load(table.namespace, table.name)


@pytest.fixture
def writer(far: LakeTable, network: CommitNetwork) -> PipelineWriter:
    """A writer that has written 1 and 2."""
    claimed = PipelineWriter.claim(far.lake, far, "orders", first, "", Patience(first_wait=0.01))
    commit(claimed, [1, 2])
    network.commits.clear()
    return claimed


def assertion(request: bytes) -> Any:
    """What the request says main must be."""
    found = json.loads(request)["requirements"]
    return next(one["snapshot-id"] for one in found if one.get("ref") == "main")


def metadata_files(table: LakeTable) -> set[str]:
    return {path.name for path in (local(table.location) / "metadata").iterdir() if path.suffix == ".avro"}


def test_every_commit_asserts_what_main_is(far: LakeTable, network: CommitNetwork, reader: Reader) -> None:
    """Also on a table without a snapshot: two first claims must not both land."""
    writer = PipelineWriter.claim(far.lake, far, "orders", first, "")
    commit(writer, [1])
    asserted = [assertion(seen.body) for seen in network.commits]
    snapshots = [one["snapshot-id"] for one in reader.metadata()["snapshots"]]
    assert asserted == [None, snapshots[0]]


#: The JVM's HTTP client tries once more by itself.
DROPPED = [Accident(Fault.DROP)]
UNKNOWN = {
    "lost answer": [Accident(Fault.LOSE)],
    "never sent": [Accident(Fault.DROP)],
    "no answer in time, done": [Accident(Fault.STALL, arrives=True)],
    "no answer in time, not done": [Accident(Fault.STALL)],
    "500, done": [Accident(Reply(500, SORRY, JSON), arrives=True)],
    "500, not done": [Accident(Reply(500, SORRY, JSON))],
    "502 of a proxy": [Accident(Reply(502, b"<html>bad gateway</html>"))],
    "503, done": [Accident(Reply(503, SORRY, JSON), arrives=True)],
    "503, not done": [Accident(Reply(503, SORRY, JSON))],
    "504, done": [Accident(Reply(504, SORRY, JSON), arrives=True)],
    "an answer that cannot be read, done": [Accident(Reply(200, b'{"metadata'), arrives=True)],
    "never sent, twice": DROPPED * 2,
    "503, twice": [Accident(Reply(503, SORRY, JSON))] * 2,
    "lost answer, twice": [Accident(Fault.LOSE)] * 2,
}


@pytest.mark.parametrize(
    ("accidents", "answer_ms"), [(one, answered_within(one)) for one in UNKNOWN.values()], ids=UNKNOWN.keys()
)
def test_an_unknown_outcome(
    accidents: list[Accident], writer: PipelineWriter, network: CommitNetwork, reader: Reader
) -> None:
    network.accidents = [*accidents]
    stamp = commit(writer, [3])
    assert reader.check("orders", [1, 2, 3]) == stamp
    commit(writer, [4])
    assert reader.check("orders", [1, 2, 3, 4]).round == 3


def test_the_same_is_sent_again_on_the_same_base(
    writer: PipelineWriter, network: CommitNetwork, reader: Reader
) -> None:
    network.accidents = DROPPED * 4
    commit(writer, [3])
    reader.check("orders", [1, 2, 3])
    bodies = {seen.body for seen in network.commits}
    assert len(network.commits) > len(bodies) == 1


def test_a_late_arrival_after_the_second_try_landed(
    writer: PipelineWriter, network: CommitNetwork, reader: Reader
) -> None:
    network.accidents = [Accident(Fault.DROP, late=True), *DROPPED]
    commit(writer, [3])
    assert network.release() == [409]
    reader.check("orders", [1, 2, 3])


def test_a_late_arrival_before_the_second_try(
    writer: PipelineWriter, network: CommitNetwork, reader: Reader
) -> None:
    released: list[int] = []
    network.accidents = [
        Accident(Fault.DROP, late=True),
        *DROPPED,
        Accident(before=lambda: released.extend(network.release())),
    ]
    stamp = commit(writer, [3])
    assert released == [200]
    assert reader.check("orders", [1, 2, 3]) == stamp == writer.stamp


@pytest.mark.parametrize("done", [True, False])
def test_others_commit_while_the_outcome_is_unknown(
    done: bool, table: LakeTable, writer: PipelineWriter, network: CommitNetwork, reader: Reader
) -> None:
    """Their commit is above ours if it landed, else ours is built anew on theirs."""

    def interfere() -> None:
        if done:
            network.send(network.commits[-1])
        foreign_append(table, [100])

    network.accidents = [Accident(Fault.DROP, before=interfere, late=not done), *DROPPED]
    commit(writer, [3])
    assert network.release() == ([] if done else [409])
    reader.check("orders", [1, 2, 3, 100])


def test_a_conflict_with_our_own_first_try(
    writer: PipelineWriter, network: CommitNetwork, reader: Reader
) -> None:
    """A proxy gives the first request up while the catalog works on it, and the client's second meets it:
    what the first one needs must not be cleaned up, for it lands."""
    conflict = {"error": {"message": "busy", "type": "CommitFailedException", "code": 409}}
    released: list[int] = []
    network.accidents = [
        Accident(Reply(503, SORRY, JSON), late=True),
        Accident(Reply(409, json.dumps(conflict).encode(), JSON)),
        Accident(before=lambda: released.extend(network.release())),
    ]
    commit(writer, [3])
    assert released == [200]
    reader.check("orders", [1, 2, 3])


def test_a_late_arrival_when_main_is_its_base_again(
    table: LakeTable, writer: PipelineWriter, network: CommitNetwork, reader: Reader
) -> None:
    """Others moved main, the commit was built anew, then a rollback: the tag has moved and refuses it."""
    base = writer.table.head
    late = Accident(Fault.DROP, before=lambda: foreign_append(table, [100]), late=True)
    network.accidents = [late, *DROPPED]
    commit(writer, [3])
    table.refresh()
    table.java.manageSnapshots().rollbackTo(base).commit()
    assert network.release() == [409]
    assert reader.ids() == [1, 2]


@pytest.mark.parametrize("load", range(3))
def test_a_rival_between_any_two_steps(
    load: int, table: LakeTable, writer: PipelineWriter, network: CommitNetwork, reader: Reader
) -> None:
    """What was checked is what is built on: a claim before any load is noticed."""
    ticket = writer.begin()
    claims: list[PipelineWriter] = []

    def rival() -> None:
        claims.append(PipelineWriter.claim(table.lake, table, "orders", first, ""))

    network.loads = [*[lambda: None] * load, rival]
    try:
        commit(writer, [3], ticket)
    except Superseded:
        assert claims
        reader.check("orders", [1, 2])
    else:
        assert not claims
        reader.check("orders", [1, 2, 3])


def test_a_claim_whose_answer_is_lost(far: LakeTable, network: CommitNetwork, reader: Reader) -> None:
    network.accidents = [Accident(Fault.LOSE)]
    writer = PipelineWriter.claim(far.lake, far, "orders", first, "")
    assert reader.check("orders", []) == writer.stamp
    assert (writer.stamp.epoch, len(reader.metadata()["snapshots"])) == (1, 1)


def test_busy_others(
    table: LakeTable, writer: PipelineWriter, network: CommitNetwork, reader: Reader
) -> None:
    ids = iter(range(100, 200))
    before = metadata_files(table)
    network.accidents = [Accident(before=lambda: foreign_append(table, [next(ids)])) for _ in range(8)]
    commit(writer, [3])
    reader.check("orders", [1, 2, 3, *range(100, 108)])
    # Of each commit a manifest and a list of them: those of the refused tries are gone.
    assert len(metadata_files(table) - before) == 2 * 9


def test_too_busy_others(
    table: LakeTable, writer: PipelineWriter, network: CommitNetwork, reader: Reader
) -> None:
    ids = iter(range(100, 200))
    writer.patience = Patience(conflicts=3, first_wait=0.01)
    network.accidents = [Accident(before=lambda: foreign_append(table, [next(ids)])) for _ in range(3)]
    ticket = writer.begin()
    with pytest.raises(CommitFailed, match="changed by others at each of 3 tries"):
        commit(writer, [3], ticket)
    reader.check("orders", [1, 2, 100, 101, 102])
    writer.discard(ticket)
    assert list(table.storage().list(ticket.prefix)) == []
    commit(writer, [3])
    reader.check("orders", [1, 2, 3, 100, 101, 102])


def test_a_refusal_is_an_answer(writer: PipelineWriter, network: CommitNetwork, reader: Reader) -> None:
    refusal = {"error": {"message": "no such thing", "type": "BadRequestException", "code": 400}}
    network.accidents = [Accident(Reply(400, json.dumps(refusal).encode(), JSON))]
    with pytest.raises(InvalidInput, match="no such thing") as raised:
        commit(writer, [3])
    assert "\n" not in raised.value.message
    assert len(network.commits) == 1
    reader.check("orders", [1, 2])


@pytest.mark.parametrize("landed", [True, False])
def test_stopped_while_nobody_answers(
    landed: bool, writer: PipelineWriter, network: CommitNetwork, far: LakeTable, reader: Reader
) -> None:
    """Its files stay, because it may land; the next writer finds out."""
    stop = threading.Event()
    writer.patience = Patience(first_wait=0.01, stop=stop, waiting=lambda _: stop.set())
    network.accidents = [Accident(Fault.LOSE if landed else Fault.DROP, late=not landed)] * 2
    ticket = writer.begin()
    if landed:
        # The answer is lost, but the catalog can be asked.
        assert commit(writer, [3], ticket).round == 2
    else:
        with pytest.raises(CommitStateUnknown, match="the next run finds out"):
            commit(writer, [3], ticket)
    writer.discard(ticket)
    assert len(list(far.storage().list(ticket.prefix))) == 1
    statuses = network.release()
    assert 200 in statuses or landed
    again = PipelineWriter.claim(far.lake, far, "orders", first, "")
    assert again.stamp.positions["orders"].next == (3,)
    reader.check("orders", [1, 2, 3])


def test_the_catalog_is_waited_for(
    frazil_sqlite: FrazilServer, writer: PipelineWriter, network: CommitNetwork, reader: Reader
) -> None:
    said: list[str] = []

    def back(text: str) -> None:
        said.append(text)
        if len(said) == 3:
            network.upstream = frazil_sqlite.port

    def away() -> None:
        network.upstream = 1

    writer.patience = Patience(first_wait=0.01, waiting=back)
    network.accidents = [Accident(Fault.DROP, before=away), *DROPPED]
    commit(writer, [3])
    assert len(said) >= 3
    reader.check("orders", [1, 2, 3])
