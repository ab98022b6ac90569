"""How far hot tables are tiered, by Iceberg and Kafka alone: no JVM, nothing of the service that runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from frazil.client import Client
from frazil.core.errors import FrazilError, InvalidInput, NotFound
from frazil.core.moments import moment
from frazil.core.stamp import Stamp, stamp_key
from frazil.hot.find import HotTables, load_hot_table
from frazil.hot.log import log_reader
from frazil.hot.read.pins import Pins, lag, pinned
from frazil.hot.read.tail import TailRead
from frazil.hot.table import TIERING, HotTable, table_name
from frazil.hot.tiering.history import DEFAULT_TABLE
from frazil.hot.tiering.told import Told, told
from frazil.hot.tiering.watch import tiered
from frazil.lake.authority import MetadataHistory, ancestry
from frazil.stream.kafka.log import COMMAND_SECONDS

#: Tables that are asked about at the same time.
_AT_ONCE = 8


@dataclass(frozen=True)
class HotStatus:
    """One hot table at this moment."""

    table: str
    topic: str
    enabled: bool = True
    keyed: bool = True
    #: Seconds that were promised.
    freshness: float = 0.0
    #: Seconds: the age of the oldest record that is not in Iceberg; None: not known.
    lag: float | None = None
    #: Offsets that are not in Iceberg.
    backlog: int | None = None
    #: The newest stamp, and when its snapshot was made; None: never tiered, or expired.
    stamp: Stamp | None = None
    tiered_at: datetime | None = None
    #: Promises that were broken in the last 24 hours, and why the last one; None: the service wrote nothing.
    breaches: int | None = None
    cause: str | None = None
    #: Why tiering or a read would not go on; empty if they would.
    problems: tuple[str, ...] = ()

    @property
    def watermark(self) -> datetime | None:
        """The event time that Iceberg has reached; None: not known."""
        if self.stamp is None or self.stamp.watermark is None:
            return None
        return moment(self.stamp.watermark)

    @property
    def breach(self) -> bool:
        """Whether the promise is broken at this moment."""
        return self.enabled and self.lag is not None and self.lag > self.freshness


def hot_status(
    client: Client,
    kafka: Mapping[str, str],
    log_table: str | None = DEFAULT_TABLE,
    names: Sequence[str] = (),
) -> list[HotStatus]:
    """Every hot table of the cluster, in order; what is wrong with one is part of the answer.

    `log_table`: where the service writes breaches to; None: nowhere, so that they are not known. `names`: of
    tables that are asked for, which are told of also if their topic is gone.
    """
    found = HotTables(client, kafka, timeout_seconds=COMMAND_SECONDS).look()
    listed = {str(table) for table in found.tables} | found.problems.keys()
    asked = [_asked(client, name) for name in dict.fromkeys(names) if name not in listed]
    tables = (*found.tables, *(table for table in asked if table is not None))
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        known = list(pool.map(lambda table: table_status(client, table, kafka), tables))
    wrong = [HotStatus(name, name, problems=(problem.message,)) for name, problem in found.problems.items()]
    lately = None if log_table is None else told(client, datetime.now(UTC), log_table)
    return sorted([_with(one, lately) for one in (*known, *wrong)], key=lambda one: one.table)


def _asked(client: Client, name: str) -> HotTable | None:
    """A table that no topic leads to; None: there is none of that name, or it is no hot one."""
    try:
        found = load_hot_table(client, *table_name(name))
    except (NotFound, InvalidInput):
        return None
    # The catalog does not tell case apart, Kafka does.
    return found if found.topic == name else None


def table_status(client: Client, table: HotTable, kafka: Mapping[str, str]) -> HotStatus:
    """One of them."""
    known = HotStatus(str(table), table.topic, table.enabled, bool(table.key), table.freshness)
    try:
        # Reads can do without the property, tiering cannot.
        if table.enabled:
            tiered(table)
    except FrazilError as error:
        known = replace(known, problems=(error.message,))
    try:
        found = pinned(client, str(table), kafka=kafka)
        stamp, at = _newest(found.metadata)
        behind = lag(table, found.pins, kafka)
    except FrazilError as error:
        return replace(known, problems=(*known.problems, error.message))
    known = replace(known, lag=behind, backlog=found.pins.tail, stamp=stamp, tiered_at=at)
    try:
        if table.enabled and table.letters is None:
            _require_rows(table, found.pins, kafka)
    except FrazilError as error:
        known = replace(known, problems=(*known.problems, error.message))
    return known


def _require_rows(table: HotTable, pins: Pins, kafka: Mapping[str, str]) -> None:
    """BadRecord: the next record of a partition is no row. Tiering takes all before it, and stops there."""
    reader = log_reader(table.settings(kafka))
    tail = TailRead(str(table), reader, table.schema, table.key, several=len(pins.starts) > 1)
    for part in pins.slices():
        for _ in tail.decoded(replace(part, end=part.start + 1)):
            pass


def _with(found: HotStatus, lately: Mapping[str, Told] | None) -> HotStatus:
    if lately is None:
        return found
    mine = lately.get(found.table, Told())
    return replace(found, breaches=mine.breaches, cause=mine.cause)


def _newest(metadata: Mapping[str, object]) -> tuple[Stamp | None, datetime | None]:
    key, rows = stamp_key(TIERING), metadata.get("snapshots") or ()
    assert isinstance(rows, list | tuple), "a metadata document"
    times = {row["snapshot-id"]: row["timestamp-ms"] for row in rows}
    for view in ancestry(MetadataHistory(metadata)):
        if key in view.summary:
            at = datetime.fromtimestamp(times[view.id] / 1000, UTC)
            return Stamp.decode(view.summary[key]), at
    return None, None
