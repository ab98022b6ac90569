"""The rows: every column follows from a row's id and from how often it was changed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bench.numbers import Ids, mix, part

STATUSES = ("new", "paid", "shipped", "delivered", "returned", "cancelled")
COUNTRIES = ("DE", "FR", "US", "BR", "IN", "JP", "KE", "AU")
SCHEMA = {
    "id": "long",
    "version": "int",
    "customer": "string",
    "ts": "timestamptz",
    "amount": "double",
    "status": "string",
    "country": "string",
    "quantity": "int",
    "note": "string",
}
_FIRST_TS = 1_767_225_600_000  # 2026-01-01, milliseconds
_CUSTOMER, _NOTE = "customer-", "note "
_DIGITS = 7


@dataclass(frozen=True)
class Values:
    """The columns of some rows, as numbers."""

    ids: Ids
    versions: Ids
    customer: Ids
    ts_ms: Ids
    cents: Ids
    status: Ids
    country: Ids
    quantity: Ids
    note: Ids

    @classmethod
    def of(cls, ids: Ids, versions: Ids) -> Values:
        mixed = mix(ids + (versions << 40))
        return cls(
            ids,
            versions,
            customer=part(mix(ids), 0, 1_000_000),
            ts_ms=_FIRST_TS + ids * 3 + part(mixed, 8, 1000),
            cents=part(mixed, 16, 100_000),
            status=part(mixed, 32, len(STATUSES)),
            country=part(mix(ids), 40, len(COUNTRIES)),
            quantity=1 + part(mixed, 48, 9),
            note=part(mixed, 4, 1 << 40),
        )


def table_of(ids: Ids, versions: Ids) -> pa.Table:
    """The rows as a table holds them."""
    v = Values.of(ids, versions)
    columns = [
        pa.array(ids),
        pa.array(versions.astype(np.int32)),
        _text(_CUSTOMER, pc.utf8_lpad(pa.array(v.customer).cast(pa.string()), _DIGITS, "0")),
        pa.array(v.ts_ms * 1000).cast(pa.timestamp("us", "UTC")),
        pa.array(v.cents / 100),
        pa.array(STATUSES).take(pa.array(v.status)),
        pa.array(COUNTRIES).take(pa.array(v.country)),
        pa.array(v.quantity.astype(np.int32)),
        _text(_NOTE, pa.array(v.note).cast(pa.string())),
    ]
    return pa.Table.from_arrays(columns, names=list(SCHEMA))


def json_rows(ids: Ids, versions: Ids) -> list[bytes]:
    """The rows as Debezium writes them, about 200 bytes each."""
    v = Values.of(ids, versions)
    times = np.datetime_as_string(v.ts_ms.astype("datetime64[ms]")).tolist()
    numbers = (v.ids, v.versions, v.customer, v.cents, v.status, v.country, v.quantity, v.note)
    return [
        (
            f'{{"id":{i},"version":{version},"customer":"{_CUSTOMER}{customer:07d}","ts":"{ts}Z",'
            f'"amount":{cents // 100}.{cents % 100:02d},"status":"{STATUSES[status]}",'
            f'"country":"{COUNTRIES[country]}","quantity":{quantity},"note":"{_NOTE}{note}"}}'
        ).encode()
        for i, version, customer, cents, status, country, quantity, note, ts in zip(
            *(column.tolist() for column in numbers), times, strict=True
        )
    ]


def differs(batch: pa.RecordBatch) -> npt.NDArray[np.bool_]:
    """Which rows hold something else than their id and version say."""
    expected = table_of(batch["id"].to_numpy(), batch["version"].to_numpy().astype(np.int64))
    found = np.zeros(len(batch), bool)
    for name in SCHEMA:
        kind = expected.schema.field(name).type
        same = pc.equal(batch[name].cast(kind), expected[name].combine_chunks()).fill_null(False)
        found |= ~same.to_numpy(zero_copy_only=False)
    return found


def _text(prefix: str, column: pa.StringArray) -> pa.StringArray:
    return pc.binary_join_element_wise(prefix, column, "")
