"""Rows whose key was changed: the old one goes, the new one comes, and both in the same commit."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from frazil.core.changes import Op
from frazil.stream.cdc.changes import Changes

#: The header of a delete that Debezium lets a row with a new key follow.
_NEW_KEY = "__debezium.newkey"


def has_moves(order: pa.RecordBatch) -> bool:
    """Whether rows came with holes that only their old keys can fill."""
    created = order.column("op").to_numpy() == int(Op.CREATE)
    return bool(np.any(created & order.column("holes").is_valid().to_numpy(zero_copy_only=False)))


def half_a_move(changes: Changes) -> tuple[str, int, int] | None:
    """The record that ends the changes in the middle of such a pair, as topic, partition and offset."""
    raw, last = changes.raw, len(changes.order) - 1
    if changes.order.column("op")[last].as_py() != int(Op.DELETE) or raw.headers is None:
        return None
    offset = changes.order.column("offset")[last].as_py()
    row = int(np.searchsorted(raw.offsets.to_numpy(), offset))
    headers = raw.headers[row].as_py() or ()
    if not any(header["key"] == _NEW_KEY for header in headers):
        return None
    return raw.topic, raw.partition, offset
