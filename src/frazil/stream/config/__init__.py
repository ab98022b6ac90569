"""Pipelines as users write them."""

from frazil.stream.config.load import load, loads
from frazil.stream.config.model import (
    CatalogConfig,
    JsonFormat,
    KafkaSource,
    Limits,
    PipelineConfig,
    Pipelines,
    SparkConfig,
    Start,
    TableConfig,
    Transform,
)

__all__ = [
    "CatalogConfig",
    "JsonFormat",
    "KafkaSource",
    "Limits",
    "PipelineConfig",
    "Pipelines",
    "SparkConfig",
    "Start",
    "TableConfig",
    "Transform",
    "load",
    "loads",
]
