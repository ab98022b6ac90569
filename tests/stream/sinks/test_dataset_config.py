"""Pipelines into datasets, as they are written down."""

from __future__ import annotations

from typing import Any

import pytest

import frazil
from frazil.core.errors import InvalidConfig, Unsupported
from frazil.stream.config import PipelineConfig
from frazil.stream.config.model import DatasetConfig
from frazil.stream.dlq import where_letters_go
from frazil.stream.kafka.log import kafka_source

SCHEMA = {"id": "long", "at": "timestamptz"}


def pipeline(**settings: Any) -> PipelineConfig:
    return frazil.Pipeline("p", **({"dataset": "a.b", "topics": "t", "schema": SCHEMA} | settings))


def test_a_round_is_made_in_memory() -> None:
    assert pipeline().limits.records_per_round == 500_000
    assert pipeline(limits={"records_per_task": 10}).limits.records_per_round == 500_000
    assert pipeline(limits={"records_per_round": 7}).limits.records_per_round == 7
    plain = frazil.Pipeline("p", table="a.b", topics="t", schema=SCHEMA)
    assert plain.limits.records_per_round == 4_000_000


def test_formats() -> None:
    assert pipeline().dataset == DatasetConfig(("a",), "b", "json")
    assert pipeline(dataset={"table": "a.b", "format": "csv"}).dataset == DatasetConfig(("a",), "b", "csv")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"topics": None, "source": {"files": "/data"}, "format": "json"}, "kept in an Iceberg table"),
        ({"event_time": "at"}, "event_time: a dataset keeps no watermark"),
        ({"partitioning": ["day(at)"]}, "partitioning: a dataset has no such thing"),
    ],
)
def test_what_cannot_be(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidConfig, match=said):
        pipeline(**settings)


@pytest.mark.parametrize("work", ["verify", "reset"])
def test_what_is_for_tables(work: str) -> None:
    with pytest.raises(Unsupported, match=f"writes a dataset.* {work} is for pipelines that write tables"):
        kafka_source(pipeline(), work)


def test_there_are_no_dead_letters() -> None:
    with pytest.raises(InvalidConfig, match="it writes a dataset"):
        where_letters_go(pipeline())
