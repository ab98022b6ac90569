"""Whose rows there are, as the history of a table tells."""

from __future__ import annotations

from typing import Any

import pytest

from frazil.core.rebuild import REBUILD, Record, record_key
from frazil.core.stamp import Stamp, stamp_key
from frazil.stream.rebuild.others import others

STAMP = Stamp(pipeline="p", epoch=2, round=3, token="", source="kafka:x", positions={}, written=30)
RECORD = Record.of(STAMP, "hash", 40, 25)


def table(
    *summaries: dict[str, str], first: int = 0, properties: dict[str, str] | None = None
) -> dict[str, Any]:
    """Oldest first; `first`: the parent of the first, which expired."""
    snapshots = [
        {
            "snapshot-id": number,
            "parent-snapshot-id": number - 1 if number > 1 else (first or None),
            "timestamp-ms": 1_767_225_600_000 + number,
            "summary": {"operation": "append"} | summary,
        }
        for number, summary in enumerate(summaries, start=1)
    ]
    return {
        "current-snapshot-id": len(snapshots),
        "snapshots": snapshots,
        "properties": properties or {},
    }


def own(added: int, **more: str) -> dict[str, str]:
    return {stamp_key("p"): STAMP.encode(), "added-records": str(added)} | more


def test_only_the_pipeline() -> None:
    replaced = {"operation": "replace", "added-records": "5", "deleted-records": "5"}
    assert not others(table(own(20), {}, replaced, own(10)), STAMP)


def test_rows_that_the_pipeline_took_away() -> None:
    """It did not append then: its table is no list of its records."""
    upsert = own(5, **{"operation": "overwrite", "added-delete-files": "1", "added-position-deletes": "2"})
    found = others(table(own(20), upsert), STAMP)
    assert found.texts()[0].startswith("5 rows came and 2 rows went by pipeline p")


@pytest.mark.parametrize(
    ("summary", "told"),
    [
        ({"added-records": "2", "engine-name": "spark"}, "2 rows came by spark"),
        (
            {"operation": "delete", "deleted-data-files": "1", "deleted-records": "3"},
            "3 rows went by another",
        ),
        ({"frazil.correction": "{}", "added-records": "1"}, "1 rows came by a correction"),
        ({stamp_key("q"): "{}", "added-records": "1"}, "1 rows came by pipeline q"),
        ({"operation": "overwrite", "added-delete-files": "1"}, "rows were changed by another writer"),
    ],
)
def test_somebody_else(summary: dict[str, str], told: str) -> None:
    found = others(table(own(20), summary, own(10)), STAMP)
    assert len(found.commits) == 1
    assert found.texts()[0].startswith(told)


def test_what_is_below_a_rebuild_does_not_count() -> None:
    swap = {REBUILD: RECORD.encode(), "operation": "overwrite", "added-records": "25"}
    foreign = {"added-records": "2"}
    assert not others(table(own(20), foreign, swap, own(5)), STAMP)
    assert others(table(own(20), foreign, swap, own(5), foreign), STAMP)
    another = {REBUILD: Record.of(STAMP, "", 1, 1).encode().replace('"p"', '"q"'), "added-records": "1"}
    assert len(others(table(own(20), foreign, another), STAMP).commits) == 2


@pytest.mark.parametrize(
    ("total", "deletes", "rebuilt", "doubt"),
    [
        (30, 0, False, None),
        (31, 0, False, "the table has 31 and the pipeline wrote 30"),
        (30, 1, False, "delete files"),
        (25, 0, True, None),
        (30, 0, True, "the table has 30 and the pipeline wrote 25"),
    ],
)
def test_an_expired_history(total: int, deletes: int, rebuilt: bool, doubt: str | None) -> None:
    head = own(5, **{"total-records": str(total), "total-delete-files": str(deletes)})
    properties = {record_key("p"): RECORD.encode()} if rebuilt else {}
    found = others(table(head, first=99, properties=properties), STAMP)
    assert (found.doubt is None) == (doubt is None)
    assert doubt is None or doubt in found.texts()[0]
