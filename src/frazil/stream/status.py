"""How far a pipeline is, by its table and the log alone: no JVM, and nothing of the process that runs it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from frazil.client import Client
from frazil.core.errors import FrazilError, NotFound
from frazil.core.moments import moment
from frazil.core.names import show
from frazil.core.stamp import Stamp, stamp_key
from frazil.lake.authority import MetadataHistory, ancestry, find_stamp
from frazil.maintenance import Health, table_health
from frazil.stream.bootstrap.place import Place, pending
from frazil.stream.bootstrap.rounds import plan_next
from frazil.stream.config.model import KafkaSource, PipelineConfig
from frazil.stream.kafka.log import COMMAND_SECONDS, KafkaLog, LogView
from frazil.stream.postgres.source import PostgresSource
from frazil.stream.postgres.standing import look
from frazil.stream.sinks.dataset_position import dataset_position


@dataclass(frozen=True)
class PartitionStatus:
    """One partition of the log: what is in the table, and what is not yet."""

    topic: str
    partition: int
    #: The next offset to read; None: the pipeline never ran.
    next: int | None
    #: The last stable offset.
    end: int

    @property
    def lag(self) -> int | None:
        return None if self.next is None else self.end - self.next


@dataclass(frozen=True)
class PipelineStatus:
    pipeline: str
    table: str
    exists: bool = False
    stamp: Stamp | None = None
    #: Of the snapshot that carries the stamp; None also when it has expired.
    snapshot_id: int | None = None
    committed_at: datetime | None = None
    #: None: Kafka could not be asked, or is not the source.
    partitions: tuple[PartitionStatus, ...] | None = None
    #: What it began with, if rows of that are still to be taken before the log.
    history: Place | None = None
    #: How the table is kept; None: there is none.
    health: Health | None = None
    #: Why it would not go on, in words; empty if it would.
    problems: tuple[str, ...] = ()

    @property
    def lag(self) -> int | None:
        """Offsets in the log that are not in the table; None: not known."""
        parts = self.partitions
        if parts is None or (self.problems and not parts) or any(part.lag is None for part in parts):
            return None
        return sum(part.lag or 0 for part in parts)

    @property
    def watermark(self) -> datetime | None:
        if self.stamp is None or self.stamp.watermark is None:
            return None
        return moment(self.stamp.watermark)


def pipeline_status(config: PipelineConfig, client: Client) -> PipelineStatus:
    """Ask the catalog and the source. What is wrong with the pipeline is part of the answer, not an error."""
    found = _in_table(config, client) if config.dataset is None else _in_dataset(config, client)
    try:
        if isinstance(config.source, PostgresSource):
            look(config.source, config.name, found.stamp)
        if found.stamp is not None:
            found = replace(found, history=pending(found.stamp.positions))
        if not isinstance(config.source, KafkaSource):
            return found
        log = KafkaLog(config.source, timeout_seconds=COMMAND_SECONDS)
        view = log.look()
        found = replace(found, partitions=_partitions(view, found.stamp))
        if found.stamp is not None:
            # What a runner would refuse, it refuses here.
            plan_next(config.source, found.stamp, log, view, config.limits, 1)
        else:
            log.require(view.missing)
    except FrazilError as error:
        found = replace(found, problems=(*found.problems, error.message))
    return found


def _in_table(config: PipelineConfig, client: Client) -> PipelineStatus:
    found = PipelineStatus(config.name, show(config.table.namespace, config.table.name))
    try:
        metadata = client.tables.load(*config.home).metadata
    except NotFound:
        return found
    found = replace(found, exists=True, health=table_health(metadata, config.table.files.size))
    try:
        stamp = find_stamp(MetadataHistory(metadata), config.name)
    except FrazilError as error:
        return replace(found, problems=(error.message,))
    return found if stamp is None else _stamped(found, stamp, metadata)


def _in_dataset(config: PipelineConfig, client: Client) -> PipelineStatus:
    found = PipelineStatus(config.name, show(*config.home))
    try:
        position = dataset_position(config, client)
    except NotFound:
        return found
    except FrazilError as error:
        return replace(found, exists=True, problems=(error.message,))
    found = replace(found, exists=True)
    if position.stamp is None:
        return found
    return replace(found, stamp=position.stamp, committed_at=position.committed_at)


def _stamped(found: PipelineStatus, stamp: Stamp, metadata: Mapping[str, Any]) -> PipelineStatus:
    key = stamp_key(found.pipeline)
    snapshot = next((view.id for view in ancestry(MetadataHistory(metadata)) if key in view.summary), None)
    times = {row["snapshot-id"]: row["timestamp-ms"] for row in metadata.get("snapshots") or ()}
    at = None if snapshot is None else datetime.fromtimestamp(times[snapshot] / 1000, UTC)
    return replace(found, stamp=stamp, snapshot_id=snapshot, committed_at=at)


def _partitions(view: LogView, stamp: Stamp | None) -> tuple[PartitionStatus, ...]:
    found = []
    for name, ends in view.ends.items():
        known = stamp.positions.get(name) if stamp is not None else None
        for partition, end in enumerate(ends):
            read: int | None = None
            if stamp is not None:
                read = known.next[partition] if known is not None and partition < len(known.next) else 0
            found.append(PartitionStatus(name, partition, read, end))
    return tuple(found)
