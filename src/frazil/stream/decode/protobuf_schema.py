"""The messages that pipelines name, and columns for them."""

from __future__ import annotations

from google.protobuf.descriptor import Descriptor

from frazil.core.errors import InvalidConfig, InvalidInput
from frazil.core.schema import Schema
from frazil.stream.config.model import ProtobufFormat
from frazil.stream.decode.protobuf_descriptors import message_of_set, message_of_text
from frazil.stream.decode.protobuf_types import iceberg_schema
from frazil.stream.registry import RegisteredSchema

__all__ = ["declared_message", "declared_schema", "iceberg_schema", "registered_message", "registered_schema"]


def declared_message(format: ProtobufFormat) -> Descriptor:  # noqa: A002 - the settings' own word
    """The message of `descriptors`."""
    if format.descriptors is None or format.message is None:
        raise InvalidConfig("records in Protobuf have either a `registry` or `descriptors` and a `message`")
    return message_of_set(format.descriptors, format.message)


def registered_message(schema: RegisteredSchema, path: tuple[int, ...] = (0,)) -> Descriptor:
    """A message of a registry's schema by its place (the first one unless told); else InvalidInput."""
    if schema.kind != "PROTOBUF":
        raise InvalidInput(f"schema {schema.id} of the registry is of kind {schema.kind}, not PROTOBUF")
    try:
        return message_of_text(schema.text, schema.references, path)
    except InvalidInput as problem:
        raise InvalidInput(f"schema {schema.id} of the registry: {problem.message}") from None


def declared_schema(format: ProtobufFormat) -> Schema:  # noqa: A002 - the settings' own word
    """Columns for the message of `descriptors`, for pipelines without a `schema`."""
    return iceberg_schema(declared_message(format))


def registered_schema(schema: RegisteredSchema, path: tuple[int, ...] = (0,)) -> Schema:
    """Columns for a message of a registry's schema, for pipelines without a `schema`."""
    try:
        return iceberg_schema(registered_message(schema, path))
    except InvalidConfig:
        raise
    except InvalidInput as problem:
        raise InvalidConfig(f"{problem.message}; declare `schema` of the pipeline") from None
