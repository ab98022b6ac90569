"""Which snapshots go: case by case, and over random histories against what pipelines find."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.lake.test_authority import OTHER, STEPS, Model, P, played, stamp

from frazil.core.errors import HistoryChanged
from frazil.core.stamp import Stamp, history_tag, stamp_key, stamp_tag
from frazil.lake.authority import MetadataHistory, find_stamp, highest_epoch
from frazil.maintenance.expiry import AT_LEAST, ExpiryPlan, expiry_by, plan_expiry
from frazil.maintenance.history import main_line, stamped_by, unmerged
from frazil.maintenance.settings import Maintenance


def document(model: Model) -> dict[str, Any]:
    """The model's metadata; a snapshot's id is also its time."""
    found = model.metadata()
    for row in found["snapshots"]:
        row["timestamp-ms"] = row["snapshot-id"]
    for name, ref in found["refs"].items():
        ref["type"] = "tag" if name.startswith(("frazil-", "tag")) else "branch"
    return found


def plan(
    model: Model,
    older_than: int,
    at_most: int = 10_000,
    all_since: int | None = None,
    log: Sequence[tuple[int, int]] = (),
) -> ExpiryPlan:
    """`log`: times, and what main pointed at from then on."""
    found = document(model)
    found["snapshot-log"] = [{"timestamp-ms": time, "snapshot-id": one} for time, one in log]
    return plan_expiry(found, older_than_ms=older_than, at_most=at_most, all_since_ms=all_since)


def line(count: int, first: Stamp | None = None) -> Model:
    """`first` and `count` commits of nobody on top."""
    model = Model()
    if first is not None:
        model.append(first)
    for _ in range(count):
        model.append()
    return model


def test_by_age() -> None:
    found = plan(line(100), older_than=61)
    assert found.expire == tuple(range(1, 61))
    assert (found.kept, found.pins) == (40, {})
    assert plan(line(100), older_than=0).expire == ()
    assert plan(Model(), older_than=61) == ExpiryPlan()


def test_by_number() -> None:
    assert plan(line(100), older_than=0, at_most=30).expire == tuple(range(1, 71))
    # However old, and however few are wanted.
    assert plan(line(100), older_than=10**9).expire == tuple(range(1, 101 - AT_LEAST))
    assert plan(line(100), older_than=10**9, at_most=1).kept == AT_LEAST


def test_what_main_was_within_a_time_stays() -> None:
    # Neither age nor number counts; what was the head at that time stays as well.
    assert plan(line(100), older_than=91, at_most=30, all_since=51).expire == tuple(range(1, 50))
    assert plan(line(100), older_than=91, all_since=0).expire == ()
    # All of it was left as it is since before.
    assert plan(line(100), older_than=10**9, all_since=10**9).expire == tuple(range(1, 101 - AT_LEAST))
    # With the stamps that count for it: they lie below.
    model = line(40)
    model.append(stamp(1, 1))
    for _ in range(30):
        model.append()
    model.append(stamp(1, 2))
    for _ in range(28):
        model.append()
    assert plan(model, older_than=91, all_since=61).expire == tuple(range(1, 41))
    # Off main's line the time counts.
    model.roll_back(80)
    assert set(range(86, 101)) & set(plan(model, older_than=10**9, all_since=86).expire) == set()


def test_what_main_was_before_a_rollback_stays() -> None:
    """However long ago it was committed: somebody may have pinned it until then."""
    model = line(100)
    model.roll_back(60)
    log = [*((number, number) for number in range(1, 101)), (200, 60), (210, 70), (220, 60)]

    def gone(since: int | None) -> set[int]:
        return {60, 70, 99, 100} & set(plan(model, older_than=10**9, all_since=since, log=log).expire)

    assert gone(None) == {70, 99, 100}
    assert gone(100) == set()
    assert gone(101) == gone(200) == {99}
    assert gone(201) == gone(220) == {99, 100}
    assert gone(221) == {70, 99, 100}
    # On main's line as well, if main was moved back to it for a while.
    model.roll_back(100)
    log = [(80, 20), (85, 100)]
    assert set(range(10, 40)) - set(plan(model, older_than=86, all_since=83, log=log).expire) == {20}


def test_without_a_time_to_live_none_goes() -> None:
    found = document(line(100))
    assert expiry_by(Maintenance(keep_snapshots=None, most_snapshots=20), found, 1e9) == ExpiryPlan()
    expected = ExpiryPlan(tuple(range(1, 101 - AT_LEAST)), AT_LEAST)
    assert expiry_by(Maintenance(keep_snapshots=20.0), found, 1e9) == expected


def test_a_clock_that_went_back_makes_no_gap() -> None:
    found = document(line(100))
    for row in found["snapshots"][40:60]:
        row["timestamp-ms"] = 1
    chosen = plan_expiry(found, older_than_ms=31, at_most=10_000)
    assert chosen.expire == tuple(range(1, 31))


def test_an_idle_pipeline_keeps_the_line_to_its_stamp() -> None:
    model = Model()
    for _ in range(20):
        model.append()
    model.append(stamp(1, 1, OTHER))
    for number in range(79):
        model.append(stamp(1, number))
    found = plan(model, older_than=91)
    assert found.expire == tuple(range(1, 21))
    assert found.pins == {f"pipeline {OTHER}": 70}
    # Given up: then it keeps nothing.
    del model.refs[stamp_tag(OTHER)], model.properties[stamp_key(OTHER)]
    assert plan(model, older_than=91).expire == tuple(range(1, 91))


@pytest.mark.parametrize("without", ["tag", "property"])
def test_either_tag_or_property_is_enough(without: str) -> None:
    model = line(99, stamp(1, 1))
    if without == "tag":
        del model.refs[stamp_tag(P)]
    else:
        del model.properties[stamp_key(P)]
    assert plan(model, older_than=91).expire == ()


def test_tags_keep_what_they_name_and_branches_their_line() -> None:
    model = line(100)
    model.refs["tag-year-end"] = 5
    assert set(plan(model, older_than=91).expire) == set(range(1, 91)) - {5}
    model.roll_back(40)
    side = [model.append() for _ in range(3)]
    model.refs["side"], model.refs["main"] = side[-1], 100
    found = plan(model, older_than=91)
    assert set(found.expire) == set(range(1, 40)) - {5}
    assert found.pins == {"branch side": 51}
    model.refs["side"] = 60
    assert plan(model, older_than=1000).pins == {"branch side": 31}


def test_below_a_history_the_nearest_stamps_stay() -> None:
    """They say where the log goes on behind its rows."""
    model = line(5, stamp(1, 0, OTHER))
    for number in range(5):
        model.append(stamp(1, number))
    pinned = [model.append(), model.append()][-1]
    for number in range(5, 100):
        model.append(stamp(1, number))
    del model.refs[stamp_tag(OTHER)], model.properties[stamp_key(OTHER)]
    assert {11, 12} < set(plan(model, older_than=91).expire)
    model.refs[history_tag("copy")] = pinned
    assert set(plan(model, older_than=91).expire) == set(range(1, 91)) - {11, 12, 13}
    # Also off main's line.
    model.roll_back(5)
    for _ in range(AT_LEAST):
        model.append()
    assert {11, 12, 13} & set(plan(model, older_than=1000).expire) == set()


def test_off_mains_line_only_the_age_counts() -> None:
    model = line(100)
    model.roll_back(50)
    found = plan(model, older_than=81)
    assert set(found.expire) == {*range(1, 51 - AT_LEAST), *range(51, 81)}


def test_the_snapshot_of_a_property_stays_after_a_rollback() -> None:
    """Were it gone, the rollback would look like an expiry, and rows would be left out."""
    model = line(30)
    model.append(stamp(1, 1))
    del model.refs[stamp_tag(P)]
    model.roll_back(30)
    found = plan(model, older_than=1000)
    assert 31 not in found.expire
    assert found.expire
    model.present = [one for one in model.present if one not in found.expire]
    with pytest.raises(HistoryChanged):
        find_stamp(model.history(), P)


def outcome(history: MetadataHistory, pipeline: str) -> tuple[Stamp | None, bool, int]:
    epoch = highest_epoch(history, pipeline)
    try:
        return find_stamp(history, pipeline), False, epoch
    except HistoryChanged:
        return None, True, epoch


@settings(max_examples=1000, deadline=None)
@given(
    STEPS,
    st.integers(0, 60),
    st.integers(1, 20),
    st.integers(0, 25),
    st.none() | st.integers(0, 60),
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=6),
)
def test_pipelines_find_what_they_found_before(
    steps: list[tuple[str, Any]],
    older_than: int,
    at_most: int,
    more: int,
    all_since: int | None,
    log: list[tuple[int, int]],
) -> None:
    model, _ = played(steps)
    for _ in range(more):
        model.append()
    before = {pipeline: outcome(model.history(), pipeline) for pipeline in (P, OTHER)}
    found = plan(model, older_than, at_most, all_since, log)
    model.present = [one for one in model.present if one not in found.expire]
    assert {pipeline: outcome(model.history(), pipeline) for pipeline in (P, OTHER)} == before
    assert set(model.refs.values()) & set(found.expire) == set()
    # What is left needs no second look.
    assert plan(model, older_than, at_most, all_since, log).expire == ()


def nearest(history: MetadataHistory, tag: str) -> dict[str, int]:
    """By pipeline, the first snapshot with a stamp of it from a tag on."""
    found: dict[str, int] = {}
    at = history.ref(tag)
    while at is not None and (view := history.snapshot(at)) is not None:
        for pipeline in stamped_by(view):
            found.setdefault(pipeline, view.id)
        at = view.parent_id
    return found


@settings(max_examples=1000, deadline=None)
@given(STEPS, st.integers(0, 60), st.integers(1, 20), st.integers(0, 25), st.integers(0, 30))
def test_histories_go_on_where_they_did_before(
    steps: list[tuple[str, Any]], older_than: int, at_most: int, more: int, pinned: int
) -> None:
    model, _ = played(steps)
    for _ in range(more):
        model.append()
    if not model.present:
        return
    tag = history_tag("copy")
    model.refs[tag] = model.present[pinned % len(model.present)]
    before = nearest(model.history(), tag)
    found = plan(model, older_than, at_most)
    model.present = [one for one in model.present if one not in found.expire]
    assert nearest(model.history(), tag) == before


def test_what_came_since_the_last_merge() -> None:
    def view(number: int, **summary: str) -> dict[str, Any]:
        row: dict[str, Any] = {
            "snapshot-id": number,
            "summary": {k.replace("_", "-"): v for k, v in summary.items()},
        }
        return row | ({"parent-snapshot-id": number - 1} if number > 1 else {})

    def append(number: int, files: int, size: int) -> dict[str, Any]:
        return view(number, operation="append", added_data_files=str(files), added_files_size=str(size))

    rows = [
        append(1, 9, 9),
        view(2, operation="replace", deleted_data_files="9", added_data_files="1"),
        append(3, 2, 100),
        append(4, 1, 900),
        view(5, operation="append"),
        view(6, operation="replace", manifests_created="1"),
        append(7, 3, 30),
    ]
    found = unmerged(main_line({"snapshots": rows, "refs": {"main": {"snapshot-id": 7}}}), 1000)
    assert (found.commits, found.small_files, found.small_bytes) == (3, 5, 130)
