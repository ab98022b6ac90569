"""What all loops of pipelines have: a thread of their own, a way to stop, patience."""

from __future__ import annotations

import gc
import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

from frazil.core.errors import BadRecord, FrazilError, Outcome, RoundFailed
from frazil.lake.catalog import Lake
from frazil.lake.delivery import Patience
from frazil.stream.config.model import DeadLetters, Limits, PipelineConfig
from frazil.stream.events import Observer, RoundRetried, Stopped

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")
_logger = logging.getLogger(__name__)

#: What fails so often in a row will not mend itself.
FAILED_ROUNDS = 5
#: A round is run again for columns and tables that came up; more often than this, something is wrong.
ADAPTATIONS = 20
#: Rounds after which what they left in memory is looked for.
_COLLECTED_AFTER = 10
#: A bounded run does not wait for ever for something that is down.
_ONCE_ATTEMPTS = 6


def rested(failures: int, first: float = 1.0, longest: float = 30.0) -> float:
    """Seconds to wait after so many failures in a row. They may go on for days.

    >>> [rested(number) for number in (1, 2, 3, 12, 10_000)]
    [1.0, 2.0, 4.0, 30.0, 30.0]
    """
    return min(first * 2.0 ** min(max(0, failures - 1), 30), longest)


class Loop(ABC):
    """Runs one pipeline in the thread that calls `run`."""

    #: Records a second that the last job read and wrote.
    _rate = 0.0
    _rounds = 0

    def __init__(
        self,
        config: PipelineConfig,
        spark: SparkSession,
        connect: Callable[[], Lake],
        catalog_name: str,
        observer: Observer,
        *,
        once: bool,
    ) -> None:
        self.name = config.name
        self.error: FrazilError | None = None
        self._config = config
        self._spark = spark.newSession()
        self._connect = connect
        self._catalog_name = catalog_name
        self._observer = observer
        self._once = once
        self._stopping = threading.Event()
        self._patience = Patience(waiting=self._waiting)

    def stop(self) -> None:
        """Finish the round in hand, then end."""
        self._stopping.set()

    def abort(self) -> None:
        """End also where a round waits for a catalog that does not answer."""
        self.stop()
        self._patience.stop.set()

    def run(self) -> None:
        """Until stopped, caught up (`once`), or an error that needs somebody; that is kept in `error`."""
        try:
            self._run()
        except FrazilError as error:
            self.error = error
        except Exception as error:
            # A bug must not end as a thread that is silently gone.
            _logger.exception("pipeline %s", self.name)
            self.error = FrazilError(
                f"pipeline '{self.name}' met an unexpected {type(error).__name__}: {error}"
            )
        self._observer.notify(Stopped(self.name, self.error.message if self.error else None))

    @abstractmethod
    def _run(self) -> None:
        """All of its work; ends when told to stop."""

    def _require_rate(self, read: int, bad: int, letters: DeadLetters | None) -> None:
        """Too many bad records at once are not bad records, but a wrong schema or a broken producer."""
        if letters is None or letters.stop_above is None or bad <= letters.stop_above * read:
            return
        raise BadRecord(
            f"pipeline '{self.name}': {bad} of {read} records of a round are bad, more than the "
            f"{letters.stop_above:.2%} of `dead_letters.stop_above`. Nothing of the round was written; "
            "correct the schema or the records, or allow a higher share"
        )

    def _measure(self, records: int, started: float) -> None:
        """A job that began then is done."""
        self._rate = records / max(time.monotonic() - started, 0.001)

    def _let_go(self) -> None:
        """Call it after each round. Java keeps what Python refers to, such as all metadata of a table, and
        py4j makes cycles of what refers to it. Those of a round are old when it ends, and Python by itself
        looks at old objects only when there are a quarter more of them, which may be after hours."""
        self._rounds += 1
        if self._rounds % _COLLECTED_AFTER == 0:
            gc.collect()

    def _limits(self, keys_end: datetime | None, shares: int = 1) -> Limits:
        """As configured, but no more than the tasks can do before their keys end; of so many that share the
        round, each."""
        limits = self._config.limits
        if keys_end is None or not self._rate:
            return limits
        seconds = max(keys_end.timestamp() - time.time(), 1.0) / 2
        possible = max(1, int(self._rate * seconds) // shares)
        return replace(limits, records_per_round=min(limits.records_per_round, possible))

    def _retrying(self, work: Callable[[], T]) -> T | None:
        """The result, after as many attempts as it makes sense to make; None when told to stop meanwhile."""
        attempt = 0
        while True:
            try:
                return work()
            except FrazilError as error:
                attempt += 1
                if error.outcome is not Outcome.RETRY or self._given_up(error, attempt):
                    raise
                wait = rested(attempt)
                self._observer.notify(RoundRetried(self.name, error.message, attempt, wait))
            if self._stopping.wait(wait):
                return None

    def _waiting(self, reason: str) -> None:
        """The catalog does not answer; the writer asks again until it does."""
        self._observer.notify(RoundRetried(self.name, reason, 1, self._patience.longest_wait))

    def _given_up(self, error: FrazilError, attempt: int) -> bool:
        if isinstance(error, RoundFailed):
            return attempt >= FAILED_ROUNDS
        return self._once and attempt >= _ONCE_ATTEMPTS
