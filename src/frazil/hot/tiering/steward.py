"""What goes on beside the rounds: which tables there are, what waits in their logs, what can leave them.

Each has a thread of its own, so that a catalog or a broker that does not answer holds up no round.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Set

from frazil.client import Client
from frazil.core.errors import FrazilError, InvalidInput, NotFound
from frazil.hot.find import HotTables, Listing, Topics
from frazil.hot.read.pins import Pins, lag
from frazil.hot.table import HotTable
from frazil.hot.tiering.trim import Trimmer, trim_to
from frazil.hot.tiering.watch import Watch, tiered
from frazil.stream.config.model import KafkaSource
from frazil.stream.events import FreshnessBroken, FreshnessReported, Observer
from frazil.stream.kafka.log import KafkaLog

_logger = logging.getLogger(__name__)
#: A new table is found within this time.
_FIND_SECONDS = 3.0
#: What was changed about one is found within this time.
_REFRESH_SECONDS = 5.0
_LOOK_SECONDS = 0.5
_REPORT_SECONDS = 5.0
_REST_SECONDS = 60.0
#: A table's log is trimmed so many times while a record is kept.
_TRIMS_PER_KEEP = 10
_LEAST_TRIM, _MOST_TRIM = 2.0, 300.0


class Every:
    """A thread that does something again and again. Errors are told and do not end it."""

    def __init__(self, name: str, seconds: float, work: Callable[[], None]) -> None:
        self._seconds = seconds
        self._work = work
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(5)

    def _run(self) -> None:
        while not self._stop.wait(self._seconds):
            try:
                self._work()
            except Exception:
                _logger.exception("%s", self._thread.name)


class Finder:
    """The tables of the cluster, looked for every few seconds; their logs are trimmed on the way."""

    def __init__(self, client: Client, kafka: Mapping[str, str], watch: Watch) -> None:
        self._client = client
        self._watch = watch
        self._tables = HotTables(client, kafka, refresh_seconds=_REFRESH_SECONDS)
        self._trimmer = Trimmer(kafka)
        self._trimmed: dict[str, float] = {}
        self.newest = readable(self._tables.look())
        self._ticks = Every("hot-tables", _FIND_SECONDS, self._tick)

    def start(self) -> None:
        self._ticks.start()

    def stop(self) -> None:
        self._ticks.stop()

    def _tick(self) -> None:
        topics = self._topics()
        try:
            if topics is None:
                next(iter(self._client.namespaces.list()), None)
            else:
                self.newest = readable(self._tables.look(topics))
        except FrazilError as error:
            self._watch.down("catalog", error.message)
            return
        self._watch.down("catalog", None)
        if topics is not None:
            self.trim(self.newest)

    def _topics(self) -> Topics | None:
        """None: Kafka does not tell, for which the catalog cannot be blamed. The lookout says who is away."""
        try:
            return self._tables.topics()
        except FrazilError as error:
            _logger.warning("it is not known which topics there are now: %s", error.message)
            return None

    def trim(self, listing: Listing) -> None:
        """The logs of those tables whose turn it is."""
        for table in listing.tables:
            now = time.monotonic()
            wait = min(max(table.keep / _TRIMS_PER_KEEP, _LEAST_TRIM), _MOST_TRIM)
            if now - self._trimmed.get(table.binding.topic_id, 0.0) < wait:
                continue
            self._trimmed[table.binding.topic_id] = now
            try:
                self._trim(table)
            except NotFound:
                # Dropped just now.
                continue
            except FrazilError as error:
                _logger.warning("the log of %s is not trimmed: %s", table, error.message)

    def _trim(self, table: HotTable) -> None:
        metadata = self._client.tables.load(table.namespace, table.name).metadata
        if self._trimmer.trim(table, trim_to(metadata, table, time.time())):
            _logger.info("the log of %s was trimmed", table)


def readable(listing: Listing) -> Listing:
    """A table that is to be tiered, and nobody can read how far it is, is a problem of its own."""
    tables, problems = [], dict(listing.problems)
    for table in listing.tables:
        try:
            if table.enabled:
                tiered(table)
        except InvalidInput as error:
            problems[table.topic] = error
        else:
            tables.append(table)
    return Listing(tuple(tables), problems)


class Lookout:
    """Looks at the ends of the logs, and tells how fresh the tables are."""

    def __init__(self, kafka: Mapping[str, str], watch: Watch, observer: Observer, name: str) -> None:
        self._kafka = dict(kafka)
        self._log = KafkaLog(KafkaSource(self._kafka))
        self._watch = watch
        self._observer = observer
        self._name = name
        self._reported = 0.0
        #: By topic: when its oldest records may be asked again, which could not be read.
        self._rests_until: dict[str, float] = {}
        self._ticks = Every("hot-logs", _LOOK_SECONDS, self.look)

    def start(self) -> None:
        self._ticks.start()

    def stop(self) -> None:
        self._ticks.stop()
        self._tell_broken()
        self._observer.notify(FreshnessReported(self._name, self._watch.report()))

    def look(self) -> None:
        """Once."""
        try:
            self._log.select(sorted(self._watch.topics()))
            at = time.time()
            view = self._log.look_at_each()
            self._watch.saw(view.ends, at)
            self._watch.unseen({topic: error.message for topic, error in view.failed.items()})
            self._ask(view.ends.keys() - view.failed.keys())
        except FrazilError as error:
            self._watch.down("kafka", error.message)
        else:
            self._watch.down("kafka", None)
        self._tell_broken()
        now = time.monotonic()
        if now - self._reported >= _REPORT_SECONDS:
            self._reported = now
            self._observer.notify(FreshnessReported(self._name, self._watch.report()))

    def _tell_broken(self) -> None:
        for one in self._watch.judge():
            self._observer.notify(FreshnessBroken(self._name, one.table, one.lag, one.freshness, one.cause))

    def _ask(self, seen: Set[str]) -> None:
        """Records whose age cannot be told otherwise say it themselves. All other logs wait meanwhile, so
        only those that were just `seen` are asked, and none that did not send anything lately."""
        now = time.monotonic()
        for table, places in self._watch.vague():
            if table.topic not in seen or now < self._rests_until.get(table.topic, 0.0):
                continue
            count = max(places) + 1
            pins = Pins(
                table=str(table),
                uuid="",
                topic=table.topic,
                starts=tuple(places.get(number, (0, 0))[0] for number in range(count)),
                ends=tuple(places.get(number, (0, 0))[1] for number in range(count)),
            )
            try:
                self._watch.told(table.topic, time.time() - lag(table, pins, self._kafka))
            except FrazilError as error:
                # Trimmed or gone: the loop meets the reason.
                self._rests_until[table.topic] = time.monotonic() + _REST_SECONDS
                _logger.warning("the age of records of %s is not known: %s", table, error.message)
