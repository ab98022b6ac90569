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

from frazil.stream.cdc.decode.trouble import Longs, mask_of

_OPEN = b'{"schema":'
_MIDDLE = ',"payload":'
_JSON = json.JSONDecoder()
#: So many schemas are looked for in all messages at once; from then on in each.
_TOGETHER = 8


@dataclass(frozen=True)
class Group:
    """Messages with one schema, or without any."""

    #: Places among the messages.
    places: Longs
    payload: pa.BinaryArray
    #: What stands before the payload; empty: there is no schema.
    head: bytes = b""
    #: Not JSON that holds.
    broken: bool = False

    def schema(self) -> Any:
        """Connect's document; None: there is none."""
        return json.loads(self.head[len(_OPEN) : -len(_MIDDLE)]) if self.head else None


def schema_groups(values: pa.BinaryArray) -> list[Group]:
    """Of all messages that have a value; the largest first."""
    places = np.flatnonzero(mask_of(values.is_valid()))
    if len(places) < len(values):
        values = values.take(pa.array(places))
    found: list[Group] = []
    while len(places) and len(found) < _TOGETHER:
        head = _head(values[0].as_py())
        if head is None:
            break
        same = mask_of(pc.starts_with(values, head)) if head else ~mask_of(pc.starts_with(values, _OPEN))
        # A row may have a first column of that name.
        same[0] = True
        mine = values if same.all() else values.filter(pa.array(same))
        found.append(_group(places[same], mine, head))
        if same.all():
            places = places[:0]
        else:
            values, places = values.filter(pa.array(~same)), places[~same]
    if len(places):
        found += _one_by_one(values, places)
    return sorted(found, key=lambda one: -len(one.places))


def _one_by_one(values: pa.BinaryArray, places: Longs) -> list[Group]:
    """Where messages are of many kinds, or broken."""
    heads: dict[bytes | None, list[int]] = {}
    for index, value in enumerate(values.to_pylist()):
        heads.setdefault(_head(value), []).append(index)
    return [_group(places[rows], values.take(pa.array(rows)), head) for head, rows in heads.items()]


def _group(places: Longs, values: pa.BinaryArray, head: bytes | None) -> Group:
    if not head:
        return Group(places, values, b"", broken=head is None)
    return Group(places, pc.binary_slice(values, len(head), -1), head)


def _head(value: bytes) -> bytes | None:
    """All before the payload; empty if the message has no schema, None if it only begins as if it had."""
    if not value.startswith(_OPEN):
        return b""
    try:
        text = value.decode()
        schema, end = _JSON.raw_decode(text, len(_OPEN))
    except (ValueError, RecursionError):
        return None
    if not isinstance(schema, dict) and schema is not None:
        return b""
    if not text.startswith(_MIDDLE, end) or not text.endswith("}"):
        return None
    return text[: end + len(_MIDDLE)].encode()
