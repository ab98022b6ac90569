"""Schemas: what makes one legal, fresh field ids, and when two are the same."""

from __future__ import annotations

from typing import Any, NamedTuple

from frazil.catalog.wire.primitives import V3_TYPES, parse_primitive
from frazil.core.errors import InvalidInput

Json = dict[str, Any]

# Ids above it belong to metadata columns (`_file`, `_pos`, `_row_id`, …) in every Iceberg table.
MAX_FIELD_ID = 2**31 - 1 - 200
V3 = 3


class Field(NamedTuple):
    """A field of a schema, at any depth; `parent` is the id of the field whose type holds it."""

    id: int
    name: str
    type: Any
    required: bool
    parent: int | None
    has_default: bool


class _Name(dict[str, "_Name"]):
    """A node in the tree of dotted names; linear in their length however deep they nest."""

    __slots__ = ("field_id",)

    def __init__(self) -> None:
        self.field_id: int | None = None


class SchemaIndex:
    """The fields of one schema by id and by full name. Building it validates the schema."""

    __slots__ = ("_names", "fields", "identifiers")

    def __init__(self, schema: Json) -> None:
        self.fields: dict[int, Field] = {}
        self._names = _Name()
        self.identifiers: list[int] = schema.get("identifier-field-ids") or []
        stack: list[tuple[Json, int | None, _Name]] = [(schema, None, self._names)]
        while stack:
            nested, parent, at = stack.pop()
            for field in _children(nested, parent):
                node = self._add(field, at)
                if isinstance(field.type, dict):
                    stack.append((field.type, field.id, node))
        for field_id in self.identifiers:
            self._check_identifier(field_id)

    def _add(self, field: Field, at: _Name) -> _Name:
        if field.id in self.fields:
            raise InvalidInput(
                f"field id {field.id} is used twice: {self.fields[field.id].name}, {field.name}"
            )
        if isinstance(field.type, str) and parse_primitive(field.type) is None:
            raise InvalidInput(f"field {field.name} has no legal type: {field.type[:100]}")
        node = at
        for part in field.name.split("."):
            found = node.get(part)
            if found is None:
                found = node[part] = _Name()
            node = found
        if node.field_id is not None:
            raise InvalidInput(f"two fields have the name {self.full_name(node.field_id)}")
        node.field_id = field.id
        self.fields[field.id] = field
        return node

    def _check_identifier(self, field_id: int) -> None:
        field = self.fields.get(field_id)
        if field is None:
            raise InvalidInput(f"identifier field {field_id} is not in the schema")
        primitive = parse_primitive(field.type) if isinstance(field.type, str) else None
        if primitive is None or primitive.family == "variant":
            raise InvalidInput(f"identifier field {field.name} must have a primitive type")
        if primitive.family in ("float", "double"):
            raise InvalidInput(f"identifier field {field.name} must not be a float or double")
        if not field.required:
            raise InvalidInput(f"identifier field {field.name} must be required")
        for above in self.parents(field):
            if above.type["type"] != "struct":
                raise InvalidInput(f"identifier field {field.name} must not be inside a list or map")
            if not above.required:
                raise InvalidInput(f"identifier field {field.name} must not be inside an optional struct")

    def parents(self, field: Field) -> list[Field]:
        """The fields that enclose `field`, innermost first."""
        found = []
        while field.parent is not None:
            field = self.fields[field.parent]
            found.append(field)
        return found

    def full_name(self, field_id: int) -> str:
        field = self.fields[field_id]
        return ".".join([f.name for f in reversed(self.parents(field))] + [field.name])

    def id_of(self, full_name: str) -> int | None:
        """The id of the field with this dotted name."""
        node = self._names
        for part in full_name.split("."):
            found = node.get(part)
            if found is None:
                return None
            node = found
        return node.field_id

    @property
    def highest_id(self) -> int:
        return max(self.fields, default=0)

    def family(self, field: Field) -> str | None:
        """The family of a primitive field's type; None for nested types and variant."""
        primitive = parse_primitive(field.type) if isinstance(field.type, str) else None
        return None if primitive is None or primitive.family == "variant" else primitive.family

    def check_format(self, version: int) -> None:
        """Types and default values that a format version does not have yet."""
        if version >= V3:
            return
        for field in self.fields.values():
            if isinstance(field.type, str):
                primitive = parse_primitive(field.type)
                if primitive is not None and primitive.family in V3_TYPES:
                    raise InvalidInput(f"field {field.name}: {field.type} is not supported until v3")
            if field.has_default:
                raise InvalidInput(f"field {field.name}: an initial-default is not supported until v3")

    def check_ids(self) -> None:
        """Ids a client chose itself must stay out of the range of the metadata columns."""
        if self.fields and self.highest_id > MAX_FIELD_ID:
            raise InvalidInput(
                f"field id {self.highest_id} is reserved: the highest legal id is {MAX_FIELD_ID}"
            )


def _children(nested: Json, parent: int | None) -> list[Field]:
    kind = nested["type"]
    if kind == "struct":
        return [
            Field(f["id"], f["name"], f["type"], f["required"], parent, f.get("initial-default") is not None)
            for f in nested["fields"]
        ]
    if kind == "list":
        element, required = nested["element"], nested["element-required"]
        return [Field(nested["element-id"], "element", element, required, parent, False)]
    return [
        Field(nested["key-id"], "key", nested["key"], True, parent, False),
        Field(nested["value-id"], "value", nested["value"], nested["value-required"], parent, False),
    ]


class _FreshIds:
    """Hands out ids from 1 in the order that Iceberg's libraries use, and remembers what became what."""

    __slots__ = ("last", "mapping")

    def __init__(self) -> None:
        self.last = 0
        self.mapping: dict[int, int] = {}

    def take(self, old: int) -> int:
        self.last += 1
        self.mapping[old] = self.last
        return self.last


def normalised(schema: Json, schema_id: int) -> Json:
    """The schema as it is stored: canonical type names, no nulls that other readers trip over."""
    return _rebuilt(schema, schema_id, None)


def with_fresh_ids(schema: Json) -> tuple[Json, dict[int, int], int]:
    """Schema 0 of a new table with ids counted from 1; the mapping from the old ids; the last id given."""
    ids = _FreshIds()
    fresh = _rebuilt(schema, 0, ids)
    return fresh, ids.mapping, ids.last


def same(one: Json, other: Json) -> bool:
    """Whether two stored schemas differ in nothing but their id."""
    return one["fields"] == other["fields"] and set(one.get("identifier-field-ids") or ()) == set(
        other.get("identifier-field-ids") or ()
    )


def _rebuilt(schema: Json, schema_id: int, ids: _FreshIds | None) -> Json:
    fields = _fields(schema["fields"], ids)
    identifiers = schema.get("identifier-field-ids") or []
    if ids is not None:
        identifiers = [ids.mapping[i] for i in identifiers]
    rebuilt: Json = {"type": "struct", "schema-id": schema_id}
    if identifiers:
        rebuilt["identifier-field-ids"] = identifiers
    rebuilt["fields"] = fields
    for key, value in schema.items():
        if key != "identifier-field-ids":
            rebuilt.setdefault(key, value)
    return rebuilt


def _fields(fields: list[Json], ids: _FreshIds | None) -> list[Json]:
    # All fields of a struct get their ids before any of their children do.
    taken = [f["id"] if ids is None else ids.take(f["id"]) for f in fields]
    rebuilt = []
    for field, field_id in zip(fields, taken, strict=True):
        copy = {**field, "id": field_id}
        copy["type"] = _type(field["type"], ids)
        # Java reads a null default as a value and fails on it.
        for key in ("doc", "initial-default", "write-default"):
            if key in copy and copy[key] is None:
                del copy[key]
        rebuilt.append(copy)
    return rebuilt


def _type(of: Any, ids: _FreshIds | None) -> Any:
    if isinstance(of, str):
        primitive = parse_primitive(of)
        return of if primitive is None else primitive.name
    kind = of["type"]
    if kind == "struct":
        return {**of, "fields": _fields(of["fields"], ids)}
    if kind == "list":
        element_id = of["element-id"] if ids is None else ids.take(of["element-id"])
        return {**of, "element-id": element_id, "element": _type(of["element"], ids)}
    key_id = of["key-id"] if ids is None else ids.take(of["key-id"])
    value_id = of["value-id"] if ids is None else ids.take(of["value-id"])
    key = _type(of["key"], ids)
    return {**of, "key-id": key_id, "key": key, "value-id": value_id, "value": _type(of["value"], ids)}
