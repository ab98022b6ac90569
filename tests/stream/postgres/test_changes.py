"""Tables of one database, each with a stamp of its own."""

from __future__ import annotations

from collections.abc import Mapping, Set

import pytest
from tests.stream.cdc.test_loop import TOPIC, Events, MadeUpLane, loop_over
from tests.stream.postgres.test_session import changes, session_of
from tests.stream.postgres.test_source import source_of

from frazil.core.errors import BadRecord, SourceChanged
from frazil.core.stamp import Stamp
from frazil.stream.config.model import Limits
from frazil.stream.postgres.changes import PostgresChanges
from frazil.stream.postgres.log import READS, Records, Schemas, TopicLog
from frazil.stream.postgres.session import Session
from frazil.stream.rounds import RoundPlan


def test_tables_that_were_read_from_two_servers_do_not_go_on() -> None:
    feed = PostgresChanges(source_of(), "shop")
    stamps = {
        topic: Stamp(pipeline="shop", epoch=1, round=0, token="t", source=server, positions={})
        for topic, server in (("a", "postgresql:1/1/d"), ("b", "postgresql:1/2/d"))
    }
    with pytest.raises(SourceChanged, match=r"several servers \(a postgresql:1/1/d, b postgresql:1/2/d\)"):
        feed.begin(stamps, Limits(), set())


def test_what_a_table_without_a_stamp_has_to_say_is_not_kept() -> None:
    """Also of one that never had one here: its opening failed. It would fill the memory for all."""
    feed = PostgresChanges(source_of(), "shop")
    feed._feed.topics = lambda: ["failed", "well"]  # type: ignore[method-assign] # there is no database
    session = session_of()
    session.tend = lambda: None  # type: ignore[method-assign]
    session._logs = {topic: TopicLog("1", [0, 0], None, done=True) for topic in feed.topics()}
    feed._feed._session = session
    for topic in feed.topics():
        session._streamed(changes(70, topic=topic))
    feed.begin({"well": MadeUpLane(2).stamp}, Limits(), {"failed"})
    assert {topic: len(log.chunks) for topic, log in session._logs.items()} == {"failed": 0, "well": 1}


class _Database(Events):
    """A table's changes as sessions bring them."""

    changes = PostgresChanges(source_of(), "shop", whole_transactions=True)

    def connect(self, lane: MadeUpLane) -> Session:
        """Anew: where the lane goes on, with nothing in memory."""
        session = session_of(whole_transactions=True)
        session.tend = lambda: None  # type: ignore[method-assign] # there is no database
        session._logs = {TOPIC: TopicLog.at(lane.stamp.positions[TOPIC], "1")}
        self.changes._feed._session = session
        return session

    def begin(self, stamps: Mapping[str, Stamp], limits: Limits, stopped: Set[str]) -> None:
        self.changes.begin(stamps, limits, stopped)

    def plan(self, topic: str, stamp: Stamp, limits: Limits) -> RoundPlan:
        return self.changes.plan(topic, stamp, limits)

    def beginning(self, topic: str, partition: int, offset: int) -> tuple[str, int, int]:
        return self.changes.beginning(topic, partition, offset)

    def landed(self, plans: Mapping[str, RoundPlan]) -> None:
        self.changes.landed(plans)


def test_a_bad_change_of_a_session_that_ended_is_met_again() -> None:
    events, lane = _Database([], {(0, 3)}), MadeUpLane(2)
    loop, line = loop_over(events, lane)
    sent = changes(70, 70, 80, 80, 90, topic=TOPIC)
    events.connect(lane)._streamed(sent)
    loop._take_round()
    assert (lane.next, bool(line.bad)) == ((0, 0), True)
    session = events.connect(lane)
    loop._take_round()
    assert (lane.next, line.error) == ((0, 0), None), "nothing has come yet"
    session._streamed(sent)
    for _ in range(2):
        loop._take_round()
    assert isinstance(line.error, BadRecord)
    assert (line.error.position, lane.next) == ((TOPIC, 0, 3), (2, 0)), "before its transaction"


def test_a_bad_row_of_a_snapshot_does_not_end_it() -> None:
    """What is behind it comes with all rows, read again, once somebody has mended what was wrong."""
    events, lane = _Database([], {(READS, 1)}), MadeUpLane(2)
    loop, line = loop_over(events, lane)
    session = events.connect(lane)
    log = session._logs[TOPIC]
    log.begin()
    log.read(Records([None] * 3, [b"{}"] * 3, Schemas(b"{}"), 0))
    log.end()
    for _ in range(3):
        loop._take_round()
    assert isinstance(line.error, BadRecord)
    assert lane.next == (0, 1)
    again = events.connect(lane)._logs[TOPIC]
    assert not again.done
    again.begin()
    again.read(Records([None] * 3, [b"{}"] * 3, Schemas(b"{}"), 0))
    again.end()
    events.bad.clear()
    loop, line = loop_over(events, lane)
    loop._take_round()
    assert (lane.next, events.connect(lane)._logs[TOPIC].done) == ((0, 4), True)
