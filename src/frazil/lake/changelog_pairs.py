"""Rows that both went and came in one commit did not change; two rows of one key are an update.

Both steps look at one key, or one row, at a time: rows are divided by a digest of it, and lie on the disk
where they are too many for memory.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Numbers = npt.NDArray[np.int64]

CHANGE_TYPE = "_change_type"
ORDINAL = "_change_ordinal"
SNAPSHOT = "_commit_snapshot_id"
TIMESTAMP = "_commit_timestamp"
CORRECTED = "_correction"
#: Behind the columns of the table, as Iceberg names them; the last one is ours.
CHANGE_COLUMNS = pa.schema(
    [
        pa.field(CHANGE_TYPE, pa.string(), False),
        pa.field(ORDINAL, pa.int32(), False),
        pa.field(SNAPSHOT, pa.int64(), False),
        pa.field(TIMESTAMP, pa.timestamp("us", "UTC"), False),
        pa.field(CORRECTED, pa.string()),
    ]
)
#: The words of Iceberg's `ChangelogOperation`.
INSERT, DELETE, BEFORE, AFTER = "INSERT", "DELETE", "UPDATE_BEFORE", "UPDATE_AFTER"
_TYPES = pa.array([DELETE, INSERT, BEFORE, AFTER])
#: Of rows on their way: digests of the whole row and of its key.
ROW_DIGEST, KEY_DIGEST = "_row_digest", "_key_digest"
#: Rows that are paired in memory at once.
IN_MEMORY = 400_000
_MOST_FILES = 256
_SLOT_BITS = 32


def slots(keys: pa.Array | pa.ChunkedArray, count: int) -> Numbers:
    """A number below `count` for each digest, in the order of `_heads`."""
    return (_heads(keys) * count) >> _SLOT_BITS


def paired(table: pa.Table, *, keyed: bool, net: bool = False) -> pa.Table:
    """What is left of rows that went (DELETE) and came (INSERT), with their digests; the digests stay.

    Commits are told apart by their ordinals, unless only the `net` change counts. In the order of the keys'
    digests, an update's two rows one behind the other.
    """
    table = _without_equals(table, by_commit=True)
    if net:
        table = _without_equals(table, by_commit=False)
    came, ordinals = _came(table), _ordinals(table)
    groups = np.zeros(len(table), np.int64) if net else ordinals
    keys = _codes(table.column(KEY_DIGEST), groups)
    ranks = _ranks(keys, came, ordinals)
    kinds = came.astype(np.int64)
    order = np.lexsort((came, -ranks, keys, groups, _heads(table.column(KEY_DIGEST))))
    told = np.arange(len(table))
    if keyed and len(table):
        went = np.bincount(keys, ~came, minlength=int(keys.max()) + 1)
        brought = np.bincount(keys, came, minlength=int(keys.max()) + 1)
        updates = ranks < np.minimum(went, brought)[keys]
        kinds += 2 * updates
        # Both rows of an update are of the commit that brought the second.
        pairs = order[updates[order]].reshape(-1, 2)
        told[pairs[:, 0]] = pairs[:, 1]
    types = _TYPES.take(pa.array(kinds))
    for number, name in enumerate(table.schema.names):
        if name == CHANGE_TYPE:
            table = table.set_column(number, table.schema.field(number), types)
        elif name in CHANGE_COLUMNS.names:
            table = table.set_column(
                number, table.schema.field(number), table.column(name).take(pa.array(told))
            )
    return table.take(pa.array(order))


def paired_all(
    batches: Iterable[pa.RecordBatch], most: int, *, keyed: bool, net: bool = False
) -> Iterator[pa.Table]:
    """The same of batches with at most so many rows in all."""
    files = min(_MOST_FILES, -(-most // IN_MEMORY))
    if files <= 1:
        held = list(batches)
        if held:
            yield paired(pa.Table.from_batches(held), keyed=keyed, net=net)
        return
    with tempfile.TemporaryDirectory(prefix="frazil-changes-") as folder:
        for path in _spilled(batches, Path(folder), files):
            with pa.OSFile(str(path)) as source, pa.ipc.open_stream(source) as stream:
                table = stream.read_all()
            yield paired(table, keyed=keyed, net=net)
            path.unlink()


def complete(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Rows that are sorted by the digests of their keys, in pieces that divide no key."""
    waiting: list[pa.Table] = []
    for batch in batches:
        if not len(batch):
            continue
        keys = batch.column(batch.schema.names.index(KEY_DIGEST))
        first = pc.index(keys, keys[-1]).as_py()
        table = pa.Table.from_batches([batch])
        if waiting and waiting[-1].column(KEY_DIGEST)[-1] != keys[0]:
            yield pa.concat_tables(waiting)
            waiting = []
        if first:
            yield pa.concat_tables([*waiting, table.slice(0, first)])
            waiting = []
        waiting.append(table.slice(first))
    if waiting:
        yield pa.concat_tables(waiting)


def _spilled(batches: Iterable[pa.RecordBatch], folder: Path, files: int) -> list[Path]:
    """Files that hold the rows of some keys each, in the order of their slots."""
    writers: dict[int, pa.ipc.RecordBatchStreamWriter] = {}
    paths = [folder / f"{number}.arrow" for number in range(files)]
    with ExitStack() as stack:
        for batch in batches:
            places = slots(batch.column(batch.schema.names.index(KEY_DIGEST)), files)
            for number in np.unique(places).tolist():
                if number not in writers:
                    sink = stack.enter_context(pa.OSFile(str(paths[number]), "wb"))
                    writers[number] = stack.enter_context(pa.ipc.new_stream(sink, batch.schema))
                writers[number].write_batch(batch.filter(pa.array(places == number)))
    return [paths[number] for number in sorted(writers)]


def _heads(digests: pa.Array | pa.ChunkedArray) -> Numbers:
    """Their first 32 bits."""
    starts = pc.binary_slice(digests.cast(pa.binary()), 0, _SLOT_BITS // 8).cast(pa.binary(_SLOT_BITS // 8))
    whole = starts.combine_chunks() if isinstance(starts, pa.ChunkedArray) else starts
    if not len(whole):
        return np.zeros(0, np.int64)
    return np.frombuffer(whole.buffers()[1], ">u4", len(whole), whole.offset * 4).astype(np.int64)


def _codes(digests: pa.ChunkedArray, groups: Numbers) -> Numbers:
    """Small numbers, equal where digest and group are."""
    values = digests.combine_chunks().dictionary_encode().indices.to_numpy().astype(np.int64)
    _, codes = np.unique((values << _SLOT_BITS) | groups, return_inverse=True)
    return codes.astype(np.int64)


def _without_equals(table: pa.Table, *, by_commit: bool) -> pa.Table:
    """Of rows that are equal, in a commit or in all: what is left when those that went meet those that came.

    By commit first, so that a row that a later one copied is told of the one that brought it.
    """
    ordinals = _ordinals(table)
    codes = _codes(table.column(ROW_DIGEST), ordinals if by_commit else np.zeros(len(table), np.int64))
    return table.take(pa.array(_survivors(codes, _came(table), ordinals)))


def _came(table: pa.Table) -> npt.NDArray[np.bool_]:
    return np.asarray(pc.equal(table.column(CHANGE_TYPE), INSERT).to_numpy(), np.bool_)


def _ordinals(table: pa.Table) -> Numbers:
    return np.asarray(table.column(ORDINAL).to_numpy(), np.int64)


def _survivors(codes: Numbers, came: npt.NDArray[np.bool_], ordinals: Numbers) -> Numbers:
    """Of equal rows, as many as more came than went, or the other way round: the latest."""
    balance = np.bincount(codes, np.where(came, 1, -1)).astype(np.int64)[codes] if len(codes) else codes
    ranks = _ranks(codes, came, ordinals)
    return np.flatnonzero((came == (balance > 0)) & (ranks < np.abs(balance)))


def _ranks(codes: Numbers, came: npt.NDArray[np.bool_], ordinals: Numbers) -> Numbers:
    """The place of each row among those of its code that came, or that went; 0 for the latest."""
    order = np.lexsort((-ordinals, came, codes))
    lanes = (codes * 2 + came)[order]
    starts = np.flatnonzero(np.diff(lanes, prepend=-1))
    ranks = np.arange(len(codes)) - np.repeat(starts, np.diff(starts, append=len(codes)))
    found = np.empty(len(codes), np.int64)
    found[order] = ranks
    return found
