"""Slices of Kafka partitions, read in tasks."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest

from frazil.core.errors import FrazilError, NotAllowed, SourceChanged, Unauthenticated, Unavailable
from frazil.stream.kafka.consumer import Code, Extras, Fault, Fetcher, PythonFetcher, consumer_settings, doubt
from frazil.stream.kafka.native import NativeFetcher, native_usable
from frazil.stream.source import RawBatch, Slice

MB = 1024 * 1024
_POLL_SECONDS = 1.0
#: Silence so long, and again after it, is a reason to ask whether the partitions are there.
_DOUBT_SECONDS = 5.0
_TRIMMED = {Code.AUTO_OFFSET_RESET, Code.OFFSET_OUT_OF_RANGE}
_GONE = {Code.UNKNOWN_TOPIC, Code.UNKNOWN_PARTITION, Code.UNKNOWN_TOPIC_OR_PARTITION}
_DENIED = {Code.TOPIC_AUTHORIZATION_FAILED, Code.CLUSTER_AUTHORIZATION_FAILED}
_UNKNOWN_CALLER = {Code.AUTHENTICATION, Code.SASL_AUTHENTICATION_FAILED}
_BROKEN = {Code.BAD_MESSAGE, Code.BAD_COMPRESSION, Code.FATAL, Code.CORRUPT_MESSAGE}


class SliceReader:
    """One consumer of librdkafka, which reads what it is told to and keeps no position of its own.

    One read at a time, by one thread: a new read ends the one before it.
    """

    def __init__(
        self,
        settings: Mapping[str, str],
        *,
        keys: bool = False,
        headers: bool = False,
        batch_records: int = 65_536,
        batch_bytes: int = 16 * MB,
        idle_seconds: float = 60.0,
    ) -> None:
        """`settings` are those of librdkafka; `idle_seconds`: how long brokers may stay silent."""
        self._settings = consumer_settings(settings)
        self._extras = Extras(keys, headers)
        self._records = batch_records
        self._bytes = batch_bytes
        self._idle = idle_seconds
        self._fetcher: Fetcher | None = None
        self._turn = 0
        self._advice = ""
        self._reading = False

    def read(self, slices: Sequence[Slice], advice: str = "") -> Iterator[RawBatch]:
        """Every record of the slices; in offset order within a slice, and each batch of one slice.

        `advice`: what to do where records are gone, which depends on who reads.
        """
        self._turn += 1
        turn, self._advice = self._turn, advice
        if self._reading:
            self._close()  # an earlier read was left in the middle, and something still holds on to it
        self._reading = True
        try:
            for several in _one_of_each_partition(slices):
                for batch in self._read(several):
                    yield batch
                    if turn != self._turn:
                        raise RuntimeError("another read of the same SliceReader was begun")
            self._reading = False
        finally:
            if self._reading and turn == self._turn:
                # Failed, or left in the middle: nothing of this read may show up in the next one.
                self._reading = False
                self._close()

    def close(self) -> None:
        """Let go of connections; a later read opens them again."""
        self._turn += 1
        self._reading = False
        self._close()

    def _close(self) -> None:
        if self._fetcher is not None:
            self._fetcher.close()
            self._fetcher = None

    def _open(self) -> Fetcher:
        if self._fetcher is None:
            fetcher = NativeFetcher if native_usable() else PythonFetcher
            self._fetcher = fetcher(
                self._settings, self._extras, batch_records=self._records, batch_bytes=self._bytes
            )
        return self._fetcher

    def _read(self, slices: Sequence[Slice]) -> Iterator[RawBatch]:
        fetcher = self._open()
        waiting = {(s.topic, s.partition): s for s in slices}
        fetcher.assign(slices)
        silent, doubtful = 0.0, _DOUBT_SECONDS
        trouble = "no broker answered"
        while waiting:
            asked = time.monotonic()
            events = fetcher.poll(_POLL_SECONDS)
            silent += time.monotonic() - asked
            for event in events:
                if isinstance(event, Fault):
                    told = self._judge(event, waiting)
                    # That all brokers are down comes after what is wrong with each, and tells less.
                    trouble = trouble if event.code == Code.ALL_BROKERS_DOWN else told
                    continue
                silent, doubtful = 0.0, _DOUBT_SECONDS
                if isinstance(event, RawBatch):
                    yield event
                else:
                    del waiting[event]
            if silent >= doubtful and waiting:
                self._look(waiting)
                doubtful += _DOUBT_SECONDS
            if silent >= self._idle and waiting:
                raise _silence(list(waiting.values()), silent, trouble)
        fetcher.unassign()

    def _judge(self, fault: Fault, waiting: Mapping[tuple[str, int], Slice]) -> str:
        """Raise what no patience helps against; else say what the trouble is."""
        part = None if fault.topic is None else waiting.get((fault.topic, fault.partition))
        if part is None and fault.topic is not None:
            return fault.text  # beyond the end of a slice
        if fault.code in _TRIMMED and part is not None:
            raise _trimmed(part, fault.text, self._advice)
        if fault.code in _GONE:
            self._look(waiting)
        error = _hopeless(fault)
        if error is not None:
            raise error
        return fault.text

    def _look(self, waiting: Mapping[tuple[str, int], Slice]) -> None:
        """Ask whether what is waited for is there at all."""
        fault = doubt(self._settings, waiting.values())
        if fault is not None and fault.code in _GONE:
            time.sleep(_POLL_SECONDS)  # a broker that has just started may not know all topics
            fault = doubt(self._settings, waiting.values())
        if fault is not None and fault.code in _GONE:
            raise SourceChanged(
                f"Kafka does not know the partition {fault.topic}[{fault.partition}] which is to be read: "
                f"{fault.text}. The topic was deleted, or made again with fewer partitions."
            )
        error = None if fault is None else _hopeless(fault)
        if error is not None:
            raise error


def _trimmed(part: Slice, reason: str, advice: str) -> SourceChanged:
    return SourceChanged(
        f"Kafka no longer has what is to be read of topic {part.topic}, partition {part.partition}, offsets "
        f"{part.start} to {part.end}: {reason}. Records were trimmed before they were read, or the topic was "
        f"deleted and made again. {advice}".rstrip()
    )


def _hopeless(fault: Fault) -> FrazilError | None:
    """None for what librdkafka gets over by itself: it reconnects, and asks again for metadata."""
    if fault.code in _DENIED:
        return NotAllowed(
            f"Kafka does not allow reading {fault.topic or 'the source'}: {fault.text}. "
            "The user of the source needs Describe and Read on its topics."
        )
    if fault.code in _UNKNOWN_CALLER:
        return Unauthenticated(
            f"Kafka refused the credentials of the source: {fault.text}. "
            "See security.protocol and the sasl.* and ssl.* settings."
        )
    if fault.code in _BROKEN:
        return SourceChanged(
            f"Kafka's records of {fault.topic}[{fault.partition}] cannot be read: {fault.text}."
        )
    return None


def _silence(slices: Sequence[Slice], seconds: float, trouble: str) -> Unavailable:
    names = ", ".join(f"{s.topic}[{s.partition}]" for s in slices[:3]) + (", …" if len(slices) > 3 else "")
    return Unavailable(
        f"Kafka sent nothing for {seconds:.0f} s while {names} was to be read: {trouble}. "
        "Nothing was written; the round can be tried again."
    )


def _one_of_each_partition(slices: Sequence[Slice]) -> Iterator[list[Slice]]:
    """A reader is at one place of a partition at a time: the second slice of one comes after the first."""
    queues: dict[tuple[str, int], list[Slice]] = {}
    for part in slices:
        if part.start < part.end:
            queues.setdefault((part.topic, part.partition), []).append(part)
    for several in zip_longest(*queues.values()):
        yield [part for part in several if part is not None]


_readers: dict[tuple[object, ...], SliceReader] = {}
_readers_lock = threading.Lock()


def shared_reader(
    settings: Mapping[str, str],
    *,
    keys: bool = False,
    headers: bool = False,
    batch_records: int = 65_536,
    batch_bytes: int = 16 * MB,
) -> SliceReader:
    """The reader of this thread with these settings: it keeps its connections from task to task."""
    options = (keys, headers, batch_records, batch_bytes)
    key = (os.getpid(), threading.get_ident(), frozenset(settings.items()), *options)
    with _readers_lock:
        if key not in _readers:
            _readers[key] = SliceReader(
                settings, keys=keys, headers=headers, batch_records=batch_records, batch_bytes=batch_bytes
            )
        return _readers[key]
