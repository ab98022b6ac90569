"""Partition specs."""

from __future__ import annotations

from typing import Any

from frazil.catalog.metadata.schema import MAX_FIELD_ID, SchemaIndex
from frazil.catalog.metadata.transforms import check_sources, key, parse_transform, sources, with_sources
from frazil.core.errors import InvalidInput

Json = dict[str, Any]

FIRST_FIELD_ID = 1000
UNPARTITIONED_LAST_ID = FIRST_FIELD_ID - 1


def check(spec: Json, index: SchemaIndex) -> None:
    """Whether the spec can partition a table with this schema."""
    names: set[str] = set()
    ids: set[int] = set()
    for position, field in enumerate(spec["fields"]):
        name = field["name"]
        what = f"partition field {position} ({name[:100]})"
        if not name:
            raise InvalidInput(f"{what} has an empty name")
        if name in names:
            raise InvalidInput(f"{what}: the name is used twice")
        names.add(name)
        field_id = field.get("field-id")
        if field_id is not None:
            if field_id in ids:
                raise InvalidInput(f"{what}: field id {field_id} is used twice")
            if field_id > MAX_FIELD_ID:
                raise InvalidInput(f"{what}: field id {field_id} is over {MAX_FIELD_ID}")
            ids.add(field_id)
        _check_field(field, index, what)


def _check_field(field: Json, index: SchemaIndex, what: str) -> None:
    # A void field stands for a dropped one, so its source may be gone.
    if parse_transform(field["transform"]).kind == "void":
        sources(field)
    else:
        check_sources(field, index, what)
        for source in sources(field):
            if index.fields[source].in_collection:
                raise InvalidInput(f"{what}: the source column is inside a list or map")
    taken = index.id_of(field["name"])
    ids = sources(field)
    if taken is not None and taken not in ids and ids[0] in index.fields:
        raise InvalidInput(f"{what}: another column of the schema has this name")


def stored(spec: Json, spec_id: int, others: list[Json], last_id: int) -> tuple[Json, int]:
    """The spec under its own id, every field with an id; and the highest partition field id so far.

    A field without an id takes that of an equal field in another spec, so that data files written under
    either agree, else the next free one.
    """
    known = {key(f): f["field-id"] for other in others for f in other["fields"] if "field-id" in f}
    last_id = max([last_id, *(f["field-id"] for f in spec["fields"] if f.get("field-id") is not None)])
    fields = []
    for field in spec["fields"]:
        copy = with_sources(field, None)
        if "field-id" not in copy:
            copy["field-id"] = known.get(key(copy), last_id + 1)
        last_id = max(last_id, copy["field-id"])
        fields.append(copy)
    return {**spec, "spec-id": spec_id, "fields": fields}, max(last_id, UNPARTITIONED_LAST_ID)


def with_fresh_ids(spec: Json | None, mapping: dict[int, int]) -> tuple[Json, int]:
    """Spec 0 of a new table: its sources translated, its field ids counted from 1000."""
    if spec is None:
        return {"spec-id": 0, "fields": []}, UNPARTITIONED_LAST_ID
    fields = [
        {**with_sources(field, mapping), "field-id": FIRST_FIELD_ID + position}
        for position, field in enumerate(spec["fields"])
    ]
    return {**spec, "spec-id": 0, "fields": fields}, UNPARTITIONED_LAST_ID + len(fields)


def same(one: Json, other: Json) -> bool:
    """Whether two specs partition alike: the same sources, transforms and names in the same order."""
    mine, theirs = one["fields"], other["fields"]
    return len(mine) == len(theirs) and all(
        key(a) == key(b) and a["name"] == b["name"] for a, b in zip(mine, theirs, strict=True)
    )


def sequential(spec: Json) -> bool:
    """Format v1 stores no field ids, so they must follow from the position."""
    return all(f.get("field-id") in (None, FIRST_FIELD_ID + i) for i, f in enumerate(spec["fields"]))
