"""Debezium's envelope in JSON, taken apart: its rows stay JSON, for whoever knows their columns."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from frazil.stream.cdc.decode.position import SOURCE_FIELDS, Source
from frazil.stream.cdc.decode.trouble import Longs
from frazil.stream.decode.columns import KINDS, Column, Plan, batch_of, input_of
from frazil.stream.decode.decoded import Fault, Undecodable
from frazil.stream.decode.problem import cut

_WIDTHS = {"long": 8}
_TYPES = {"long": pa.int64(), "string": pa.string(), "raw": pa.binary()}
#: Of all sources, in the order in which Debezium writes them: names that are met in order are found quickly.
_SOURCE = tuple(
    (name, SOURCE_FIELDS.get(name, "skip"))
    for name in (
        *("version", "connector", "name", "ts_ms", "snapshot", "db", "sequence", "ts_us", "ts_ns", "schema"),
        *("table", "server_id", "gtid", "file", "pos", "row", "thread", "query"),
        *("txId", "lsn", "xmin", "origin", "origin_lsn"),
    )
)
_FIELDS: tuple[tuple[str, Any], ...] = (
    ("before", "raw"),
    ("after", "raw"),
    ("source", _SOURCE),
    ("transaction", (("id", "string"), ("total_order", "skip"), ("data_collection_order", "skip"))),
    ("op", "string"),
    ("ts_ms", "skip"),
    ("ts_us", "skip"),
    ("ts_ns", "skip"),
)


@dataclass(frozen=True)
class Envelopes:
    """The good ones of a batch."""

    #: Their places among the records.
    places: Longs
    #: JSON, null where there is none.
    before: pa.BinaryArray
    after: pa.BinaryArray
    op: pa.StringArray
    source: Source
    transaction: pa.StringArray


def read_envelopes(values: pa.BinaryArray) -> tuple[Envelopes, list[Undecodable]]:
    """Of records that have a value."""
    rows, places = _native(values) or _plain(values)
    good = np.delete(np.arange(len(values)), places)
    source, transaction = rows.column("source"), rows.column("transaction")
    found = Envelopes(
        good,
        rows.column("before"),
        rows.column("after"),
        rows.column("op"),
        {name: source.field(name) for name in SOURCE_FIELDS},
        transaction.field("id"),
    )
    return found, [_bad(place, values[place].as_py()) for place in places]


def _bad(place: int, value: bytes) -> Undecodable:
    """What is wrong, in msgspec's words."""
    try:
        _DECODER.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        reason = f"no change event of Debezium: {cut(str(problem))}"
    else:
        reason = "no change event of Debezium: a field stands twice, or is not what Debezium writes"
    return Undecodable(place, reason, None, Fault.BROKEN)


def _native(values: pa.BinaryArray) -> tuple[pa.RecordBatch, list[int]] | None:
    """Where it was built; `FRAZIL_NATIVE=0` does without."""
    if os.environ.get("FRAZIL_NATIVE") == "0":
        return None
    try:
        from frazil.stream import _json
    except ImportError:
        return None
    plan = _json.plan(_plan(_FIELDS, required=1), _names("", _FIELDS))
    columns, bad, _ = _json.decode(plan, *input_of(values), 0, False)
    return batch_of(_arrow(_FIELDS), _kept(_FIELDS, columns)), bad


def _plan(kind: Any, required: int = 0) -> Plan:
    if isinstance(kind, str):
        return KINDS.index(kind), required, _WIDTHS.get(kind, 0), 0, 0, ()
    return KINDS.index("struct"), required, 0, 0, 0, tuple(_plan(inner) for _, inner in kind)


def _names(name: str, kind: Any) -> Any:
    inner = () if isinstance(kind, str) else tuple(_names(*one) for one in kind)
    return name.encode(), inner


def _kept(kind: Any, column: Column) -> Column:
    """Without what was skipped."""
    if isinstance(kind, str):
        return column
    pairs = zip(kind, column[-1], strict=True)
    return (*column[:-1], tuple(_kept(inner, child) for (_, inner), child in pairs if inner != "skip"))


def _arrow(kind: Any) -> pa.DataType:
    if isinstance(kind, str):
        return _TYPES[kind]
    return pa.struct([(name, _arrow(inner)) for name, inner in kind if inner != "skip"])


class _SourceBlock(msgspec.Struct):
    ts_ms: int | None = None
    snapshot: str | None = None
    sequence: str | None = None
    gtid: str | None = None
    file: str | None = None
    server_id: int | None = None
    pos: int | None = None
    row: int | None = None


class _Transaction(msgspec.Struct):
    id: str | None = None


class _Envelope(msgspec.Struct):
    before: msgspec.Raw = msgspec.Raw(b"null")
    after: msgspec.Raw = msgspec.Raw(b"null")
    source: _SourceBlock | None = None
    transaction: _Transaction | None = None
    op: str | None = None


_DECODER = msgspec.json.Decoder(_Envelope)


def _plain(values: pa.BinaryArray) -> tuple[pa.RecordBatch, list[int]]:
    rows, bad = [], []
    for place, value in enumerate(values.to_pylist()):
        try:
            found = _DECODER.decode(value)
        except (msgspec.DecodeError, UnicodeDecodeError):
            bad.append(place)
            continue
        row = msgspec.structs.asdict(found)
        for name in ("before", "after"):
            text = bytes(row[name])
            row[name] = None if text == b"null" else text
        for name in ("source", "transaction"):
            row[name] = {} if row[name] is None else msgspec.structs.asdict(row[name])
        rows.append(row)
    return pa.RecordBatch.from_struct_array(pa.array(rows, _arrow(_FIELDS))), bad
