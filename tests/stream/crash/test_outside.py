"""Between two runs, others change tables and topics: the pipelines go on, or refuse in clear words.

All pipelines share both runs; each test looks at one of them. So it also shows that one that is refused does
not stop the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.stream.crash import outside
from tests.stream.crash.conftest import MakeLine
from tests.stream.crash.records import Row, below
from tests.stream.crash.runs import Run, frazil
from tests.stream.crash.tables import Shelf
from tests.stream.crash.world import Line, config, fresh, run_once

pytestmark = [pytest.mark.services, pytest.mark.jvm, pytest.mark.slow]

_PLAIN = (
    "expired",
    "untagged",
    "rolled_back",
    "recreated",
    "grown",
    "trimmed",
    "altered",
    "broken",
    "skewed",
)


@dataclass
class Story:
    lines: dict[str, Line]
    #: Rows that others wrote, by line.
    extra: dict[str, Counter[Row]] = field(default_factory=dict)
    #: What was in the log or in the table before it was changed.
    before: dict[str, Counter[Row]] = field(default_factory=dict)
    positions: dict[str, list[int]] = field(default_factory=dict)
    second: Run | None = None

    def end(self, name: str) -> dict[str, Any]:
        """How the pipeline ended in the second run."""
        assert self.second is not None
        (event,) = self.second.events("stopped", self.lines[name].name)
        return event

    def refused(self, name: str) -> str:
        error = self.end(name)["error"]
        assert error is not None, f"{name} went on"
        assert isinstance(error, str)
        # Nothing changed: the refusal came before anything was written.
        assert self.lines[name].next_offsets() == self.positions[name]
        return error


@pytest.fixture(scope="module")
def story(local_shelf: Shelf, make_line: MakeLine) -> Iterator[Story]:
    story = _prepared(local_shelf, make_line)
    lines = story.lines
    run_once(*lines.values()).close()
    for name, line in lines.items():
        line.check(extra=story.extra.get(name))
        story.positions[name] = line.next_offsets()
    _disturb(story)
    with run_once(*lines.values(), code=1) as second:
        story.second = second
        yield story


def _prepared(shelf: Shelf, make_line: MakeLine) -> Story:
    partitions = {"skewed": 4, "grown": 1}
    lines = {name: make_line(shelf, name, partitions=partitions.get(name, 2)) for name in _PLAIN}
    # So few that the second run commits rounds before the bad one.
    lines["broken"].records_per_round, lines["broken"].records_per_task = 60, 30
    lines["broken"].strict = True
    lines["by_spark"] = make_line(shelf, "by_spark", through_spark=True)
    feed = make_line(shelf, "rolled_past").feed
    lines["rolled_past"], rows = outside.create_with_rows(shelf, feed, fresh("rolled_past"))
    for name, line in lines.items():
        line.feed.produce(1000 if name == "rolled_back" else 150, shares=_shares(name))
    return Story(lines, {"rolled_past": rows})


def _shares(name: str) -> tuple[float, ...] | None:
    """Nearly everything in one partition."""
    return (0.96, 0.02, 0.02, 0.0) if name == "skewed" else None


def _disturb(story: Story) -> None:
    """One change for each line, then new records for all."""
    lines = story.lines
    for name in ("expired", "untagged"):
        story.extra[name] = outside.append_rows(lines[name], 2)
    outside.expire(lines["expired"])
    outside.remove_tag(lines["untagged"])
    outside.expire(lines["untagged"])
    outside.roll_back(lines["rolled_back"], 2)
    story.positions["rolled_back"] = lines["rolled_back"].next_offsets()
    outside.roll_back_to_the_first(lines["rolled_past"])
    story.positions["rolled_past"] = lines["rolled_past"].next_offsets()
    outside.add_partitions(lines["grown"].feed, 3)
    outside.add_column(lines["altered"], "added")
    story.before["altered"] = below(lines["altered"].feed.log(), story.positions["altered"])
    outside.delete_part(lines["altered"], 1)
    story.extra["altered"] = outside.append_rows(lines["altered"], 2)
    outside.recreate(lines["recreated"].feed)
    for name, line in lines.items():
        line.feed.produce(150, shares=_shares(name))
    outside.trim(lines["trimmed"].feed, 0, story.positions["trimmed"][0] + 5)
    broken = lines["broken"]
    story.positions["bad"] = [max(offset for part, offset in broken.feed.log() if part == 1) + 1]
    broken.feed.put(b'{"id": "not a number"}', partition=1)
    broken.feed.produce(150)


def test_expired_snapshots_do_not_matter(story: Story) -> None:
    for name in ("expired", "untagged"):
        assert story.end(name)["error"] is None
        story.lines[name].check(extra=story.extra[name])


def test_after_a_rollback_to_an_older_commit_it_goes_on_from_there(story: Story) -> None:
    assert story.end("rolled_back")["error"] is None
    story.lines["rolled_back"].check()


def test_a_rollback_to_before_the_first_commit_is_refused_until_told_where_to_go_on(story: Story) -> None:
    line = story.lines["rolled_past"]
    assert "--to-stamp" in story.refused("rolled_past")
    assert line.shelf.rows(line.table) == story.extra["rolled_past"]
    refused = frazil(config(line), "status")
    assert refused.returncode == 1
    assert "--to-stamp" in refused.stdout
    done = frazil(config(line), "reset", line.name, "--to-stamp", "--yes")
    assert done.returncode == 0, done.stderr
    run_once(line).close()
    # What was rolled back stays away; what came after it is read once.
    log = line.feed.log()
    first = min(offset for part, offset in log if part == 0)
    assert first == 0
    stamp = next(line.shelf.stamps(line.table, line.name))
    assert Counter(log.values()) == below(log, stamp["positions"][line.feed.topic]["next"])
    rows = line.shelf.rows(line.table)
    assert set(rows.values()) == {1}
    assert rows.total() == stamp["written"] + story.extra["rolled_past"].total()
    assert rows - story.extra["rolled_past"] <= Counter(log.values())


def test_a_topic_that_was_made_again_is_refused(story: Story) -> None:
    assert "deleted and made again" in story.refused("recreated")


def test_trimmed_records_are_refused(story: Story) -> None:
    error = story.refused("trimmed")
    assert "removed before they were read" in error
    assert story.lines["trimmed"].feed.topic in error


def test_new_partitions_are_read_from_their_beginning(story: Story) -> None:
    assert story.end("grown")["error"] is None
    story.lines["grown"].check()
    assert len(story.lines["grown"].next_offsets()) == 3


def test_a_table_that_others_change_keeps_their_changes(story: Story) -> None:
    line = story.lines["altered"]
    assert story.end("altered")["error"] is None
    table = line.shelf.load(line.table)
    assert "added" in table.schema().column_names
    deleted = Counter(row for row in story.before["altered"] if row[1] == 1)
    assert deleted
    expected = below(line.feed.log(), line.next_offsets()) + story.extra["altered"] - deleted
    assert line.shelf.rows(line.table) == expected


def test_a_record_that_cannot_be_decoded_stops_the_pipeline_at_its_position(story: Story) -> None:
    line = story.lines["broken"]
    error = story.end("broken")["error"]
    assert error is not None
    (offset,) = story.positions["bad"]
    assert f"topic {line.feed.topic}, partition 1, offset {offset}" in error
    # What is before it is in the table, to the record.
    assert line.next_offsets()[1] == offset
    line.check(complete=False)
    line.check_storage()


def test_skewed_partitions_lose_nothing(story: Story) -> None:
    assert story.end("skewed")["error"] is None
    story.lines["skewed"].check()


def test_the_spark_path_reads_the_same(story: Story) -> None:
    assert story.end("by_spark")["error"] is None
    story.lines["by_spark"].check()


def test_the_exit_says_which_failed_and_what_to_do(story: Story) -> None:
    assert story.second is not None
    for name in ("recreated", "trimmed", "broken", "rolled_past"):
        assert f"pipeline {story.lines[name].name} failed" in story.second.errors
    assert "Traceback" not in story.second.errors
