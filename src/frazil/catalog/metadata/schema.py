"""Schemas: what makes one legal, fresh field ids, and when two are the same."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, NamedTuple, TypeAlias

from frazil.catalog.wire.primitives import V3_TYPES, parse_primitive
from frazil.core.errors import InvalidInput

Json = dict[str, Any]
_Digest: TypeAlias = blake2b

# Ids above it belong to metadata columns (`_file`, `_pos`, `_row_id`, …) in every Iceberg table.
MAX_FIELD_ID = 2**31 - 1 - 200
V3 = 3


class Field(NamedTuple):
    """A field of a schema, at any depth, and what it is inside of."""

    id: int
    name: str
    type: Any
    required: bool
    has_default: bool
    in_collection: bool
    in_optional: bool


class SchemaIndex:
    """The fields of one schema by id and by full name. Building it validates the schema.

    Full names are kept as digests: a name that is long and deep would else be copied into every name below.
    """

    __slots__ = ("_names", "fields")

    def __init__(self, schema: Json) -> None:
        self.fields: dict[int, Field] = {}
        self._names: dict[bytes, int] = {}
        stack: list[tuple[Json, Field | None, _Digest | None]] = [(schema, None, None)]
        while stack:
            nested, parent, prefix = stack.pop()
            for field in _children(nested, parent):
                name = self._add(field, prefix)
                if isinstance(field.type, dict):
                    stack.append((field.type, field, name))
        for field_id in set(schema.get("identifier-field-ids") or ()):
            self._check_identifier(field_id)

    def _add(self, field: Field, prefix: _Digest | None) -> _Digest:
        label = f"{field.id} ({field.name[:100]})"
        if field.id in self.fields:
            other = self.fields[field.id].name[:100]
            raise InvalidInput(f"field {label} has the id of another field, {other}")
        if isinstance(field.type, str) and parse_primitive(field.type) is None:
            raise InvalidInput(f"field {label} has no legal type: {field.type[:100]}")
        name = _digest(field.name, prefix)
        if self._names.setdefault(name.digest(), field.id) != field.id:
            raise InvalidInput(f"field {label} has the full name of another field")
        self.fields[field.id] = field
        return name

    def _check_identifier(self, field_id: int) -> None:
        field = self.fields.get(field_id)
        if field is None:
            raise InvalidInput(f"identifier field {field_id} is not in the schema")
        label = f"identifier field {field.id} ({field.name[:100]})"
        family = self.family(field)
        if family is None:
            raise InvalidInput(f"{label} must have a primitive type")
        if family in ("float", "double"):
            raise InvalidInput(f"{label} must not be a float or double")
        if not field.required:
            raise InvalidInput(f"{label} must be required")
        if field.in_collection:
            raise InvalidInput(f"{label} must not be inside a list or map")
        if field.in_optional:
            raise InvalidInput(f"{label} must not be inside an optional struct")

    def id_of(self, full_name: str) -> int | None:
        """The id of the field with this dotted name."""
        return self._names.get(_digest(full_name, None).digest())

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


def _digest(name: str, prefix: _Digest | None) -> _Digest:
    if prefix is None:
        return blake2b(name.encode(), digest_size=16)
    digest = prefix.copy()
    digest.update(b"." + name.encode())
    return digest


def _children(nested: Json, parent: Field | None) -> list[Field]:
    kind = nested["type"]
    inside = parent is not None and (parent.in_collection or kind != "struct")
    optional = parent is not None and (parent.in_optional or not parent.required)
    if kind == "struct":
        return [
            Field(
                f["id"],
                f["name"],
                f["type"],
                f["required"],
                f.get("initial-default") is not None,
                inside,
                optional,
            )
            for f in nested["fields"]
        ]
    if kind == "list":
        needed = nested["element-required"]
        return [Field(nested["element-id"], "element", nested["element"], needed, False, inside, optional)]
    return [
        Field(nested["key-id"], "key", nested["key"], True, False, inside, optional),
        Field(
            nested["value-id"], "value", nested["value"], nested["value-required"], False, inside, optional
        ),
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
