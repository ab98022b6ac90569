"""What a commit takes for granted, checked against the state it is to replace."""

from __future__ import annotations

from typing import Any

from frazil.core.errors import CommitFailed, InvalidInput, NoSuchTable

Json = dict[str, Any]

CREATE = "assert-create"

# The requirement's own field, where the document has the value it is compared with, and what to call it.
# Iceberg's compatibility kit looks for the words of the messages.
_SAME_NUMBER = {
    "assert-last-assigned-field-id": ("last-assigned-field-id", "last-column-id", "last assigned field id"),
    "assert-current-schema-id": ("current-schema-id", "current-schema-id", "current schema"),
    "assert-last-assigned-partition-id": (
        "last-assigned-partition-id",
        "last-partition-id",
        "last assigned partition id",
    ),
    "assert-default-spec-id": ("default-spec-id", "default-spec-id", "default partition spec"),
    "assert-default-sort-order-id": ("default-sort-order-id", "default-sort-order-id", "default sort order"),
}


def is_create(requirements: list[Json]) -> bool:
    """Whether a commit creates its table, which it says with `assert-create` and nothing beside it."""
    kinds = {r["type"] for r in requirements}
    if CREATE in kinds and len(kinds) > 1:
        others = ", ".join(sorted(kinds - {CREATE}))
        raise InvalidInput(f"requirements: assert-create cannot go with {others}")
    return CREATE in kinds


def check_requirements(requirements: list[Json], metadata: Json | None) -> None:
    """Raise CommitFailed (409) naming the first requirement that `metadata` does not meet.

    None stands for a table that does not exist: only `assert-create` holds for it, and a commit that does
    not say so gets NoSuchTable.
    """
    if is_create(requirements):
        if metadata is not None:
            raise CommitFailed("Requirement failed: table already exists")
        return
    if metadata is None:
        raise NoSuchTable("The table does not exist")
    for requirement in requirements:
        _check(requirement, metadata)


def _check(requirement: Json, metadata: Json) -> None:
    kind = requirement["type"]
    if kind in _SAME_NUMBER:
        field, key, name = _SAME_NUMBER[kind]
        if requirement[field] != metadata[key]:
            raise CommitFailed(
                f"Requirement failed: {name} changed: expected id {requirement[field]} != {metadata[key]}"
            )
    elif kind == "assert-table-uuid":
        if requirement["uuid"].lower() != str(metadata.get("table-uuid")).lower():
            raise CommitFailed(
                f"Requirement failed: UUID does not match: "
                f"expected {requirement['uuid'][:100]} != {metadata.get('table-uuid')}"
            )
    elif kind == "assert-ref-snapshot-id":
        _check_ref(requirement, metadata)
    else:
        raise InvalidInput(f"requirements: {kind!r} is not a requirement of a table")


def _check_ref(requirement: Json, metadata: Json) -> None:
    name, wanted = requirement["ref"], requirement.get("snapshot-id")
    ref = (metadata.get("refs") or {}).get(name)
    if ref is None:
        if wanted is not None:
            raise CommitFailed(f"Requirement failed: branch or tag {name} is missing, expected {wanted}")
    elif wanted is None:
        raise CommitFailed(f"Requirement failed: {ref['type']} {name} was created concurrently")
    elif ref["snapshot-id"] != wanted:
        raise CommitFailed(
            f"Requirement failed: {ref['type']} {name} has changed: "
            f"expected id {wanted} != {ref['snapshot-id']}"
        )
