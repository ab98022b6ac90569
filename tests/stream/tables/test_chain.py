"""Pipelines as people run them: sensors into a table, and that table into another."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

import pytest
from tests.stream.trail import Silent

from frazil.client import Client
from frazil.core.errors import SourceChanged
from frazil.core.schema import Schema
from frazil.devstack.frazil_server import FrazilServer
from frazil.stream.config.model import (
    CatalogConfig,
    JsonFormat,
    Limits,
    MetadataColumns,
    ParquetFormat,
    PipelineConfig,
    Pipelines,
    SensorSource,
    SparkConfig,
    TableConfig,
    TableSource,
)
from frazil.stream.runner import Runner
from frazil.stream.sensors import SENSOR_SCHEMA, readings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LIMITS = Limits(records_per_round=2000, records_per_task=500)
SENSORS = PipelineConfig(
    name="chain-sensors",
    source=SensorSource(sensors=7, rate=1e6, records=5000, seed=4),
    format=JsonFormat(),
    schema=SENSOR_SCHEMA,
    table=TableConfig(("chain",), "readings"),
    freshness=0.1,
    limits=_LIMITS,
)
COPY = PipelineConfig(
    name="chain-copy",
    source=TableSource(("chain",), "readings"),
    format=ParquetFormat(),
    schema=Schema(()),
    table=TableConfig(("chain",), "copy"),
    metadata=MetadataColumns(topic="file", offset="row"),
    freshness=0.1,
    limits=_LIMITS,
)


def run(spark: SparkSession, server: FrazilServer, config: PipelineConfig) -> None:
    pipelines = Pipelines(CatalogConfig(server.uri), SparkConfig(), (config,))
    errors = Runner(pipelines, spark, observer=Silent(), once=True).run()
    if errors:
        raise errors[config.name]


def test_readings_from_table_to_table(
    spark: SparkSession, frazil_sqlite: FrazilServer, client: Client
) -> None:
    run(spark, frazil_sqlite, SENSORS)
    table = spark.table("frazil.chain.readings").orderBy("reading").toArrow()
    stamp = client.tables.load("chain", "readings").metadata["properties"]["frazil.stamp.chain-sensors"]
    anchor = datetime.fromisoformat(json.loads(stamp)["stamp"]["positions"]["sensors"]["id"])
    assert table.to_pylist() == readings(4, 7, 0, 5000, anchor, 1e6).to_pylist()
    run(spark, frazil_sqlite, COPY)
    more = replace(SENSORS, source=SensorSource(sensors=7, rate=1e6, records=6000, seed=4))
    run(spark, frazil_sqlite, more)
    run(spark, frazil_sqlite, COPY)
    copy = spark.table("frazil.chain.copy")
    assert sorted(row.reading for row in copy.select("reading").collect()) == list(range(6000))
    assert copy.select("file", "row").distinct().count() == 6000
    spark.sql("DELETE FROM frazil.chain.readings WHERE reading < 10")
    with pytest.raises(SourceChanged, match="takes rows away"):
        run(spark, frazil_sqlite, COPY)
