"""Metadata documents held in memory.

A document belongs to one revision of one tabular and never changes. So a copy is right exactly when
the database names its tabular and revision, which every look-up asks.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from frazil.catalog.metadata import refs_only

Json = dict[str, Any]
_decode = msgspec.json.Decoder(type=dict[str, Any]).decode
_encode = msgspec.json.Encoder().encode

#: A parsed document takes about this many times the room of its JSON text (2.8 was measured).
_PARSED_COST = 3


class Document:
    """One revision of a table's or view's metadata, as bytes and, once asked for, parsed."""

    __slots__ = ("_parsed", "_refs", "grown", "metadata_location", "raw", "revision", "tabular_id")

    def __init__(
        self, tabular_id: str, revision: int, metadata_location: str, raw: bytes, parsed: Json | None = None
    ) -> None:
        self.tabular_id = tabular_id
        self.revision = revision
        self.metadata_location = metadata_location
        self.raw = raw
        #: Called when the document takes more room than before.
        self.grown: Callable[[], None] | None = None
        self._parsed = parsed
        self._refs: bytes | None = None

    @property
    def parsed(self) -> Json:
        """Shared by all who ask: nobody may change it."""
        if self._parsed is None:
            self._parsed = _decode(self.raw)
            if self.grown is not None:
                self.grown()
        return self._parsed

    @property
    def refs(self) -> bytes:
        """The document with only the snapshots that branches and tags point at."""
        if self._refs is None:
            self._refs = _encode(refs_only(self.parsed))
            if self.grown is not None:
                self.grown()
        return self._refs

    def etag(self, variant: str) -> str:
        """A strong validator; answers that differ for one revision differ in `variant`."""
        text = f"{self.tabular_id}\n{self.revision}\n{variant}".encode()
        return f'"{hashlib.blake2b(text, digest_size=12).hexdigest()}"'

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
        """Keep a document; it comes here again by itself when it has grown."""
        self._drop(key)
        cost = document.cost
        if cost > self._budget // 4:
            return
        document.grown = partial(self.put, key, document)
        self._held[key] = (document, cost)
        self._cost += cost
        while self._cost > self._budget:
            self._drop(next(iter(self._held)))

    def _drop(self, key: tuple[str, str, str]) -> None:
        entry = self._held.pop(key, None)
        if entry is not None:
            document, cost = entry
            self._cost -= cost
            # It is nobody's concern any more how large it grows; and without this reference to itself
            # its memory is free at once, not when the garbage collector comes by.
            document.grown = None
