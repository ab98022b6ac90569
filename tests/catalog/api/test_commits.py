from __future__ import annotations

import gzip
import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from tests.catalog.api.client import (
    Catalog,
    Json,
    add_snapshot,
    column,
    connect,
    identifier,
    local_path,
    schema,
    set_properties,
    set_ref,
)

Levels = tuple[str, ...]
UUID = "11111111-2222-3333-4444-555555555555"


def eventually(condition: Any, seconds: float = 120) -> None:
    """Background work is given a moment."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.02)


def holding(metadata: Json) -> list[Json]:
    """One requirement of each kind that this table meets."""
    return [
        {"type": "assert-table-uuid", "uuid": metadata["table-uuid"].upper()},
        {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 1},
        {"type": "assert-ref-snapshot-id", "ref": "none", "snapshot-id": None},
        {"type": "assert-last-assigned-field-id", "last-assigned-field-id": metadata["last-column-id"]},
        {"type": "assert-current-schema-id", "current-schema-id": metadata["current-schema-id"]},
        {
            "type": "assert-last-assigned-partition-id",
            "last-assigned-partition-id": metadata["last-partition-id"],
        },
        {"type": "assert-default-spec-id", "default-spec-id": metadata["default-spec-id"]},
        {"type": "assert-default-sort-order-id", "default-sort-order-id": metadata["default-sort-order-id"]},
    ]


BROKEN: list[Json] = [
    {"type": "assert-create"},
    {"type": "assert-table-uuid", "uuid": UUID},
    {"type": "assert-table-uuid", "uuid": "no uuid at all"},
    {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 2},
    {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": None},
    {"type": "assert-ref-snapshot-id", "ref": "main"},
    {"type": "assert-ref-snapshot-id", "ref": "none", "snapshot-id": 1},
    {"type": "assert-last-assigned-field-id", "last-assigned-field-id": 99},
    {"type": "assert-current-schema-id", "current-schema-id": 99},
    {"type": "assert-last-assigned-partition-id", "last-assigned-partition-id": 99},
    {"type": "assert-default-spec-id", "default-spec-id": 99},
    {"type": "assert-default-sort-order-id", "default-sort-order-id": 99},
]


def test_requirements_that_hold(catalog: Catalog, ns: Levels) -> None:
    catalog.create_table(ns, "t").ok()
    metadata = catalog.commit(ns, "t", add_snapshot(1), set_ref(1)).ok()["metadata"]
    for requirement in holding(metadata):
        catalog.commit(ns, "t", set_properties(n=requirement["type"]), requirements=[requirement]).ok()
    catalog.commit(ns, "t", set_properties(n="all"), requirements=holding(metadata)).ok()


@pytest.mark.parametrize("broken", BROKEN, ids=lambda r: "-".join(str(v) for v in r.values()))
def test_requirements_that_do_not_hold(catalog: Catalog, ns: Levels, broken: Json) -> None:
    catalog.create_table(ns, "t").ok()
    catalog.commit(ns, "t", add_snapshot(1), set_ref(1)).ok()
    before = catalog.load(ns, "t").ok()
    answer = catalog.commit(ns, "t", set_properties(a="b"), requirements=[broken])
    answer.refused(409, "CommitFailedException", "Requirement failed")
    if broken["type"] != "assert-create":
        both = [*holding(before["metadata"]), broken]
        catalog.commit(ns, "t", set_properties(a="b"), requirements=both).refused(
            409, "CommitFailedException"
        )
    assert catalog.load(ns, "t").ok() == before
    folder = Path(local_path(before["metadata-location"])).parent
    assert len(list(folder.iterdir())) == 2, "a refused commit leaves no file"


def test_a_commit_to_nothing(catalog: Catalog, ns: Levels) -> None:
    catalog.commit(ns, "none", set_properties(a="b")).refused(404, "NoSuchTableException")
    catalog.create_view(ns, "v").ok()
    catalog.commit(ns, "v", set_properties(a="b")).refused(404, "NoSuchTableException")
    create = [{"type": "assert-create"}]
    catalog.commit(ns, "v", set_properties(a="b"), requirements=create).refused(409, "AlreadyExistsException")


def test_a_commit_that_changes_nothing_writes_nothing(catalog: Catalog, ns: Levels) -> None:
    before = catalog.create_table(ns, "t").ok()
    after = catalog.commit(ns, "t").ok()
    assert after["metadata-location"] == before["metadata-location"]
    assert after["metadata"] == before["metadata"]


def test_the_identifier_in_the_body_must_be_the_path_s(catalog: Catalog, ns: Levels) -> None:
    catalog.create_table(ns, "t").ok()
    path = catalog.table_path(ns, "t")
    body: Json = {"requirements": [], "updates": [], "identifier": identifier(ns, "T")}
    catalog.send("POST", path, body).ok()
    catalog.send("POST", path, {**body, "identifier": identifier(ns, "x")}).refused(400, None, "identifier")


def test_rivals_on_one_base_lose_only_by_their_requirements(catalog: Catalog, ns: Levels) -> None:
    """Commits that require nothing all land; of those that require the base, one does."""
    catalog.create_table(ns, "t").ok()
    catalog.commit(ns, "t", add_snapshot(1), set_ref(1)).ok()
    statuses: dict[str, int] = {}

    def work(number: int) -> None:
        mine = connect(catalog.client.port)
        guarded = [{"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 1}]
        free = mine.commit(ns, "t", set_properties(**{f"p{number}": "x"}))
        statuses[f"free{number}"] = free.status
        move = [add_snapshot(100 + number, **{"sequence-number": 2}), set_ref(100 + number)]
        statuses[f"guarded{number}"] = mine.commit(ns, "t", *move, requirements=guarded).status
        mine.client.close()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [statuses[f"free{n}"] for n in range(6)] == [200] * 6
    assert sorted(statuses[f"guarded{n}"] for n in range(6)) == [200] + [409] * 5
    metadata = catalog.load(ns, "t").ok()["metadata"]
    assert {f"p{n}" for n in range(6)} <= set(metadata["properties"])
    (winner,) = (n for n in range(6) if statuses[f"guarded{n}"] == 200)
    assert metadata["current-snapshot-id"] == 100 + winner
    assert len(metadata["snapshots"]) == 2
    files = {Path(local_path(entry["metadata-file"])).name for entry in metadata["metadata-log"]}
    folder = Path(local_path(metadata["location"])) / "metadata"
    assert len(list(folder.iterdir())) == len(files) + 1, "losers leave no file"


def change(levels: Levels, name: str, *updates: Json, requirements: tuple[Json, ...] = ()) -> Json:
    return {
        "identifier": identifier(levels, name),
        "requirements": list(requirements),
        "updates": list(updates),
    }


def test_a_transaction_changes_all_its_tables(catalog: Catalog, ns: Levels) -> None:
    other = (*ns, "other")
    catalog.create_namespace(*other).ok()
    catalog.create_table(ns, "a").ok()
    catalog.create_table(other, "b").ok()
    both = [change(ns, "a", set_properties(x="1")), change(other, "b", add_snapshot(1), set_ref(1))]
    answer = catalog.transaction(*both)
    assert (answer.status, answer.body) == (204, b"")
    assert catalog.load(ns, "a").ok()["metadata"]["properties"]["x"] == "1"
    assert catalog.load(other, "b").ok()["metadata"]["current-snapshot-id"] == 1


def test_a_transaction_can_create_a_staged_table(catalog: Catalog, ns: Levels) -> None:
    catalog.create_table(ns, "a").ok()
    metadata = catalog.create_table(ns, "new", **Json({"stage-create": True})).ok()["metadata"]
    create = change(
        ns,
        "new",
        {"action": "assign-uuid", "uuid": metadata["table-uuid"]},
        {"action": "add-schema", "schema": metadata["schemas"][0]},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": metadata["partition-specs"][0]},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": metadata["sort-orders"][0]},
        {"action": "set-default-sort-order", "sort-order-id": -1},
        {"action": "set-location", "location": metadata["location"]},
        requirements=({"type": "assert-create"},),
    )
    bad = change(ns, "a", requirements=({"type": "assert-table-uuid", "uuid": UUID},))
    catalog.transaction(create, bad).refused(409, "CommitFailedException")
    catalog.load(ns, "new").refused(404)
    catalog.transaction(create, change(ns, "a", set_properties(x="1"))).ok(204)
    assert catalog.load(ns, "new").ok()["metadata"]["table-uuid"] == metadata["table-uuid"]


@pytest.mark.parametrize("bad_place", [0, 1, 2])
@pytest.mark.parametrize("what", ["requirement", "update", "missing", "location"])
def test_a_transaction_is_all_or_nothing(catalog: Catalog, ns: Levels, bad_place: int, what: str) -> None:
    before = [catalog.create_table(ns, name).ok() for name in "abc"]
    changes = [change(ns, name, set_properties(x="1")) for name in "abc"]
    status = 409
    if what == "requirement":
        changes[bad_place]["requirements"] = [{"type": "assert-table-uuid", "uuid": UUID}]
    elif what == "update":
        changes[bad_place]["updates"] = [set_ref(99)]
        status = 400
    elif what == "missing":
        changes[bad_place] = change(ns, "none", set_properties(x="1"))
        status = 404
    else:
        taken = before[(bad_place + 1) % 3]["metadata"]["location"]
        changes[bad_place]["updates"] = [{"action": "set-location", "location": taken}]
    catalog.transaction(*changes).refused(status)
    for name, stood in zip("abc", before, strict=True):
        assert catalog.load(ns, name).ok() == stood
        folder = Path(local_path(stood["metadata-location"])).parent
        assert [file.name for file in folder.iterdir()] == [Path(stood["metadata-location"]).name]


def test_a_transaction_names_each_table_once(catalog: Catalog, ns: Levels) -> None:
    catalog.create_table(ns, "a").ok()
    twice = [change(ns, "a", set_properties(x="1")), change((ns[0].upper(),), "A", set_properties(y="1"))]
    catalog.transaction(*twice).refused(400, "BadRequestException", "table-changes")
    catalog.transaction().refused(400, "BadRequestException", "table-changes")
    assert "x" not in catalog.load(ns, "a").ok()["metadata"]["properties"]


def test_rival_transactions_never_both_win(catalog: Catalog, ns: Levels) -> None:
    """The reference server acknowledges both of two rivals on one base; exactly one may win."""
    for attempt in range(5):
        names = [f"a{attempt}", f"b{attempt}"]
        for name in names:
            catalog.create_table(ns, name).ok()
        statuses: list[int] = []
        gate = threading.Barrier(3)

        def work(
            number: int,
            names: list[str] = names,
            statuses: list[int] = statuses,
            gate: threading.Barrier = gate,
        ) -> None:
            mine = connect(catalog.client.port)
            none = {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": None}
            order = names if number % 2 else names[::-1]
            changes = [
                change(ns, n, add_snapshot(number), set_ref(number), requirements=(none,)) for n in order
            ]
            gate.wait()
            statuses.append(mine.transaction(*changes).status)
            mine.client.close()

        threads = [threading.Thread(target=work, args=(number,)) for number in (1, 2, 3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(statuses) == [204, 409, 409]
        current = {catalog.load(ns, name).ok()["metadata"]["current-snapshot-id"] for name in names}
        assert len(current) == 1


def metadata_files(metadata: Json) -> set[str]:
    return {file.name for file in (Path(local_path(metadata["location"])) / "metadata").iterdir()}


def name_of(location: str) -> str:
    return location.rsplit("/", 1)[-1]


def test_old_metadata_files_are_deleted_when_asked(catalog: Catalog, ns: Levels) -> None:
    properties = {
        "write.metadata.delete-after-commit.enabled": "true",
        "write.metadata.previous-versions-max": "2",
    }
    created = catalog.create_table(ns, "t", properties=properties).ok()
    written = [name_of(created["metadata-location"])]
    stranger = Path(local_path(created["metadata-location"])).parent / "00000-stranger.metadata.json"
    stranger.write_text("{}")
    for number in range(6):
        answer = catalog.commit(ns, "t", set_properties(n=str(number))).ok()
        written.append(name_of(answer["metadata-location"]))
        listed = [name_of(entry["metadata-file"]) for entry in answer["metadata"]["metadata-log"]]
        assert listed == written[:-1][-2:]
        wanted = {*written[-3:], stranger.name}
        metadata = answer["metadata"]
        eventually(lambda metadata=metadata, wanted=wanted: metadata_files(metadata) == wanted)
    refused = catalog.commit(ns, "t", set_ref(99))
    refused.refused(400)
    time.sleep(0.1)
    assert metadata_files(answer["metadata"]) == {*written[-3:], stranger.name}


def test_old_metadata_files_stay_by_default(catalog: Catalog, ns: Levels) -> None:
    catalog.create_table(ns, "t", properties={"write.metadata.previous-versions-max": "1"}).ok()
    for number in range(4):
        answer = catalog.commit(ns, "t", set_properties(n=str(number))).ok()
    assert len(answer["metadata"]["metadata-log"]) == 1
    time.sleep(0.1)
    assert len(metadata_files(answer["metadata"])) == 5


def test_metadata_can_be_gzipped(catalog: Catalog, ns: Levels) -> None:
    codec = "write.metadata.compression-codec"
    created = catalog.create_table(ns, "t", properties={codec: "gzip"}).ok()
    location = created["metadata-location"]
    assert location.endswith(".gz.metadata.json")
    assert json.loads(gzip.decompress(Path(local_path(location)).read_bytes())) == created["metadata"]
    plain = catalog.commit(ns, "t", {"action": "set-properties", "updates": {codec: "none"}}).ok()
    assert json.loads(Path(local_path(plain["metadata-location"])).read_bytes()) == plain["metadata"]
    for bad in ("zstd", "", "GZIP2"):
        update = {"action": "set-properties", "updates": {codec: bad}}
        catalog.commit(ns, "t", update).refused(400, None, codec)
        catalog.create_table(ns, "u", properties={codec: bad}).refused(400, None, codec)
    catalog.send("DELETE", catalog.table_path(ns, "t")).ok(204)
    body = {"name": "again", "metadata-location": location}
    answer = catalog.send("POST", catalog.namespace_path(ns, "register"), body).ok()
    assert answer["metadata"] == created["metadata"]


def test_the_metadata_folder_can_be_elsewhere_in_the_warehouse(catalog: Catalog, ns: Levels) -> None:
    key = "write.metadata.path"
    created = catalog.create_table(ns, "t").ok()
    base = created["metadata"]["location"].rpartition("/")[0]
    folder = f"{base}/{ns[0]}-metadata"
    moved = catalog.commit(ns, "t", {"action": "set-properties", "updates": {key: folder + "/"}}).ok()
    assert moved["metadata-location"].startswith(folder + "/00001-")
    assert catalog.load(ns, "t").ok()["metadata"] == moved["metadata"]
    for bad in (
        "file:///tmp/elsewhere",
        "/tmp/elsewhere",
        f"{base}/../x",
        "s3://b/x",
        "relative",
        f"{base}/%2e%2e/x",
    ):
        update = {"action": "set-properties", "updates": {key: bad}}
        catalog.commit(ns, "t", update).refused(400, "BadRequestException", key)
        catalog.create_table(ns, "u", properties={key: bad}).refused(400, "BadRequestException", key)
    assert catalog.load(ns, "t").ok()["metadata"] == moved["metadata"]


def test_schema_changes(catalog: Catalog, ns: Levels) -> None:
    created = catalog.create_table(ns, "t").ok()["metadata"]
    wider = schema(*created["schemas"][0]["fields"], column(3, "more", "double"))
    changed = catalog.commit(
        ns,
        "t",
        {"action": "add-schema", "schema": wider},
        {"action": "set-current-schema", "schema-id": -1},
        requirements=[{"type": "assert-current-schema-id", "current-schema-id": 0}],
    ).ok()["metadata"]
    assert changed["current-schema-id"] == 1
    assert changed["last-column-id"] == 3
    catalog.commit(ns, "t", {"action": "remove-schemas", "schema-ids": [1]}).refused(400, None, "updates[0]")
    gone = catalog.commit(ns, "t", {"action": "remove-schemas", "schema-ids": [0]}).ok()["metadata"]
    assert [entry["schema-id"] for entry in gone["schemas"]] == [1]


def test_the_message_names_the_update(catalog: Catalog, ns: Levels) -> None:
    catalog.create_table(ns, "t").ok()
    answer = catalog.commit(ns, "t", set_properties(a="b"), set_ref(5))
    answer.refused(400, "BadRequestException", "updates[1] (set-snapshot-ref)", "5")
    assert "a" not in catalog.load(ns, "t").ok()["metadata"]["properties"]
