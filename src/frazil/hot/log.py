"""Whether the log of a hot table is still the one that it was made with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from frazil.core.errors import SourceChanged
from frazil.hot.table import BUCKETS, HotTable
from frazil.stream.kafka.feed import KafkaReader
from frazil.stream.kafka.log import LogView, Topic

_GONE = (
    "Tiering removes records of a hot table that are in Iceberg for as long as the property frazil.hot.keep "
    "says: let that be longer than a read takes. What somebody else removed before it was tiered is lost to "
    "the table, and what is in Iceberg can be read without the log (without --fresh)."
)


def log_reader(settings: Mapping[str, str]) -> KafkaReader:
    """Of the log of a hot table, or of several: with keys, by which rows are deleted."""
    return KafkaReader(settings, keys=True, advice=_GONE)


def require_topic(table: HotTable, view: LogView) -> Topic:
    """The topic of the table, in a view of its cluster; SourceChanged: it is another one."""
    bound = table.binding
    if view.source != bound.source:
        raise SourceChanged(
            f"the log of the hot table {table} is on {bound.source}, and this is {view.source}: give the "
            "brokers of that cluster"
        )
    found = view.topics.get(table.topic)
    if found is None:
        raise gone(table)
    if found.id != bound.topic_id:
        raise remade(table, bound.topic_id, found.id)
    _require_partitions(table, found.partitions)
    return found


def gone(table: HotTable) -> SourceChanged:
    """The error of a topic that was deleted."""
    return SourceChanged(
        f"the topic {table.topic} of the hot table {table} is gone, and with it what was not tiered: "
        "drop the table and create it again; what is in Iceberg can be read as an ordinary table"
    )


def remade(table: HotTable, was: str, now: str) -> SourceChanged:
    """The error of a topic that was made again."""
    return SourceChanged(
        f"the topic {table.topic} of the hot table {table} was deleted and made again (its id was {was} and "
        f"is {now}): its records are others at the same offsets. Drop the table and create it again"
    )


def require_reached(table: HotTable, offsets: Sequence[int], ends: Sequence[int]) -> None:
    """SourceChanged: the log ends before a place that was read, so that what comes next would be left out."""
    for partition, (offset, end) in enumerate(zip(offsets, ends, strict=False)):
        if offset > end:
            where = f"{table.topic}-{partition}"
            raise lost(table, f"{where} was read up to {offset} and now ends at {end}: the log lost records")


def lost(table: HotTable, found: str) -> SourceChanged:
    """The error of a log that does not have, or never again has, what the table lacks."""
    return SourceChanged(
        f"the hot table {table} cannot go on: {found}. Rows would be missing, so nothing was read. What is "
        "in Iceberg can still be read as it is (without --fresh): create another hot table, write those rows "
        "to it, and let producers send there. Nobody but tiering may remove records of a topic"
    )


def _require_partitions(table: HotTable, found: int) -> None:
    """More of them lead keys elsewhere, and the order of their changes would be lost."""
    made = found if table.buckets is None else table.buckets
    if found < made:
        # A topic never loses any but by being made again, and then it has another id.
        raise SourceChanged(
            f"the property {BUCKETS} of the hot table {table} is {made}, and its topic {table.topic} has "
            f"{found} partitions: somebody changed the property, which follows the topic. Set it to {found} "
            "again"
        )
    if table.key and found != made:
        raise SourceChanged(
            f"the topic {table.topic} of the hot table {table} was made with {made} partitions and has "
            f"{found}: changes of one key are then in several partitions, and nobody knows which is the "
            "last. The partitions of a table with a primary key cannot be changed: create another hot table "
            "with that many buckets, and write the rows of this one to it"
        )
