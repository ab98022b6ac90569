"""Metadata documents as they lie in the database: zstd, some twenty times smaller than their JSON.

A commit writes the whole document into its row. Packed, that is a page or two instead of a page for
every few snapshots; a load seldom unpacks anything, because the server holds what it used last.
"""

from __future__ import annotations

import sys

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_LEVEL = 1


def pack(document: bytes) -> bytes:
    return zstd.compress(document, level=_LEVEL)


def unpack(packed: bytes) -> bytes:
    return zstd.decompress(packed)
