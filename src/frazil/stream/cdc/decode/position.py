"""Where a change stands in the order of its database's commits, from the `source` of its message.

PostgreSQL: line `lsn`, the pair in `source.sequence`: where the last commit before this transaction ended,
and where the change itself stands. The first is in the order of commits and the second in the order within a
transaction; `source.lsn` alone goes backwards whenever transactions overlap, so without the pair there is no
position.

The first of the pair is null in the first transaction after a connector started with no offset of its own (a
new connector, after its snapshot). If the connector stops within that transaction and goes on with its stored
offset, it writes the same changes with the place at which the slot began (`lsn_proc`) instead of the null. So
null counts as the second of the pair: not below what was there before the connector (0 would look like a
source that was reset), below every later transaction (those begin behind this one's commit), and not below
its own repetition, but for a transaction that was open while the slot was made. In all other restarts the
offset carries the last commit, so that a repetition has the same pair; or, if commits that touched no table
of the connector are not sent again, a lower one.

MySQL and MariaDB: the transaction's number in its GTID, then position in the binary log and row in the event;
line `gtid:` and what the number counts (server, or domain). Without GTIDs: file number, position and row;
line `binlog:` and the server's id.

Reads have no position: a snapshot's rows are in the order of the log alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.core.changes import BY_COLUMN
from frazil.stream.cdc.decode.trouble import Longs, Mask, longs_of, mask_of, spans

#: Of `source`, by name; None or not there: no record of the batch says it.
Source: TypeAlias = Mapping[str, pa.Array]
#: What is read of `source`, and as what.
SOURCE_FIELDS = {
    "ts_ms": "long",
    "snapshot": "string",
    "sequence": "string",
    "gtid": "string",
    "file": "string",
    "server_id": "long",
    "pos": "long",
    "row": "long",
}


class Positions:
    """Line and numbers of each change."""

    def __init__(self, count: int) -> None:
        self.line = pa.nulls(count, pa.string())
        self.at = [np.zeros(count, np.int64) for _ in range(3)]

    def put(self, there: Mask, line: pa.Array, *at: Longs) -> None:
        """For changes that have none yet."""
        self.line = pc.if_else(pa.array(there), line, self.line)
        for own, numbers in zip(self.at, at, strict=False):
            own[there] = numbers[there]


def positions(source: Source, reads: Mask) -> Positions:
    """Of changes that are reads, none."""
    found = Positions(len(reads))
    left = ~reads
    for name, put in _KINDS.items():
        values = source.get(name)
        if values is None or values.null_count == len(values) or not left.any():
            continue
        there = left & mask_of(values.is_valid())
        if there.any():
            put(found, there, values, source)
            left &= ~there
    return found


def _sequence(found: Positions, there: Mask, values: pa.Array, source: Source) -> None:
    """`["26771888","26772024"]`, `[null,"26771096"]`."""
    pairs = _pairs(values)
    if pairs is not None:
        found.put(there, pa.scalar("lsn"), *pairs)
        return
    halves = pc.split_pattern(pc.fill_null(values, ""), ",", max_splits=1)
    whole = mask_of(pc.equal(pc.list_value_length(halves), 2)) & there
    if not whole.all():
        halves = pc.if_else(pa.array(whole), halves, pa.scalar(["null", "null"], halves.type))
    flat = pc.ascii_trim(halves.flatten(), '["] ')
    first, second = _long(flat[::2]), _long(flat[1::2])
    there &= mask_of(second.is_valid())
    before = longs_of(pc.coalesce(first, second))
    found.put(there, pa.scalar("lsn"), before, longs_of(second))


def _pairs(values: pa.Array) -> tuple[Longs, Longs] | None:
    """Of texts that are all `["…","…"]` with as many digits; None if they are not."""
    data, starts = spans(values)
    size = int(starts[1] - starts[0]) if len(values) else 0
    if values.null_count or size < 9 or (np.diff(starts) != size).any():
        return None
    letters = data[starts[0] : starts[-1]].reshape(-1, size)
    middle = letters[0].tobytes().find(b'","')
    bounds = [0, 1, middle, middle + 1, middle + 2, size - 2, size - 1]
    if middle < 3 or size > 42 or (letters[:, bounds] != np.frombuffer(b'["",""]', np.uint8)).any():
        return None
    first, second = letters[:, 2:middle] - _ZERO, letters[:, middle + 3 : size - 2] - _ZERO
    if max(first.shape[1], second.shape[1]) > 18 or first.max() > 9 or not second.size or second.max() > 9:
        return None
    return _value(first), _value(second)


_ZERO = np.uint8(ord("0"))


def _value(digits: npt.NDArray[np.uint8]) -> Longs:
    found = np.zeros(len(digits), np.int64)
    for column in digits.T:
        found *= 10
        found += column
    return found


def _long(texts: pa.Array) -> pa.Array:
    """Null where there is no number."""
    words = mask_of(pc.equal(texts, "null"))
    if words.any():
        texts = pc.if_else(pa.array(words), pa.scalar(None, pa.string()), texts)
    try:
        return texts.cast(pa.int64())
    except pa.ArrowInvalid:
        return pa.array([_number(one) for one in texts.to_pylist()], pa.int64())


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 19 else None


def _gtid(found: Positions, there: Mask, values: pa.Array, source: Source) -> None:
    """`domain-server-number` of MariaDB, `uuid:number` and `uuid:tag:number` of MySQL."""
    texts = pc.fill_null(values, "")
    mysql = mask_of(pc.match_substring(texts, ":"))
    for of, mark, name in ((mysql, ":", _whole), (~mysql, "-", _domain)):
        if (there & of).any():
            _numbered(
                found, there & of, pc.split_pattern(texts, mark, max_splits=1, reverse=True), name, source
            )


def _numbered(
    found: Positions, there: Mask, halves: pa.ListArray, name: Callable[[str], str], source: Source
) -> None:
    there &= mask_of(pc.equal(pc.list_value_length(halves), 2))
    halves = pc.if_else(pa.array(there), halves, pa.scalar(["", "null"], halves.type))
    flat = halves.flatten()
    numbers = _long(flat[1::2])
    there &= mask_of(numbers.is_valid())
    lines = flat[::2].dictionary_encode()
    named = pa.array([f"gtid:{name(one)}" for one in lines.dictionary.to_pylist()], pa.string())
    found.put(there, named.take(lines.indices), longs_of(numbers), *_place(source, len(there)))


def _whole(text: str) -> str:
    return text


def _domain(text: str) -> str:
    return text.partition("-")[0]


def _binlog(found: Positions, there: Mask, values: pa.Array, source: Source) -> None:
    files = values.dictionary_encode()
    tails = [_number(one.rpartition(".")[2]) for one in files.dictionary.to_pylist()]
    numbers = pa.array(tails, pa.int64()).take(files.indices)
    there &= mask_of(numbers.is_valid())
    servers = source.get("server_id", pa.nulls(len(there), pa.int64())).fill_null(0)
    line = pc.binary_join_element_wise("binlog", servers.cast(pa.string()), ":")
    found.put(there, line, longs_of(numbers), *_place(source, len(there)))


def _place(source: Source, count: int) -> tuple[Longs, Longs]:
    none = pa.nulls(count, pa.int64())
    return longs_of(source.get("pos", none)), longs_of(source.get("row", none))


_KINDS: Mapping[str, Callable[[Positions, Mask, pa.Array, Source], None]] = {
    "sequence": _sequence,
    "gtid": _gtid,
    "file": _binlog,
}


def by_column(values: pa.Array) -> tuple[pa.Array, Longs]:
    """Line and first number from a column of the table that orders changes; no line where it is null."""
    kind = values.type
    if pa.types.is_timestamp(kind) or pa.types.is_time64(kind):
        numbers = values.view(pa.int64())
    elif pa.types.is_date32(kind):
        numbers = values.view(pa.int32())
    else:
        numbers = values
    line = pc.if_else(values.is_valid(), pa.scalar(BY_COLUMN), pa.scalar(None, pa.string()))
    return line, longs_of(numbers)


def transactions(ids: pa.Array) -> pa.StringArray:
    """PostgreSQL's `number:lsn` without the place, which is another one in every change."""
    digits = pc.match_substring_regex(ids, r"^\d+:\d+$")
    bare = pc.replace_substring_regex(ids, r":\d+$", "")
    return pc.if_else(digits, bare, ids)
