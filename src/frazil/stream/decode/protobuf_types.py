"""Protobuf's types as Iceberg's."""

from __future__ import annotations

from enum import IntEnum

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from frazil.core.errors import InvalidConfig
from frazil.core.schema import Field, ListType, MapType, Schema, StructType, Type


class Source(IntEnum):
    """How a value stands on the wire, numbered as in protobuf_plan.h."""

    BOOL = 0
    INT32 = 1
    INT64 = 2
    UINT32 = 3
    UINT64 = 4
    SINT32 = 5
    SINT64 = 6
    FIXED32 = 7
    FIXED64 = 8
    SFIXED32 = 9
    SFIXED64 = 10
    FLOAT = 11
    DOUBLE = 12
    ENUM = 13
    STRING = 14
    BYTES = 15
    MESSAGE = 16
    TIMESTAMP = 17
    DURATION = 18

    @property
    def iceberg(self) -> Type:
        """The type that holds every value; of a message there is none, so it is not asked for."""
        return _TYPES[self]


TIMES = (Source.TIMESTAMP, Source.DURATION)
_TYPES: dict[Source, Type] = {
    Source.BOOL: "boolean",
    Source.INT32: "int",
    Source.SINT32: "int",
    Source.SFIXED32: "int",
    Source.INT64: "long",
    Source.SINT64: "long",
    Source.SFIXED64: "long",
    Source.UINT32: "long",
    Source.FIXED32: "long",
    Source.UINT64: "decimal(20, 0)",
    Source.FIXED64: "decimal(20, 0)",
    Source.FLOAT: "float",
    Source.DOUBLE: "double",
    Source.ENUM: "string",
    Source.STRING: "string",
    Source.BYTES: "binary",
    Source.TIMESTAMP: "timestamptz",
    Source.DURATION: "long",
}
_FITTING: dict[Source, tuple[str, ...]] = {
    Source.BOOL: ("boolean",),
    Source.FLOAT: ("float", "double"),
    Source.DOUBLE: ("float", "double"),
    Source.ENUM: ("string", "int", "long"),
    Source.STRING: ("string", "uuid", "date", "time", "timestamp", "timestamptz", "decimal"),
    Source.BYTES: ("binary", "fixed", "uuid"),
    Source.TIMESTAMP: ("timestamptz",),
    Source.DURATION: ("long",),
}
_INTEGERS = ("int", "long", "decimal")
_SOURCES = {
    getattr(FieldDescriptor, f"TYPE_{source.name}"): source for source in Source if source not in TIMES
}
_MESSAGES = {"google.protobuf.Timestamp": Source.TIMESTAMP, "google.protobuf.Duration": Source.DURATION}
_WRAPPERS = {
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
}


def message_of(field: FieldDescriptor) -> Descriptor:
    """The type of a field that is a message."""
    assert field.message_type is not None, "the field is a message"
    return field.message_type


def source_of(field: FieldDescriptor) -> Source | None:
    """Of one value of a field; None for groups, which are not read."""
    if field.type == FieldDescriptor.TYPE_MESSAGE:
        return _MESSAGES.get(message_of(field).full_name, Source.MESSAGE)
    return _SOURCES.get(field.type)


def wrapped(field: FieldDescriptor) -> FieldDescriptor | None:
    """The value inside, if the message is one of those that make a single value optional."""
    message = field.message_type
    if message is None or message.full_name not in _WRAPPERS:
        return None
    return message.fields_by_number[1]


def is_map(field: FieldDescriptor) -> bool:
    return bool(
        field.is_repeated
        and field.type == FieldDescriptor.TYPE_MESSAGE
        and message_of(field).GetOptions().map_entry
    )


def fits(source: Source, kind: Type) -> bool:
    """Whether there are values of the field that are values of the column."""
    if not isinstance(kind, str):
        return False
    return kind.split("(")[0].split("[")[0] in _FITTING.get(source, _INTEGERS)


def iceberg_schema(message: Descriptor) -> Schema:
    """Columns for every field of a message, all of them optional; InvalidConfig where there is no type."""
    fields = []
    for field in message.fields:
        kind = type_of(field)
        if kind is None:
            raise InvalidConfig(
                f"field '{field.name}' of {message.full_name} has no type in a table: it is a group, has no "
                "fields, or contains itself. Declare `schema` of the pipeline without it, or with as much of "
                "it as is wanted"
            )
        fields.append(Field(field.name, kind))
    return Schema(tuple(fields))


def type_of(field: FieldDescriptor, above: tuple[str, ...] = ()) -> Type | None:
    """The type of a column that holds every value of a field; None if there is none."""
    if is_map(field):
        key = type_of(message_of(field).fields_by_number[1], above)
        value = type_of(message_of(field).fields_by_number[2], above)
        return None if key is None or value is None else MapType(key, value)
    kind = _single_type(field, above)
    return ListType(kind) if kind is not None and field.is_repeated else kind


def _single_type(field: FieldDescriptor, above: tuple[str, ...]) -> Type | None:
    source = source_of(field)
    if source is None:
        return None
    if source != Source.MESSAGE:
        return source.iceberg
    inside = wrapped(field)
    if inside is not None:
        return _single_type(inside, above)
    name = message_of(field).full_name
    holder = field.containing_type
    assert holder is not None, "extensions are no fields of a message"
    if name in above or name == holder.full_name:
        return None
    return _struct(message_of(field), (*above, holder.full_name, name))


def _struct(message: Descriptor, above: tuple[str, ...]) -> StructType | None:
    fields = []
    for field in message.fields:
        kind = type_of(field, above)
        if kind is None:
            return None
        fields.append(Field(field.name, kind))
    return StructType(tuple(fields)) if fields else None
