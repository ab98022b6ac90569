"""What the loop asks of every sink."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from frazil.core.schema import Schema
from frazil.core.stamp import Stamp
from frazil.stream.jobs import JobResult
from frazil.stream.needs import Needs
from frazil.stream.outlets import Writing
from frazil.stream.rounds import RoundPlan

if TYPE_CHECKING:
    from pyspark import Broadcast

    from frazil.stream.outlets import Keys


@dataclass(frozen=True)
class Turn:
    """Leave to write one round."""

    round: int
    token: str
    writing: Writing
    keys: Broadcast[Keys]
    #: The sink's own.
    ticket: Any = None


@dataclass(frozen=True)
class Batch:
    """What a stateful query stamps its commits with."""

    query: str
    number: int
    #: Microseconds since 1970; None: nothing is said.
    watermark: int | None


@dataclass(frozen=True)
class Landed:
    """A round that is in the sink."""

    stamp: Stamp
    #: None where there are no snapshots.
    snapshot_id: int | None
    written: int
    files: int
    bytes: int


class Sink(Protocol):
    """A pipeline's place in a table or dataset: it knows how far the pipeline is, and lets rounds land.

    For one thread.
    """

    @property
    def stamp(self) -> Stamp:
        """The newest one: where the next round goes on."""

    @property
    def schema(self) -> Schema:
        """The columns of values, which the sink may have let grow."""

    @property
    def most_tasks(self) -> int | None:
        """Of one round; None: any number."""

    def keys_end(self) -> datetime | None:
        """When the keys end that a round would get now."""

    def begin(self, plan: RoundPlan) -> Turn:
        """Start a round. Superseded: another writer took over."""

    def commit(
        self, turn: Turn, plan: RoundPlan, result: JobResult, ledger: Mapping[str, pa.Table]
    ) -> Landed:
        """Make the round visible, once; `ledger` are rows of tables of the source's own."""

    def discard(self, turn: Turn) -> None:
        """Remove what a failed round wrote."""

    def adapt(self, needs: Needs) -> None:
        """Provide what a round was lacking."""

    def rest(self) -> None:
        """Between two rounds: look after the tables."""
