"""The columns of a pipeline that does not write them down: those of its table, once that is there.

Before, they are the registry's, or those of the source's table.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from frazil.core.errors import InvalidConfig, NoSuchNamespace, NoSuchTable
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
from frazil.stream.tables.columns import without_ids

if TYPE_CHECKING:
    from frazil.lake.catalog import Lake


def with_columns(config: PipelineConfig, feed: Feed, lake: Lake) -> PipelineConfig:
    """The pipeline with its columns; one that has them is returned as it is.

    `lake` has its table. A newer schema at the source is no other pipeline: what it adds is a matter of the
    contract, as it is when it comes while the pipeline runs.
    """
    if config.schema.fields:
        return config
    schema = _of_table(config, lake) or feed.schema() or _registered(config)
    made = replace(config, schema=schema)
    return replace(made, hash=pipeline_hash(made))


def _of_table(config: PipelineConfig, lake: Lake) -> Schema | None:
    """The columns of values in the table that gets them as they are; None: there is no such table."""
    if config.transform is not None or config.dataset is not None or config.table.routed:
        return None
    try:
        table = lake.load(config.table.namespace, config.table.name)
    except (NoSuchTable, NoSuchNamespace):
        return None
    beside = {field.name for field in config.metadata.fields()}
    fields = tuple(field for field in table.schema if field.name not in beside)
    return without_ids(Schema(fields)) if fields else None


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
