"""`Idempotency-Key`: one effect, whatever the number of times a request arrives."""

from __future__ import annotations

import threading
import uuid
from pathlib import Path

import pytest
from tests.catalog.api.client import (
    Answer,
    Catalog,
    Json,
    add_snapshot,
    connect,
    identifier,
    key,
    local_path,
    schema,
    set_properties,
    set_ref,
)

from frazil.devstack.frazil_server import FrazilServer
from frazil.devstack.postgres import Postgres

Levels = tuple[str, ...]


def same(first: Answer, second: Answer) -> None:
    assert (first.status, first.body) == (second.status, second.body)


def test_create_table(catalog: Catalog, ns: Levels) -> None:
    headers = key()
    first = catalog.create_table(ns, "t", headers)
    first.ok()
    same(first, catalog.create_table(ns, "t", headers))
    upper = {"Idempotency-Key": headers["Idempotency-Key"].upper()}
    same(first, catalog.create_table(ns, "t", upper))
    catalog.create_table(ns, "t").refused(409)
    catalog.create_table(ns, "t", key()).refused(409)


def test_commit(catalog: Catalog, ns: Levels) -> None:
    catalog.create_table(ns, "t").ok()
    headers = key()
    updates = [add_snapshot(1), set_ref(1)]
    none = [{"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": None}]
    first = catalog.commit(ns, "t", *updates, requirements=none, headers=headers)
    first.ok()
    again = catalog.commit(ns, "t", *updates, requirements=none, headers=headers)
    same(first, again)
    assert again.headers["etag"] == first.headers["etag"]
    catalog.commit(ns, "t", *updates, requirements=none).refused(409, "CommitFailedException")
    assert len(catalog.load(ns, "t").ok()["metadata"]["snapshots"]) == 1


def test_a_commit_without_changes(catalog: Catalog, ns: Levels) -> None:
    catalog.create_table(ns, "t").ok()
    headers = key()
    same(catalog.commit(ns, "t", headers=headers), catalog.commit(ns, "t", headers=headers))
    catalog.commit(ns, "t", set_properties(a="b"), headers=headers).refused(422)


def test_transaction(catalog: Catalog, ns: Levels) -> None:
    catalog.create_table(ns, "a").ok()
    headers = key()
    none = [{"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": None}]
    change: Json = {
        "identifier": identifier(ns, "a"),
        "requirements": none,
        "updates": [add_snapshot(1), set_ref(1)],
    }
    assert [catalog.transaction(change, headers=headers).status for _ in range(3)] == [204] * 3
    catalog.transaction(change).refused(409)


def test_drop(catalog: Catalog, ns: Levels) -> None:
    catalog.create_table(ns, "t").ok()
    headers = key()
    path = catalog.table_path(ns, "t")
    catalog.send("DELETE", path, headers=headers).ok(204)
    catalog.create_table(ns, "t").ok()
    catalog.send("DELETE", path, headers=headers).ok(204)
    catalog.load(ns, "t").ok()
    catalog.send("DELETE", path, headers=headers, purgeRequested="true").refused(422)
    catalog.load(ns, "t").ok()


def test_rename(catalog: Catalog, ns: Levels) -> None:
    catalog.create_table(ns, "t").ok()
    headers = key()
    assert [catalog.rename((ns, "t"), (ns, "u"), headers=headers).status for _ in range(2)] == [204, 204]
    catalog.rename((ns, "t"), (ns, "u")).refused(404)


def test_namespaces_and_their_properties(catalog: Catalog, ns: Levels) -> None:
    headers = key()
    body = {"namespace": [*ns, "x"], "properties": {"a": "b"}}
    first = catalog.send("POST", "/namespaces", body, headers)
    first.ok()
    same(first, catalog.send("POST", "/namespaces", body, headers))
    path = catalog.namespace_path((*ns, "x"))
    headers = key()
    change = {"updates": {"c": "d"}, "removals": ["a"]}
    first = catalog.send("POST", f"{path}/properties", change, headers)
    assert first.ok() == {"updated": ["c"], "removed": ["a"], "missing": []}
    same(first, catalog.send("POST", f"{path}/properties", change, headers))
    fresh = catalog.send("POST", f"{path}/properties", change).ok()
    assert fresh == {"updated": ["c"], "removed": [], "missing": ["a"]}
    headers = key()
    assert [catalog.send("DELETE", path, headers=headers).status for _ in range(2)] == [204, 204]
    catalog.send("DELETE", path).refused(404)


def test_register(catalog: Catalog, ns: Levels) -> None:
    created = catalog.create_table(ns, "t").ok()
    catalog.send("DELETE", catalog.table_path(ns, "t")).ok(204)
    headers = key()
    body = {"name": "t", "metadata-location": created["metadata-location"]}
    path = catalog.namespace_path(ns, "register")
    first = catalog.send("POST", path, body, headers)
    first.ok()
    same(first, catalog.send("POST", path, body, headers))


def test_a_key_stands_for_one_request(catalog: Catalog, ns: Levels) -> None:
    headers = key()
    catalog.create_table(ns, "t", headers).ok()
    catalog.create_table(ns, "u", headers).refused(
        422, "UnprocessableEntityException", headers["Idempotency-Key"]
    )
    catalog.load(ns, "u").refused(404)
    catalog.send("DELETE", catalog.table_path(ns, "t"), headers=headers).refused(422)
    catalog.load(ns, "t").ok()
    catalog.create_namespace(*ns, "other").ok()
    catalog.create_table((*ns, "other"), "t", headers).refused(422)


def test_refusals_are_recorded(catalog: Catalog, ns: Levels) -> None:
    missing, present = key(), key()
    first = catalog.commit(ns, "t", set_properties(a="b"), headers=missing)
    first.refused(404, "NoSuchTableException")
    catalog.create_table(ns, "t").ok()
    second = catalog.create_table(ns, "t", present)
    second.refused(409, "AlreadyExistsException")
    same(first, catalog.commit(ns, "t", set_properties(a="b"), headers=missing))
    catalog.send("DELETE", catalog.table_path(ns, "t")).ok(204)
    same(second, catalog.create_table(ns, "t", present))
    catalog.load(ns, "t").refused(404)


def test_bad_requests_are_not_recorded(catalog: Catalog, ns: Levels) -> None:
    catalog.create_table(ns, "t").ok()
    headers = key()
    catalog.commit(ns, "t", set_ref(7), headers=headers).refused(400)
    catalog.commit(ns, "t", add_snapshot(7), headers=headers).ok()


@pytest.mark.parametrize(
    "bad",
    [
        "",
        "x",
        "123",
        "g" * 36,
        str(uuid.UUID(int=7))[:-1],
        str(uuid.UUID(int=7)) + "0",
        "{" + str(uuid.UUID(int=7)) + "}",
    ],
)
def test_keys_that_are_no_uuid(catalog: Catalog, ns: Levels, bad: str) -> None:
    headers = {"Idempotency-Key": bad}
    catalog.create_table(ns, "t", headers).refused(400, "BadRequestException", "Idempotency-Key")
    catalog.load(ns, "t").refused(404)
    catalog.create_namespace(*ns, "x").ok()
    path = catalog.namespace_path((*ns, "x"))
    catalog.send("DELETE", path, headers=headers).refused(400, None, "Idempotency-Key")
    assert catalog.send("HEAD", path).status == 204


@pytest.mark.parametrize("what", ["create", "commit", "namespace", "properties", "drop", "rename"])
def test_rivals_with_one_key_have_one_effect(catalog: Catalog, ns: Levels, what: str) -> None:
    created = catalog.create_table(ns, "t").ok()
    headers = key()
    barrier = threading.Barrier(6)
    answers: list[Answer] = []
    # Built once: the same key stands for the same bytes.
    append = [add_snapshot(1), set_ref(1)]
    none = [{"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": None}]

    def work() -> None:
        mine = connect(catalog.client.port)
        barrier.wait()
        if what == "create":
            answer = mine.create_table(ns, "new", headers)
        elif what == "commit":
            answer = mine.commit(ns, "t", *append, requirements=none, headers=headers)
        elif what == "namespace":
            answer = mine.send("POST", "/namespaces", {"namespace": [*ns, "x"]}, headers)
        elif what == "properties":
            change = {"updates": {"a": "b"}, "removals": ["z"]}
            answer = mine.send("POST", mine.namespace_path(ns, "properties"), change, headers)
        elif what == "drop":
            answer = mine.send("DELETE", mine.table_path(ns, "t"), headers=headers)
        else:
            answer = mine.rename((ns, "t"), (ns, "u"), headers=headers)
        answers.append(answer)
        mine.client.close()

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {answer.status for answer in answers} == {204 if what in ("drop", "rename") else 200}
    assert len({answer.body for answer in answers}) == 1
    if what in ("create", "commit"):
        document = catalog.load(ns, "new" if what == "create" else "t").ok()
        folder = Path(local_path(document["metadata-location"])).parent
        assert len(list(folder.iterdir())) == (1 if what == "create" else 2), "losers leave no file"
        if what == "create":
            warehouse = Path(local_path(created["metadata"]["location"])).parent
            known = {Path(local_path(catalog.load(ns, n).ok()["metadata"]["location"])) for n in ("t", "new")}
            assert known <= set(warehouse.iterdir())


def test_a_staged_create_has_no_effect_to_repeat(catalog: Catalog, ns: Levels) -> None:
    headers = key()
    body = {"name": "t", "schema": schema(), "stage-create": True}
    path = catalog.namespace_path(ns, "tables")
    first, second = (catalog.send("POST", path, body, headers).ok()["metadata"] for _ in range(2))
    assert first["schemas"] == second["schemas"]


def test_an_answer_of_the_5xx_kind_is_not_recorded(postgres: Postgres) -> None:
    """While the database is away the answer is 503; the same key then does its work."""
    with Postgres(fsync=False) as own, FrazilServer(database_url=own.create_database("keys")) as server:
        mine = connect(server.port)
        mine.create_namespace("ns").ok()
        headers = key()
        own.stop()
        refused = mine.create_table(("ns",), "t", headers)
        assert refused.status == 503
        assert refused.headers["retry-after"]
        refused.error()
        own.start()
        created = mine.create_table(("ns",), "t", headers)
        created.ok()
        same(created, mine.create_table(("ns",), "t", headers))
        mine.client.close()
