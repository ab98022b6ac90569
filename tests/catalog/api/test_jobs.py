"""Which job wrote which table: what commits leave in the index, and what becomes of it later."""

from __future__ import annotations

import base64
import itertools
import json
import threading
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

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
    segment,
    set_properties,
    set_ref,
)

from frazil.devstack.frazil_server import FrazilServer

Levels = tuple[str, ...]


@pytest.fixture
def job() -> str:
    """The id of a Flink job of this test alone."""
    return uuid.uuid4().hex


def append(number: int, summary: dict[str, str]) -> list[Json]:
    return [add_snapshot(number, summary={"operation": "append", **summary}), set_ref(number)]


def ask(catalog: Catalog, path: str, **query: object) -> Answer:
    return catalog.client.send("GET", f"/frazil/v1/{catalog.prefix}{path}?{urlencode(query)}")


def tables_answer(catalog: Catalog, job: str, kind: str = "flink", **query: object) -> Answer:
    return ask(catalog, f"/jobs/{kind}/{quote(job, safe='')}/tables", **query)


def tables(catalog: Catalog, job: str, kind: str = "flink", **query: object) -> list[Json]:
    answer = tables_answer(catalog, job, kind, **query).ok()
    assert answer["next-page-token"] is None
    found: list[Json] = answer["tables"]
    return sorted(found, key=lambda table: (table["namespace"], table["name"]))


def names(catalog: Catalog, job: str, kind: str = "flink", **query: object) -> list[str]:
    return [table["name"] for table in tables(catalog, job, kind, **query)]


def jobs_answer(catalog: Catalog, ns: Levels, name: str, **query: object) -> Answer:
    return ask(catalog, f"/namespaces/{segment(*ns)}/tables/{segment(name)}/jobs", **query)


def jobs(catalog: Catalog, ns: Levels, name: str) -> list[Json]:
    found: list[Json] = jobs_answer(catalog, ns, name).ok()["jobs"]
    return found


def written(catalog: Catalog, ns: Levels, name: str, job: str, number: int = 1) -> str:
    """A table with one snapshot by a job; its metadata file."""
    catalog.create_table(ns, name).ok()
    location: str = catalog.commit(ns, name, *append(number, {"flink.job-id": job})).ok()["metadata-location"]
    return location


def register(catalog: Catalog, ns: Levels, name: str, location: str, **more: object) -> None:
    body = {"name": name, "metadata-location": location, **more}
    catalog.send("POST", catalog.namespace_path(ns, "register"), body).ok()


def drop(catalog: Catalog, ns: Levels, name: str, *, purge: bool = False) -> None:
    catalog.send("DELETE", catalog.table_path(ns, name), purgeRequested=str(purge).lower()).ok(204)


def test_commits_of_a_job_are_counted(catalog: Catalog, ns: Levels, job: str) -> None:
    catalog.create_table(ns, "Orders").ok()
    assert tables(catalog, job) == []
    for number in (1, 2, 3):
        catalog.commit(ns, "Orders", *append(number, {"flink.job-id": job})).ok()
    catalog.commit(ns, "Orders", *append(4, {"flink.job-id": "another"})).ok()
    catalog.commit(ns, "Orders", *append(5, {}), set_properties(a="b")).ok()
    snapshots = catalog.load(ns, "Orders").ok()["metadata"]["snapshots"]
    writes = {
        "commits": 3,
        "first-timestamp-ms": snapshots[0]["timestamp-ms"],
        "last-timestamp-ms": snapshots[2]["timestamp-ms"],
        "last-snapshot-id": 3,
    }
    assert tables(catalog, job) == [{"namespace": list(ns), "name": "Orders", **writes}]
    mine, other = sorted(jobs(catalog, ns, "orders"), key=lambda found: found["commits"], reverse=True)
    assert mine == {"kind": "flink", "id": job, **writes}
    assert (other["id"], other["commits"], other["last-snapshot-id"]) == ("another", 1, 4)


def test_one_snapshot_may_name_several_jobs(catalog: Catalog, ns: Levels, job: str) -> None:
    summary = {"spark.app.id": job, "app-id": job, "engine-name": "spark", f"frazil.stamp.{job}": "{}"}
    catalog.create_table(ns, "t").ok()
    catalog.commit(ns, "t", *append(1, summary), *append(2, summary)).ok()
    found = [(entry["kind"], entry["id"], entry["commits"]) for entry in jobs(catalog, ns, "t")]
    assert found == [("frazil", job, 2), ("spark", job, 2)]
    assert names(catalog, job, "spark") == names(catalog, job, "frazil") == ["t"]
    assert names(catalog, job, "flink") == []


def test_a_branch_counts_too(catalog: Catalog, ns: Levels, job: str) -> None:
    """Flink and Spark may write to a branch."""
    catalog.create_table(ns, "t").ok()
    catalog.commit(ns, "t", add_snapshot(1, summary={"flink.job-id": job}), set_ref(1, "audit")).ok()
    assert names(catalog, job) == ["t"]


def test_a_transaction_writes_all_or_none(catalog: Catalog, ns: Levels, job: str) -> None:
    for name in ("a", "b"):
        catalog.create_table(ns, name).ok()

    def change(name: str, number: int, *requirements: Json) -> Json:
        updates = append(number, {"flink.job-id": job})
        return {"identifier": identifier(ns, name), "requirements": requirements, "updates": updates}

    broken = {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 99}
    catalog.transaction(change("a", 1), change("b", 1, broken)).refused(409)
    assert tables(catalog, job) == []
    catalog.transaction(change("a", 1), change("b", 1)).ok(204)
    assert [(found["name"], found["commits"]) for found in tables(catalog, job)] == [("a", 1), ("b", 1)]


def test_a_staged_table_that_comes_with_rows(catalog: Catalog, ns: Levels, job: str) -> None:
    """CREATE TABLE AS SELECT."""
    metadata = catalog.create_table(ns, "t", **Json({"stage-create": True})).ok()["metadata"]
    updates: list[Json] = [
        {"action": "assign-uuid", "uuid": metadata["table-uuid"]},
        {"action": "upgrade-format-version", "format-version": 2},
        {"action": "add-schema", "schema": metadata["schemas"][0], "last-column-id": 2},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": {"spec-id": 0, "fields": []}},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": {"order-id": 0, "fields": []}},
        {"action": "set-default-sort-order", "sort-order-id": -1},
        {"action": "set-location", "location": metadata["location"]},
        *append(1, {"flink.job-id": job}),
    ]
    assert tables(catalog, job) == []
    create = [{"type": "assert-create"}]
    catalog.commit(ns, "t", *updates, requirements=create).ok()
    assert [(found["name"], found["commits"]) for found in tables(catalog, job)] == [("t", 1)]
    catalog.commit(ns, "t", *updates, requirements=create).refused(409)
    assert [found["commits"] for found in tables(catalog, job)] == [1]


def test_a_refused_commit_leaves_nothing(catalog: Catalog, ns: Levels, job: str) -> None:
    catalog.create_table(ns, "t").ok()
    catalog.commit(ns, "t", *append(1, {})).ok()
    none = [{"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": None}]
    updates = append(2, {"flink.job-id": job})
    catalog.commit(ns, "t", *updates, requirements=none).refused(409)
    catalog.commit(ns, "t", *updates, *append(1, {})).refused(400)
    catalog.commit(ns, "none", *updates).refused(404)
    assert tables(catalog, job) == []
    assert jobs(catalog, ns, "t") == []


def test_a_repeated_request_counts_once(catalog: Catalog, ns: Levels, job: str) -> None:
    catalog.create_table(ns, "t").ok()
    headers, updates = key(), append(1, {"flink.job-id": job})
    for _ in range(3):
        catalog.commit(ns, "t", *updates, headers=headers).ok()
    headers, updates = key(), append(2, {"flink.job-id": job})
    change = {"identifier": identifier(ns, "t"), "requirements": [], "updates": updates}
    for _ in range(3):
        catalog.transaction(change, headers=headers).ok(204)
    assert [(found["commits"], found["last-snapshot-id"]) for found in tables(catalog, job)] == [(2, 2)]


def test_rivals_are_counted_as_often_as_they_land(server: FrazilServer, ns: Levels, job: str) -> None:
    """Each commits without a requirement, so that the server itself tries again after a lost swap."""
    connect(server.port).create_table(ns, "t").ok()
    start, numbers = threading.Barrier(4), itertools.count(1)

    def work(_: int) -> None:
        catalog = connect(server.port)
        start.wait()
        for _ in range(5):
            snapshot = add_snapshot(next(numbers), summary={"flink.job-id": job}, **{"sequence-number": 1000})
            catalog.commit(ns, "t", snapshot).ok()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    catalog = connect(server.port)
    assert len(catalog.load(ns, "t").ok()["metadata"]["snapshots"]) == 20
    assert [found["commits"] for found in tables(catalog, job)] == [20]


def test_an_expired_snapshot_leaves_its_row(catalog: Catalog, ns: Levels, job: str) -> None:
    written(catalog, ns, "t", job)
    catalog.commit(ns, "t", *append(2, {})).ok()
    before = tables(catalog, job)
    catalog.commit(ns, "t", {"action": "remove-snapshots", "snapshot-ids": [1]}).ok()
    metadata = catalog.load(ns, "t").ok()["metadata"]
    assert [snapshot["snapshot-id"] for snapshot in metadata["snapshots"]] == [2]
    assert tables(catalog, job) == before != []
    assert [found["id"] for found in jobs(catalog, ns, "t")] == [job]


def test_a_renamed_table_keeps_its_rows(catalog: Catalog, ns: Levels, job: str) -> None:
    written(catalog, ns, "old", job)
    catalog.create_namespace(*ns, "deep").ok()
    catalog.rename((ns, "old"), ((*ns, "deep"), "New")).ok(204)
    (found,) = tables(catalog, job)
    assert (found["namespace"], found["name"]) == ([*ns, "deep"], "New")
    catalog.commit((*ns, "deep"), "New", *append(2, {"flink.job-id": job})).ok()
    assert [entry["commits"] for entry in tables(catalog, job)] == [2]
    catalog.create_table(ns, "old").ok()
    assert jobs(catalog, ns, "old") == []


def test_a_dropped_table_comes_back_with_its_rows(catalog: Catalog, ns: Levels, job: str) -> None:
    """Also with those whose snapshots are expired."""
    written(catalog, ns, "Lost", job)
    catalog.commit(ns, "Lost", *append(2, {"flink.job-id": f"{job}-b"})).ok()
    gone = {"action": "remove-snapshots", "snapshot-ids": [1]}
    location = catalog.commit(ns, "Lost", gone).ok()["metadata-location"]
    started = time.time_ns() // 1_000_000
    drop(catalog, ns, "LOST")
    assert tables(catalog, job) == []
    (found,) = tables(catalog, job, dropped="true")
    assert (found["namespace"], found["name"], found["commits"]) == (list(ns), "Lost", 1)
    assert started <= found["dropped-at-ms"] <= time.time_ns() // 1_000_000
    catalog.create_table(ns, "lost").ok()
    assert jobs(catalog, ns, "lost") == []
    register(catalog, ns, "found", location)
    for kept in (job, f"{job}-b"):
        (found,) = tables(catalog, kept, dropped="true")
        assert (found["name"], found["commits"]) == ("found", 1)
        assert "dropped-at-ms" not in found


def test_a_table_that_no_job_wrote_leaves_nothing(catalog: Catalog, ns: Levels, job: str) -> None:
    location = catalog.create_table(ns, "t").ok()["metadata-location"]
    drop(catalog, ns, "t")
    register(catalog, ns, "t", location)
    assert jobs(catalog, ns, "t") == []


def test_a_purged_table_is_gone_for_good(catalog: Catalog, ns: Levels, job: str) -> None:
    written(catalog, ns, "t", job)
    drop(catalog, ns, "t", purge=True)
    assert tables(catalog, job, dropped="true") == []


def test_a_registered_table_brings_its_jobs(catalog: Catalog, ns: Levels, job: str) -> None:
    """Those that its snapshots name: another catalog may have written them."""
    written(catalog, ns, "t", job)
    location = catalog.commit(ns, "t", *append(2, {"flink.job-id": job})).ok()["metadata-location"]
    drop(catalog, ns, "t")
    file = Path(local_path(location))
    file.write_text(json.dumps({**json.loads(file.read_text()), "table-uuid": str(uuid.uuid4())}))
    register(catalog, ns, "u", location)
    (mine,) = jobs(catalog, ns, "u")
    assert (mine["id"], mine["commits"], mine["last-snapshot-id"]) == (job, 2, 2)
    assert names(catalog, job, dropped="true") == ["t", "u"], "not the table that was dropped"


def test_what_is_known_of_a_table_outweighs_an_old_file(catalog: Catalog, ns: Levels, job: str) -> None:
    location = written(catalog, ns, "t", job)
    catalog.commit(ns, "t", *append(2, {"flink.job-id": job})).ok()
    register(catalog, ns, "t", location, overwrite=True)
    assert [found["commits"] for found in tables(catalog, job)] == [2]
    drop(catalog, ns, "t")
    register(catalog, ns, "t", location)
    assert [found["commits"] for found in tables(catalog, job)] == [2]


def test_a_table_that_replaces_another_does_not_inherit(catalog: Catalog, ns: Levels, job: str) -> None:
    written(catalog, ns, "t", job)
    location = written(catalog, ns, "u", f"{job}-u")
    drop(catalog, ns, "u")
    register(catalog, ns, "t", location, overwrite=True)
    assert [found["id"] for found in jobs(catalog, ns, "t")] == [f"{job}-u"]
    assert tables(catalog, job, dropped="true") == []
    assert names(catalog, f"{job}-u", dropped="true") == ["t"]


def test_pages(catalog: Catalog, ns: Levels, job: str) -> None:
    wanted = {f"t{number}" for number in range(5)}
    for name in wanted:
        written(catalog, ns, name, job)
    for number in range(2, 5):
        catalog.commit(ns, "t0", *append(number, {"flink.job-id": f"{job} {number}"})).ok()
    drop(catalog, ns, "t4")
    assert every(lambda **page: tables_answer(catalog, job, **page), "tables", "name") == sorted(
        wanted - {"t4"}
    )
    with_dropped = every(lambda **page: tables_answer(catalog, job, dropped=1, **page), "tables", "name")
    assert with_dropped == sorted(wanted)
    found = every(lambda **page: jobs_answer(catalog, ns, "t0", **page), "jobs", "id")
    assert found == [job, f"{job} 2", f"{job} 3", f"{job} 4"]


def every(list_page: Any, field: str, name: str) -> list[str]:
    """All names of a listing, two at a time, sorted; none may come twice."""
    token: str | None = ""
    found: list[str] = []
    while token is not None:
        page = list_page(pageSize=2, pageToken=token).ok()
        assert len(page[field]) <= 2
        found += [entry[name] for entry in page[field]]
        token = page["next-page-token"]
    assert len(set(found)) == len(found)
    return sorted(found)


def test_parameters_are_strict(catalog: Catalog, ns: Levels, job: str) -> None:
    catalog.create_table(ns, "t").ok()
    catalog.create_view(ns, "v").ok()
    tables_answer(catalog, job, "storm").refused(400, None, "storm", "flink, frazil, spark")
    tables_answer(catalog, "x" * 256).refused(400, None, "255")
    tables_answer(catalog, "a\nb").refused(400)
    for wrong in ({"pageSize": 0}, {"pageToken": "?"}, {"page_size": 3}, {"dropped": "perhaps"}):
        tables_answer(catalog, job, **wrong).refused(400)
    for wrong in ({"pageSize": 0}, {"pageToken": "?"}, {"dropped": "true"}):
        jobs_answer(catalog, ns, "t", **wrong).refused(400)
    strange = base64.urlsafe_b64encode("⊙ no token".encode()).decode()
    assert tables_answer(catalog, job, pageToken=strange).ok()["tables"] == []
    assert jobs_answer(catalog, ns, "t", pageToken=strange).ok()["jobs"] == []
    jobs_answer(catalog, ns, "none").refused(404, "NoSuchTableException")
    jobs_answer(catalog, ns, "v").refused(404, "NoSuchTableException")
    jobs_answer(catalog, ("none",), "t").refused(404)


@pytest.mark.parametrize("strange", ["", "x" * 100_000, "a\tb", "\N{ZERO WIDTH SPACE}"])
def test_no_commit_fails_for_what_cannot_be_indexed(catalog: Catalog, ns: Levels, strange: str) -> None:
    catalog.create_table(ns, "t").ok()
    catalog.commit(ns, "t", *append(1, {"flink.job-id": strange})).ok()
    assert jobs(catalog, ns, "t") == []


def test_the_longest_id(catalog: Catalog, ns: Levels) -> None:
    """As many bytes as can be; an index of PostgreSQL takes 2,704 in all."""
    job = "\U0001f9ca" * 255
    written(catalog, ns, "t", job)
    assert names(catalog, job) == ["t"]


def test_extreme_times_are_told_as_they_are(catalog: Catalog, ns: Levels, job: str) -> None:
    catalog.create_table(ns, "t").ok()
    more = {"timestamp-ms": 2**63 - 1, "sequence-number": 1}
    catalog.commit(ns, "t", add_snapshot(-(2**63), summary={"flink.job-id": job}, **more)).ok()
    (found,) = tables(catalog, job)
    assert (found["last-timestamp-ms"], found["last-snapshot-id"]) == (2**63 - 1, -(2**63))


@pytest.fixture
def elsewhere(server: FrazilServer, tmp_path: Path) -> Iterator[tuple[Catalog, str]]:
    """Another warehouse of the same server."""
    catalog = connect(server.port)
    name = f"jobs-{uuid.uuid4().hex[:10]}"
    profile = {"type": "local", "path": str(tmp_path / "elsewhere")}
    body = {"warehouse-name": name, "storage-profile": profile}
    made = catalog.client.send("POST", "/management/v1/warehouse", body).ok(201)
    found = connect(server.port, name)
    yield found, f"/management/v1/warehouse/{made['id']}"
    found.client.close()
    catalog.client.close()


def test_a_warehouse_shows_its_own_tables(
    catalog: Catalog, elsewhere: tuple[Catalog, str], ns: Levels, job: str
) -> None:
    """As a list of tables does: not while it is inactive, and nothing is left of one that is deleted."""
    other, path = elsewhere
    other.create_namespace(*ns).ok()
    written(catalog, ns, "here", job)
    written(other, ns, "there", job)
    assert (names(catalog, job), names(other, job)) == (["here"], ["there"])
    other.client.send("POST", f"{path}/deactivate").ok()
    tables_answer(other, job).refused(404, "WarehouseNotActive")
    jobs_answer(other, ns, "there").refused(404, "WarehouseNotActive")
    other.client.send("POST", f"{path}/activate").ok()
    drop(other, ns, "there")
    other.send("DELETE", other.namespace_path(ns)).ok(204)
    other.client.send("DELETE", path).ok(204)
    tables_answer(other, job, dropped="true").refused(404, "NoSuchWarehouseException")
    assert names(catalog, job) == ["here"]
