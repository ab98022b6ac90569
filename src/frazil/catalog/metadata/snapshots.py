"""Updates of snapshots, branches and tags, the snapshot log, and what hangs on snapshots."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from frazil.catalog.metadata.builder import NO_SNAPSHOT, ROW_LINEAGE_VERSION, TableBuilder
from frazil.core.errors import CommitFailed, InvalidInput

Json = dict[str, Any]

MAIN = "main"
CLOCK_SKEW_MS = 60_000
_INT64_MAX = 2**63 - 1
_REF_LIMITS = ("min-snapshots-to-keep", "max-snapshot-age-ms", "max-ref-age-ms")


def add_snapshot(table: TableBuilder, update: Json) -> None:
    sent = update["snapshot"]
    for key, what in (("schemas", "schema"), ("partition-specs", "partition spec"), ("sort-orders", "order")):
        if not table.doc[key]:
            raise InvalidInput(f"a snapshot needs a {what} to be added first")
    known = table.snapshots()
    snapshot_id = sent["snapshot-id"]
    if snapshot_id in known:
        raise InvalidInput(f"there is a snapshot {snapshot_id} already")
    if sent.get("manifest-list") is None and (table.version > 1 or sent.get("manifests") is None):
        raise InvalidInput(f"snapshot {snapshot_id} has no manifest-list")
    # Java reads a null parent or summary as a value and fails on it.
    snapshot = {k: v for k, v in sent.items() if v is not None} if None in sent.values() else sent
    _advance_sequence(table, snapshot)
    _advance_row_ids(table, snapshot)
    table.own_list("snapshots").append(snapshot)
    known[snapshot_id] = snapshot
    table.added_snapshots.add(snapshot_id)


def _advance_sequence(table: TableBuilder, snapshot: Json) -> None:
    """Sequence numbers only grow; a client that lost a race may try again, so that is a conflict."""
    number = snapshot.get("sequence-number", 0)
    if table.version == 1:
        if number != 0:
            raise InvalidInput(f"format version 1 has no sequence numbers, not {number}")
        return
    last = table.doc.get("last-sequence-number") or 0
    # A snapshot without a parent replaces the table, and may do so beside one that was just committed.
    if number < last or (number == last and snapshot.get("parent-snapshot-id") is not None):
        raise CommitFailed(f"sequence number {number} is not after the table's last one, {last}")
    table.doc["last-sequence-number"] = number


def _advance_row_ids(table: TableBuilder, snapshot: Json) -> None:
    if table.version < ROW_LINEAGE_VERSION:
        return
    first, added = snapshot.get("first-row-id"), snapshot.get("added-rows")
    if first is None or added is None:
        missing = "first-row-id" if first is None else "added-rows"
        raise InvalidInput(f"a snapshot of format version 3 needs {missing}")
    if first < 0 or added < 0:
        raise InvalidInput("first-row-id and added-rows must not be negative")
    next_row_id = table.doc.get("next-row-id") or 0
    if first < next_row_id:
        raise CommitFailed(f"first-row-id {first} is behind the table's next-row-id, {next_row_id}")
    if first + added > _INT64_MAX:
        raise InvalidInput("first-row-id plus added-rows is more than a 64-bit number holds")
    # Not next-row-id plus added-rows: after a gap that would give out ids of this snapshot again.
    table.doc["next-row-id"] = first + added


def set_snapshot_ref(table: TableBuilder, update: Json) -> None:
    name, snapshot_id = update["ref-name"], update["snapshot-id"]
    ref = {k: v for k, v in update.items() if v is not None and k not in ("action", "ref-name")}
    _check_ref(name, ref)
    if (table.doc.get("refs") or {}).get(name) == ref:
        return
    snapshot = table.snapshots().get(snapshot_id)
    if snapshot is None:
        raise InvalidInput(f"{ref['type']} {name!r}: there is no snapshot {snapshot_id}")
    table.own_dict("refs")[name] = ref
    if name == MAIN:
        table.set("current-snapshot-id", snapshot_id)
        added = snapshot_id in table.added_snapshots
        when = snapshot["timestamp-ms"] if added else table.now_ms
        table.own_list("snapshot-log").append({"timestamp-ms": when, "snapshot-id": snapshot_id})
        table.main_set_to.add(snapshot_id)


def _check_ref(name: str, ref: Json) -> None:
    if not name:
        raise InvalidInput("ref-name must not be empty")
    is_tag = ref["type"] == "tag"
    if is_tag and name == MAIN:
        raise InvalidInput("main must be a branch, not a tag")
    for key in _REF_LIMITS:
        if key in ref:
            if ref[key] <= 0:
                raise InvalidInput(f"{key} of {name!r} must be more than 0")
            if is_tag and key != "max-ref-age-ms":
                raise InvalidInput(f"{key} is for branches, {name!r} is a tag")


def remove_snapshot_ref(table: TableBuilder, update: Json) -> None:
    _remove_ref(table, update["ref-name"])


def _remove_ref(table: TableBuilder, name: str) -> None:
    if name not in (table.doc.get("refs") or {}):
        return
    del table.own_dict("refs")[name]
    if name == MAIN:
        empty = NO_SNAPSHOT if table.version < ROW_LINEAGE_VERSION else None
        table.set("current-snapshot-id", empty)


def remove_snapshots(table: TableBuilder, update: Json) -> None:
    """Ids that are not there are no error: two clients may expire the same snapshots."""
    known = table.snapshots()
    gone = {i for i in update["snapshot-ids"] if i in known}
    if not gone:
        return
    # The list itself is rebuilt once, at the end: clients send one update for each snapshot they expire.
    for snapshot_id in gone:
        del known[snapshot_id]
    table.changed = table.snapshots_removed = True
    for key in ("statistics", "partition-statistics"):
        _drop_statistics(table, key, gone)
    for name in [n for n, ref in (table.doc.get("refs") or {}).items() if ref["snapshot-id"] in gone]:
        _remove_ref(table, name)


def set_statistics(table: TableBuilder, update: Json) -> None:
    _replace_statistics(table, "statistics", update["statistics"])


def remove_statistics(table: TableBuilder, update: Json) -> None:
    _drop_statistics(table, "statistics", {update["snapshot-id"]})


def set_partition_statistics(table: TableBuilder, update: Json) -> None:
    _replace_statistics(table, "partition-statistics", update["partition-statistics"])


def remove_partition_statistics(table: TableBuilder, update: Json) -> None:
    _drop_statistics(table, "partition-statistics", {update["snapshot-id"]})


def _replace_statistics(table: TableBuilder, key: str, file: Json) -> None:
    kept = [f for f in table.doc.get(key) or () if f["snapshot-id"] != file["snapshot-id"]]
    table.replace_list(key, [*kept, file])


def _drop_statistics(table: TableBuilder, key: str, snapshot_ids: set[int]) -> None:
    files = table.doc.get(key) or ()
    kept = [f for f in files if f["snapshot-id"] not in snapshot_ids]
    if len(kept) != len(files):
        table.replace_list(key, kept)


def finish(table: TableBuilder) -> None:
    """What is left to do when all updates are applied."""
    if table.snapshots_removed:
        table.replace_list("snapshots", list(table.snapshots().values()))
    _finish_log(table)


def _finish_log(table: TableBuilder) -> None:
    """Leave in the log only what was ever current between commits, in the order of time.

    A snapshot that this commit added and moved on from was never seen as current. After a removal,
    everything before a removed entry goes too: with a gap, the entry before it would seem to have been
    current for longer than it was.
    """
    current = table.doc.get("current-snapshot-id")
    passed = {i for i in table.main_set_to if i in table.added_snapshots and i != current}
    if passed or table.snapshots_removed:
        known, kept = table.snapshots(), list[Json]()
        for entry in table.doc.get("snapshot-log") or ():
            if entry["snapshot-id"] not in known:
                if table.snapshots_removed:
                    kept.clear()
            elif entry["snapshot-id"] not in passed:
                kept.append(entry)
        table.replace_list("snapshot-log", kept)
    if table.main_set_to:
        _check_times(table)


def _check_times(table: TableBuilder) -> None:
    """Time travel searches the log by time; clocks of different machines may be a little apart."""
    log = table.doc["snapshot-log"]
    tail = log[max(0, min(table.log_start, len(log)) - 1) :]
    for before, after in pairwise(tail):
        if after["timestamp-ms"] < before["timestamp-ms"] - CLOCK_SKEW_MS:
            raise InvalidInput(
                f"snapshot {after['snapshot-id']} has timestamp-ms {after['timestamp-ms']}, more than a "
                f"minute before that of the snapshot it follows, {before['timestamp-ms']}"
            )
    if tail and tail[-1]["timestamp-ms"] > table.now_ms + CLOCK_SKEW_MS:
        last = tail[-1]
        raise InvalidInput(
            f"snapshot {last['snapshot-id']} has timestamp-ms {last['timestamp-ms']}, more than a minute "
            f"after the server's clock, {table.now_ms}"
        )
