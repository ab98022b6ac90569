from __future__ import annotations

from typing import Any

import pytest
from tests.catalog.metadata.support import UUID, with_snapshots

from frazil.catalog import metadata as m
from frazil.core.errors import CommitFailed, InvalidInput, NoSuchTable

Json = dict[str, Any]
OTHER = "00000000-0000-0000-0000-000000000000"


@pytest.mark.parametrize(
    ("requirement", "words"),
    [
        ({"type": "assert-table-uuid", "uuid": OTHER}, "UUID does not match"),
        ({"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 1}, "branch main has changed"),
        ({"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": None}, "was created concurrently"),
        ({"type": "assert-ref-snapshot-id", "ref": "main"}, "was created concurrently"),
        ({"type": "assert-ref-snapshot-id", "ref": "none", "snapshot-id": 1}, "is missing"),
        (
            {"type": "assert-last-assigned-field-id", "last-assigned-field-id": 4},
            "last assigned field id changed",
        ),
        ({"type": "assert-current-schema-id", "current-schema-id": 1}, "current schema changed"),
        (
            {"type": "assert-last-assigned-partition-id", "last-assigned-partition-id": 1000},
            "last assigned partition id changed",
        ),
        ({"type": "assert-default-spec-id", "default-spec-id": 1}, "default partition spec changed"),
        ({"type": "assert-default-sort-order-id", "default-sort-order-id": 1}, "default sort order changed"),
        ({"type": "assert-create"}, "table already exists"),
    ],
)
def test_a_requirement_that_does_not_hold(requirement: Json, words: str) -> None:
    with pytest.raises(CommitFailed, match=f"^Requirement failed: .*{words}"):
        m.check_requirements([requirement], with_snapshots(2))


def test_requirements_that_hold() -> None:
    m.check_requirements(
        [
            {"type": "assert-table-uuid", "uuid": UUID.upper()},
            {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 2},
            {"type": "assert-ref-snapshot-id", "ref": "none", "snapshot-id": None},
            {"type": "assert-last-assigned-field-id", "last-assigned-field-id": 5},
            {"type": "assert-current-schema-id", "current-schema-id": 0},
            {"type": "assert-last-assigned-partition-id", "last-assigned-partition-id": 999},
            {"type": "assert-default-spec-id", "default-spec-id": 0},
            {"type": "assert-default-sort-order-id", "default-sort-order-id": 0},
        ],
        with_snapshots(2),
    )
    m.check_requirements([{"type": "assert-create"}], None)


def test_a_table_that_is_not_there() -> None:
    with pytest.raises(NoSuchTable):
        m.check_requirements([], None)
    with pytest.raises(InvalidInput, match="assert-create cannot go with assert-table-uuid"):
        m.check_requirements([{"type": "assert-create"}, {"type": "assert-table-uuid", "uuid": OTHER}], None)
    with pytest.raises(InvalidInput, match="assert-view-uuid"):
        m.check_requirements([{"type": "assert-view-uuid", "uuid": OTHER}], with_snapshots(1))
