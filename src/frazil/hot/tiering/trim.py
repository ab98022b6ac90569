"""Removes records from the log that are in Iceberg and that no read which is still repeatable needs.

A read pins a snapshot and reads the log from there on. So what lies before the newest stamp whose snapshot is
older than the keep window can go: every younger snapshot, and the one before it, begins behind that. What
lies behind a snapshot that a pipeline has pinned as its history stays as well: it goes on with it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Any

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from frazil.core.errors import HistoryChanged
from frazil.core.stamp import Position, Stamp, is_history_tag, stamp_key
from frazil.hot.log import require_topic
from frazil.hot.table import TIERING, HotTable
from frazil.lake.authority import MetadataHistory, ancestry, find_stamp
from frazil.stream.config.model import KafkaSource
from frazil.stream.kafka.log import KafkaLog
from frazil.stream.kafka.settings import admin_settings, kafka_error, logger

_logger = logging.getLogger(__name__)
_TIMEOUT_SECONDS = 10.0


def trim_to(metadata: Mapping[str, Any], table: HotTable, now: float) -> tuple[int, ...]:
    """Offsets by partition before which nothing is needed; none: all is. `metadata` has all snapshots."""
    history, key = MetadataHistory(metadata), stamp_key(TIERING)
    try:
        newest = find_stamp(history, TIERING)
    except HistoryChanged:
        # Nobody knows what is in the table: whoever says so may need all of the log.
        return ()
    times = {row["snapshot-id"]: row["timestamp-ms"] / 1000 for row in metadata.get("snapshots") or ()}
    for view in ancestry(history):
        if key in view.summary and times[view.id] <= now - table.keep:
            old = _position(Stamp.decode(view.summary[key]), table)
            last = None if newest is None else _position(newest, table)
            # A reset may have moved the newest stamp back.
            wanted = [old, last, *_pinned(history, metadata, table)]
            known = [position.next for position in wanted if position is not None]
            if len(known) < len(wanted):
                return ()
            return tuple(min(several) for several in zip(*known, strict=False))
    return ()


def _pinned(
    history: MetadataHistory, metadata: Mapping[str, Any], table: HotTable
) -> Iterator[Position | None]:
    """Where the log goes on behind snapshots that are the history of somebody; None: nobody can tell."""
    key = stamp_key(TIERING)
    for name in filter(is_history_tag, metadata.get("refs") or ()):
        at = history.ref(name)
        view = None if at is None else history.snapshot(at)
        while view is not None and key not in view.summary:
            view = None if view.parent_id is None else history.snapshot(view.parent_id)
        position = None if view is None else _position(Stamp.decode(view.summary[key]), table)
        if position is None:
            _logger.warning(
                "the log of %s is not trimmed: the tag %s keeps the history of a pipeline, and no snapshot "
                "below it says where the log goes on. Let the pipeline take all rows; if it was given up, "
                "drop the tag",
                table,
                name,
            )
        yield position


def _position(stamp: Stamp, table: HotTable) -> Position | None:
    found = stamp.positions.get(table.topic)
    same = found is not None and found.id == table.binding.topic_id and stamp.source == table.binding.source
    return found if same else None


class Trimmer:
    """Removes records of Kafka's topics. For one thread."""

    def __init__(self, kafka: Mapping[str, str]) -> None:
        self._settings = dict(kafka)
        self._admin = AdminClient(admin_settings(self._settings), logger=logger)
        self._log = KafkaLog(KafkaSource(self._settings))
        #: What was removed already, by topic id.
        self._done: dict[str, tuple[int, ...]] = {}

    def trim(self, table: HotTable, offsets: tuple[int, ...]) -> bool:
        """Remove what lies before the offsets; whether anything was new about them.

        SourceChanged: the topic is another one, whose records were never tiered.
        """
        before = self._done.get(table.binding.topic_id, ())
        if not any(offsets) or offsets == before:
            return False
        wanted = [
            TopicPartition(table.topic, partition, offset)
            for partition, offset in enumerate(offsets)
            if offset > (before[partition] if partition < len(before) else 0)
        ]
        if not wanted:
            return False
        # Kafka removes by name alone, so this comes last. A topic that is made again after it loses records
        # only if it has got that many by then: offsets behind its end are refused.
        self._log.select([table.topic])
        require_topic(table, self._log.look_at_each())
        try:
            asked = self._admin.delete_records(wanted, request_timeout=_TIMEOUT_SECONDS)
            for future in asked.values():
                future.result()
        except KafkaException as error:
            raise kafka_error(error.args[0], f"could not trim the log of {table}", self._settings) from None
        self._done[table.binding.topic_id] = offsets
        return True
