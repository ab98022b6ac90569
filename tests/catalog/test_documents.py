"""The cache of metadata documents keeps to its budget."""

from __future__ import annotations

import json

from frazil.catalog.documents import Document, DocumentCache


def document(name: str, revision: int = 1, size: int = 1000) -> Document:
    raw = json.dumps({"refs": {}, "snapshots": [], "filler": "x" * size}).encode()
    return Document(name, revision, f"file:///{name}/{revision}", raw)


def held(cache: DocumentCache, count: int) -> int:
    return sum(cache.get(("w", "n", f"t{number}")) is not None for number in range(count))


def test_parsing_a_document_counts() -> None:
    cache = DocumentCache(budget=40_000)
    documents = [document(f"t{number}") for number in range(30)]
    for number, one in enumerate(documents):
        cache.put(("w", "n", f"t{number}"), one)
    assert held(cache, 30) == 30
    for one in documents:
        _ = one.parsed
    assert 0 < held(cache, 30) < 15


def test_an_old_revision_that_is_parsed_late_stays_out() -> None:
    cache = DocumentCache(budget=1_000_000)
    old, new = document("t", 1), document("t", 2)
    cache.put(("w", "n", "t"), old)
    cache.put(("w", "n", "t"), new)
    _ = old.parsed
    assert cache.get(("w", "n", "t")) is new


def test_etags_differ_by_revision_tabular_and_variant() -> None:
    tags = {
        document("t", 1).etag("all"),
        document("t", 2).etag("all"),
        document("u", 1).etag("all"),
        document("t", 1).etag("refs"),
    }
    assert len(tags) == 4
