"""A PostgreSQL database as a source: the driver's side.

Its log is followed by the Debezium engine inside this process. Where each topic goes on is in the stamp; the
replication slot moves only behind what has landed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa

from frazil.core.errors import FrazilError
from frazil.core.schema import Schema
from frazil.core.stamp import Position, Stamp
from frazil.stream.config.model import Limits
from frazil.stream.postgres.database import Database
from frazil.stream.postgres.engine import MESSAGE_PREFIX
from frazil.stream.postgres.reader import PostgresReader, blocks
from frazil.stream.postgres.session import Session
from frazil.stream.postgres.source import PostgresSource
from frazil.stream.postgres.standing import require_server
from frazil.stream.rounds import RoundPlan, cut
from frazil.stream.source import Goal


class PostgresFeed:
    """A `Feed` over tables of a database. `close` it: threads and a connection are behind it."""

    def __init__(self, source: PostgresSource, *, whole_transactions: bool = False) -> None:
        self._source = source
        self._whole = whole_transactions
        self._database = Database(source)
        self._session: Session | None = None
        self._stopped: set[str] = set()
        self._reader = PostgresReader(())

    def first(self) -> tuple[str, dict[str, Position]]:
        """Topics are known when their first records are there."""
        self._database.check()
        return self._database.identity(), {}

    def topics(self) -> list[str]:
        """Of the tables that can be followed now."""
        tables = [table for table in self._database.tables() if table.identified and table.readable]
        return sorted(self._source.topic(table.schema, table.name) for table in tables)

    def schema(self) -> Schema | None:
        return None

    def goal(self) -> Goal:
        """What was committed before now."""
        wanted = self._database.log_end()
        self._database.emit(MESSAGE_PREFIX)

        def reached(stamp: Stamp, plan: RoundPlan) -> bool:
            return self._session is not None and self._session.caught_up_to >= wanted

        return reached

    def plan(self, stamp: Stamp, limits: Limits, parallelism: int) -> RoundPlan:
        try:
            session = self._open(stamp)
            session.settle(stamp.positions)
            session.tend()
        except FrazilError:
            # The next plan begins anew, from the stamp.
            self.close()
            raise
        parts, positions, lags = session.take(limits.records_per_round)
        self._reader = PostgresReader(
            tuple(block for part in parts for block in blocks(part.topic, session.chunks(part)))
        )
        total = sum(map(len, parts))
        tasks = min(parallelism, -(-total // limits.records_per_task))
        return RoundPlan(cut(parts, max(1, tasks)), dict(stamp.positions) | positions, total, lags)

    @property
    def troubles(self) -> Mapping[str, FrazilError]:
        """By topic: why a table cannot go on, while the others do."""
        return {} if self._session is None else self._session.troubles

    def beginning(self, topic: str, partition: int, number: int) -> int:
        """Of the transaction of a record that was planned, where only whole ones land."""
        assert self._session is not None, "a round was planned"
        return self._session.beginning(topic, partition, number)

    def stop(self, topics: Iterable[str]) -> None:
        """Others go on without them; the slot waits for them."""
        self._stopped |= set(topics)
        if self._session is not None:
            self._session.stop(self._stopped)

    def confirm(self, stamp: Stamp, plan: RoundPlan) -> None:
        """What was read is what the plan said: it was in memory."""

    def reader(self, stamp: Stamp) -> PostgresReader:
        return self._reader

    def landed(self, plan: RoundPlan) -> None:
        """Only now may the slot move."""
        if self._session is not None:
            self._session.settle(plan.positions)

    def ledger(self, plan: RoundPlan) -> Mapping[str, pa.Table]:
        return {}

    def close(self) -> None:
        """Nothing is lost by it: what has not landed is sent again."""
        session, self._session = self._session, None
        if session is not None:
            session.close()
        self._database.close()

    def _open(self, stamp: Stamp) -> Session:
        if self._session is None:
            found = self._database.identity()
            require_server(self._source, stamp.pipeline, found, stamp.source)
            self._session = Session(
                self._source,
                self._database,
                stamp,
                whole_transactions=self._whole,
                stopped=self._stopped,
            )
            self._session.open()
        return self._session
