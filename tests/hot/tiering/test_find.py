"""What is found of a cluster whose catalog does not tell of every table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.hot.support import remove
from tests.hot.tiering.world import World

from frazil.client import Client
from frazil.core.errors import FrazilError, NotAllowed, StorageError, Unavailable
from frazil.hot.find import HotTables
from frazil.hot.table import TIERING
from frazil.hot.tiering.status import hot_status
from frazil.hot.topics import SETTINGS
from frazil.stream.events import FreshnessReported, TableStopped
from frazil.stream.kafka.log import KafkaLog


class Catalog:
    """One that fails where it is told to."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.broken: dict[str, FrazilError] = {}
        #: Nobody is answered any more, from the next table on.
        self.leaving = self.away = False
        self.tables = SimpleNamespace(load=self._load, list=self._guarded(client.tables.list))
        self.namespaces = SimpleNamespace(list=self._guarded(client.namespaces.list))

    def _load(self, namespace: tuple[str, ...], name: str, **more: Any) -> Any:
        self.away = self.away or self.leaving
        if name in self.broken:
            raise self.broken[name]
        return self._guarded(self._client.tables.load)(namespace, name, **more)

    def _guarded(self, ask: Callable[..., Any]) -> Callable[..., Any]:
        def asked(*given: Any, **more: Any) -> Any:
            if self.away:
                raise Unavailable("no answer")
            return ask(*given, **more)

        return asked


@pytest.fixture
def catalog(world: World) -> Catalog:
    return Catalog(world.client)


def test_a_table_that_cannot_be_read_is_a_problem_of_its_own(world: World, catalog: Catalog) -> None:
    bad, good = world.table(), world.table()
    both = {bad.hot.topic, good.hot.topic}
    found = HotTables(cast("Client", catalog), world.settings, refresh_seconds=0.0)
    catalog.broken = {bad.hot.name: StorageError("its metadata cannot be had")}
    listing = found.look()
    assert {one.topic for one in listing.tables} & both == {good.hot.topic}
    assert listing.problems == {bad.hot.topic: catalog.broken[bad.hot.name]}
    catalog.broken = {}
    assert {one.topic for one in found.look().tables} >= both
    # It is known by now, and may come back: nobody has to take it over again.
    catalog.broken = {bad.hot.name: Unavailable("later")}
    listing = found.look()
    assert {one.topic for one in listing.tables} >= both
    assert listing.problems == {bad.hot.topic: catalog.broken[bad.hot.name]}
    catalog.broken = {bad.hot.name: NotAllowed("not yours")}
    listing = found.look()
    assert bad.hot.topic not in {one.topic for one in listing.tables}
    assert listing.problems == {bad.hot.topic: catalog.broken[bad.hot.name]}
    catalog.broken = {}
    assert found.look().problems == {}
    # An ordinary table now, which has a topic of its name.
    bad.sql("ALTER TABLE {} UNSET TBLPROPERTIES ('frazil.hot')")
    assert bad.hot.topic not in {one.topic for one in found.look().tables}
    catalog.broken = {bad.hot.name: Unavailable("later")}
    assert found.look().problems == {}
    # Else it could not be dropped.
    binding = bad.hot.binding.encode().replace("{", "{{").replace("}", "}}")
    bad.sql(f"ALTER TABLE {{}} SET TBLPROPERTIES ('frazil.hot'='{binding}')")


@pytest.mark.parametrize("leaving", [False, True])
def test_a_catalog_that_is_away_is_no_problem_of_tables(
    world: World, catalog: Catalog, leaving: bool
) -> None:
    world.table()
    catalog.leaving, catalog.away = leaving, not leaving
    with pytest.raises(Unavailable):
        HotTables(cast("Client", catalog), world.settings).look()


def test_a_topic_that_is_there_and_not_listed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka lists no topic that the user may not describe. Nobody is to drop its table for that."""
    table = world.table()
    found = HotTables(world.client, world.settings, refresh_seconds=0.0)
    topics = found.topics()
    assert table.hot.topic in {one.topic for one in found.look(topics).tables}
    refused = NotAllowed("this user needs Describe")
    describe = KafkaLog._describe

    def hidden(self: KafkaLog, names: tuple[str, ...], failed: dict[str, FrazilError] | None = None) -> Any:
        assert names == (table.hot.topic,)
        assert failed is not None
        failed[table.hot.topic] = refused
        return {}, ()

    monkeypatch.setattr(KafkaLog, "_describe", hidden)
    unlisted = replace(topics, there={})
    assert found.look(unlisted).problems == {table.hot.topic: refused}
    # Or a broker that was just started told of too little.
    monkeypatch.setattr(KafkaLog, "_describe", describe)
    assert found.look(unlisted).problems == {}
    assert table.hot.topic in {one.topic for one in found.look().tables}


def test_a_table_whose_topic_was_deleted(world: World) -> None:
    """No topic leads to it any more, and rows may be lost: whoever knew it says so until it is dropped."""
    bad, good = world.table(), world.table()
    found = HotTables(world.client, world.settings, refresh_seconds=0.0)
    assert {bad.hot.topic, good.hot.topic} <= {one.topic for one in found.look().tables}
    remove(world.kafka, bad.hot.topic)
    for _ in range(2):
        listing = found.look()
        topics = {one.topic for one in listing.tables}
        assert (good.hot.topic in topics, bad.hot.topic in topics) == (True, False)
        assert "is gone, and with it what was not tiered" in listing.problems[bad.hot.topic].message
    (status,) = [
        one
        for one in hot_status(world.client, world.settings, names=[str(bad.hot), "no.such"])
        if one.table in (str(bad.hot), "no.such")
    ]
    assert "is gone" in status.problems[0]
    # Made again, it is another one, which is told where it is read.
    world.kafka.create_topic(bad.hot.topic, partitions=2, config=SETTINGS)
    assert bad.hot.topic in {one.topic for one in found.look().tables}
    remove(world.kafka, bad.hot.topic)
    assert set(found.look().problems) == {bad.hot.topic}
    world.drop(bad)
    assert found.look().problems == {}


def test_a_service_tells_of_a_topic_that_was_deleted(world: World) -> None:
    bad, good = world.table(table__datalake__freshness="1s"), world.table(table__datalake__freshness="1s")

    def trouble() -> dict[str, str | None]:
        reports = service.seen.of(FreshnessReported)[-1:]
        return {one.table: one.trouble for report in reports for one in report.tables}

    with world.tiering() as service:
        bad.put(1)
        service.until(bad.complete)
        remove(world.kafka, bad.hot.topic)
        service.until(lambda: "is gone" in (trouble().get(str(bad.hot)) or ""))
        stopped = {event.table: event.error for event in service.seen.of(TableStopped)}
        assert "is gone" in stopped[str(bad.hot)]
        good.put(1)
        service.until(good.complete)
        world.drop(bad)
        service.until(lambda: trouble() == {str(good.hot): None})
    assert set(service.errors) <= {TIERING}
