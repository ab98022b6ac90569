"""Small things for many tests."""

from __future__ import annotations

from frazil.stream.config.model import KafkaSource, PipelineConfig


def kafka_of(config: PipelineConfig) -> KafkaSource:
    """The source of a pipeline that reads Kafka."""
    assert isinstance(config.source, KafkaSource)
    return config.source
