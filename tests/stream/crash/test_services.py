"""Everything around a pipeline goes away and comes back while it runs."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from tests.stream.crash.conftest import bucket_shelf
from tests.stream.crash.records import Feed
from tests.stream.crash.runs import Run
from tests.stream.crash.store_proxy import StoreProxy
from tests.stream.crash.world import Line, caught_up, config, fresh

from frazil.devstack.frazil_server import FrazilServer
from frazil.devstack.kafka import Kafka
from frazil.devstack.seaweed import ObjectStore

pytestmark = [pytest.mark.services, pytest.mark.jvm, pytest.mark.slow]


@dataclass
class Services:
    """A broker, a catalog and a way to the store that nobody else uses."""

    broker: Kafka
    catalog: FrazilServer
    proxy: StoreProxy
    line: Line


@pytest.fixture
def services(object_store: ObjectStore) -> Iterator[Services]:
    with (
        Kafka() as broker,
        FrazilServer() as catalog,
        StoreProxy(object_store.endpoint) as proxy,
    ):
        shelf = bucket_shelf(
            catalog, object_store, endpoint=proxy.endpoint, **{"sts-endpoint": object_store.sts_endpoint}
        )
        topic = broker.create_topic(fresh("outage"), partitions=2)
        feed = Feed(broker.bootstrap_servers, topic, 2)
        yield Services(broker, catalog, proxy, Line(fresh("outage"), shelf, feed))


def test_broker_catalog_and_store_fail_in_turn(services: Services) -> None:
    line = services.line
    line.feed.produce(300)
    with Run(config(line)) as run:
        run.until_event("round-committed")
        line.feed.produce(300)
        services.catalog.kill()
        line.feed.produce(300)
        run.until_event("round-retried")
        services.catalog.start()
        caught_up(run, line)

        services.proxy.refusing = True
        line.feed.produce(300)
        run.until(lambda: services.proxy.refused > 3, "refused writes")
        services.proxy.refusing = False
        caught_up(run, line)

        line.feed.produce(300)
        services.broker.kill()
        services.broker.start()
        line.feed.produce(300)
        caught_up(run, line)

        run.signal(signal.SIGTERM)
        assert run.wait() == 0, run.story()
        assert "nothing in flight" in run.errors
    line.check()
    line.check_storage()
