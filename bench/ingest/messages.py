"""The messages: every column of a row follows from its id, so that each row can be checked."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bench.numbers import Ids, mix, part

PARTITIONS = 2
STATUSES = ("new", "paid", "shipped", "delivered", "returned", "cancelled")
COUNTRIES = ("DE", "FR", "US", "BR", "IN", "JP", "KE", "AU")
SCHEMA = {
    "id": "long",
    "customer": "string",
    "ts": "timestamptz",
    "amount": "double",
    "status": "string",
    "country": "string",
    "quantity": "int",
}
_FIRST_TS = 1_767_225_600_000  # 2026-01-01, milliseconds
_CHUNK = 100_000

#: The messages of some ids.
Render = Callable[[Ids], Iterator[bytes]]


@dataclass(frozen=True)
class Values:
    """The columns of some ids, as numbers."""

    customer: Ids
    ts_ms: Ids
    cents: Ids
    status: Ids
    country: Ids
    quantity: Ids

    @classmethod
    def of(cls, ids: Ids) -> Values:
        mixed = mix(ids)
        return cls(
            customer=part(mixed, 0, 1_000_000),
            ts_ms=_FIRST_TS + ids * 3 + part(mixed, 8, 1000),
            cents=part(mixed, 16, 100_000),
            status=part(mixed, 32, len(STATUSES)),
            country=part(mixed, 40, len(COUNTRIES)),
            quantity=1 + part(mixed, 48, 9),
        )


def render(ids: Ids) -> Iterator[bytes]:
    """JSON, about 130 bytes each."""
    v = Values.of(ids)
    columns = (ids, v.customer, v.ts_ms, v.cents, v.status, v.country, v.quantity)
    for i, customer, ts, cents, status, country, quantity in zip(*(c.tolist() for c in columns), strict=True):
        yield (
            b'{"id":%d,"customer":"customer-%07d","ts":%d,"amount":%d.%02d,"status":"%s","country":"%s",'
            b'"quantity":%d}'
            % (
                i,
                customer,
                ts,
                cents // 100,
                cents % 100,
                STATUSES[status].encode(),
                COUNTRIES[country].encode(),
                quantity,
            )
        )


def wrong(batch: pa.RecordBatch) -> npt.NDArray[np.bool_]:
    """Which rows of a batch of the table hold something else than their id says."""
    v = Values.of(batch["id"].to_numpy())
    customers = pc.cast(pc.utf8_slice_codeunits(batch["customer"], len("customer-")), pa.int64())
    right = (
        (customers.to_numpy(zero_copy_only=False) == v.customer)
        & (batch["ts"].cast(pa.int64()).to_numpy() == v.ts_ms * 1000)
        & (batch["amount"].to_numpy() == v.cents / 100)
        & (_position(batch["status"], STATUSES) == v.status)
        & (_position(batch["country"], COUNTRIES) == v.country)
        & (batch["quantity"].to_numpy() == v.quantity)
    )
    found: npt.NDArray[np.bool_] = ~right
    return found


def produce(bootstrap_servers: str, topic: str, rows: int, rendered: Render = render) -> None:
    """Fill a topic with ids 0 to `rows`, even ids in partition 0 and odd ones in partition 1."""
    spawned = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(PARTITIONS, mp_context=spawned) as pool:
        waiting = [pool.submit(_fill, bootstrap_servers, topic, p, rows, rendered) for p in range(PARTITIONS)]
        for one in waiting:
            one.result()


def _fill(bootstrap_servers: str, topic: str, partition: int, rows: int, rendered: Render) -> None:
    from confluent_kafka import Producer

    producer = Producer(
        {
            "bootstrap.servers": bootstrap_servers,
            "enable.idempotence": True,
            "compression.type": "lz4",
            "linger.ms": 20,
            # A fresh broker keeps idempotent producers waiting for a moment, and they complain.
            "log_level": 3,
            "queue.buffering.max.messages": 500_000,
        }
    )
    ids = np.arange(partition, rows, PARTITIONS, dtype=np.int64)
    for start in range(0, len(ids), _CHUNK):
        for value in rendered(ids[start : start + _CHUNK]):
            while True:
                try:
                    producer.produce(topic, value, partition=partition)
                    break
                except BufferError:
                    producer.poll(0.05)
        producer.poll(0)
    if left := producer.flush(60):
        raise RuntimeError(f"{left} messages were not delivered to {topic}")


def _position(column: pa.Array, words: tuple[str, ...]) -> Ids:
    found: Ids = pc.index_in(column, pa.array(words)).fill_null(-1).to_numpy(zero_copy_only=False)
    return found
