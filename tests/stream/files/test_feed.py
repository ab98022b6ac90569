from __future__ import annotations

import os
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from tests.stream.files.support import LEDGER, Pipeline, put, replace_stamp

from frazil.core.errors import InvalidConfig, NotFound, RoundFailed, SourceChanged
from frazil.core.stamp import Position
from frazil.stream.config.model import FileSource, Limits, ProtobufFormat, Start
from frazil.stream.files.feed import FileFeed
from frazil.stream.files.ledger import LEDGER_SCHEMA

ODD_NAMES = [
    *(
        "sp ace.json",
        "ü/日本.json",
        "a%2Fb.json",
        "new\nline.json",
        "tab\t.json",
        "q?x=1#y&z.json",
        "*[a].json",
    ),
    *("back\\slash", "'quote\".json", "~a", "-rf", "%", "{a,b}", "$HOME", "a" * 255),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "in"
    found.mkdir()
    return found


@pytest.fixture
def pipeline(folder: Path) -> Pipeline:
    return Pipeline(FileSource(str(folder)))


def test_each_file_is_taken_once(folder: Path, pipeline: Pipeline) -> None:
    put(folder, "a.json", "1\n2\n")
    put(folder, "2026/11/b.json", "3\n")
    assert pipeline.round() == ["2026/11/b.json", "a.json"]
    assert pipeline.round() == []
    put(folder, "c.json", "4\n")
    assert pipeline.round() == ["c.json"]
    assert pipeline.values() == [b"1", b"2", b"3", b"4"]
    assert pipeline.stamp.positions == {"files": Position(id=str(folder), next=(3,))}


def test_a_late_file_with_an_old_time_is_taken(folder: Path, pipeline: Pipeline) -> None:
    put(folder, "new.json", "1\n", age=10)
    assert pipeline.round() == ["new.json"]
    put(folder, "old.json", "2\n", age=1e6)
    assert pipeline.round() == ["old.json"]


def test_the_same_content_under_another_name_is_another_file(folder: Path, pipeline: Pipeline) -> None:
    path = put(folder, "a.json", "1\n")
    assert pipeline.round() == ["a.json"]
    path.rename(folder / "b.json")
    assert pipeline.round() == ["b.json"]


@pytest.mark.parametrize("same_size", [True, False])
def test_an_overwritten_file_is_read_again(folder: Path, pipeline: Pipeline, same_size: bool) -> None:
    put(folder, "a.json", "1\n")
    pipeline.round()
    put(folder, "a.json", "2\n" if same_size else "2\n3\n", age=30)
    assert pipeline.round() == ["a.json"]
    assert pipeline.round() == []
    pipeline.restart()
    assert pipeline.round() == []
    assert pipeline.values()[:2] == [b"1", b"2"]


def test_overwritten_files_are_skipped(folder: Path) -> None:
    pipeline = Pipeline(FileSource(str(folder), overwritten="skip"))
    put(folder, "a.json", "1\n")
    pipeline.round()
    put(folder, "a.json", "2\n", age=30)
    put(folder, "b.json", "3\n", age=30)
    assert pipeline.round() == ["b.json"]
    pipeline.restart()
    assert pipeline.round() == []
    assert pipeline.values() == [b"1", b"3"]


def test_overwritten_files_stop_the_pipeline(folder: Path) -> None:
    pipeline = Pipeline(FileSource(str(folder), overwritten="stop"))
    put(folder, "a.json", "1\n")
    pipeline.round()
    put(folder, "a.json", "2\n", age=30)
    with pytest.raises(SourceChanged, match=r"a\.json was taken and has been overwritten"):
        pipeline.round()


def test_after_a_restart_the_ledger_knows(folder: Path, pipeline: Pipeline) -> None:
    for number in range(5):
        put(folder, f"{number}.json", f"{number}\n")
        pipeline.round()
    pipeline.restart()
    assert pipeline.round() == []
    put(folder, "late.json", "9\n", age=1e6)
    assert pipeline.round() == ["late.json"]
    assert len(pipeline.values()) == 6


def test_the_ledger_is_read_once_for_each_claim(folder: Path, pipeline: Pipeline) -> None:
    for number in range(5):
        put(folder, f"{number}.json", "1\n")
        pipeline.round()
    assert pipeline.reads == 1


def test_a_round_that_did_not_land_is_read_again(folder: Path, pipeline: Pipeline) -> None:
    put(folder, "a.json", "1\n")
    pipeline.read(pipeline.plan())
    assert pipeline.round() == ["a.json"]


def test_a_round_that_landed_unseen_is_not_read_again(folder: Path, pipeline: Pipeline) -> None:
    """The commit's answer was lost; the next plan finds the stamp one further."""
    put(folder, "a.json", "1\n")
    plan = pipeline.plan()
    pipeline.ledger += pipeline.feed.ledger(plan).values()
    pipeline.stamp = replace_stamp(pipeline.stamp, round=1, positions=plan.positions)
    assert pipeline.round() == []


def test_what_the_ledger_says(folder: Path, pipeline: Pipeline) -> None:
    put(folder, "b.json", "1\n", age=20)
    put(folder, "a.json", "22\n", age=10)
    before = datetime.now(UTC)
    pipeline.round()
    (rows,) = pipeline.ledger
    assert rows.schema == LEDGER_SCHEMA.to_arrow()
    found = rows.to_pylist()
    assert [(row["number"], pipeline.behind(row["path"]), row["size"]) for row in found] == [
        (0, "b.json", 2),
        (1, "a.json", 3),
    ]
    assert {(row["pipeline"], row["epoch"], row["round"]) for row in found} == {("orders", 1, 1)}
    assert abs(found[0]["modified"].timestamp() - (folder / "b.json").stat().st_mtime) < 0.001
    assert found[0]["taken_at"] >= before - timedelta(seconds=1)


def test_a_round_that_took_nothing_has_no_rows(pipeline: Pipeline) -> None:
    plan = pipeline.plan()
    assert plan.tasks == ()
    assert plan.positions == pipeline.stamp.positions
    assert pipeline.feed.ledger(plan) == {}


def test_a_ledger_that_lacks_rows_is_refused(folder: Path, pipeline: Pipeline) -> None:
    for name in ("a", "b"):
        put(folder, f"{name}.json", "1\n")
        pipeline.round()
    pipeline.ledger.pop()
    pipeline.restart()
    with pytest.raises(SourceChanged, match=r"took 2 files, and its ledger raw\.orders_files lacks 1"):
        pipeline.plan()


def test_a_ledger_that_is_ahead_of_the_stamp_counts_up_to_it(folder: Path, pipeline: Pipeline) -> None:
    """As after a reset to an older stamp: later rows are not taken any more, and their numbers come again."""
    stamps = []
    for name in "abc":
        stamps.append(pipeline.stamp)
        put(folder, f"{name}.json", "1\n")
        pipeline.round()
    pipeline.stamp = replace_stamp(stamps[1], epoch=5)
    (folder / "b.json").unlink()
    assert pipeline.round() == ["c.json"]
    put(folder, "b.json", "1\n")
    assert pipeline.round() == ["b.json"]
    # Files of a table come in no order.
    pipeline.ledger.reverse()
    pipeline.restart()
    assert pipeline.round() == []
    # Merged, one file has rows of both epochs, and in no order either.
    merged = pa.concat_tables(pipeline.ledger)
    for order in ("ascending", "descending"):
        pipeline.ledger = [merged.sort_by([("epoch", order)])]
        pipeline.restart()
        assert pipeline.round() == [], order


def test_what_another_writer_took_counts(folder: Path, pipeline: Pipeline) -> None:
    """It went back to the beginning and took another file: as many as this feed remembers."""
    beginning = pipeline.stamp
    put(folder, "a.json", "1\n")
    pipeline.round()
    first, pipeline.feed = pipeline.feed, pipeline.new_feed()
    pipeline.stamp = replace_stamp(beginning, epoch=2)
    (folder / "a.json").rename(folder / "b.json")
    assert pipeline.round() == ["b.json"]
    pipeline.feed, pipeline.stamp = first, replace_stamp(pipeline.stamp, epoch=3)
    assert pipeline.round() == []


def test_two_pipelines_share_a_ledger(folder: Path, pipeline: Pipeline) -> None:
    put(folder, "a.json", "1\n")
    pipeline.round()
    other = Pipeline(FileSource(str(folder)))
    other.stamp = replace_stamp(other.stamp, pipeline="others")
    other.ledger = pipeline.ledger
    assert other.round() == ["a.json"]
    pipeline.restart()
    assert pipeline.round() == []


def test_another_location_is_another_source(folder: Path, tmp_path: Path, pipeline: Pipeline) -> None:
    (tmp_path / "other").mkdir()
    moved = replace(pipeline.source, location=str(tmp_path / "other"))
    feed = FileFeed(moved, pipeline.format, LEDGER, lambda: ())
    with pytest.raises(SourceChanged, match="it read files:"):
        feed.plan(pipeline.stamp, Limits(), 2)


def test_no_folder(tmp_path: Path) -> None:
    pipeline = Pipeline(FileSource(str(tmp_path / "none")))
    with pytest.raises(NotFound, match="no folder"):
        pipeline.plan()


def test_what_is_left_out(folder: Path, pipeline: Pipeline) -> None:
    for name in (
        "_SUCCESS",
        ".a.json.swp",
        "a.json.tmp",
        "a.inprogress",
        "_temporary/0/a.json",
        "empty.json",
    ):
        put(folder, name, "" if name == "empty.json" else "1\n")
    (folder / "dangling").symlink_to(folder / "nothing")
    os.mkfifo(folder / "pipe")
    (folder / "loop").symlink_to(folder)
    (folder / "link.json").symlink_to(put(folder.parent, "elsewhere.json", "1\n"))
    assert pipeline.round() == ["link.json"]


@pytest.mark.parametrize(
    "name",
    ODD_NAMES,
)
def test_odd_names(folder: Path, pipeline: Pipeline, name: str) -> None:
    put(folder, name, "1\n")
    assert pipeline.round() == [name]
    pipeline.restart()
    assert pipeline.round() == []
    assert pipeline.rows == [(f"{folder}/{name}", b"1")]


def test_names_that_are_no_text(folder: Path, pipeline: Pipeline, caplog: pytest.LogCaptureFixture) -> None:
    """A ledger of text cannot hold them; what is left out is said."""
    Path(os.fsdecode(os.fsencode(folder) + b"/a\xff.json")).write_bytes(b"1\n")
    put(folder, "b.json", "1\n")
    assert pipeline.round() == ["b.json"]
    assert pipeline.round() == []
    assert len(caplog.messages) == 1
    assert "not UTF-8" in caplog.text


def test_a_slash_at_the_end_does_not_count(folder: Path, pipeline: Pipeline) -> None:
    put(folder, "a.json", "1\n")
    pipeline.round()
    pipeline.source = replace(pipeline.source, location=f"{folder}/")
    pipeline.restart()
    assert pipeline.round() == []


def test_a_location_as_a_url(folder: Path) -> None:
    pipeline = Pipeline(FileSource(f"file://{folder}"))
    put(folder, "a%20b.json", "1\n")
    assert pipeline.round() == ["a%20b.json"]
    assert pipeline.rows == [(f"file://{folder}/a%20b.json", b"1")]


def test_the_oldest_come_first_and_limits_hold(folder: Path) -> None:
    pipeline = Pipeline(FileSource(str(folder)), limits=Limits(bytes_per_round=25))
    for number in range(5):
        put(folder, f"{number}.json", "123456789\n", age=100 * (1 + number))
    assert pipeline.plan().lag == 3
    assert [pipeline.round() for _ in range(3)] == [["3.json", "4.json"], ["1.json", "2.json"], ["0.json"]]


def test_a_file_larger_than_a_round_is_read_whole(folder: Path) -> None:
    pipeline = Pipeline(FileSource(str(folder)), limits=Limits(bytes_per_round=5))
    put(folder, "a.json", "123456789\n", age=100)
    put(folder, "b.json", "1\n")
    assert [pipeline.round(), pipeline.round()] == [["a.json"], ["b.json"]]


def test_a_vanished_file_fails_the_round(folder: Path, pipeline: Pipeline) -> None:
    path = put(folder, "a.json", "1\n")
    put(folder, "b.json", "2\n")
    plan = pipeline.plan()
    path.unlink()
    with pytest.raises(RoundFailed, match=r"a\.json was removed"):
        pipeline.read(plan)
    assert pipeline.round() == ["b.json"]


def test_a_file_that_changes_before_it_is_read_fails_the_round(folder: Path, pipeline: Pipeline) -> None:
    put(folder, "a.json", "1\n")
    plan = pipeline.plan()
    put(folder, "a.json", "2\n", age=20)
    with pytest.raises(RoundFailed, match=r"a\.json was overwritten"):
        pipeline.read(plan)
    assert pipeline.round() == ["a.json"]
    assert pipeline.values() == [b"2"]


@pytest.mark.parametrize("how", ["appended", "shortened"])
def test_a_file_that_changes_while_it_is_read_fails_the_round(
    folder: Path, pipeline: Pipeline, how: str
) -> None:
    path = put(folder, "a.json", b"12345678\n" * 1_000_000)
    plan = pipeline.plan()
    batches = pipeline.feed.reader(pipeline.stamp).read(plan.tasks[0])
    next(batches)
    if how == "appended":
        with path.open("ab") as file:
            file.write(b"1\n")
    else:
        os.truncate(path, 4_000_000)
    with pytest.raises(RoundFailed, match="was overwritten"):
        list(batches)


def test_a_file_replaced_while_it_is_read_is_read_as_it_was(folder: Path, pipeline: Pipeline) -> None:
    path = put(folder, "a.json", b"1\n" * 5_000_000)
    plan = pipeline.plan()
    batches = pipeline.feed.reader(pipeline.stamp).read(plan.tasks[0])
    read = len(next(batches))
    put(folder, "new", b"2\n").rename(path)
    assert read + sum(map(len, batches)) == 5_000_000


@pytest.fixture
def _no_time_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """How old a file is does not depend on how soon it is looked at."""
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now)


@pytest.mark.usefixtures("_no_time_passes")
def test_a_file_that_is_being_written_is_left_for_later(folder: Path, pipeline: Pipeline) -> None:
    put(folder, "a.json", "1\n")
    put(folder, "b.json", "1\n", age=-0.5)
    assert pipeline.round() == ["a.json"]


def test_a_clock_that_is_ahead_does_not_hide_files(folder: Path, pipeline: Pipeline) -> None:
    put(folder, "a.json", "1\n", age=-1e6)
    assert pipeline.round() == ["a.json"]


def test_a_file_just_written_is_waited_for(folder: Path, pipeline: Pipeline) -> None:
    """Else a round with nothing to do would be followed by a wait as long as the freshness."""
    put(folder, "a.json", "1\n", age=0)
    assert pipeline.round() == ["a.json"]


@pytest.mark.usefixtures("_no_time_passes")
@pytest.mark.parametrize("start", ["latest", "time"])
def test_files_from_before_the_start_do_not_count(folder: Path, start: str) -> None:
    at = Start("latest") if start == "latest" else Start(datetime.now(UTC) - timedelta(seconds=30))
    put(folder, "old.json", "1\n", age=60)
    pipeline = Pipeline(FileSource(str(folder), start=at))
    put(folder, "new.json", "2\n", age=-2 if start == "latest" else 10)
    assert pipeline.round() == ["new.json"]
    pipeline.restart()
    assert pipeline.round() == []
    (old, new), taken = pipeline.stamp.positions["files"].next, 1
    assert (old, new // 1000 <= time.time()) == (taken, True)


def test_a_start_that_files_do_not_have(folder: Path) -> None:
    with pytest.raises(InvalidConfig, match="no offsets"):
        Pipeline(FileSource(str(folder), start=Start({"a": (1,)})))


def test_a_format_that_files_do_not_have(folder: Path) -> None:
    with pytest.raises(InvalidConfig, match="protobuf"):
        Pipeline(FileSource(str(folder)), ProtobufFormat())


def test_a_bounded_run_ends_with_what_was_there(folder: Path) -> None:
    pipeline = Pipeline(FileSource(str(folder)), limits=Limits(bytes_per_round=1))
    put(folder, "a.json", "1\n", age=4000)
    put(folder, "b.json", "2\n", age=3000)
    put(folder, "c.json", "2\n", age=0)
    # As when a pipeline could not be opened at once: the goal stays, the feed is another.
    goal = pipeline.new_feed().goal()
    put(folder, "later.json", "3\n", age=1000)
    put(folder, "b.json", "22\n", age=2000)
    ends: list[bool] = []
    while not ends or not ends[-1]:
        plan = pipeline.plan()
        pipeline.commit(plan, pipeline.read(plan))
        ends.append(goal(pipeline.stamp, plan))
    # b was overwritten, so what was there is gone; oldest first, that is a, b, later, c.
    assert len(ends) == 4
    assert pipeline.values() == [b"1", b"2", b"22", b"3"]


def test_a_bounded_run_over_nothing(pipeline: Pipeline) -> None:
    goal = pipeline.feed.goal()
    assert goal(pipeline.stamp, pipeline.plan())


def test_five_thousand_files(folder: Path) -> None:
    for number in range(5000):
        put(folder, f"{number % 50}/{number}.json", f"{number}\n")
    pipeline = Pipeline(FileSource(str(folder)), limits=Limits(records_per_round=2000), parallelism=4)
    assert [len(pipeline.round()) for _ in range(3)] == [2000, 2000, 1000]
    pipeline.restart()
    assert pipeline.round() == []
    assert sorted(map(int, pipeline.values())) == list(range(5000))
    assert pa.concat_tables(pipeline.ledger)["number"].to_pylist() == list(range(5000))
