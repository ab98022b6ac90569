"""The columns of a pipeline that does not write them down: the registry's, or those of the source's table."""

from __future__ import annotations

from dataclasses import replace

from frazil.core.errors import InvalidConfig
from frazil.core.schema import Schema
from frazil.stream.config.hash import pipeline_hash
from frazil.stream.config.model import (
    AvroFormat,
    Format,
    KafkaSource,
    PipelineConfig,
    ProtobufFormat,
    Registry,
)
from frazil.stream.registry import RegistryClient
from frazil.stream.source import Feed


def with_columns(config: PipelineConfig, feed: Feed) -> PipelineConfig:
    """The pipeline with its columns; one that has them is returned as it is."""
    if config.schema.fields:
        return config
    schema = feed.schema()
    if schema is None:
        schema = _registered(config)
    made = replace(config, schema=schema)
    return replace(made, hash=pipeline_hash(made))


def _registered(config: PipelineConfig) -> Schema:
    """The newest schema of the topic's values."""
    format_, source = config.format, config.source
    registry = format_.registry if isinstance(format_, AvroFormat | ProtobufFormat) else None
    if registry is None or not isinstance(source, KafkaSource) or len(source.topics) != 1:
        raise InvalidConfig(
            f"pipeline '{config.name}' has no 'schema', and it is not one topic with a registry that could "
            "be asked: write the columns of a record by name"
        )
    return _asked(format_, registry, f"{source.topics[0]}-value")


def _asked(format_: Format, registry: Registry, subject: str) -> Schema:
    found = RegistryClient(registry).latest(subject)
    if isinstance(format_, AvroFormat):
        from frazil.stream.decode.avro_schema import iceberg_schema

        return iceberg_schema(found.text, found.references)
    from frazil.stream.decode.protobuf_schema import registered_schema

    return registered_schema(found)
