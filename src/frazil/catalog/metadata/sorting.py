"""Sort orders."""

from __future__ import annotations

from typing import Any

from frazil.catalog.metadata.schema import SchemaIndex
from frazil.catalog.metadata.transforms import check_sources, with_sources

Json = dict[str, Any]

UNSORTED_ID = 0
FIRST_ID = 1


def check(order: Json, index: SchemaIndex) -> None:
    """Whether a table with this schema can be sorted so."""
    for position, field in enumerate(order["fields"]):
        check_sources(field, index, f"sort field {position}")


def stored(order: Json, order_id: int, mapping: dict[int, int] | None = None) -> Json:
    """The order under its own id, its sources translated when there is a mapping."""
    if not order["fields"]:
        return {"order-id": UNSORTED_ID, "fields": []}
    fields = [with_sources(field, mapping) for field in order["fields"]]
    return {**order, "order-id": order_id, "fields": fields}


def same(one: Json, other: Json) -> bool:
    """Whether two stored orders differ in nothing but their id."""
    return bool(one["fields"] == other["fields"])
