"""Who is said not to answer, when somebody does not."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec.structs import replace as replace_struct

from frazil.core.errors import FrazilError, NotAllowed, Unavailable
from frazil.core.schema import Field, Schema
from frazil.core.stamp import stamp_key
from frazil.hot.find import HotTables, Listing
from frazil.hot.read.pins import Pinned
from frazil.hot.table import TIERING, Binding, HotTable
from frazil.hot.tiering import status, steward
from frazil.hot.tiering.steward import Finder, Lookout
from frazil.hot.tiering.watch import Watch
from frazil.stream.events import Event, FreshnessBroken, FreshnessReported
from frazil.stream.kafka.log import KafkaLog, LogView, Topic

_BINDING = Binding(topic="a.b", topic_id="T", source="kafka:K", brokers="x")
_TABLE = HotTable(("a",), "b", _BINDING, Schema((Field("id", "long"),)), freshness=10.0)
_KAFKA = {"bootstrap.servers": "127.0.0.1:1", "log_level": "0"}


class Cluster:
    """A broker and a catalog, both of which can be away."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.brokers: FrazilError | None = None
        #: A part of the brokers' answers alone.
        self.topics: FrazilError | None = None
        self.catalog: FrazilError | None = None
        #: A part of the catalog alone.
        self.tables: FrazilError | None = None
        self.client: Any = SimpleNamespace(
            namespaces=SimpleNamespace(list=lambda *_: self._told([("a",)], self.catalog)),
            tables=SimpleNamespace(list=self._list),
        )
        view = LogView("kafka:K", {}, (), {}, {"a.b": (5,)})
        for name, answer in (("identity", "kafka:K"), ("look_at_each", view)):
            monkeypatch.setattr(KafkaLog, name, lambda *_, found=answer: self._told(found, self.brokers))
        monkeypatch.setattr(KafkaLog, "topics", self._list_topics)

    def _list_topics(self, *_: Any) -> dict[str, Topic]:
        self._told(None, self.brokers)
        self._told(None, self.topics)
        return {"a.b": Topic("a.b", "T", 1)}

    def _list(self, *_: Any) -> list[Any]:
        self._told(None, self.catalog)
        self._told(None, self.tables)
        return []

    def _told(self, answer: Any, error: FrazilError | None) -> Any:
        if error is not None:
            raise error
        return answer


class Watching:
    """What goes on beside the rounds, with a clock that is made up."""

    def __init__(self, cluster: Cluster) -> None:
        self.now = 1000.0
        self.watch = Watch(lambda: self.now)
        self.watch.follow(_TABLE)
        self.watch.saw({"a.b": (0,)}, self.now)
        self.watch.saw({"a.b": (5,)}, self.now)
        self.events: list[Event] = []
        self.finder = Finder(cluster.client, _KAFKA, self.watch)
        self.lookout = Lookout(_KAFKA, self.watch, cast("Any", self), "hot")

    def notify(self, event: Event) -> None:
        self.events.append(event)

    def cause(self) -> str:
        """Of a promise that is broken now."""
        self.now += 60
        # In whatever order they come to notice it.
        self.finder._tick()
        self.lookout.look()
        (broken,) = [event for event in self.events if isinstance(event, FreshnessBroken)]
        return broken.cause


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    return Cluster(monkeypatch)


@pytest.fixture
def watching(cluster: Cluster) -> Watching:
    return Watching(cluster)


def test_brokers_that_are_away_are_not_the_catalog(cluster: Cluster, watching: Watching) -> None:
    cluster.brokers = Unavailable("no broker")
    assert watching.cause() == "kafka"


def test_brokers_that_come_back_leave_nothing_behind(cluster: Cluster, watching: Watching) -> None:
    """The tables are looked for less often than the ends of the logs."""
    cluster.brokers = Unavailable("no broker")
    watching.finder._tick()
    watching.lookout.look()
    cluster.brokers = None
    watching.now += 60
    watching.lookout.look()
    (broken,) = [event for event in watching.events if isinstance(event, FreshnessBroken)]
    assert broken.cause == "round"


@pytest.mark.parametrize("error", [Unavailable("no answer"), NotAllowed("not yours")])
def test_topics_that_are_not_told_are_not_the_catalog(
    cluster: Cluster, watching: Watching, error: FrazilError
) -> None:
    cluster.topics = error
    assert watching.cause() == "round"


def test_a_catalog_that_comes_back_while_brokers_are_away(cluster: Cluster, watching: Watching) -> None:
    cluster.catalog = Unavailable("no answer")
    watching.finder._tick()
    cluster.brokers, cluster.catalog = Unavailable("no broker"), None
    assert watching.cause() == "kafka"


@pytest.mark.parametrize("error", [Unavailable("no answer"), NotAllowed("not yours")])
@pytest.mark.parametrize("part", ["catalog", "tables"])
def test_a_catalog_that_does_not_answer(
    cluster: Cluster, watching: Watching, part: str, error: FrazilError
) -> None:
    setattr(cluster, part, error)
    assert watching.cause() == "catalog"


def test_a_damaged_stamp_property_is_a_problem_of_its_own_table(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = replace(_TABLE, name="c", binding=replace_struct(_BINDING, topic="a.c"))
    bad = replace(_TABLE, properties={stamp_key(TIERING): '{"snapshot_id": 1}'})
    monkeypatch.setattr(HotTables, "look", lambda *_: Listing((bad, good), {"a.d": NotAllowed("not yours")}))
    monkeypatch.setattr(Finder, "trim", lambda *_: None)
    finder = Finder(cluster.client, _KAFKA, Watch())
    for _ in range(2):
        assert finder.newest.tables == (good,)
        assert set(finder.newest.problems) == {"a.b", "a.d"}
        told = finder.newest.problems["a.b"].message
        assert told.startswith("the hot table a.b: a damaged stamp property")
        assert "Remove it" in told
        finder._tick()
    # Whoever does not want it tiered needs no stamp.
    monkeypatch.setattr(HotTables, "look", lambda *_: Listing((replace(bad, enabled=False),)))
    assert Finder(cluster.client, _KAFKA, Watch()).newest.problems == {}


def test_status_tells_of_a_damaged_stamp_property(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: Any, **__: Any) -> Pinned:
        raise Unavailable("no broker")

    monkeypatch.setattr(status, "pinned", away)
    bad = replace(_TABLE, properties={stamp_key(TIERING): "?"})
    damaged, unreachable = status.table_status(cluster.client, bad, _KAFKA).problems
    assert damaged.startswith("the hot table a.b: a damaged stamp property")
    assert unreachable == "no broker"
    assert status.table_status(cluster.client, _TABLE, _KAFKA).problems == ("no broker",)


def test_what_was_broken_by_the_last_commit_is_told(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    # No look of its own comes between, however slow the machine is.
    monkeypatch.setattr(steward, "_LOOK_SECONDS", 3600.0)
    watching = Watching(cluster)
    watching.now += 11
    watching.watch.reached("a.b", (5,))
    watching.lookout.start()
    watching.lookout.stop()
    told = [type(event) for event in watching.events]
    assert told == [FreshnessBroken, FreshnessReported]


@pytest.mark.parametrize(
    ("failed", "ends"),
    [({"a.b": Unavailable("no leader")}, {}), ({}, {"a.b": (9,)}), ({}, {})],
    ids=["no-leader", "silent", "deleted"],
)
def test_records_that_cannot_be_read_hold_up_no_look(
    cluster: Cluster,
    monkeypatch: pytest.MonkeyPatch,
    failed: dict[str, FrazilError],
    ends: dict[str, tuple[int, ...]],
) -> None:
    """A leader that does not answer is waited for by whoever reads of it: no other log is seen then."""
    asked: list[str] = []

    def silent(hot: HotTable, *_: Any) -> float:
        asked.append(hot.topic)
        raise Unavailable("nothing for a minute")

    watching = Watching(cluster)
    watching.watch.follow(replace(_TABLE, uuid="another"), anew=True)
    view = LogView("kafka:K", {}, (), {}, ends, failed)
    watching.watch.saw({"a.b": (9,)}, watching.now)
    monkeypatch.setattr(KafkaLog, "look_at_each", lambda *_: view)
    monkeypatch.setattr(steward, "lag", silent)
    for _ in range(3):
        watching.lookout.look()
    assert asked == list(ends)
    (report,) = watching.watch.report()
    assert report.trouble == ("no leader" if failed else None)
