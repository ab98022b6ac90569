"""Numbers of records over restarts, against a made-up slot."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass

import msgspec
import pytest

from frazil.core.stamp import Position
from frazil.stream.postgres.log import (
    READS,
    STREAM,
    Records,
    Schemas,
    TopicLog,
    TopicState,
    held,
    slot_target,
)
from frazil.stream.source import Slice

_SCHEMAS = Schemas(b"{}")


@dataclass(frozen=True)
class Change:
    topic: str
    lsn: int
    text: bytes


@dataclass(frozen=True)
class Transaction:
    commit: int
    changes: tuple[Change, ...]


def _history(rng: random.Random, topics: list[str]) -> list[Transaction]:
    """Transactions that run into each other: their changes may stand behind the commit of an earlier one."""
    found, lsn = [], 1000
    for _ in range(rng.randint(5, 25)):
        changes = []
        begin = lsn - rng.choice([0, 0, 55])
        for step in range(rng.randint(0, 6)):
            # Some changes of one statement share their place.
            at = begin + 10 * (step // rng.choice([1, 2]))
            changes.append(Change(rng.choice(topics), at, b"%d-%d" % (lsn, step)))
        lsn += 100
        found.append(Transaction(lsn, tuple(changes)))
    return found


class Reader:
    """A session as `session.py` has it, over the history."""

    def __init__(
        self, history: list[Transaction], slot: int, stamps: dict[str, Position], topics: list[str]
    ) -> None:
        self.logs = {topic: TopicLog.at(stamps.get(topic), "1") for topic in topics}
        self.boundary = self.slot = slot
        self.told = 0
        #: Whose rows are being read: the stream waits.
        self.reading: TopicLog | None = None
        self._coming = list(self._sent(history, slot))

    @staticmethod
    def _sent(history: list[Transaction], slot: int) -> list[tuple[int, Change | None]]:
        sent: list[tuple[int, Change | None]] = []
        before = slot
        for transaction in history:
            if transaction.commit > slot:
                sent += [(before, change) for change in transaction.changes]
                before = transaction.commit
                sent.append((before, None))
        return sent

    def read(self, rng: random.Random, *, whole: bool) -> None:
        """Some rows, whatever the stream is in the middle of."""
        if self.reading is None:
            self.reading = rng.choice(list(self.logs.values()))
            self.reading.begin(self.told if whole else None)
        rows = [b"row"] * rng.randint(0, 5)
        self.reading.read(Records([None] * len(rows), rows, _SCHEMAS, 0))
        if rng.random() < 0.5:
            self.reading.end()
            self.reading = None

    def receive(self, count: int) -> None:
        """A batch: topic by topic, as the engine's are taken apart."""
        some, self._coming = self._coming[:count], self._coming[count:]
        for topic, log in self.logs.items():
            mine = [(commit, change) for commit, change in some if change and change.topic == topic]
            commits, lsns = [commit for commit, _ in mine], [change.lsn for _, change in mine]
            values = [change.text for _, change in mine]
            log.streamed(Records([None] * len(mine), values, _SCHEMAS, 0, commits, lsns))
        self.told = max([self.told, *(commit for commit, _ in some)])
        self.boundary = max(self.boundary, self.told)

    @property
    def over(self) -> bool:
        return not self._coming and not any(log.chunks for log in self.logs.values())


@pytest.mark.parametrize("seeds", [range(200), pytest.param(range(200, 5000), marks=pytest.mark.exhaustive)])
def test_every_change_lands_once_whatever_is_killed(seeds: range) -> None:
    for seed in seeds:
        _follow(random.Random(seed), seed, whole=seed % 3 == 0)


def _ends(history: list[Transaction], topic: str) -> set[int]:
    """Numbers of a topic's changes at which a transaction is over."""
    counts = [sum(change.topic == topic for change in transaction.changes) for transaction in history]
    return set(itertools.accumulate(counts))


def _follow(rng: random.Random, seed: int, *, whole: bool) -> None:
    topics = ["a", "b", "c"][: rng.randint(1, 3)]
    history = _history(rng, topics)
    stamps: dict[str, Position] = {}
    landed: dict[str, list[bytes]] = {topic: [] for topic in topics}
    reader = Reader(history, 900, stamps, topics)
    while not reader.over:
        if reader.reading is not None or rng.random() < 0.1:
            reader.read(rng, whole=whole)
        else:
            reader.receive(rng.randint(1, 9))
        for topic, log in reader.logs.items():
            over = reader.told if whole else None
            partition, ready = log.ready(over)
            # Each topic lands by itself, or not at all in this round.
            if not ready or rng.random() < 0.4:
                continue
            if partition == READS:
                assert not whole or log.landed[STREAM] in {0} | _ends(history, topic), f"seed {seed}: between"
                count = rng.randint(1, ready)
                stamps[topic] = log.position(
                    Slice(topic, READS, log.landed[READS], log.landed[READS] + count), reader.boundary
                )
                log.settle(stamps[topic])
                continue
            start = log.landed[STREAM]
            end = start + rng.randint(1, ready)
            position = log.position(Slice(topic, partition, start, end), reader.boundary)
            # A round may be cut short, down to its first record.
            cut = rng.randint(start + 1, end)
            if whole:
                bad = rng.randint(start, end - 1)
                assert log.beginning(bad) in {0} | _ends(history, topic), f"seed {seed}: cut in half"
                cut = start + log.whole(cut - start, over)
                assert cut in _ends(history, topic), f"seed {seed}: half a transaction"
            position = msgspec.structs.replace(position, next=(cut, position.next[1]))
            taken = held(log.chunks, Slice(topic, STREAM, start, cut))
            values = [v for chunk in taken for v in chunk.values.to_pylist()]
            landed[topic] += values
            stamps[topic] = position
            if rng.random() < 0.8:
                log.settle(position)
            else:
                # The commit is in, and the process dies before it hears so.
                reader = Reader(history, reader.slot, stamps, topics)
                break
        if rng.random() < 0.7:
            reader.slot = max(reader.slot, slot_target(reader.logs.values(), reader.boundary))
        if rng.random() < 0.2:
            reader = Reader(history, reader.slot, stamps, topics)
    for topic in topics:
        expected = [c.text for transaction in history for c in transaction.changes if c.topic == topic]
        assert landed[topic] == expected, f"seed {seed}"


def test_rows_and_changes_are_never_in_one_round_and_the_last_row_waits() -> None:
    log = TopicLog("1", [0, 0], None, done=False)
    log.reading = True
    log.read(Records([None] * 3, [b"r"] * 3, _SCHEMAS, 0))
    assert log.ready() == (READS, 2)
    assert not TopicState.of(log.position(Slice("t", READS, 0, 2), 0)).done
    log.reading, log.done = False, True
    log.streamed(Records([None], [b"c"], _SCHEMAS, 0, [5], [6]))
    assert log.ready() == (READS, 3)
    # Some rows are left: the snapshot would begin anew if this were the last to land.
    assert not TopicState.of(log.position(Slice("t", READS, 0, 2), 0)).done
    position = log.position(Slice("t", READS, 0, 3), 0)
    assert TopicState.of(position).done
    log.settle(position)
    assert log.ready() == (STREAM, 1)


def _changes(commits: list[int], *, half: bool = False) -> Records:
    values = [b"%d" % commit for commit in commits]
    return Records([None] * len(commits), values, _SCHEMAS, 0, commits, [c + 5 for c in commits], half)


def test_rows_come_before_a_change_that_is_not_all_here() -> None:
    """Under steady traffic there always is one: the rows do not wait for a moment without."""
    for commits, half, over in (([60, 70, 70], False, 70), ([60, 70, 80], True, None)):
        log = TopicLog("1", [0, 0], None, done=True, found=True)
        log.streamed(_changes(commits, half=half))
        complete = log.ready(over)[1]
        log.begin(over)
        assert log.ready(over) == (STREAM, complete)
        log.read(Records([None] * 2, [b"r"] * 2, _SCHEMAS, 0))
        assert log.ready(over) == (STREAM, complete)
        log.settle(log.position(Slice("t", STREAM, 0, complete), 0))
        assert log.ready(over) == (READS, 1), "the last row waits, whatever comes behind it"
        log.read(Records([None], [b"r"], _SCHEMAS, 0))
        assert log.ready(over) == (READS, 2)
        log.end()
        assert log.ready(over) == (READS, 3)
        log.settle(log.position(Slice("t", READS, 0, 3), 0))
        assert log.ready(over) == (STREAM, 0), "the rest of it is not here yet"
        log.streamed(_changes([commits[-1], 90]))
        assert log.ready(over and 90) == (STREAM, 4 - complete if over else 5 - complete)


def test_rows_that_wait_to_land_are_not_held_back_by_later_ones() -> None:
    log = TopicLog("1", [0, 0], None, done=False, found=True)
    log.begin(0)
    log.read(Records([None], [b"r"], _SCHEMAS, 0))
    log.end()
    log.streamed(_changes([60, 70]))
    log.begin(70)
    assert log.ready(70) == (READS, 1)
