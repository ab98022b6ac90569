from __future__ import annotations

import time
from typing import Any

import pytest
from tests.catalog.metadata.support import (
    T0,
    add,
    append,
    apply,
    field,
    new_table,
    ref,
    snapshot,
    struct,
    with_snapshots,
)

from frazil.catalog import metadata as m
from frazil.core.errors import CommitFailed, InvalidInput

Json = dict[str, Any]


def remove(*ids: int) -> Json:
    return {"action": "remove-snapshots", "snapshot-ids": list(ids)}


def log(table: Json) -> list[int]:
    return [entry["snapshot-id"] for entry in table["snapshot-log"]]


def statistics(snapshot_id: int, path: str = "s3://b/s.puffin") -> Json:
    return {
        "snapshot-id": snapshot_id,
        "statistics-path": path,
        "file-size-in-bytes": 1,
        "file-footer-size-in-bytes": 1,
        "blob-metadata": [],
    }


def test_append_moves_main_the_sequence_and_the_log() -> None:
    table = with_snapshots(2)
    assert table["current-snapshot-id"] == 2
    assert table["last-sequence-number"] == 2
    assert table["refs"] == {"main": {"snapshot-id": 2, "type": "branch"}}
    assert table["snapshot-log"] == [
        {"timestamp-ms": T0 + 1, "snapshot-id": 1},
        {"timestamp-ms": T0 + 2, "snapshot-id": 2},
    ]
    assert [e["metadata-file"] for e in table["metadata-log"]] == [
        "s3://b/1.metadata.json",
        "s3://b/2.metadata.json",
    ]


def test_unknown_keys_of_a_snapshot_survive_and_nulls_do_not() -> None:
    sent = snapshot(1, **{"parent-snapshot-id": None, "key-id": "k", "future": {"a": None}})
    stored = apply(new_table(), add(sent))["snapshots"][0]
    assert stored == {k: v for k, v in sent.items() if k != "parent-snapshot-id"}


def test_snapshots_that_one_commit_passes_through_are_not_in_the_log() -> None:
    table = apply(with_snapshots(1), *append(2), *append(3))
    assert log(table) == [1, 3]
    assert len(table["snapshots"]) == 3


def test_rollback_is_logged_with_the_time_of_the_commit() -> None:
    table = apply(with_snapshots(3), ref("main", 1), now=T0 + 500)
    assert table["snapshot-log"][-1] == {"timestamp-ms": T0 + 500, "snapshot-id": 1}
    assert table["last-sequence-number"] == 3


def test_setting_a_ref_again_changes_nothing() -> None:
    table = with_snapshots(2)
    assert apply(table, ref("main", 2)) is table


def test_branches_and_tags_keep_their_retention_and_unknown_keys() -> None:
    table = apply(
        with_snapshots(2),
        ref("dev", 1, **{"min-snapshots-to-keep": 2, "max-snapshot-age-ms": 5, "future": 1}),
        ref("v1", 1, "tag", **{"max-ref-age-ms": 7, "max-snapshot-age-ms": None}),
    )
    assert table["refs"]["dev"] == {
        "snapshot-id": 1,
        "type": "branch",
        "min-snapshots-to-keep": 2,
        "max-snapshot-age-ms": 5,
        "future": 1,
    }
    assert table["refs"]["v1"] == {"snapshot-id": 1, "type": "tag", "max-ref-age-ms": 7}
    assert log(table) == [1, 2]
    gone = apply(table, {"action": "remove-snapshot-ref", "ref-name": "dev"})
    assert set(gone["refs"]) == {"main", "v1"}
    assert apply(gone, {"action": "remove-snapshot-ref", "ref-name": "dev"}) is gone


@pytest.mark.parametrize(
    ("update", "words"),
    [
        (ref("main", 9), "no snapshot 9"),
        (ref("main", 1, "tag"), "must be a branch"),
        (ref("", 1), "empty"),
        (ref("t", 1, "tag", **{"min-snapshots-to-keep": 1}), "for branches"),
        (ref("t", 1, **{"max-ref-age-ms": 0}), "more than 0"),
        (add(snapshot(1, 5)), "snapshot 1 already"),
        (add(snapshot(5, 5, **{"manifest-list": None})), "manifest-list"),
        (add(snapshot(5, 5, **{"manifest-list": None, "manifests": ["m"]})), "manifest-list"),
    ],
)
def test_updates_that_are_refused(update: Json, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        apply(with_snapshots(2), update)


def test_removing_main_empties_the_table() -> None:
    two = apply(with_snapshots(1), {"action": "remove-snapshot-ref", "ref-name": "main"})
    three = apply(with_snapshots(1, 3), {"action": "remove-snapshot-ref", "ref-name": "main"})
    assert (two["current-snapshot-id"], three["current-snapshot-id"]) == (-1, None)
    assert len(two["snapshots"]) == 1


def test_a_lost_race_for_the_sequence_number_can_be_tried_again() -> None:
    with pytest.raises(CommitFailed, match=r"updates\[0\] \(add-snapshot\): sequence number 2"):
        apply(with_snapshots(2), *append(3, sequence=2))
    replaced = apply(with_snapshots(2), add({**snapshot(9, 2), "parent-snapshot-id": None}))
    assert replaced["last-sequence-number"] == 2
    with pytest.raises(CommitFailed):
        apply(with_snapshots(2), add({**snapshot(9, 1), "parent-snapshot-id": None}))


def test_v1_has_no_sequence_numbers_and_may_embed_manifests() -> None:
    with pytest.raises(InvalidInput, match="sequence"):
        apply(new_table(1), *append(1))
    embedded = {k: v for k, v in snapshot(1).items() if k not in ("sequence-number", "manifest-list")}
    table = apply(new_table(1), add({**embedded, "manifests": ["s3://b/m.avro"]}))
    assert table["snapshots"][0]["manifests"] == ["s3://b/m.avro"]
    assert "last-sequence-number" not in table


def test_row_ids_of_v3() -> None:
    table = with_snapshots(2, version=3)
    assert table["next-row-id"] == 20
    gap = apply(table, *append(3, **{"first-row-id": 100, "added-rows": 5}))
    assert gap["next-row-id"] == 105
    with pytest.raises(CommitFailed, match="first-row-id 19"):
        apply(table, *append(3, **{"first-row-id": 19, "added-rows": 5}))
    for more in ({}, {"first-row-id": 20}, {"first-row-id": 20, "added-rows": -1}):
        with pytest.raises(InvalidInput, match=r"first-row-id|added-rows"):
            apply(table, *append(3, **more))
    with pytest.raises(InvalidInput, match="64-bit"):
        apply(table, *append(3, **{"first-row-id": 2**63 - 1, "added-rows": 1}))


def test_a_snapshot_needs_a_table_around_it() -> None:
    with pytest.raises(InvalidInput, match="schema"):
        apply(None, add(snapshot(1)), file=None)


def test_expiry_drops_snapshots_statistics_dangling_refs_and_history() -> None:
    table = apply(
        with_snapshots(4),
        ref("old", 1, "tag"),
        {"action": "set-statistics", "statistics": statistics(2)},
        {"action": "set-partition-statistics", "partition-statistics": statistics(1)},
    )
    after = apply(table, remove(1), remove(2), remove(2, 77))
    assert [s["snapshot-id"] for s in after["snapshots"]] == [3, 4]
    assert set(after["refs"]) == {"main"}
    assert (after["statistics"], after["partition-statistics"]) == ([], [])
    assert log(after) == [3, 4]
    assert after["current-snapshot-id"] == 4


def test_a_hole_in_the_history_takes_what_came_before_it_too() -> None:
    assert log(apply(with_snapshots(4), remove(2))) == [3, 4]


def test_removing_the_current_snapshot_leaves_an_empty_table() -> None:
    after = apply(with_snapshots(2), remove(1, 2))
    assert (after["current-snapshot-id"], after["refs"], after["snapshots"], after["snapshot-log"]) == (
        -1,
        {},
        [],
        [],
    )


def test_statistics_are_one_for_a_snapshot() -> None:
    first = apply(
        with_snapshots(2),
        {"action": "set-statistics", "statistics": statistics(1)},
        {"action": "set-statistics", "statistics": statistics(2)},
        {"action": "set-statistics", "statistics": statistics(1, "s3://b/new.puffin")},
    )
    assert [s["statistics-path"] for s in first["statistics"]] == ["s3://b/s.puffin", "s3://b/new.puffin"]
    after = apply(first, {"action": "remove-statistics", "snapshot-id": 2})
    assert [s["snapshot-id"] for s in after["statistics"]] == [1]
    assert apply(after, {"action": "remove-partition-statistics", "snapshot-id": 1}) is after


def test_clocks_may_be_a_minute_apart_and_no_more() -> None:
    table = with_snapshots(2)
    late, early = T0 + 2 - 60_001, T0 + 1000 + 60_001
    for bad in (late, early):
        with pytest.raises(InvalidInput, match="a minute"):
            apply(table, *append(3, **{"timestamp-ms": bad}))
    for good in (late + 1, early - 1):
        assert apply(table, *append(3, **{"timestamp-ms": good}))["current-snapshot-id"] == 3


def test_deletion_vectors_lineage_and_other_v3_contents_pass_through() -> None:
    table = new_table(3, schema=struct(field(1, "v", "variant"), field(2, "g", "geometry(srid:3857)")))
    table = {**table, "future-key": {"kept": [1, {"x": None}]}}
    summary = {"operation": "overwrite", "added-dvs": "3", "added-delete-files": "3"}
    after = apply(
        table, *append(1, **{"first-row-id": 0, "added-rows": 4, "summary": summary, "key-id": "k1"})
    )
    assert after["future-key"] == {"kept": [1, {"x": None}]}
    assert after["snapshots"][0]["summary"] == summary
    assert m.parse_table_metadata(m.encode(after)) == after


def test_refs_only() -> None:
    table = apply(with_snapshots(5), ref("tag", 2, "tag"))
    seen = m.refs_only(table)
    assert [s["snapshot-id"] for s in seen["snapshots"]] == [2, 5]
    assert len(table["snapshots"]) == 5
    assert seen["snapshot-log"] == table["snapshot-log"]


def test_an_append_to_a_hundred_snapshots_costs_microseconds() -> None:
    """0.013 ms on the machine this was written on; the limit is 0.2 ms."""
    table = with_snapshots(100)
    updates = append(101)
    best = 1.0
    for _ in range(30):
        # What this thread computes: the time on the clock is also that of all others on this machine.
        start = time.thread_time()
        for _ in range(20):
            m.apply_updates(table, updates, now_ms=T0 + 200, metadata_location="s3://b/x.metadata.json")
        best = min(best, (time.thread_time() - start) / 20)
    assert best < 0.0002


def test_expiring_one_by_one_is_linear() -> None:
    table = new_table()
    for number in range(1, 3001):
        updates = append(number)
        table = m.apply_updates(table, updates, now_ms=T0 + number, metadata_location=None)
    start = time.thread_time()
    after = m.apply_updates(
        table, [remove(i) for i in range(1, 3000)], now_ms=T0 + 5000, metadata_location=None
    )
    assert time.thread_time() - start < 1
    assert len(after["snapshots"]) == 1
