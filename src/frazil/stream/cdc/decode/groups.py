"""Messages in JSON that carry their schema: `{"schema": …, "payload": …}`, taken apart by schema.

A schema is far longer than what it is of, and the same in almost every message. It is parsed once; whether
the next message has the same one is a comparison of bytes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.stream.cdc.decode.trouble import Longs, mask_of, spans

_OPEN = b'{"schema":'
_MIDDLE = ',"payload":'
_JSON = json.JSONDecoder()


@dataclass(frozen=True)
class Group:
    """Messages with one schema, or without any."""

    #: Places among the messages.
    places: Longs
    payload: pa.BinaryArray
    #: What stands before the payload; empty: there is no schema.
    head: bytes = b""

    def schema(self) -> Any:
        """Connect's document; None: there is none."""
        return json.loads(self.head[len(_OPEN) : -len(_MIDDLE)]) if self.head else None


def schema_groups(values: pa.BinaryArray) -> list[Group]:
    """Of all messages that have a value."""
    places = np.flatnonzero(mask_of(values.is_valid()))
    if len(places) < len(values):
        values = values.take(pa.array(places))
    found: list[Group] = []
    while len(places):
        head = _head(values[0].as_py())
        same = mask_of(_begins(values, head)) if head else ~mask_of(_begins(values, _OPEN))
        if not head:
            # What only begins as if it had a schema has none either.
            same[0] = True
        mine = values if same.all() else values.filter(pa.array(same))
        payload = pc.binary_slice(mine, len(head), -1) if head else mine
        found.append(Group(places[same], payload, head))
        if same.all():
            break
        values, places = values.filter(pa.array(~same)), places[~same]
    return found


def _begins(values: pa.BinaryArray, head: bytes) -> pa.Array:
    """Also for bytes that are no text, which Arrow's own would refuse as a pattern."""
    data, starts = spans(values)
    first = np.frombuffer(head, np.uint8)
    if len(head) > 64:
        return pc.starts_with(values, head)
    found = np.diff(starts) >= len(head)
    rows = np.flatnonzero(found)
    found[rows] = (data[starts[rows][:, None] + np.arange(len(head))] == first).all(axis=1)
    return pa.array(found)


def _head(value: bytes) -> bytes:
    """All before the payload; empty if the message is not of that form."""
    if not value.startswith(_OPEN) or not value.endswith(b"}"):
        return b""
    try:
        text = value.decode()
        _, end = _JSON.raw_decode(text, len(_OPEN))
    except (ValueError, RecursionError):
        return b""
    if not text.startswith(_MIDDLE, end):
        return b""
    return text[: end + len(_MIDDLE)].encode()
