"""Metadata documents held in memory.

A document never changes: each commit writes a new one under a new metadata location. So a copy is
right exactly when the database names its metadata location, which every look-up asks.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from typing import Any

import msgspec

from frazil.catalog.metadata import refs_only

Json = dict[str, Any]
_decode = msgspec.json.Decoder(type=dict[str, Any]).decode
_encode = msgspec.json.Encoder().encode

#: A parsed document takes about this many times the room of its JSON text.
_PARSED_COST = 8


class Document:
    """One version of a table's or view's metadata, as bytes and, once asked for, parsed."""

    __slots__ = ("_parsed", "_refs", "_tags", "metadata_location", "raw")

    def __init__(self, metadata_location: str, raw: bytes, parsed: Json | None = None) -> None:
        self.metadata_location = metadata_location
        self.raw = raw
        self._parsed = parsed
        self._refs: bytes | None = None
        self._tags: dict[str, str] = {}

    @property
    def parsed(self) -> Json:
        """Shared by all who ask: nobody may change it."""
        if self._parsed is None:
            self._parsed = _decode(self.raw)
        return self._parsed

    @property
    def refs(self) -> bytes:
        """The document with only the snapshots that branches and tags point at."""
        if self._refs is None:
            self._refs = _encode(refs_only(self.parsed))
        return self._refs

    def etag(self, variant: str) -> str:
        """A strong validator; answers that differ for one version differ in `variant`."""
        tag = self._tags.get(variant)
        if tag is None:
            text = f"{self.metadata_location}\n{variant}".encode()
            tag = self._tags[variant] = f'"{hashlib.blake2b(text, digest_size=12).hexdigest()}"'
        return tag

    @property
    def cost(self) -> int:
        parsed = 0 if self._parsed is None else _PARSED_COST * len(self.raw)
        return len(self.raw) + parsed + len(self._refs or b"")


class DocumentCache:
    """The documents used last, up to a number of bytes."""

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._held: OrderedDict[tuple[str, str, str], tuple[Document, int]] = OrderedDict()
        self._cost = 0

    def get(self, key: tuple[str, str, str]) -> Document | None:
        entry = self._held.get(key)
        if entry is None:
            return None
        self._held.move_to_end(key)
        return entry[0]

    def put(self, key: tuple[str, str, str], document: Document) -> None:
        """Keep a document; called again when it was parsed, so that its cost is counted."""
        before = self._held.pop(key, None)
        if before is not None:
            self._cost -= before[1]
        cost = document.cost
        if cost > self._budget // 4:
            return
        self._held[key] = (document, cost)
        self._cost += cost
        while self._cost > self._budget:
            _, (_, dropped) = self._held.popitem(last=False)
            self._cost -= dropped
