"""Pipelines as users write them."""

from frazil.stream.config.load import load_pipelines, parse_pipelines
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
from frazil.stream.config.python import Pipeline, gather, pipeline

__all__ = [
    "CatalogConfig",
    "JsonFormat",
    "KafkaSource",
    "Limits",
    "Pipeline",
    "PipelineConfig",
    "Pipelines",
    "SparkConfig",
    "Start",
    "TableConfig",
    "Transform",
    "gather",
    "load_pipelines",
    "parse_pipelines",
    "pipeline",
]
