"""Rows behind Debezium's ExtractNewRecordState: the envelope is fields beside the columns, or headers.

`__op` and `__deleted` say what happened; without both, rows are taken as they are (an update), and a message
without a value deletes by its key. Positions come from `__source_sequence`, `__source_gtid`, `__source_file`
and so on (`add.fields=op,source.ts_ms,source.sequence`), or the same as headers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.core.changes import Op
from frazil.stream.cdc.decode.finish import CODES, UNKNOWN, Facts
from frazil.stream.cdc.decode.position import SOURCE_FIELDS, positions, transactions
from frazil.stream.cdc.decode.trouble import Longs, longs_of, mask_of
from frazil.stream.cdc.decode.wire import Fields, Wire

_PREFIX = "__"
_SOURCE = "__source_"
_TRANSACTION = "__transaction_id"
#: Fields of all sources that mean nothing here.
_OTHERS = (
    "version",
    "connector",
    "name",
    "db",
    "schema",
    "table",
    "lsn",
    "txId",
    "xmin",
    "origin",
    "origin_lsn",
    "thread",
    "query",
    "ts_us",
    "ts_ns",
)
_OWN = ("op", "deleted", "ts_us", "ts_ns", "ts_ms", "transaction_id", "transaction_total_order")
META = frozenset(
    [f"{_PREFIX}{name}" for name in (*_OWN, *SOURCE_FIELDS, *_OTHERS)]
    + [f"{_SOURCE}{name}" for name in (*SOURCE_FIELDS, *_OTHERS)]
    + ["__transaction_data_collection_order"]
)
_KINDS = {str: "string", bool: "boolean", int: "long", float: "double"}


def meta_of_row(row: Mapping[str, Any]) -> dict[str, Wire]:
    """Fields that are no columns, by a row without a schema."""
    found = {}
    for name, value in row.items():
        if name in META:
            known = SOURCE_FIELDS.get(name.removeprefix(_SOURCE).removeprefix(_PREFIX), "string")
            found[name] = Wire(_KINDS.get(type(value), known))
    return found


def split_meta(fields: Fields) -> tuple[Fields, dict[str, Wire]]:
    """Columns, and fields that are none."""
    columns = tuple((name, wire) for name, wire in fields if name not in META)
    return columns, {name: wire for name, wire in fields if name in META and wire.kind != "none"}


def flat_facts(meta: Mapping[str, pa.Array], headers: Mapping[str, pa.Array], count: int) -> Facts:
    """What fields and headers say; a field counts before a header of the same name."""
    known = {**headers, **meta}
    op = np.full(count, int(Op.UPDATE), np.int8)
    if "__op" in known:
        op = _codes(known["__op"], op)
    if "__deleted" in known:
        op[mask_of(pc.equal(known["__deleted"].cast(pa.string()), "true"))] = Op.DELETE
    source = {}
    for name, kind in SOURCE_FIELDS.items():
        values = known.get(f"{_SOURCE}{name}")
        if values is None and name != "ts_ms":
            values = known.get(f"{_PREFIX}{name}")
        if values is not None:
            source[name] = _as(values, pa.int64() if kind == "long" else pa.string())
    none = pa.nulls(count, pa.int64())
    snapshot = source.get("snapshot", pa.nulls(count, pa.string()))
    reads = (op == Op.READ) | ~mask_of(pc.equal(snapshot.fill_null("false"), "false"))
    ids = known.get(_TRANSACTION, pa.nulls(count, pa.string()))
    return Facts(op, positions(source, reads), longs_of(source.get("ts_ms", none)), transactions(ids))


def _codes(
    letters: pa.Array, op: np.ndarray[tuple[int], np.dtype[np.int8]]
) -> np.ndarray[tuple[int], np.dtype[np.int8]]:
    for letter in pc.unique(letters).drop_null().to_pylist():
        code = int(CODES[ord(letter)]) if len(letter) == 1 else UNKNOWN
        op[mask_of(pc.equal(letters, letter))] = code
    return op


def _as(values: pa.Array, kind: pa.DataType) -> pa.Array:
    if values.type == kind:
        return values
    try:
        return values.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return pa.nulls(len(values), kind)


def header_texts(headers: pa.ListArray | None, places: Longs) -> dict[str, pa.Array]:
    """Headers that stand for fields of the envelope, by record; quotes of a JSON converter taken off."""
    if headers is None or not len(headers):
        return {}
    chosen = headers.take(pa.array(places))
    flat, owners = chosen.flatten(), pc.list_parent_indices(chosen)
    names = flat.field(0).cast(pa.string())
    found = {}
    for name in pc.unique(names).drop_null().to_pylist():
        if name not in META:
            continue
        mine = pc.equal(names, name)
        values = _texts(flat.field(1).filter(mine))
        rows = np.asarray(owners.filter(mine))
        index = np.zeros(len(places), np.int64)
        there = np.zeros(len(places), bool)
        index[rows], there[rows] = np.arange(len(rows)), True
        found[name] = values.take(pa.array(index, mask=~there))
    return found


def _texts(values: pa.Array) -> pa.Array:
    texts = [None if one is None else one.decode(errors="replace").strip('"') for one in values.to_pylist()]
    return pa.array([None if one == "null" else one for one in texts], pa.string())
