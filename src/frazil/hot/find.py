"""The hot tables of a cluster: topics lead to tables of the same name, whose properties say the rest."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from frazil.client import Client
from frazil.core.errors import FrazilError, InvalidInput, NotFound, Outcome
from frazil.core.names import name_key, show
from frazil.hot.log import gone
from frazil.hot.table import HotTable, hot_table, table_name
from frazil.stream.config.model import KafkaSource
from frazil.stream.kafka.log import KafkaLog, Topic

#: Names that a hot table can have.
_TOPICS = r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)+"
#: A table is asked for again after this time; a new topic, or one made again, at once.
REFRESH_SECONDS = 10.0
_logger = logging.getLogger("frazil.hot")


@dataclass(frozen=True)
class Topics:
    """What Kafka alone tells: which cluster it is, and the topics that can be of hot tables."""

    source: str
    there: Mapping[str, Topic]


@dataclass(frozen=True)
class Listing:
    """What there is at one moment."""

    tables: tuple[HotTable, ...]
    #: By table: why it cannot be told what it is now. Nobody else is held up by it. One that was known, and
    #: that may be told of again, is among the tables as well, as it was.
    problems: Mapping[str, FrazilError] = field(default_factory=dict)


@dataclass(frozen=True)
class _Seen:
    topic_id: str
    asked: float
    #: None: an ordinary table.
    table: HotTable | None = None
    problem: FrazilError | None = None
    #: Whether the topic is not listed any more.
    gone: bool = False


class HotTables:
    """Looks again and again, at little cost: a list of topics, a list for each namespace that has some, and
    the tables whose turn it is. For one thread."""

    def __init__(
        self,
        client: Client,
        kafka: Mapping[str, str],
        *,
        timeout_seconds: float = 10.0,
        refresh_seconds: float = REFRESH_SECONDS,
    ) -> None:
        self._client = client
        self._refresh = refresh_seconds
        self._seen: dict[str, _Seen] = {}
        self._kafka, self._timeout = dict(kafka), timeout_seconds
        self._log = KafkaLog(
            KafkaSource(self._kafka, pattern=_TOPICS), timeout_seconds=timeout_seconds, pattern_seconds=0.0
        )

    def topics(self) -> Topics:
        """Kafka's half of a look; Unavailable if it does not answer."""
        return Topics(self._log.identity(), self._log.topics())

    def look(self, topics: Topics | None = None) -> Listing:
        """Every hot table of this cluster, disabled ones among them; Unavailable if nobody answers.

        With `topics`, only the catalog is asked, and whatever is raised is its fault.
        """
        topics = topics or self.topics()
        names = self._present({name: table_name(name) for name in topics.there})
        found = {name: self._current(topics.there[name]) for name in sorted(names)}
        for name, seen in self._seen.items():
            if name not in topics.there and (left := self._left(seen, topics)) is not None:
                found[name] = left
        self._seen = found
        tables = [one.table for one in found.values() if one.table is not None and not one.gone]
        # A table of another cluster may have a topic of its name here.
        ours = tuple(one for one in tables if one.binding.source == topics.source)
        return Listing(ours, {name: one.problem for name, one in found.items() if one.problem is not None})

    def _current(self, topic: Topic) -> _Seen:
        seen, now = self._seen.get(topic.name), time.monotonic()
        if seen is not None and seen.gone:
            seen = replace(seen, gone=False, problem=None, asked=-math.inf)
        if seen is not None and seen.topic_id == topic.id and now - seen.asked < self._refresh:
            return seen
        namespace, name = table_name(topic.name)
        try:
            loaded = self._client.tables.load(namespace, name, snapshots="refs")
            found = hot_table(namespace, name, loaded.metadata)
            # The catalog does not tell case apart, Kafka does.
            return _Seen(topic.id, now, found if found is None or found.topic == topic.name else None)
        except NotFound:
            return _Seen(topic.id, now)
        except InvalidInput as error:
            return _Seen(topic.id, now, problem=error)
        except FrazilError as error:
            # A catalog that is away answers nobody, and raises here.
            next(iter(self._client.namespaces.list()), None)
            return _failed(topic, seen, now, error)

    def _left(self, seen: _Seen, topics: Topics) -> _Seen | None:
        """A table whose topic is gone. Nothing leads to it any more: only who knew it can tell of it, for as
        long as it is there and is to be tiered."""
        table, now = seen.table, time.monotonic()
        if table is None or (seen.gone and now - seen.asked < self._refresh):
            return seen if seen.gone else None
        try:
            loaded = self._client.tables.load(table.namespace, table.name, snapshots="refs")
            found = hot_table(table.namespace, table.name, loaded.metadata)
        except NotFound:
            return None
        except FrazilError:
            # What else is wrong with it comes later.
            found = table
        if found is None or not found.enabled or found.topic != table.topic:
            return None
        if found.binding.source != topics.source:
            return None
        problem = self._unlisted(found)
        return None if problem is None else _Seen(seen.topic_id, now, found, problem, gone=True)

    def _unlisted(self, table: HotTable) -> FrazilError | None:
        """Why its topic is not in the list: Kafka leaves out what the user may not describe, too, and says so
        only of a name. None: it is there."""
        self._named.select([table.topic])
        try:
            view = self._named.look_at_each()
        except FrazilError as error:
            return error
        return gone(table) if table.topic in view.missing else None

    @cached_property
    def _named(self) -> KafkaLog:
        """For topics that are asked for by name."""
        return KafkaLog(KafkaSource(self._kafka), timeout_seconds=self._timeout)

    def _present(self, wanted: Mapping[str, tuple[tuple[str, ...], str]]) -> set[str]:
        """Names of which there is a table."""
        namespaces = self._namespaces({namespace for namespace, _ in wanted.values()})
        found: set[str] = set()
        for namespace in namespaces:
            try:
                listed = {name_key(one.name) for one in self._client.tables.list(namespace)}
            except NotFound:
                continue
            found |= {
                text for text, (at, name) in wanted.items() if at == namespace and name_key(name) in listed
            }
        return found

    def _namespaces(self, wanted: Iterable[tuple[str, ...]]) -> list[tuple[str, ...]]:
        """Those that exist. Only levels that lead to one are asked for."""
        wanted = set(wanted)
        found: list[tuple[str, ...]] = []
        frontier: list[tuple[str, ...]] = [()]
        while frontier:
            parent = frontier.pop()
            depth = len(parent)
            below = {levels for levels in wanted if levels[:depth] == parent and len(levels) > depth}
            if not below:
                continue
            try:
                listed = {tuple(map(name_key, one)) for one in self._client.namespaces.list(parent or None)}
            except NotFound:
                continue
            for levels in {one[: depth + 1] for one in below}:
                if tuple(map(name_key, levels)) in listed:
                    frontier.append(levels)
                    found += [levels] if levels in wanted else []
        return found


def _failed(topic: Topic, seen: _Seen | None, now: float, error: FrazilError) -> _Seen:
    if seen is None or seen.topic_id != topic.id or error.outcome is not Outcome.RETRY:
        return _Seen(topic.id, now, problem=error)
    if seen.table is None and seen.problem is None:
        # It is no hot table's trouble.
        return seen
    return replace(seen, asked=now, problem=error)


def find_hot_tables(client: Client, kafka: Mapping[str, str]) -> list[HotTable]:
    """The hot tables there are now. One that cannot be told of is left out, and the log says why."""
    found = HotTables(client, kafka).look()
    for name, problem in found.problems.items():
        _logger.warning("%s is left out: %s", name, problem.message)
    return list(found.tables)


def load_hot_table(client: Client, namespace: tuple[str, ...], name: str) -> HotTable:
    """One hot table; NoSuchTable, or InvalidInput if it is an ordinary one."""
    found = hot_table(namespace, name, client.tables.load(namespace, name, snapshots="refs").metadata)
    if found is None:
        raise InvalidInput(
            f"{show(namespace, name)} is a table of Iceberg alone, not a hot one: those are made by "
            "`frazil hot create`, and listed by `frazil hot list`"
        )
    return found
