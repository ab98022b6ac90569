"""What is repeated, what is not, and what is said when nobody can know."""

from __future__ import annotations

import json
import time
import uuid
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from tests.client.conftest import QUICK
from tests.client.faulty import Fault, FaultyNetwork, Reply

from frazil.client import AsyncClient, Client, Retry
from frazil.core.errors import (
    CommitStateUnknown,
    FrazilError,
    InvalidConfig,
    NamespaceNotEmpty,
    StorageError,
    Unavailable,
)
from frazil.devstack.ports import free_port


def error_reply(status: int, kind: str, **headers: str) -> Reply:
    document = {"error": {"message": f"{kind} was ordered", "type": kind, "code": status}}
    return Reply(status, json.dumps(document).encode(), headers)


BUSY = error_reply(503, "ServiceUnavailableException", **{"Retry-After": "0"})
BROKEN = error_reply(500, "InternalServerError")
NO_CATALOG = Reply(502, b"<html>bad gateway</html>", {"Content-Type": "text/html"})


def name() -> str:
    return f"retry_{uuid.uuid4().hex[:12]}"


@pytest.mark.parametrize("fault", [Fault.DROP, Fault.LOSE, BUSY, BROKEN, NO_CATALOG], ids=str)
def test_reads_are_repeated(faulty: Client, network: FaultyNetwork, fault: Fault | Reply) -> None:
    network.faults = [fault, fault]
    assert faulty.server.info().server_id
    assert len(network.seen) == 3


def test_a_read_that_never_works_is_unavailable(faulty: Client, network: FaultyNetwork) -> None:
    network.faults = [Fault.DROP] * 4
    with pytest.raises(Unavailable, match="no answer to GET"):
        faulty.server.info()
    assert len(network.seen) == QUICK.attempts


def test_a_slow_answer_is_given_up(network: FaultyNetwork) -> None:
    network.faults = [Fault.STALL]
    # Long enough for the second attempt, also on a busy machine: it must not be given up as well.
    with Client(network.uri, retry=QUICK, timeout=4) as client:
        assert client.server.info().server_id
    assert len(network.seen) == 2


def test_refusals_are_not_repeated(faulty: Client, network: FaultyNetwork, namespace: str) -> None:
    faulty.catalog.config()
    faulty.namespaces.create([namespace, "child"])
    network.seen.clear()
    with pytest.raises(NamespaceNotEmpty):
        faulty.namespaces.drop(namespace)
    assert len(network.seen) == 1


def test_busy_is_repeated_also_for_changes(faulty: Client, network: FaultyNetwork) -> None:
    """503 says that nothing was done; nothing makes a second project of it."""
    project = name()
    network.faults = [BUSY, BUSY]
    made = faulty.projects.create(project)
    assert [found.project_name for found in faulty.projects.list()].count(project) == 1
    assert made in faulty.projects.list()


def test_a_lost_answer_to_a_change_is_an_unknown_outcome(faulty: Client, network: FaultyNetwork) -> None:
    project = name()
    network.faults = [Fault.LOSE]
    with pytest.raises(CommitStateUnknown, match="may or may not") as caught:
        faulty.projects.create(project)
    assert len(network.seen) == 1
    assert "look before" in caught.value.message
    assert project in [found.project_name for found in faulty.projects.list()]


@pytest.mark.parametrize("fault", [BROKEN, NO_CATALOG, Fault.DROP], ids=str)
def test_an_unsettled_change_is_not_repeated(
    faulty: Client, network: FaultyNetwork, fault: Fault | Reply
) -> None:
    network.faults = [fault]
    with pytest.raises(CommitStateUnknown):
        faulty.projects.create(name())
    assert len(network.seen) == 1


def test_a_key_makes_a_lost_change_safe(faulty: Client, network: FaultyNetwork) -> None:
    """The server knows the repeated request again: without the key it would answer 409."""
    namespace = name()
    faulty.catalog.config()
    network.faults = [Fault.LOSE, Fault.LOSE, BUSY]
    assert faulty.namespaces.create(namespace).namespace == (namespace,)
    keys = network.keys()
    assert len(keys) == 4
    assert len(set(keys)) == 1
    assert uuid.UUID(keys[0]).version == 7
    faulty.namespaces.drop(namespace)
    assert network.keys("DELETE")[0] != keys[0]


def test_a_lost_drop_is_settled_by_its_key(faulty: Client, network: FaultyNetwork, namespace: str) -> None:
    faulty.catalog.config()
    network.faults = [Fault.LOSE]
    faulty.namespaces.drop(namespace)
    assert not faulty.namespaces.exists(namespace)


def test_without_keys_a_lost_drop_is_unknown(network: FaultyNetwork, namespace: str) -> None:
    """A server that offers no keys: the same drop sent twice could hit a table of another."""
    with Client(network.uri, retry=QUICK) as client:
        config = client.catalog.config()
        network.faults = [
            Reply(200, json.dumps({"defaults": {"prefix": config.prefix}, "overrides": {}}).encode()),
            Fault.LOSE,
        ]
        other = client.at("default")
        with pytest.raises(CommitStateUnknown):
            other.namespaces.drop(namespace)
        assert network.keys("DELETE") == [None]


def test_unknown_stays_unknown_when_the_server_is_busy_later(faulty: Client, network: FaultyNetwork) -> None:
    """The last answer is "nothing done", but that is said of the last attempt only."""
    faulty.catalog.config()
    network.faults = [Fault.LOSE, BUSY, BUSY, BUSY]
    namespace = name()
    with pytest.raises(CommitStateUnknown):
        faulty.namespaces.create(namespace)
    assert faulty.namespaces.exists(namespace)


def test_creating_a_generic_table_survives_a_lost_answer(
    faulty: Client, network: FaultyNetwork, namespace: str
) -> None:
    faulty.catalog.config()
    network.faults = [Fault.LOSE]
    made = faulty.generic_tables.create(namespace, "raw", "csv")
    assert made.format == "csv"
    assert [found.name for found in faulty.generic_tables.list(namespace)] == ["raw"]


def test_with_exist_ok_off_a_lost_creation_is_unknown(
    faulty: Client, network: FaultyNetwork, namespace: str
) -> None:
    faulty.catalog.config()
    network.faults = [Fault.LOSE]
    with pytest.raises(CommitStateUnknown):
        faulty.generic_tables.create(namespace, "raw", "csv", exist_ok=False)


def test_failing_storage_is_its_own_error(faulty: Client, network: FaultyNetwork) -> None:
    network.faults = [error_reply(503, "StorageError", **{"Retry-After": "0"})] * 4
    with pytest.raises(StorageError, match="was ordered"):
        faulty.server.info()


def test_a_server_that_says_it_does_not_know_is_believed(faulty: Client, network: FaultyNetwork) -> None:
    network.faults = [error_reply(503, "CommitStateUnknownException", **{"Retry-After": "0"})]
    with pytest.raises(CommitStateUnknown):
        faulty.projects.create(name())
    assert len(network.seen) == 1


def test_a_server_that_is_not_there() -> None:
    port = free_port()
    with Client(f"http://127.0.0.1:{port}", retry=QUICK) as client:
        with pytest.raises(Unavailable, match=f"cannot reach the server: GET http://127.0.0.1:{port}/"):
            client.server.info()
        with pytest.raises(Unavailable, match="cannot reach"):
            client.projects.create("never")


def test_the_wait_that_the_server_asks_for_is_kept(network: FaultyNetwork) -> None:
    network.faults = [error_reply(503, "ServiceUnavailableException", **{"Retry-After": "1"})]
    with Client(network.uri, retry=QUICK) as client:
        begin = time.monotonic()
        client.server.info()
        # A lower bound, so a busy machine cannot break it.
        assert time.monotonic() - begin >= 1.0


def test_a_wait_beyond_patience_is_an_error_at_once(network: FaultyNetwork) -> None:
    later = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
    for asked in ("3600", later):
        network.faults = [error_reply(503, "ServiceUnavailableException", **{"Retry-After": asked})]
        network.seen.clear()
        with Client(network.uri, retry=QUICK) as client, pytest.raises(Unavailable):
            client.server.info()
        assert len(network.seen) == 1


def test_waits_grow_and_are_bounded() -> None:
    retry = Retry(attempts=1000, first=1.0, longest=8.0)
    for attempt, longest in ((1, 1.0), (2, 2.0), (3, 4.0), (4, 8.0), (5, 8.0), (900, 8.0)):
        waits = [retry.wait(attempt, None) or 0.0 for _ in range(50)]
        assert all(longest / 2 <= wait <= longest for wait in waits)
        assert len(set(waits)) > 1
    assert retry.wait(1000, None) is None
    assert Retry(attempts=1).wait(1, None) is None


@pytest.mark.parametrize("wrong", [{"attempts": 0}, {"first": -1.0}, {"first": 5.0, "longest": 1.0}])
def test_a_policy_that_makes_no_sense(wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidConfig):
        Retry(**wrong)  # type: ignore[arg-type]


def test_answers_of_something_else(faulty: Client, network: FaultyNetwork) -> None:
    network.faults = [Reply(404, b"<html>", {"Content-Type": "text/html"})]
    with pytest.raises(FrazilError, match="is this the address of the catalog server"):
        faulty.server.info()
    network.faults = [Reply(200, b"<html>", {"Content-Type": "text/html"})]
    with pytest.raises(FrazilError, match="not JSON"):
        faulty.server.info()
    network.faults = [Reply(200, b'{"version": 7}', {"Content-Type": "application/json"})]
    with pytest.raises(FrazilError, match=r"no ServerInfo .* Expected `str`"):
        faulty.server.info()


def test_redirects_are_not_followed(faulty: Client, network: FaultyNetwork) -> None:
    network.faults = [Reply(307, b"elsewhere", {"Location": "http://elsewhere.example/"})]
    with pytest.raises(FrazilError, match=r"redirect to http://elsewhere\.example/"):
        faulty.server.info()
    assert len(network.seen) == 1


def test_fields_of_a_newer_server_are_ignored(faulty: Client, network: FaultyNetwork) -> None:
    document = {"version": "9", "bootstrapped": True, "server-id": "x", "flux": {"capacitor": [1]}}
    network.faults = [Reply(200, json.dumps(document).encode())]
    assert faulty.server.info().version == "9"


def test_connections_are_used_again(faulty: Client, network: FaultyNetwork) -> None:
    for _ in range(5):
        faulty.server.info()
    assert network.connections == 1


def test_pages_that_repeat_end_in_an_error(faulty: Client, network: FaultyNetwork) -> None:
    faulty.catalog.config()
    page = Reply(200, json.dumps({"namespaces": [["a"]], "next-page-token": "same"}).encode())
    network.faults = [page, page]
    with pytest.raises(FrazilError, match="same page"):
        list(faulty.namespaces.list())


async def test_async_follows_the_same_rules(network: FaultyNetwork) -> None:
    async with AsyncClient(network.uri, retry=QUICK, timeout=60) as client:
        await client.catalog.config()
        network.faults = [Fault.LOSE, BUSY]
        namespace = name()
        await client.namespaces.create(namespace)
        network.faults = [Fault.DROP, BROKEN]
        assert (namespace,) in [found async for found in client.namespaces.list()]
        network.faults = [Fault.LOSE]
        with pytest.raises(CommitStateUnknown):
            await client.projects.create(name())
