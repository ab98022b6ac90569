"""A process with a feed in it (Java cannot be started twice in one), told what to do line by line.

It keeps no stamp: what has landed is handed out, and comes back when the next process is started.
"""

from __future__ import annotations

import base64
import itertools
import json
import pickle
import sys
import time
from contextlib import suppress
from typing import Any

import msgspec

from frazil.core.errors import FrazilError
from frazil.core.stamp import Stamp
from frazil.stream.config.model import Limits
from frazil.stream.postgres import PostgresSource
from frazil.stream.postgres.database import Database
from frazil.stream.postgres.feed import PostgresFeed
from frazil.stream.postgres.requests import ask
from frazil.stream.rounds import RoundPlan

#: An engine that starts beside all else may take long.
_SECONDS = 240.0


class Follower:
    def __init__(self, source: PostgresSource, *, whole: bool) -> None:
        self.source = source
        self.feed = PostgresFeed(source, whole_transactions=whole)
        self.stamp: Stamp | None = None
        self.plan: RoundPlan | None = None

    def begin(self, stamp: str | None = None) -> str:
        if stamp is None:
            identity, positions = self.feed.first()
            self.stamp = Stamp(
                pipeline="p", epoch=1, round=0, token="t", source=identity, positions=positions
            )
        else:
            self.stamp = Stamp.decode(stamp)
        return self.stamp.encode()

    def take(self, count: int, most: int = 100_000, seconds: float = _SECONDS) -> list[Any]:
        """Plan until there are so many records; what a task would read of them."""
        assert self.stamp is not None
        deadline = time.monotonic() + seconds
        while True:
            self.plan = self.feed.plan(self.stamp, Limits(records_per_round=most, records_per_task=1), 2)
            if self.plan.offsets >= count or time.monotonic() > deadline:
                break
            time.sleep(0.05)
        reader = pickle.loads(pickle.dumps(self.feed.reader(self.stamp)))
        found = []
        for task in self.plan.tasks:
            for raw in reader.read(task):
                for offset, key, value in zip(
                    raw.offsets.to_pylist(), raw.keys.to_pylist(), raw.values.to_pylist(), strict=True
                ):
                    key = None if key is None else json.loads(key)
                    found.append([raw.topic, raw.partition, offset, key, json.loads(value)])
        return found

    def land(self) -> str:
        """The commit is in."""
        assert self.stamp is not None
        assert self.plan is not None
        self.stamp = msgspec.structs.replace(self.stamp, positions=self.plan.positions)
        self.feed.landed(self.plan)
        return self.stamp.encode()

    def troubles(self) -> dict[str, str]:
        return {topic: f"{type(e).__name__}: {e.message}" for topic, e in self.feed.troubles.items()}

    def goal(self) -> int:
        """Rounds of a bounded run."""
        goal = self.feed.goal()
        deadline = time.monotonic() + _SECONDS
        for turn in itertools.count():
            self.take(0)
            self.land()
            assert self.stamp is not None
            assert self.plan is not None
            if goal(self.stamp, self.plan):
                return turn
            assert time.monotonic() < deadline, "never reached"
            time.sleep(0.05)
        raise AssertionError("it counts for ever")

    def ask(self, table: str) -> None:
        """For the rows of a table, as somebody else would."""
        database = Database(self.source)
        try:
            (found,) = [each for each in database.tables() if each.full_name == table]
            ask(database, self.source, found)
        finally:
            database.close()

    def close(self) -> None:
        """The server notices a moment later that nobody reads the slot, and until then sends everybody else
        away."""
        self.feed.close()
        database = Database(self.source)
        deadline = time.monotonic() + _SECONDS
        try:
            # A server that cannot be asked has no reader either.
            with suppress(FrazilError):
                while (slot := database.slot()) and slot.active and time.monotonic() < deadline:
                    time.sleep(0.05)
        finally:
            database.close()


def main() -> None:
    follower: Follower | None = None
    for line in sys.stdin:
        name, given = json.loads(line)
        try:
            if name == "open":
                follower = Follower(pickle.loads(base64.b64decode(given["source"])), whole=given["whole"])
                answer: Any = None
            else:
                answer = getattr(follower, name)(**given)
            print(json.dumps({"answer": answer}), flush=True)
        except FrazilError as error:
            print(json.dumps({"error": type(error).__name__, "message": error.message}), flush=True)


if __name__ == "__main__":
    main()
