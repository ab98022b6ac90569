"""What waits in the log of each hot table, for how long, and which promises were broken and why."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from frazil.core.errors import InvalidInput
from frazil.core.names import show
from frazil.core.stamp import Mirror, stamp_key
from frazil.hot.table import TIERING, HotTable, table_name
from frazil.hot.tiering.arrivals import Arrivals
from frazil.hot.tiering.schedule import Candidate
from frazil.stream.events import TableFreshness


@dataclass
class _Watched:
    table: HotTable
    arrivals: Arrivals
    joined: float
    #: When it last took part in a round, and what of it was left then.
    served: float = 0.0
    left: int = 0
    #: Whether one is going on.
    broken: bool = False
    trouble: str | None = None
    #: The event time that Iceberg has reached.
    watermark: int | None = None

    def lag(self, now: float) -> float:
        oldest = self.arrivals.oldest()
        return 0.0 if oldest is None else max(0.0, now - oldest)


@dataclass(frozen=True)
class Breach:
    """A promise that was just broken."""

    table: str
    lag: float
    freshness: float
    cause: str


@dataclass
class Watch:
    """Threads may call it: one looks at the log, one tiers."""

    clock: Callable[[], float] = time.time
    _tables: dict[str, _Watched] = field(default_factory=dict)
    #: What does not answer: `catalog`, `kafka`.
    _down: dict[str, str] = field(default_factory=dict)
    #: By topic: why it cannot be told what its table is, and why not what its log has.
    _unclear: dict[str, str] = field(default_factory=dict)
    _unseen: dict[str, str] = field(default_factory=dict)
    #: By table, and the cause of the last. The numbers never fall, whatever becomes of the table.
    _breaches: Counter[str] = field(default_factory=Counter)
    _causes: dict[str, str] = field(default_factory=dict)
    #: Broken promises that `judge` did not tell yet.
    _untold: list[Breach] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def follow(self, table: HotTable, *, anew: bool = False) -> None:
        """A table, or what is new about one. `anew`: it was made again, or is taken over again."""
        with self._lock:
            known = self._tables.get(table.topic)
            if known is None or anew:
                arrivals = Arrivals(tiered(table))
                # Another table does not have that of the one before it.
                same = known is not None and known.table.uuid == table.uuid
                trouble = known.trouble if known is not None and same else None
                self._tables[table.topic] = _Watched(table, arrivals, self.clock(), trouble=trouble)
            else:
                known.table = table

    def forget(self, topic: str) -> None:
        with self._lock:
            self._tables.pop(topic, None)

    def unclear(self, problems: Mapping[str, str]) -> None:
        """All topics of which it cannot be told what their table is, and why. What was known of it holds."""
        with self._lock:
            self._unclear = dict(problems)

    def unseen(self, problems: Mapping[str, str]) -> None:
        """All topics of whose logs nothing can be told now, and why. Other trouble stays as it is."""
        with self._lock:
            self._unseen = dict(problems)

    def topics(self) -> list[str]:
        with self._lock:
            return list(self._tables)

    def saw(self, ends: Mapping[str, Sequence[int]], at: float) -> None:
        """Ends of logs at a moment, by topic."""
        with self._lock:
            for topic, found in ends.items():
                if topic in self._tables:
                    self._tables[topic].arrivals.saw(found, at)

    def reached(self, topic: str, following: Sequence[int], watermark: int | None = None) -> None:
        """So far it is in Iceberg, just now. What comes too late by less than a look is late all the same."""
        now = self.clock()
        with self._lock:
            if (one := self._tables.get(topic)) is not None:
                self._judge(one, now)
                one.arrivals.reached(following)
                one.watermark = watermark
                # Kept again: the next one that is late is another.
                self._judge(one, now)

    def claimed(self, topic: str, following: Sequence[int], watermark: int | None = None) -> None:
        """Where it goes on, as its writer knows; that may be before what was thought to be in Iceberg."""
        with self._lock:
            if (one := self._tables.get(topic)) is not None:
                if one.arrivals.before(following):
                    one.arrivals = Arrivals(following)
                one.arrivals.reached(following)
                one.watermark = watermark
                if one.arrivals.oldest() is None and not one.arrivals.short:
                    # What it could not get on with had landed all the same.
                    one.trouble = None

    def has(self, topic: str, ends: Sequence[int]) -> bool:
        """Whether all before these is in Iceberg."""
        with self._lock:
            one = self._tables.get(topic)
            return one is not None and one.arrivals.has(ends)

    def served(self, topic: str, left: int) -> None:
        """It took part in a round that is over, and that was not to take so many offsets of it."""
        with self._lock:
            if (one := self._tables.get(topic)) is not None:
                one.served, one.left = self.clock(), left

    def vague(self) -> list[tuple[HotTable, Mapping[int, tuple[int, int]]]]:
        """Tables whose oldest records had better be asked, and where these are."""
        with self._lock:
            found = [(one.table, one.arrivals.vague()) for one in self._tables.values()]
        return [(table, places) for table, places in found if places]

    def told(self, topic: str, oldest: float) -> None:
        with self._lock:
            if (one := self._tables.get(topic)) is not None:
                one.arrivals.told(oldest)

    def failing(self, topic: str, trouble: str | None) -> None:
        """Why a table does not get on; None: it does."""
        with self._lock:
            if (one := self._tables.get(topic)) is not None:
                one.trouble = trouble

    def down(self, what: str, trouble: str | None) -> None:
        """The catalog or Kafka does not answer; None: it does."""
        with self._lock:
            if trouble is None:
                self._down.pop(what, None)
            else:
                self._down[what] = trouble

    def waiting(self, topics: Iterable[str], claimed: Iterable[str]) -> list[Candidate]:
        """Of these tables, those that have something to tier, or of whose logs something seems to be lost."""
        found, known = [], set(claimed)
        with self._lock:
            for topic in topics:
                one = self._tables.get(topic)
                if one is None:
                    continue
                # Nothing seems to wait in a log that is too short: who plans its round finds what is wrong.
                oldest = 0.0 if one.arrivals.short else one.arrivals.oldest()
                if oldest is not None:
                    found.append(
                        Candidate(
                            topic,
                            one.arrivals.backlog,
                            oldest,
                            one.table.freshness,
                            one.served,
                            topic not in known,
                        )
                    )
        return found

    def strictest(self, otherwise: float) -> float:
        """The freshness of the table that wants to be freshest."""
        with self._lock:
            return min((one.table.freshness for one in self._tables.values()), default=otherwise)

    def judge(self) -> list[Breach]:
        """Promises that were broken since the last call."""
        now = self.clock()
        with self._lock:
            for one in self._tables.values():
                self._judge(one, now)
            found, self._untold = self._untold, []
        return found

    def _judge(self, one: _Watched, now: float) -> None:
        lag = one.lag(now)
        if lag <= one.table.freshness:
            one.broken = False
        elif not one.broken and not one.arrivals.vague():
            one.broken, name, cause = True, str(one.table), self._cause(one)
            self._breaches[name] += 1
            self._causes[name] = cause
            self._untold.append(Breach(name, lag, one.table.freshness, cause))

    def report(self) -> tuple[TableFreshness, ...]:
        """All tables, in order."""
        now = self.clock()
        with self._lock:
            found = [
                replace(
                    self._freshness(str(one.table), self._trouble(one)),
                    lag=round(one.lag(now), 3),
                    freshness=one.table.freshness,
                    backlog=one.arrivals.backlog,
                    watermark=one.watermark,
                )
                for one in self._tables.values()
            ]
            found += [
                self._freshness(show(*table_name(topic)), trouble)
                for topic, trouble in self._unclear.items()
                if topic not in self._tables
            ]
        return tuple(sorted(found, key=lambda one: one.table))

    def _freshness(self, table: str, trouble: str | None) -> TableFreshness:
        """Of a table of which nothing else is known."""
        breaches, cause = self._breaches[table], self._causes.get(table)
        return TableFreshness(table, 0.0, 0.0, 0, breaches, cause, trouble)

    def _trouble(self, one: _Watched) -> str | None:
        topic = one.table.topic
        return self._unclear.get(topic) or one.trouble or self._unseen.get(topic)

    def _cause(self, one: _Watched) -> str:
        if self._trouble(one) is not None:
            return "failing"
        for what in ("catalog", "kafka"):
            if what in self._down:
                return what
        oldest = one.arrivals.oldest()
        if oldest is not None and oldest < one.joined:
            return "starting"
        # A round took what it could, and that was not all.
        return "backlog" if one.left else "round"


def tiered(table: HotTable) -> tuple[int, ...]:
    """Up to where it is in Iceberg, as its property says: near enough until it is claimed.

    InvalidInput: nobody can read what it says.
    """
    key = stamp_key(TIERING)
    text = table.properties.get(key)
    if text is None:
        return ()
    try:
        position = Mirror.decode(text).stamp.positions.get(table.topic)
    except InvalidInput as error:
        raise InvalidInput(
            f"the hot table {table}: {error.message}. Somebody changed the property {key}. Remove it (ALTER "
            "TABLE … UNSET TBLPROPERTIES): the snapshots have the stamp, and the next commit writes it again"
        ) from None
    return position.next if position is not None and position.id == table.binding.topic_id else ()
