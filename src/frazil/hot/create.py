"""Making and dropping hot tables.

First the topic, then the table, whose properties bind it to that topic from its first moment: a table is
never seen without its log, and what died half way left an empty topic, which the next try takes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from frazil.client import Client
from frazil.core.errors import AlreadyExists, Conflict, NoSuchNamespace, NoSuchTable
from frazil.core.failpoints import reach
from frazil.core.names import show
from frazil.hot.declared.declaration import Declaration
from frazil.hot.differences import differences
from frazil.hot.log import require_topic
from frazil.hot.table import BINDING, BUCKETS, Binding, HotTable, hot_table
from frazil.hot.topics import SETTINGS, HotTopic, Topics


@dataclass(frozen=True)
class Created:
    """What there is now, and what of it is new."""

    table: HotTable
    made_topic: bool = False
    made_table: bool = False


@dataclass(frozen=True)
class Dropped:
    table: str
    topic: str
    #: Whether the topic went, too.
    topic_deleted: bool


def create(
    declaration: Declaration,
    client: Client,
    kafka: Mapping[str, str],
    *,
    if_not_exists: bool = False,
    adopt: bool = False,
) -> Created:
    """Make topic, namespace and table. After any error it can be called again.

    AlreadyExists: the table is there (with `if_not_exists`, a table as it was declared is fine). Conflict:
    what is there is something else. `adopt`: take a topic that has records already, which become rows; one
    whose first records were removed is refused.
    """
    topics = Topics(kafka)
    there = _existing(declaration, client)
    if there is not None:
        return _same(declaration, there, topics, if_not_exists)
    topic, made = _topic(declaration, topics, adopt)
    reach("hot.create.topic")
    client.namespaces.create(declaration.namespace, parents=True, exist_ok=True)
    binding = Binding(
        topic=topic.name,
        topic_id=topic.id,
        source=topics.identity(),
        brokers=str(kafka.get("bootstrap.servers") or kafka.get("metadata.broker.list", "")),
    )
    try:
        table = client.tables.create(
            declaration.namespace,
            declaration.name,
            declaration.columns,
            declaration.partitioning,
            _properties(declaration, binding),
            key=declaration.key,
            format_version=declaration.format_version,
        )
    except AlreadyExists:
        # Somebody else was at it, too.
        there = _existing(declaration, client)
        if there is None:
            raise
        return _same(declaration, there, topics, if_not_exists)
    found = hot_table(declaration.namespace, declaration.name, table.metadata)
    assert found is not None, "it was made with its binding"
    return Created(found, made, made_table=True)


def drop(
    client: Client,
    kafka: Mapping[str, str],
    namespace: tuple[str, ...],
    name: str,
    *,
    topic: bool = False,
    purge: bool = False,
) -> Dropped:
    """Drop the table, and with `topic` its log, which may have rows that are nowhere else.

    The table goes first: if it may not be dropped, no row is lost. `purge` deletes its files, too.
    """
    where = show(namespace, name)
    try:
        found = hot_table(namespace, name, client.tables.load(namespace, name, snapshots="refs").metadata)
    except (NoSuchNamespace, NoSuchTable):
        if not topic:
            raise
        return _rest(Topics(kafka), where)
    if found is None:
        raise Conflict(f"{where} is a table of Iceberg alone, not a hot one: `frazil table drop` drops it")
    # Brokers that are away are met before the table goes: behind it nobody knows whose log the topic was.
    topics = Topics(found.settings(kafka)) if topic else None
    there = None if topics is None else topics.find(found.topic)
    client.tables.drop(namespace, name, purge=purge)
    reach("hot.drop.table")
    if topics is None or there is None or there.id != found.binding.topic_id:
        return Dropped(where, found.topic, topic_deleted=False)
    topics.delete(found.topic)
    return Dropped(where, found.topic, topic_deleted=True)


def _rest(topics: Topics, name: str) -> Dropped:
    """A drop that died behind the table. Whose log the topic was is not known any more, and it may be that of
    a table of this name in another catalog: one with records is not touched."""
    there = topics.find(name)
    if there is None or there.others:
        raise NoSuchTable(f"there is no hot table {name}, and no topic that one could have left behind")
    if there.records:
        raise Conflict(
            f"there is no hot table {name} in this catalog, but a topic of that name with about "
            f"{there.records} records, which may be the log of a table elsewhere. If it is not, delete it "
            "with Kafka's own tools"
        )
    topics.delete(name)
    return Dropped(name, name, topic_deleted=True)


def _existing(declaration: Declaration, client: Client) -> Mapping[str, Any] | None:
    try:
        return client.tables.load(declaration.namespace, declaration.name, snapshots="refs").metadata
    except (NoSuchNamespace, NoSuchTable):
        return None


def _same(
    declaration: Declaration, metadata: Mapping[str, Any], topics: Topics, if_not_exists: bool
) -> Created:
    found = hot_table(declaration.namespace, declaration.name, metadata)
    if found is None:
        raise Conflict(
            f"{declaration} is a table of Iceberg alone: give the hot table another name, or drop that one"
        )
    if not if_not_exists:
        raise AlreadyExists(
            f"the hot table {declaration} exists already; IF NOT EXISTS (--if-not-exists) takes it as it is"
        )
    found_otherwise = differences(declaration, metadata)
    if found_otherwise:
        raise Conflict(
            f"the hot table {declaration} exists already, and not as declared: {'; '.join(found_otherwise)}. "
            "Declare it as it is, or drop it first"
        )
    require_topic(found, topics.look(found.topic))
    return Created(found)


def _topic(declaration: Declaration, topics: Topics, adopt: bool) -> tuple[HotTopic, bool]:
    """The topic, and whether it is new."""
    there = topics.find(declaration.topic)
    if there is None:
        try:
            return topics.create(declaration.topic, declaration.buckets, declaration.replicas), True
        except AlreadyExists as error:
            there = topics.find(declaration.topic)
            if there is None:
                raise Conflict(error.message) from None
    wrong = [f"{name} is '{value}', not '{SETTINGS[name]}'" for name, value in there.others.items()]
    if there.partitions != declaration.buckets:
        wrong.append(f"it has {there.partitions} partitions, and 'bucket.num' says {declaration.buckets}")
    if wrong:
        raise Conflict(
            f"there is a topic {declaration.topic} already, which cannot be the log of a hot table as it is: "
            f"{', '.join(wrong)}. Change the topic, delete it, or give the table another name"
        )
    if there.trimmed:
        # A table reads its log from 0 on: neither tiering nor a union read would ever begin.
        raise Conflict(
            f"there is a topic {declaration.topic} already, whose first records were removed, as tiering "
            f"does behind a table (one that was dropped since?): about {there.records} are left, and a new "
            "table would lack the rows of the others. Delete the topic (if it is empty, `frazil hot drop "
            f"{declaration} --topic` does), or give the table another name; what is left can be read by a "
            "pipeline that starts at `earliest`"
        )
    if there.records and not adopt:
        raise Conflict(
            f"there is a topic {declaration.topic} already, with about {there.records} records. Say --adopt, "
            "and they become rows of the new table; or delete the topic"
        )
    return there, False


def _properties(declaration: Declaration, binding: Binding) -> dict[str, str]:
    comment = {} if declaration.comment is None else {"comment": declaration.comment}
    return {
        **declaration.properties,
        **comment,
        **declaration.options,
        BUCKETS: str(declaration.buckets),
        BINDING: binding.encode(),
    }
